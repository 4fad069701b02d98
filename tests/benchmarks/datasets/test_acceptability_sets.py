"""The readers of sets of acceptability and plausibility, on made files in their columns.

Of `contstim.benchmarks.datasets.li_adger`, `contstim.benchmarks.datasets.lau2020`,
`contstim.benchmarks.datasets.events`, `contstim.benchmarks.datasets.suites`,
`contstim.benchmarks.datasets.sprouse2013` and `contstim.benchmarks.datasets.devarda2024`.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from contstim.benchmarks.datasets import (
    DATA_SETS,
    FetchedData,
    devarda2024,
    events,
    lau2020,
    li_adger,
    sprouse2013,
    suites,
)
from contstim.errors import InputError


@pytest.fixture
def put(tmp_path):
    """Return a function that writes a file below the folder of the test."""

    def write(path, content):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else content.to_csv(index=False)
        (tmp_path / path).write_text(text, "utf-8")

    return write


def test_li_adger(put, tmp_path):
    rng = np.random.default_rng(0)
    ids = [f"a{i}.{mark}.01" for i in range(6) for mark in ("g", "*")]
    sentences = [f"Sentence {name}" for name in ids]
    put(
        li_adger._SENTENCES,
        pd.DataFrame({"id": ids, "sentence": sentences, "judgement": rng.normal(size=12)}),
    )
    pairs = pd.DataFrame({"gramm_id": ids[::2], "ungramm_id": ids[1::2]})
    put(li_adger._PAIRS, pairs.assign(discard=[None, None, None, None, None, "x"]))
    put(
        li_adger._MASKED,
        pd.DataFrame({"id": ids, "bert_mlm": rng.normal(size=12), "bert_mlm_zscores": 0.0}),
    )
    columns = [f"{kind}_{side}" for kind in ("slor", "logProb") for side in ("gramm", "ungramm")]
    numbers = pd.DataFrame(rng.normal(size=(6, 4)), columns=columns)
    put(li_adger._TRIGRAM, pd.concat([pairs, numbers], axis=1))
    bench = FetchedData(DATA_SETS["li_adger"], tmp_path).benchmark()
    assert len(bench.data.pairs) == 5
    results = bench.judge().results
    scored = {"bert, PLL", "trigram, SLOR", "trigram, log-probability"}
    assert scored < set(results["model"])
    as_published = results[results["model"].str.endswith("CoLA")]
    assert as_published["note"].eq("as published, no interval").all()
    compared = bench.compared(results)
    assert compared.loc[compared["model"] == "trigram, SLOR", "here"].notna().all()


def test_lau2020(put, tmp_path):
    rows = [(f"sentence {i}.", ",".join(str(1 + (i + k) % 4) for k in range(5))) for i in range(8)]
    table = pd.DataFrame(rows, columns=["sentence", "full-ratings"])
    for context in ("none", "real", "random"):
        put(lau2020._PLACE.format(context), table)
    data = FetchedData(DATA_SETS["lau2020"], tmp_path)
    bench = data.benchmark("real")
    assert bench.name == "lau2020/real"
    assert len(bench.ratings) == 40
    assert bench.ratings.query("sentence == 'sentence 1.'")["rating"].tolist() == [2, 3, 4, 1, 2]
    assert data.benchmark("real").figures.empty
    alone = data.benchmark("none").judge().results
    assert alone[["model", "value", "note"]].to_numpy().tolist() == [
        ["bert_uncased_penlp", 0.70, "as published, no interval"]
    ]
    put(lau2020._PLACE.format("none"), table.assign(**{"full-ratings": "1,x"}))
    with pytest.raises(InputError, match="has a rating that is not a number"):
        data.benchmark("none")


def test_events_without_the_workers_identifiers(put, tmp_path):
    for name, (begin, _) in events._SETS.items():
        rows = [
            (f"AWORKER{p}", 1 + (p + i) % 7, i, f"Event {i}. ") for p in range(4) for i in range(6)
        ]
        columns = ["WorkerId", "Score", "ItemNum", "Sentence"]
        rows.append(("AWORKER9", None, 0, "Event 0."))
        put(events._PEOPLE.format(name), pd.DataFrame(rows, columns=columns))
        for file, _sign in events._MODELS.values():
            lines = [f"{i}\tEvent {i}.\t{i + 1}.5\t9" for i in range(6)]
            put(events._SCORES.format(name, begin, file), "\n".join(lines) + "\n")
    bench = FetchedData(DATA_SETS["events"], tmp_path).benchmark("EventsRev")
    assert sorted(bench.ratings["participant"].unique()) == [1, 2, 3, 4]
    assert not bench.ratings.astype(str).apply(lambda c: c.str.contains("WORKER")).any(axis=None)
    assert bench.scores.loc["Event 2.", ["gpt2-xl", "LSTM"]].tolist() == [3.5, -3.5]
    results = bench.judge().results
    assert results["n_items"].eq(6).all()
    put(events._SCORES.format("EventsRev", "ev1", "tinylstm.surprisal_scores"), "0\tno score\n")
    with pytest.raises(InputError, match="is not a file of scores"):
        FetchedData(DATA_SETS["events"], tmp_path).benchmark("EventsRev")


def test_cola(put, tmp_path):
    rows = "gj04\t1\t\tThe dog slept.\ngj04\t0\t*\tThe the.\n"
    for part in suites._PARTS:
        put(suites._RAW.format(part), rows.replace(".", f" {part}."))
    data = FetchedData(DATA_SETS["cola"], tmp_path)
    table = data.table("in_domain_valid")
    assert table["label"].tolist() == [1, 0]
    bench = data.benchmark()
    assert bench.train.sentences[0] == "The dog slept in_domain_train."
    assert {name: part.sentences[1] for name, part in bench.parts.items()} == {
        "in domain": "The the in_domain_valid.",
        "out of domain": "The the out_of_domain_valid.",
    }


def test_syntaxgym(put, tmp_path):
    regions = [{"region_number": 1, "content": "The dog"}]
    suite = {
        "items": [{"item_number": 1, "conditions": [{"condition_name": "c", "regions": regions}]}],
        "predictions": [{"formula": "(1;%c%) > 0"}, {"formula": "(1;%c%) = 0"}],
    }
    for name in suites._SUITES:
        put(suites._SUITE.format(name), json.dumps(suite))
    for name in suites._RESULTS:
        answers = pd.DataFrame({"suite": [*suites._SUITES] * 2, "item": 0, "correct": True})
        answers.loc[answers["suite"].str.startswith("npi") & (answers.index < 34), "correct"] = (
            False
        )
        put(suites._ANSWERS.format(name), answers)
    bench = FetchedData(DATA_SETS["syntaxgym"], tmp_path).benchmark()
    assert len(bench.suites) == 31
    assert {suite.formulas for suite in bench.suites} == {("(1;%c%) > 0",)}
    rows = bench.judge().results.set_index(["analysis", "model"])["value"]
    assert rows["Licensing", "GPT-2"] == pytest.approx((6 + 4 * 0.5) / 10)
    assert rows["all", "JRNN"] == pytest.approx((27 + 4 * 0.5) / 31)
    assert bench.compared(bench.judge().results)["here"].notna().all()


def test_devarda2024(put, tmp_path):
    words = ["the", "None", "bars,", "Tom's", "slept"]
    table = pd.DataFrame(
        {"sentence": f"Then {' '.join(words)} again.", "word": words, "context_length": range(1, 6)}
    )
    rng = np.random.default_rng(0)
    for column in ("rating_mean", "cloze_s", *devarda2024._MODELS):
        table[column] = rng.normal(size=5)
    put(devarda2024._WORDS, table)
    data = FetchedData(DATA_SETS["devarda2024"], tmp_path)
    assert data.table("words")["word"].tolist() == words
    bench = data.benchmark()
    assert bench.words["word"].tolist() == ["the", "None", "slept"]
    assert bench.words["position"].tolist() == [1, 2, 5]
    results = bench.judge().results
    row = results.query("measure == 'cloze' and model == 'GPT-2, 124M'").iloc[0]
    kept = table.iloc[[0, 1, 4]]
    assert row["value"] == pytest.approx(np.corrcoef(kept["cloze_s"], kept["s_GPT2"])[0, 1])
    assert len(bench.compared(results)) == 24
    put(devarda2024._WORDS, table.assign(cloze_s="high"))
    with pytest.raises(InputError, match="has a cloze_s that is not a number"):
        data.benchmark()


def test_sprouse2013(put, tmp_path):
    phenomena = ["32.1.den Dikken.2c.*", "33.1.fox.5.??"]
    items = [(f"{name}.0{i}", f"{name[:8]}.g.0{i}") for name in phenomena for i in (1, 2)]
    rows = [["A comparison ...", None, None, None, None], [None] * 5]
    rows.append(["Bad ID", "Bad sentence", "NOTES", "Good ID", "Good sentence"])
    rows += [[bad, f"Bad {bad}.", None, good, f"Good {good}."] for bad, good in items]
    book = tmp_path / sprouse2013._MATERIALS
    book.parent.mkdir(parents=True)
    pd.DataFrame(rows).to_excel(book, header=False, index=False)
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
    tables = {
        sprouse2013._CHOICES: (choices, ["participant", "survey", "order", "item", "judgment"]),
        **{
            path: (ratings, ["participant", "item", "zscores"])
            for path in sprouse2013._RATINGS.values()
        },
    }
    for path, (values, columns) in tables.items():
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        text = comments + pd.DataFrame(values, columns=columns).to_csv(index=False)
        place.write_text(text, "latin-1")
    data = FetchedData(DATA_SETS["sprouse2013"], tmp_path)
    human = data.benchmark("forced_choice").human.choices
    assert len(human) == 16
    assert human["item"].nunique() == 2
    bad_chosen = human["rating"].lt(0) == human["sentence_1"].str.startswith("Bad")
    assert bad_chosen.sum() == sum(1 for p in range(4) for o in range(4) if (p + o) % 3 == 0)
    graded = data.benchmark("magnitude")
    assert len(graded.ratings) == 32
    assert len(graded.sentences) == 8
    assert graded.ratings.groupby("sentence")["rating"].nunique().eq(1).all()
    (tmp_path / sprouse2013._CHOICES).write_text("nothing")
    with pytest.raises(InputError, match="has no line that begins with participant"):
        data.benchmark("forced_choice")
