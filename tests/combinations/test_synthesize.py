"""Combinations of options of `contstim synthesize`."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from covering import Combinations, Outcome, Relation, Row, on_files, require_values, run
from material import as_windows, read_out, rewrite

from contstim import load_model
from contstim.models.base import SentenceModel
from contstim.pipeline.engine import SequentialExecutor
from contstim.synthesis.problem import MinScore

ONE, TWO = "contstim:bigram", "contstim:trigram"
STARTS = ["The old man walked home slowly.", "She found a small key there."]
WORDS = (
    "the a an old young man woman dog cat home house walked ran found small large key door there "
    "here slowly quickly she he they we saw took gave red big good new little never always again "
    "was had came went said looked turned left right road table water night day hand eyes"
)
SAMPLE = "sample?writer=contstim:gpt&max_samples=32&n_prompts=0&guidance=4"
VALUES: dict[str, Any] = {
    "SENTENCE": [None, f"'{STARTS[0]}'"],
    "--pair": [None, f"{ONE} {TWO}"],
    "--accept": [None, ONE],
    "--reject": [None, TWO],
    "--margin": [None, "2"],
    "--min-score": [None, f"{TWO}>=natural-9", f"{ONE}>=-36"],
    "--readable": [None, True],
    "--strategy": [None, "edit?candidates=all", "beam?width=4", SAMPLE],
    "--edits": [None, "max=2,fixed=0"],
    "--vocabulary": ["words.csv", "words.txt"],
    "--max-word-share": [None, "0.5"],
    "--sentences": [None, "two.txt", "two.csv"],
    "--limit": [None, "1"],
    "--language": [None, "en"],
    "--estimate": [None, True],
    "--executor": [None, "local:1"],
    "--plan": [None, "plan.toml"],
    "--pool": [None, "pool.csv"],
    "--seed": [None, "1"],
    "--out": [None, "out.csv"],
}


SYNONYMS = {
    "SENTENCE": "give sentences",
    "--accept": r"\baccept\b",
    "--reject": r"\breject\b",
    "--min-score": "min_scores",
    "--pool": "pool is|pool needs",
    "--strategy": "the strategy",
    "--edits": "the edits",
}


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "inputs"
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path("two.txt").write_text("\n".join(STARTS) + "\n", "utf-8")
    pd.DataFrame({"sentence": STARTS}).to_csv("two.csv", index=False)
    words = WORDS.split()
    Path("words.txt").write_text("\n".join([*words, *map(str.capitalize, words)]) + "\n", "utf-8")
    pd.DataFrame({"word": [*words, *map(str.capitalize, words)]}).to_csv("words.csv", index=False)
    Path("plan.toml").write_text(
        f'models = ["{ONE}", "{TWO}"]\n[study]\nname = "small"\nseed = 5\n'
        '[sentences]\nfile = "two.txt"\n[synthesis]\nmargin = 1.0\nmax_word_share = 1.0\n',
        "utf-8",
    )
    return folder


@cache
def model(spec: str) -> SentenceModel:
    return load_model(spec)


def score(spec: str, text: str) -> float:
    return float(model(spec).score([text])[0])


def check(row: Row, outcome: Outcome) -> pd.DataFrame:
    """Check every sentence on scores computed afresh."""
    if row["--estimate"] and not (row["--out"] and Path("out.csv").exists()):
        return pd.DataFrame()
    if outcome.status == 1:
        assert "nothing was found" in outcome.err, outcome.err
        return pd.DataFrame()
    table = read_out(row, outcome)
    planned = row["--plan"] is not None
    margin = float(row["--margin"] or (1 if planned else 0))
    starts = [STARTS[0]] if row["SENTENCE"] else STARTS[: int(row["--limit"] or 2)]
    assert {*table["natural"]} <= {*starts}
    strategy = row["--strategy"] or "edit"
    if "strategy" in table:
        assert table["strategy"].str.startswith(strategy.partition("?")[0]).all()
    for line in table.to_dict("records"):
        natural = line["natural"]
        if "synthetic" in line:
            sides = [(line["synthetic"], [TWO], [ONE] * bool(row["--accept"]))]
        else:
            assert (line["model_1"], line["model_2"]) == (ONE, TWO)
            sides = [(line["synthetic_1"], [TWO], [ONE]), (line["synthetic_2"], [ONE], [TWO])]
            for name, text in (("natural", natural), ("synthetic_1", line["synthetic_1"])):
                assert line[f"{name}_lp_1"] == pytest.approx(score(ONE, text), abs=1e-9)
                assert line[f"{name}_lp_2"] == pytest.approx(score(TWO, text), abs=1e-9)
        for text, rejecting, accepting in sides:
            for spec in rejecting:
                assert score(spec, text) < score(spec, natural)
            for spec in accepting:
                assert score(spec, text) >= score(spec, natural) - margin - 1e-9
            check_limits(row, text, natural)
    if row["--out"] and {"synthetic_1"} <= {*table}:
        following = run("design trials", {"--triplets": "out.csv", "--groups": "1"})
        assert following.status in (0, 2)
    return table.drop(columns=["n_scores", "seconds"], errors="ignore")


def check_limits(row: Row, text: str, natural: str) -> None:
    """Assert that a sentence satisfies bounds, edits, vocabulary and reading score."""
    if row["--min-score"] == VALUES["--min-score"][1]:
        assert score(TWO, text) >= score(TWO, natural) - 9 - 1e-9
    elif row["--min-score"]:
        assert score(ONE, text) >= -36 - 1e-9
    if row["--readable"]:
        assert score(TWO, text) >= -40 - 1e-9
    changed = [
        k for k, (a, b) in enumerate(zip(text.split(), natural.split(), strict=False)) if a != b
    ]
    if row["--edits"] and "beam" not in (row["--strategy"] or ""):
        assert 0 < len(changed) <= 2
        assert 0 not in changed
    assert len(text.split()) == len(natural.split())
    bare = {word.strip(".").lower() for word in text.split()} - {
        word.strip(".").lower() for word in natural.split()
    }
    assert bare <= set(WORDS.split())
    assert text.endswith(natural[-1])


def equal(one: pd.DataFrame, two: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(one, two, check_dtype=False)


def test_synthesize(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_values("synthesize", VALUES)
    command = "contstim.cli.synthesis_study."
    monkeypatch.setattr(f"{command}create_executor", lambda where: SequentialExecutor())
    monkeypatch.setattr(f"{command}pool", lambda: STARTS)
    monkeypatch.setattr(f"{command}_ESTIMATE_SECONDS", 0.05)
    monkeypatch.setattr(
        MinScore, "readable", classmethod(lambda cls, score=None, model=TWO: cls(model, -40.0))
    )
    texts = ["two.txt", "two.csv", "words.csv", "words.txt", "plan.toml"]
    edited = {"--edits": VALUES["--edits"][1], "--pair": f"{ONE} {TWO}", "--plan": None}
    edited |= {"SENTENCE": None, "--sentences": "two.csv"}
    edited |= {"--strategy": "edit?candidates=all", "--estimate": None, "--margin": "2"}
    edited |= dict.fromkeys(["--min-score", "--readable", "--limit", "--max-word-share"])
    relations = {
        "CRLF and BOM": Relation(on_files(texts[:4], as_windows)),
        "quoted": Relation(
            on_files(["two.csv", "words.csv"], lambda p: rewrite(p, quoting=csv.QUOTE_ALL)),
            given=edited,
        ),
        "column added": Relation(
            on_files(["two.csv"], lambda p: rewrite(p, lambda t: t.assign(further=1)))
        ),
    }
    inert = [("--language", "en"), ("--executor", "local:1"), ("--out", "out.csv")]
    inert += [
        ("--vocabulary", "words.txt"),
        ("--sentences", "two.txt"),
        ("--sentences", "two.csv"),
        ("--seed", "1"),
        ("--max-word-share", "0.5"),
        ("--pool", "pool.csv"),
        ("--estimate", True),
    ]
    Combinations("synthesize", VALUES, inputs, check, equal, relations, SYNONYMS, (0, 1)).check(
        tmp_path / "work", inert=inert
    )
