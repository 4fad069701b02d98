"""Combinations of options of `contstim score`."""

from __future__ import annotations

import csv
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from covering import Combinations, Outcome, Relation, Row, on_files, require_values, run
from material import as_windows, decompose, nfc, read_out, rewrite, sentences

from contstim import load_model
from contstim.models.base import SentenceModel
from contstim.selection.scores import read_scores

BIGRAM = "contstim:bigram?unknown=unk"
VALUES: dict[str, Any] = {
    "SENTENCES": ["list.txt", "table.csv", "pairs.csv"],
    "--model": [
        BIGRAM,
        ("T=contstim:trigram?unknown=unk", BIGRAM),
        ("contstim:trigram?reduction=mean&unknown=unk", BIGRAM),
        ("R=contstim:rnn?unknown=unk", "contstim:trigram?reduction=slor&unknown=unk"),
    ],
    "--per": [None, "sentence", "word"],
    "--out": [None, "out.csv"],
}
FILES = VALUES["SENTENCES"]


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "inputs"
    folder.mkdir()
    monkeypatch.chdir(folder)
    texts = sentences(12)
    Path("list.txt").write_text("\n".join(texts) + "\n", "utf-8")
    pd.DataFrame({"id": range(12), "sentence": texts}).to_csv("table.csv", index=False)
    pairs = pd.DataFrame({"sentence_1": texts[:6], "sentence_2": texts[6:]})
    pairs.to_csv("pairs.csv", index=False)
    return folder


@cache
def model(spec: str) -> SentenceModel:
    return load_model(spec)


def check(row: Row, outcome: Outcome) -> pd.DataFrame:
    """Compare scores with those of single sentences, in the order of the file."""
    table = read_out(row, outcome)
    given = row["--model"] if isinstance(row["--model"], tuple) else (row["--model"],)
    specs = {}
    for text in given:
        name, equals, spec = text.partition("=")
        named = equals and ":" not in name
        specs[name if named else load_model(text).name] = spec if named else text
    order = list(dict.fromkeys(table["sentence"]))
    assert {*order} == {*map(nfc, sentences(12))}
    if row["SENTENCES"] != "pairs.csv":
        assert order == texts_of(row["SENTENCES"])
    for name, spec in specs.items():
        assert f"{name}: " in outcome.err
        for sentence, rows in table[table["model"] == name].groupby("sentence"):
            score = float(model(spec).score([sentence])[0])
            if row["--per"] == "word":
                assert [*rows["word"]] == sentence.split()
                assert [*rows["position"]] == [*range(len(rows))]
                if "reduction" not in spec:
                    assert rows["log_prob"].sum() == pytest.approx(score, abs=1e-4)
                assert rows["surprisal"].to_numpy() == pytest.approx(-rows["log_prob"])
                continue
            assert len(rows) == 1
            line = rows.iloc[0]
            assert line["log_prob"] == pytest.approx(score, abs=1e-4)
            assert line["n_words"] == len(sentence.split())
            if "reduction" not in spec:
                assert line["perplexity"] == pytest.approx(math.exp(-score / line["n_tokens"]))
            else:
                assert np.isnan(line["perplexity"])
            if "spec" in table and "reduction" not in spec:
                assert {line["spec"]} <= {spec, name, load_model(spec).spec}
    if row["--per"] != "word" and row["--out"] and len(specs) > 1:
        assert read_scores("out.csv").shape == (12, len(specs))
    return table


def texts_of(path: str) -> list[str]:
    if path.endswith(".txt"):
        return [
            " ".join(nfc(line).split()) for line in Path(path).read_text("utf-8-sig").splitlines()
        ]
    return [" ".join(nfc(text).split()) for text in pd.read_csv(path)["sentence"]]


def equal(one: pd.DataFrame, two: pd.DataFrame) -> None:
    assert [*one] == [*two]
    keys = [name for name in ("model", "sentence", "position") if name in two]
    tables = [t[[*two]].sort_values(keys, ignore_index=True) for t in (one, two)]
    pd.testing.assert_frame_equal(*tables, check_dtype=False, atol=1e-4, rtol=1e-6)


def reverse(path: str) -> None:
    if path.endswith(".csv"):
        rewrite(path, lambda table: table.iloc[::-1])
    else:
        Path(path).write_text("\n".join(reversed(texts_of(path))) + "\n", "utf-8")


def space(path: str) -> None:
    Path(path).write_text(Path(path).read_text("utf-8").replace(" the ", "  the "), "utf-8")


def split(row: Row) -> Row | None:
    """Score the halves of the list one after the other, and join their tables."""
    if row["SENTENCES"] != "list.txt" or row["--out"] is None:
        return None
    texts, tables = texts_of("list.txt"), []
    for k, half in enumerate((texts[:5], texts[5:])):
        Path("half.txt").write_text("\n".join(half) + "\n", "utf-8")
        assert run("score", {**row, "SENTENCES": "half.txt", "--out": f"{k}.csv"}).status == 0
        tables.append(pd.read_csv(f"{k}.csv"))
    HALVES[:] = tables
    return row


HALVES: list[pd.DataFrame] = []


def quote(path: str) -> None:
    if path.endswith(".csv"):
        rewrite(path, quoting=csv.QUOTE_ALL)


def test_score(inputs: Path, tmp_path: Path) -> None:
    require_values("score", VALUES)
    relations = {
        "rows permuted": Relation(on_files(FILES, reverse)),
        "NFD": Relation(on_files(FILES, decompose)),
        "CRLF and BOM": Relation(on_files(FILES, as_windows)),
        "quoted": Relation(on_files(FILES, quote)),
        "spaces doubled": Relation(on_files(FILES, space)),
        "file split": Relation(split, undo=lambda _: pd.concat(HALVES)),
    }
    compared = {"SENTENCES": "list.txt", "--out": "out.csv"}
    Combinations("score", VALUES, inputs, check, equal, relations, compared=compared).check(
        tmp_path / "work", inert=[("--per", "sentence"), ("--out", "out.csv")]
    )
