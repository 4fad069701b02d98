"""`contstim benchmark`: cost, results, the published models beside ours, errors in one line."""

import pandas as pd
import pytest

from contstim import datasets
from contstim.benchmarks.choices import ChoiceBenchmark
from contstim.benchmarks.datasets import DATA_SETS, DataSet
from contstim.cli import main
from contstim.evaluation import HumanData, read_choices


def _choices(_folder):
    choices = datasets.simulated_choices().query("condition == 'natural_controversial'")
    scores = datasets.natural_scores()[["contstim:rnn"]].rename(columns={"contstim:rnn": "old"})
    human = read_choices(choices)
    shown = {*choices["sentence_1"], *choices["sentence_2"]}
    human = HumanData(human.choices, scores[scores.index.isin(shown)].reset_index())
    return ChoiceBenchmark(name="made/choices", title="Made", source="Nobody (2026)", human=human)


@pytest.fixture(autouse=True)
def made(tmp_path, monkeypatch):
    monkeypatch.setenv("CONTSTIM_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    words = dict.fromkeys(("title", "citation", "licence", "terms", "source"), "made")
    whole = DataSet(name="made", files=(), benchmarks={"choices": _choices}, **words)
    monkeypatch.setitem(DATA_SETS._things, "made", whole)
    empty = DataSet(name="tables-only", files=(), **words)
    monkeypatch.setitem(DATA_SETS._things, "tables-only", empty)


def test_cost_then_results(capsys):
    words = ["benchmark", "made", "--model", "contstim:bigram?unknown=unk"]
    assert main([*words, "--cost"]) == 0
    told = capsys.readouterr().err
    assert "contstim:bigram?unknown=unk: 72 sentences to score, about " in told
    assert main([*words, "--out", "out"]) == 0
    shown = capsys.readouterr()
    assert "all 72 sentences have scores" in shown.err
    assert "On made/choices old does best" in shown.out
    results = pd.read_csv("out/results.csv").query("analysis == 'all' and measure == 'accuracy'")
    sources = dict(zip(results["model"], results["source"], strict=True))
    assert sources == {"old": "Nobody (2026)", "contstim:bigram?unknown=unk": "scored here"}
    assert (results["share_low"] < results["share"]).all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["made"], "there is no place for the results; name one, --out FOLDER, or say --cost"),
        (["mad", "--cost"], "unknown data set 'mad'; did you mean 'made'?"),
        (["made/x", "--cost"], "unknown benchmark of made 'x'; choose one of 'choices'"),
        (["tables-only", "--cost"], "the data set tables-only has no benchmark; see contstim"),
    ],
)
def test_errors_are_one_line(words, message, capsys):
    assert main(["benchmark", *words]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
