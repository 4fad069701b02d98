"""Test benchmarks of choices and minimal pairs, and reading minimal pairs.

Tests `contstim.benchmarks.benchmark` and `contstim.benchmarks.pairs`.
"""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pandas as pd
import pytest

from contstim import datasets
from contstim.benchmarks.benchmark import RESULTS, SCORED_HERE, published_table
from contstim.benchmarks.pairs import (
    ChoiceBenchmark,
    PairBenchmark,
    pair_accuracy,
    read_minimal_pairs,
)
from contstim.errors import InputError
from contstim.evaluation import evaluate, read_choices


def choice_benchmark(**changes):
    human = read_choices(datasets.simulated_choices().query("condition != 'catch'"))
    scores = datasets.natural_scores()[["contstim:bigram", "contstim:trigram"]]
    shown = {*human.choices["sentence_1"], *human.choices["sentence_2"]}
    human = read_choices(human.choices[human.choices["condition"] == "natural_controversial"])
    wide = scores[scores.index.isin(shown)].rename(columns=lambda name: name.split(":")[1])
    human = type(human)(human.choices, wide.reset_index())
    return ChoiceBenchmark(
        name="made/choices", title="Made", source="Nobody (2026)", human=human, **changes
    )


def score_table(bench, name="mine"):
    column = datasets.natural_scores()["contstim:gpt"]
    rows = [(s, name, column[s], 9, 8, 0.0, "nats") for s in bench.sentences]
    columns = ["sentence", "model", "log_prob", "n_tokens", "n_words", "stderr", "unit"]
    return pd.DataFrame(rows, columns=columns)


def test_choice_benchmark_equals_evaluate():
    bench = choice_benchmark()
    judged = bench.evaluate(score_table(bench))
    assert list(judged.results) == list(RESULTS)
    sources = judged.results.groupby("model")["source"].first().to_dict()
    assert sources == {"bigram": "Nobody (2026)", "trigram": "Nobody (2026)", "mine": SCORED_HERE}
    scores = bench.human.scores.assign(
        mine=datasets.natural_scores()["contstim:gpt"]
        .reindex(bench.human.scores["sentence"])
        .to_numpy()
    )
    plain = evaluate(bench.human.choices, scores).models
    keys = ["analysis", "measure", "model"]
    both = judged.results.merge(plain, on=keys, suffixes=("", "_plain"))
    assert len(both) == len(plain) == len(judged.results)
    np.testing.assert_allclose(both["ci_low"], both["ci_low_plain"])
    row = judged.results.query("analysis == 'all' and measure == 'accuracy' and model == 'mine'")
    expected = (row["value"] - 0.5) / (row["ceiling_lower"] - 0.5)
    assert row["share"].item() == pytest.approx(expected.item())
    assert row["share_low"].item() < row["share"].item() < row["share_high"].item()


def test_names_of_published_models_are_rejected():
    bench = choice_benchmark()
    with pytest.raises(InputError, match="made/choices has a published model 'trigram'"):
        bench.evaluate(score_table(bench, "trigram"))


def test_published_results_with_and_without_scores():
    value = (
        choice_benchmark().evaluate().results.query("analysis == 'all' and measure == 'accuracy'")
    )
    trigram = value.set_index("model").loc["trigram"]
    rows = [
        ("all", "accuracy", "trigram", "value", trigram["value"] + 0.01, "Table 1"),
        ("all", "accuracy", "trigram", "ceiling_lower", trigram["ceiling_lower"], "Table 1"),
        ("all", "accuracy", "other", "value", 0.9, "Table 2"),
    ]
    bench = choice_benchmark(published_results=published_table(rows))
    results = bench.evaluate().results
    compared = bench.compare_published_results(results)
    np.testing.assert_array_equal(compared["difference"].round(9), [-0.01, 0.0, np.nan])
    other = results[results["model"] == "other"].iloc[0]
    assert (other["value"], other["source"]) == (0.9, "Table 2")
    assert other["note"] == "as published, no interval"
    assert np.isnan(other["ci_low"])


