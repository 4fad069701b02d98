"""Test the readers of published data sets on small files with the published columns."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pandas as pd
import pytest

from contstim.benchmarks.data_sets import DATA_SETS, FetchedData
from contstim.errors import InputError

EVENT_MODELS = (
    *("gpt2-xl.sentence-LL", "gpt-j.sentence-LL", "mpt-30b.sentence-LL"),
    *("bert-large-cased.sentence-PLL", "roberta-large.sentence-PLL"),
    *("deberta-xxlarge-v2.sentence-PLL", "tinylstm.surprisal_scores"),
)


@pytest.fixture
def write_file(tmp_path):
    """Return a function that writes a file."""

    def write(name, content, encoding="utf-8"):
        text = content if isinstance(content, str) else content.to_csv(index=False)
        (tmp_path / name).write_text(text, encoding)

    return write


@pytest.fixture
def fetch(tmp_path):
    """Return a function that returns a data set of the written files."""
    return lambda name: FetchedData(DATA_SETS[name], {p.name: p for p in tmp_path.iterdir()})


def test_golan2023_reader(write_file, fetch):
    rows = []
    for subject in range(4):
        for trial in range(6):
            codes = ("resp2", "resp5") if trial % 2 else ("resp5", "resp1")
            first, second = (f"Able {trial}", f"Zed {trial}")
            kinds = ("S1", "S2", "bert", "bert_has_a_mouth")
            scores = (-2, -9, -8, -3)
            rows.append((subject, trial, codes[subject % 2], 900, first, second, *kinds, *scores))
    columns = ["subject", "Trial Number", "Zone Name", "Reaction Time", "sentence1", "sentence2"]
    columns += ["sentence1_type", "sentence2_type", "sentence1_model", "sentence2_model"]
    columns += [f"sentence{s}_{m}_prob" for m in ("bert", "bert_has_a_mouth") for s in (1, 2)]
    write_file("contstim_Nov2022_30_participants_anon.csv", pd.DataFrame(rows, columns=columns))
    bench = fetch("golan2023").benchmark()
    judged = bench.evaluate()
    assert set(judged.results["model"]) >= {"bert", "bert_has_a_mouth"}
    compared = bench.compare_published_results(judged.results)
    assert len(compared) == 36
    assert compared.loc[compared["model"].str.startswith("bert"), "here"].notna().all()


MODELS = {"ngram": "5-gram", "lstm": "LSTM", "txl": "Transformer-XL", "gpt2": "GPT-2"}


@pytest.fixture
def blimp(write_file, tmp_path):
    numbers = {"p": 0.5, "q": 0.75, "r": 1.0}
    with zipfile.ZipFile(tmp_path / "BLiMP.zip", "w") as archive:
        for uid in numbers:
            names = {"UID": uid, "field": "syntax", "linguistics_term": "own"}
            pair = {"sentence_good": f"Good {uid}.", "sentence_bad": f"Bad {uid}."}
            archive.writestr(f"data/{uid}.jsonl", json.dumps(names | pair) + "\n")
    rows = [(uid, "terms", number) for uid, number in numbers.items()]
    rows += [("overall", "terms", 0.75), ("overall", "overall", 0.75)]
    lines = [
        json.dumps({"UID": u, "linguistics_term": t, **dict.fromkeys(MODELS, n)})
        for u, t, n in rows
    ]
    write_file("models_summary.jsonl", "\n".join(lines))
    summary = "Condition,total_mean\np,0.9\nq,0.8\nr,1.0\nother,0.1\n"
    write_file("human_validation_summary.csv", summary)


def test_blimp_pairs_reader(blimp, write_file, fetch):
    bench = fetch("blimp").benchmark()
    assert bench.sentences == ["Good p.", "Good q.", "Good r.", "Bad p.", "Bad q.", "Bad r."]
    judged = bench.evaluate()
    overall = judged.results.query("analysis == 'all'").set_index("model")
    assert overall["value"].to_dict() == dict.fromkeys(MODELS.values(), 0.75)
    assert overall["ceiling_lower"].tolist() == pytest.approx([0.9] * 4)
    compared = bench.compare_published_results(judged.results)
    assert set(compared["analysis"]) == {"all", "terms"}
    assert compared["difference"].abs().max() < 1e-9
    write_file("models_summary.jsonl", '{"UID": 3}\n')
    with pytest.raises(InputError, match="the files of blimp are not as they were published"):
        fetch("blimp").benchmark()


def test_blimp_choices_reader(blimp, write_file, fetch):
    rows = []
    for person in ("7", "8", "9"):
        row = {"anonCode": person, "AssignmentId": f"WORKER{person}", "Answer.english": "a text"}
        for k, uid in enumerate(("p", "attnchk", "q", "r", "gone"), start=1):
            good, bad = f"Good {uid}.", f"Bad {uid}."
            correct = 1 + k % 2
            row[f"Input.item_{k}_condition"] = f"{uid}ans{correct}"
            row[f"Input.field_{k}_{correct}"], row[f"Input.field_{k}_{3 - correct}"] = good, bad
            chosen = 3 - correct if (person, uid) == ("9", "q") else correct
            row[f"Answer.Choice{k}"] = "{}" if (person, uid) == ("8", "r") else f"{chosen}. Go"
        rows.append(row)
    write_file("human_responses.csv", pd.DataFrame(rows))
    choices = fetch("blimp").benchmark("choices").human.choices
    assert len(choices) == 8
    assert not choices.astype(str).apply(lambda c: c.str.contains("WORKER|text")).any(axis=None)
    right = (choices["rating"] > 0) == (choices["expected"] == 2)
    assert choices.loc[~right, ["participant", "sentence_1", "sentence_2"]].to_numpy().tolist() == [
        ["9", "Bad q.", "Good q."]
    ]
    assert choices["condition"].unique().tolist() == ["terms"]
    assert choices.groupby("item")["participant"].nunique().tolist() == [3, 3, 2]


def test_li_adger_reader(write_file, fetch):
    rng = np.random.default_rng(0)
    ids = [f"a{i}.{mark}.01" for i in range(6) for mark in ("g", "*")]
    sentences = [f"Sentence {name}" for name in ids]
    table = pd.DataFrame({"id": ids, "sentence": sentences, "judgement": rng.normal(size=12)})
    write_file("human_ME_results_li-adger_sentences.csv", table)
    pairs = pd.DataFrame({"gramm_id": ids[::2], "ungramm_id": ids[1::2]})
    write_file("li-adger_min_pairs.csv", pairs.assign(discard=[None, None, None, None, None, "x"]))
    masked = pd.DataFrame({"id": ids, "bert_mlm": rng.normal(size=12), "bert_mlm_zscores": 0.0})
    write_file("bert_mlm_results_li-adger_sentences.csv", masked)
    columns = [f"{kind}_{side}" for kind in ("slor", "logProb") for side in ("gramm", "ungramm")]
    numbers = pd.DataFrame(rng.normal(size=(6, 4)), columns=columns)
    write_file("li-adger_min_pairs_all_models.csv", pd.concat([pairs, numbers], axis=1))
    bench = fetch("li_adger").benchmark()
    assert len(bench.pairs) == 5
    results = bench.evaluate().results
    scored = {"bert, PLL", "trigram, SLOR", "trigram, log-probability"}
    assert scored < set(results["model"])
    as_published = results[results["model"].str.endswith("CoLA")]
    assert as_published["note"].eq("as published, no interval").all()
    compared = bench.compare_published_results(results)
    assert compared.loc[compared["model"] == "trigram, SLOR", "here"].notna().all()


def test_lau2020_reader(write_file, fetch):
    rows = [(f"sentence {i}.", ",".join(str(1 + (i + k) % 4) for k in range(5))) for i in range(8)]
    table = pd.DataFrame(rows, columns=["sentence", "full-ratings"])
    for context in ("none", "real", "random"):
        write_file(f"context-{context}-ratings.csv", table)
    bench = fetch("lau2020").benchmark("real")
    assert bench.name == "lau2020/real"
    assert len(bench.ratings) == 40
    assert bench.ratings.query("sentence == 'sentence 1.'")["rating"].tolist() == [2, 3, 4, 1, 2]
    assert bench.published_results.empty
    alone = fetch("lau2020").benchmark("none").evaluate().results
    assert alone[["model", "value", "note"]].to_numpy().tolist() == [
        ["bert_uncased_penlp", 0.70, "as published, no interval"]
    ]
    write_file("context-none-ratings.csv", table.assign(**{"full-ratings": "1,x"}))
    with pytest.raises(InputError, match="not as they were published .*could not convert"):
        fetch("lau2020").benchmark("none")


def test_events_reader_removes_worker_ids(write_file, fetch):
    rows = [(f"AWORKER{p}", 1 + (p + i) % 7, i, f"Event {i}. ") for p in range(4) for i in range(6)]
    rows.append(("AWORKER9", None, 0, "Event 0."))
    columns = ["WorkerId", "Score", "ItemNum", "Sentence"]
    write_file("clean_EventsRev_human_dat.csv", pd.DataFrame(rows, columns=columns))
    for name in EVENT_MODELS:
        lines = [
            line
            for i in range(6)
            for line in (f'{i}\tEvent {i}.\t{i + 1}.5\tno "quote', f"{i}\tEvent {i}.\t99")
        ]
        write_file(f"ev1.{name}.txt", "\n".join(lines) + "\n")
    bench = fetch("events").benchmark("EventsRev")
    assert sorted(bench.ratings["participant"].unique()) == [1, 2, 3, 4]
    assert not bench.ratings.astype(str).apply(lambda c: c.str.contains("WORKER")).any(axis=None)
    assert bench.scores.loc["Event 2.", ["gpt2-xl", "LSTM"]].tolist() == [3.5, -3.5]
    assert bench.evaluate().results["n_items"].eq(6).all()


def test_cola_reader(write_file, fetch):
    parts = ("in_domain_train", "in_domain_valid", "out_of_domain_valid")
    for part in parts:
        write_file(
            f"{part}.tsv", f'gj04\t1\t\tThe "dog slept {part}.\ngj04\t0\t*\tThe the {part}.\n'
        )
    bench = fetch("cola").benchmark()
    assert bench.train.to_numpy().tolist() == [
        ['The "dog slept in_domain_train.', 1],
        ["The the in_domain_train.", 0],
    ]
    assert {name: part["sentence"][1] for name, part in bench.parts.items()} == {
        "in domain": "The the in_domain_valid.",
        "out of domain": "The the out_of_domain_valid.",
    }


def test_syntaxgym_reader(write_file, fetch):
    regions = [{"region_number": 1, "content": "The dog"}]
    suite = {
        "items": [{"item_number": 1, "conditions": [{"condition_name": "c", "regions": regions}]}],
        "predictions": [{"formula": "(1;%c%) > 0"}, {"formula": "(1;%c%) = 0"}],
    }
    names = [file.name for file in DATA_SETS["syntaxgym"].files]
    suites = [name.removesuffix(".json") for name in names if name.endswith(".json")]
    for name in suites:
        write_file(f"{name}.json", json.dumps(suite))
    answers = pd.DataFrame({"suite": suites * 2, "item": 0, "correct": True})
    of_first = answers.index < len(suites)
    answers.loc[answers["suite"].str.startswith("npi") & of_first, "correct"] = False
    for name in names:
        if name.endswith(".csv"):
            write_file(name, answers)
    bench = fetch("syntaxgym").benchmark()
    assert len(bench.suites) == 31
    assert {suite.formulas for suite in bench.suites} == {("(1;%c%) > 0",)}
    rows = bench.evaluate().results.set_index(["analysis", "model"])["value"]
    assert rows["Licensing", "GPT-2"] == pytest.approx((6 + 4 * 0.5) / 10)
    assert rows["all", "JRNN"] == pytest.approx((27 + 4 * 0.5) / 31)
    assert bench.compare_published_results(bench.evaluate().results)["here"].notna().all()


def test_devarda2024_reader(write_file, fetch):
    words = ["the", "None", "bars,", "Tom's", "slept"]
    table = pd.DataFrame(
        {"sentence": f"Then {' '.join(words)} again.", "word": words, "context_length": range(1, 6)}
    )
    rng = np.random.default_rng(0)
    models = ["s_GPT2", "s_GPT2_medium", "s_GPT2_large", "s_GPT2_xl", "s_GPTNeo_125M", "s_GPTNeo"]
    models += ["s_GPTNeo_2.7B", "rnn", "psg", "bigram", "trigram", "tetragram"]
    for column in ("rating_mean", "cloze_s", *models):
        table[column] = rng.normal(size=5)
    write_file("all_measures.csv", table)
    bench = fetch("devarda2024").benchmark()
    assert bench.words["position"].tolist() == [1, 2, 5]
    results = bench.evaluate().results
    row = results.query("measure == 'cloze' and model == 'GPT-2, 124M'").iloc[0]
    kept = table.iloc[[0, 1, 4]]
    assert row["value"] == pytest.approx(np.corrcoef(kept["cloze_s"], kept["s_GPT2"])[0, 1])
    assert len(bench.compare_published_results(results)) == 24


def test_sprouse2013_reader(write_file, fetch, tmp_path):
    phenomena = ["32.1.den Dikken.2c.*", "33.1.fox.5.??"]
    items = [(f"{name}.0{i}", f"{name[:8]}.g.0{i}") for name in phenomena for i in (1, 2)]
    rows = [["A comparison ...", None, None, None, None], [None] * 5]
    rows.append(["Bad ID", "Bad sentence", "NOTES", "Good ID", "Good sentence"])
    rows += [[bad, f"Bad {bad}.", None, good, f"Good {good}."] for bad, good in items]
    # The first pair is listed under another phenomenon as well.
    rows.append(["34.1.x.*.01", f"Bad {items[0][0]}.", None, "34.1.x.g.01", f"Good {items[0][1]}."])
    pd.DataFrame(rows).to_excel(tmp_path / "SSA.Materials.xlsx", header=False, index=False)
    comments = "#Data from Sch\u00fctze,,\n,,\n"
    choices, ratings = [], []
    for person in range(4):
        for order, (bad, good) in enumerate(items):
            item = bad.replace("den Dikken", "denDikken") if person else bad
            chose_bad = int((person + order) % 3 == 0)
            choices += [(person, "1.1", order, item, chose_bad)]
            choices += [(person, "1.1", order, f"good.{item}", 1 - chose_bad)]
            ratings += [(person, item, -0.5 - order), (person, good, 0.5 + order)]
        choices += [(person, "1.1", 9, "99.1.nobody.1.*.01", 0)]
    choices += [(4, "1.1", 0, "34.1.x.*.01", 0), (4, "1.1", 0, "good.34.1.x.*.01", 1)]
    columns = ["participant", "survey", "order", "item", "judgment"]
    text = comments + pd.DataFrame(choices, columns=columns).to_csv(index=False)
    write_file("FC.logistic.csv", text, "latin-1")
    table = pd.DataFrame(ratings, columns=["participant", "item", "zscores"])
    write_file("LI.me.results.csv", comments + table.to_csv(index=False), "latin-1")
    data = fetch("sprouse2013")
    human = data.benchmark("forced_choice").human.choices
    assert len(human) == 17
    assert human["item"].nunique() == 2
    bad_chosen = human["rating"].lt(0) == human["sentence_1"].str.startswith("Bad")
    assert bad_chosen.sum() == sum(1 for p in range(4) for o in range(4) if (p + o) % 3 == 0)
    graded = data.benchmark("magnitude")
    assert len(graded.ratings) == 32
    assert len(graded.sentences) == 8
    assert graded.ratings.groupby("sentence")["rating"].nunique().eq(1).all()
    write_file("FC.logistic.csv", "nothing")
    with pytest.raises(InputError, match="not as they were published"):
        data.benchmark("forced_choice")
