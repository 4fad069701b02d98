"""Rescoring by the command."""

import json
from pathlib import Path

import pandas as pd
import pytest

from contstim.cli import main

MODEL = ["--model", "contstim:trigram?unknown=unk"]


def _lists(path: Path, **changes: object) -> Path:
    lines = []
    for number in range(8):
        record = {
            "id": f"u{number}",
            "split": "dev" if number < 4 else "test",
            "reference": "the door was open",
            "hypotheses": [
                {"text": "open door the was", "score": -10},
                {"text": "the door was open", "score": -11},
            ],
        }
        if number == 5:
            record.update(changes)
        lines.append(json.dumps(record))
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = _lists(tmp_path / "n.jsonl"), tmp_path / "results"
    text = tmp_path / "text.txt"
    text.write_text("He saw The door .\n")
    form = ["--capitalise", "--final", ".", "--cases", str(text)]
    command = ["rescore", str(path), *MODEL, "--length", *form, "--bootstrap", "50"]
    assert main([*command, "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert "contstim:trigram?unknown=unk: units words" in printed.err
    assert "1 references stand in both parts" in printed.err
    assert "case of 1 words as in a text, first letter upper case" in printed.err
    assert "weight of contstim:trigram?unknown=unk: " in printed.out
    summary = pd.read_csv(out / "summary.csv").set_index(["split", "system"])
    assert summary.loc[("test", "first pass"), "wer"] > 0
    assert summary.loc[("test", "rescored"), "wer"] == 0
    utterances = pd.read_csv(out / "utterances.csv")
    assert (utterances["rescored"] == "the door was open").all()
    assert pd.read_csv(out / "weights.csv")["score"].tolist() == [
        "first pass",
        "contstim:trigram?unknown=unk",
        "length",
    ]
    before = (out / "summary.csv").read_bytes()
    assert main([*command, "--cache", str(tmp_path / "cache"), "--out", str(out)]) == 0
    assert (out / "summary.csv").read_bytes() == before
    assert main([*command, "--measure", "bleu", "--out", str(tmp_path / "bleu")]) == 0
    bleu = pd.read_csv(tmp_path / "bleu" / "summary.csv").set_index(["split", "system"])
    assert bleu.loc[("test", "rescored"), "bleu"] == pytest.approx(100)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reference": None}, "line 6: the utterance 'u5' has no 'reference'"),
        ({"hypotheses": [{"text": " ", "score": 0}]}, "line 6: 'text' of hypothesis 1"),
        ({"id": "u1"}, "the utterance 'u1' stands in both parts"),
        ({"hypotheses": 3}, "line 6: the utterance 'u5' has no list of 'hypotheses'"),
    ],
)
def test_bad_lists(
    changes: dict, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _lists(tmp_path / "n.jsonl", **changes)
    assert main(["rescore", str(path), *MODEL, "--out", str(tmp_path / "results")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"contstim: {path}")
    assert message in lines[0]
    assert list(tmp_path.iterdir()) == [path]


def test_an_output_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _lists(tmp_path / "n.jsonl")
    assert main(["rescore", str(path), *MODEL, "--out", str(path)]) == 2
    assert "it is not a folder; give another" in capsys.readouterr().err