def pair_benchmark():
    pairs = pd.DataFrame(
        [
            (paradigm, kind, f"good {paradigm} {i}", f"bad {paradigm} {i}")
            for paradigm, kind in (("p", "k"), ("q", "k"), ("r", "k"), ("s", "l"))
            for i in range(4)
        ],
        columns=["paradigm", "phenomenon", "sentence_good", "sentence_bad"],
    )
    accuracies = pd.DataFrame({"old": [0.5, 0.75, 1.0, 0.25]}, index=list("pqrs"))
    people = pd.Series([0.9, 1.0, 0.8, 0.9], index=list("pqrs"))
    return PairBenchmark(
        name="made/pairs",
        title="Made",
        source="Nobody (2026)",
        pairs=pairs,
        accuracies=accuracies,
        human_accuracies=people,
    )


def test_pair_is_correct_if_the_good_sentence_scores_higher():
    bench = pair_benchmark()
    assert len(bench.sentences) == 32
    right = {"p": 4, "q": 3, "r": 2, "s": 0}
    values = {}
    for row in bench.pairs.itertuples():
        is_right = int(row.sentence_good[-1]) < right[row.paradigm]
        values[row.sentence_good], values[row.sentence_bad] = (-1, -2) if is_right else (-2, -2)
    table = pd.DataFrame(
        {"sentence": list(values), "model": "new", "log_prob": list(values.values())}
    )
    judged = bench.evaluate(table)
    overall = judged.results.query("analysis == 'all'").set_index("model")
    assert overall.loc["new", "value"] == pytest.approx((1 + 0.75 + 0.5 + 0) / 4)
    assert overall.loc["old", "value"] == 0.625
    assert overall["ceiling_lower"].unique() == pytest.approx([0.9])
    assert overall.loc["old", "share"] == pytest.approx(0.125 / 0.4)
    assert overall["source"].to_dict() == {"old": "Nobody (2026)", "new": SCORED_HERE}
    of_kind = judged.results.query("analysis == 'k'").set_index("model")
    assert of_kind["n_items"].tolist() == [3, 3]
    assert of_kind.loc["new", "value"] == 0.75
    falling = table.assign(unit="surprisal", better="lower", log_prob=-table["log_prob"])
    np.testing.assert_allclose(bench.evaluate(falling).results["value"], judged.results["value"])
    with pytest.raises(InputError, match="made/pairs has a published model 'old'"):
        bench.evaluate(table.assign(model="old"))
    assert set(judged.detail_tables["paradigms"]) == {
        "paradigm",
        "phenomenon",
        "old",
        "new",
        "human",
    }


def length(texts):
    return [len(text) for text in texts]


PAIRS = [("aaa", "a"), ("aa", "aaaa"), ("bb", "aa")]
TEXT = "\n".join(
    json.dumps({"sentence_good": g, "sentence_bad": b, "linguistics_term": "t", "field": "f"})
    for g, b in PAIRS
)


@pytest.mark.parametrize("zipped", [True, False])
def test_accuracy_of_minimal_pairs_by_hand(tmp_path, zipped):
    source = tmp_path
    if zipped:
        source = tmp_path / "blimp.zip"
        with zipfile.ZipFile(source, "w") as archive:
            archive.writestr("blimp/one.jsonl", TEXT)
            archive.writestr("__MACOSX/blimp/._one.jsonl", b"\x00\xb0")
    else:
        (tmp_path / "one.jsonl").write_text(TEXT)
    pairs = read_minimal_pairs(source)
    assert pairs.iloc[0].tolist() == ["one", "f", "t", "aaa", "a"]
    row = pair_accuracy(pairs, length).iloc[0]
    assert (row["accuracy"], row["n_tied"], row["n_pairs"]) == (1 / 3, 1, 3)
    assert len(read_minimal_pairs(source, limit=1)) == 1
    row = pair_accuracy(pairs, lambda texts: [-np.inf if len(t) > 1 else 0.0 for t in texts])
    assert row.loc[0, ["accuracy", "n_tied"]].tolist() == [0, 2]
    with pytest.raises(InputError, match="none of the requested paradigms"):
        read_minimal_pairs(source, paradigms=["two"])
    with pytest.raises(InputError, match="no score for 1 of 5 sentences, for example 'aaa'"):
        pair_accuracy(pairs, lambda texts: [np.nan if t == "aaa" else 0.0 for t in texts])


