"""The reader of BLiMP's files, on made files in their form.

Of `contstim.benchmarks.datasets.blimp`.
"""

from __future__ import annotations

import json
import zipfile

import pandas as pd
import pytest

from contstim.benchmarks.datasets import DATA_SETS, FetchedData, blimp
from contstim.errors import InputError


@pytest.fixture
def folder(tmp_path):
    numbers = {"p": 0.5, "q": 0.75, "r": 1.0}
    with zipfile.ZipFile(tmp_path / blimp._PAIRS, "w") as archive:
        for uid in numbers:
            names = {"UID": uid, "field": "syntax", "linguistics_term": "own"}
            pair = {"sentence_good": f"Good {uid}.", "sentence_bad": f"Bad {uid}."}
            archive.writestr(f"data/{uid}.jsonl", json.dumps(names | pair) + "\n")
            archive.writestr(f"__MACOSX/data/._{uid}.jsonl", b"\x00\xb0")
    rows = [(uid, "terms", number) for uid, number in numbers.items()]
    rows += [("overall", "terms", 0.75), ("overall", "overall", 0.75)]
    lines = [
        json.dumps({"UID": u, "linguistics_term": t, **dict.fromkeys(blimp._NAMES, n)})
        for u, t, n in rows
    ]
    for path, text in (
        (blimp._MODELS, "\n".join(lines)),
        (blimp._PEOPLE, "Condition,total_mean\np,0.9\nq,0.8\nr,1.0\nother,0.1\n"),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_pairs_people_and_published_models(folder):
    bench = FetchedData(DATA_SETS["blimp"], folder).benchmark()
    assert bench.sentences == ["Good p.", "Good q.", "Good r.", "Bad p.", "Bad q.", "Bad r."]
    judged = bench.judge()
    overall = judged.results.query("analysis == 'all'").set_index("model")
    assert overall["value"].to_dict() == dict.fromkeys(blimp._NAMES.values(), 0.75)
    assert overall["ceiling_lower"].tolist() == pytest.approx([0.9] * 4)
    compared = bench.compared(judged.results)
    assert set(compared["analysis"]) == {"all", "terms"}
    assert compared["difference"].abs().max() < 1e-9


def test_a_file_of_another_form_is_named(folder):
    (folder / blimp._MODELS).write_text('{"UID": 3}\n')
    with pytest.raises(InputError, match="is not BLiMP's summary of models"):
        FetchedData(DATA_SETS["blimp"], folder).benchmark()


def test_single_choices_without_checks_of_attention(folder):
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
    (folder / blimp._ANSWERS).parent.mkdir()
    pd.DataFrame(rows).to_csv(folder / blimp._ANSWERS, index=False)
    choices = FetchedData(DATA_SETS["blimp"], folder).benchmark("choices").human.choices
    assert len(choices) == 8
    assert not choices.astype(str).apply(lambda c: c.str.contains("WORKER|text")).any(axis=None)
    right = (choices["rating"] > 0) == (choices["expected"] == 2)
    assert choices.loc[~right, ["participant", "sentence_1", "sentence_2"]].to_numpy().tolist() == [
        ["9", "Bad q.", "Good q."]
    ]
    assert choices["condition"].unique().tolist() == ["terms"]
    assert choices.groupby("item")["participant"].nunique().tolist() == [3, 3, 2]
