"""Test `contstim benchmark`: the list, results and error messages.

Tests `contstim.benchmarks.commands.benchmark`.
"""

import pandas as pd
import pytest

from contstim import datasets
from contstim.benchmarks.data_sets import DATA_SETS, DataFile, DataSet
from contstim.benchmarks.pairs import ChoiceBenchmark, PairBenchmark
from contstim.cli import main
from contstim.evaluation import HumanData, read_choices


def _choice_benchmark(_files):
    choices = datasets.simulated_choices().query("condition == 'natural_controversial'")
    scores = datasets.natural_scores()[["contstim:rnn"]].rename(columns={"contstim:rnn": "old"})
    human = read_choices(choices)
    shown = {*choices["sentence_1"], *choices["sentence_2"]}
    human = HumanData(human.choices, scores[scores.index.isin(shown)].reset_index())
    return ChoiceBenchmark(name="made/choices", title="Made", source="Nobody (2026)", human=human)


@pytest.fixture(autouse=True)
def example_data_set(tmp_path, monkeypatch):
    monkeypatch.setenv("CONTSTIM_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    words = dict.fromkeys(("title", "citation", "licence", "terms", "source"), "made")
    whole = DataSet(name="made", files=(), benchmarks={"choices": _choice_benchmark}, **words)
    monkeypatch.setitem(DATA_SETS._objects, "made", whole)


def test_list_names_licences_and_benchmarks(capsys):
    assert main(["benchmark"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in DATA_SETS)
    assert "licence: MIT" in shown
    assert "blimp/pairs, blimp/choices" in shown


def test_results_include_published_models(capsys):
    words = ["benchmark", "made", "--model", "contstim:bigram?unknown=unk"]
    assert main([*words, "--out", "out"]) == 0
    shown = capsys.readouterr().out
    assert "made/choices accuracy" in shown
    assert "made/choices: Of 36 sentence pairs, old and contstim:bigram?unk" in shown
    results = pd.read_csv("out/results.csv").query("analysis == 'all' and measure == 'accuracy'")
    sources = dict(zip(results["model"], results["source"], strict=True))
    assert sources == {"old": "Nobody (2026)", "contstim:bigram?unknown=unk": "scored here"}
    assert (results["share_low"] < results["share"]).all()


def test_accuracy_below_chance_prints_a_warning(capsys, monkeypatch):
    """The bigram model prefers the sentences that the table calls bad."""
    good, bad = (
        ["The dog sat here.", "She left the house."],
        ["The dog here sat.", "She left house the."],
    )

    def swapped(_files):
        pairs = pd.DataFrame({"paradigm": ["a", "b"], "phenomenon": "order"})
        pairs = pairs.assign(sentence_good=bad, sentence_bad=good)
        return PairBenchmark(name="made/swapped", title="Made", source="Nobody", pairs=pairs)

    monkeypatch.setitem(DATA_SETS["made"].benchmarks, "choices", swapped)
    assert main(["benchmark", "made", "--model", "contstim:bigram?unknown=unk", "--out", "o"]) == 0
    note = "contstim:bigram?unknown=unk is below chance (0.000); check that the preferred"
    assert note in capsys.readouterr().out


def test_benchmarks_with_missing_files_are_reported(capsys, monkeypatch, tmp_path):
    (tmp_path / "downloads").mkdir()
    words = dict.fromkeys(("title", "citation", "licence", "terms", "source"), "made")
    parts = {"lost": lambda files: files["lost.csv"], "choices": _choice_benchmark}
    file = DataFile("lost.csv", 1, "0" * 64, "http://example.org/lost.csv")
    part = DataSet(name="part", files=(file,), benchmarks=parts, **words)
    monkeypatch.setitem(DATA_SETS._objects, "part", part)
    assert main(["benchmark", "part", "--from", "downloads", "--out", "out"]) == 0
    lost = "part/lost is skipped: downloads has no file lost.csv as part was published; download "
    assert lost in capsys.readouterr().err
    assert main(["benchmark", "part/lost", "--from", "downloads", "--out", "out"]) == 2
    assert "downloads has no file lost.csv" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["made"], "there is no folder for the results; name one, --out FOLDER"),
        (["mad", "--out", "out"], "unknown data set 'mad'; did you mean 'made'?"),
        (["made/x", "--out", "out"], "unknown benchmark of made 'x'; choose one of 'choices'"),
    ],
)
def test_invalid_arguments_give_one_line_errors(words, message, capsys):
    assert main(["benchmark", *words]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