def test_unreadable_archives_are_rejected(tmp_path):
    source = tmp_path / "blimp.zip"
    with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(9):  # each has 16 MiB, which is within the bound
            archive.writestr(f"blimp/{number}.jsonl", bytes(16 << 20))
    with pytest.raises(InputError, match=r"would take more than 128 MiB when unpacked"):
        read_minimal_pairs(source)
    with zipfile.ZipFile(source, "w") as archive:
        archive.writestr("blimp/one.jsonl", TEXT)
    content = bytearray(source.read_bytes())
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + flags] |= 1  # the flag of an encrypted file
    source.write_bytes(content)
    with pytest.raises(InputError, match=r"cannot be unpacked .*encrypted.*; unpack it first"):
        read_minimal_pairs(source)
    with pytest.raises(InputError, match="neither a folder nor a zip file"):
        read_minimal_pairs(tmp_path / "none.zip")


@pytest.mark.parametrize("text", ["{}", "[1]", "3", '{"sentence_good": 1, "sentence_bad": "a"}'])
def test_invalid_lines_of_minimal_pairs_are_rejected(tmp_path, text):
    (tmp_path / "x.jsonl").write_text(text)
    with pytest.raises(InputError, match=r"line 1 of x\.jsonl is not a minimal pair"):
        read_minimal_pairs(tmp_path)


def read_rows(source, **options):
    return read_minimal_pairs(source, **options).to_numpy().tolist()


def test_minimal_pairs_of_other_languages_are_read(tmp_path):
    turkish = tmp_path / "tur" / "binding.csv"
    turkish.parent.mkdir()
    turkish.write_text(
        "good_sentence,bad_sentence,good_cue,phenomenon\nKendimi gördüm.,Beni gördüm.,kendimi,b\n",
        "utf-8",
    )
    assert read_rows(turkish.parent) == [["binding", "", "b", "Kendimi gördüm.", "Beni gördüm."]]
    assert read_rows(turkish) == read_rows(turkish.parent)
    semicolons = turkish.read_text("utf-8").replace(",", ";")
    turkish.write_text(semicolons, "utf-8")
    assert read_rows(turkish)[0][0] == "binding"

    many = tmp_path / "many"
    for language, rows in {"deu": "Er geht.\tEr gehst.\tSV-P\nSie sind.\tSie ist.\tSV-#\n"}.items():
        (many / language).mkdir(parents=True)
        table = f"sen\twrong_sen\tphenomenon\n{rows}"
        (many / language / "data.tsv").write_text(table, "utf-8")
    assert read_rows(many) == [
        ["deu SV-P", "deu", "SV-P", "Er geht.", "Er gehst."],
        ["deu SV-#", "deu", "SV-#", "Sie sind.", "Sie ist."],
    ]
    assert read_rows(many, paradigms=["deu SV-#"])[0][3] == "Sie sind."

    dutch = tmp_path / "nl.csv"
    dutch.write_text(
        "linguistic_phenomenon,paradigm,sentence_good,sentence_bad\n"
        "anaphor,number,Zij wassen zich.,Zij wast zich.\n"
        "anaphor,number,Wij wassen ons.,Wij wassen zich.\n"
        "auxiliaries,order,Hij is gegaan.,Hij gegaan is.\n",
        "utf-8",
    )
    assert [row[:3] for row in read_rows(dutch, limit=1)] == [
        ["number", "", "anaphor"],
        ["order", "", "auxiliaries"],
    ]
    chinese = tmp_path / "zh"
    chinese.mkdir()
    pair = {"sentence_good": "他喜欢猫。", "sentence_bad": "他猫喜欢。", "phenomenon": "order"}
    (chinese / "ba_a.jsonl").write_text(json.dumps(pair), "utf-8")
    assert read_rows(chinese) == [["ba_a", "", "order", "他喜欢猫。", "他猫喜欢。"]]
    table = pair_accuracy(read_minimal_pairs(dutch), lambda texts: [-len(text) for text in texts])
    assert table[["paradigm", "accuracy", "n_pairs"]].to_numpy().tolist() == [
        ["number", 0.5, 2],
        ["order", 0.0, 1],
    ]


def test_tables_without_pairs_are_rejected(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("good,bad\na,b\n", "utf-8")
    with pytest.raises(InputError, match=r"other\.csv has no columns of pairs; it needs sentence"):
        read_minimal_pairs(path)
    path.write_text("sen,wrong_sen\na b,\n", "utf-8")
    with pytest.raises(InputError, match=r"row 1 of .*other\.csv has no sentence"):
        read_minimal_pairs(path)
