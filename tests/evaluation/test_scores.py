"""Test score tables as models: unscored catch trials and model names."""

from __future__ import annotations

import html
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from contstim.cli import main
from contstim.errors import InputError
from contstim.evaluation import evaluate
from contstim.evaluation.items import normalise_trials
from contstim.evaluation.scores import find_unscored_catch_trials

N = 8
SCORES = pd.DataFrame(
    {
        "sentence": [f"Sentence {k} stands here." for k in range(2 * N)],
        "a": -20.0 - np.arange(2 * N) % 2,
        "b": -20.0 - np.arange(2 * N) // 2 % 2 - np.arange(2 * N) % 2 * (np.arange(2 * N) // 2 % 2),
    }
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    SCORES.to_csv("scores.csv", index=False)
    texts = SCORES["sentence"].tolist()
    trials = pd.DataFrame({"sentence_1": texts[::2], "sentence_2": texts[1::2]})
    catch = {"sentence_1": ["He went home."], "sentence_2": ["Home he went."]}
    trials = pd.concat(
        [trials.assign(condition="natural"), pd.DataFrame(catch).assign(condition="catch")],
        ignore_index=True,
    )
    trials.assign(group=1, trial=range(1, N + 2)).to_csv("trials.csv", index=False)
    return tmp_path


A, B = ("table:scores.csv?column=a", "table:scores.csv?column=b")


def test_catch_trials_need_no_scores(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["design", "simulate", "trials.csv", "--follow", A, "--lapse", "0"]
    assert main([*ask, "--seed", "1", "--out", "choices.csv"]) == 0
    choices = pd.read_csv("choices.csv")
    catch = choices[choices["condition"] == "catch"]
    assert set(catch["rating"]) == {-2.5}  # the sentence expected
    assert set(catch["expected"]) == {1}

    few = ["--participants", "4", "--simulations", "3"]
    compare = ["design", "power", "trials.csv", "--compare", A, B]
    assert main([*compare, *few, "--trials-each", str(N), "--out", "power.csv"]) == 0
    with_catch = [*compare, *few, "--trials-each", str(N + 1), "--out", "more.csv"]
    assert main(with_catch) == 2  # there are not so many trials that models are compared on
    capsys.readouterr()

    for given in (["--model", A, "--model", B], ["--scores", "scores.csv"]):
        ask = ["evaluate", "choices.csv", *given, "--out", "results", "--mixed-models"]
        assert main([*ask]) == 0
        said = capsys.readouterr().err
        assert (
            "Catch trials that lack a score under at least one model: 1. They serve to exclude "
            "inattentive participants, but models are not evaluated on them."
        ) in said
        found = pd.read_csv("results/models.csv")
        assert "catch" not in set(found["analysis"])
        assert set(found.loc[found["analysis"] == "all", "n_trials"]) == {N}
        assert "Accuracy on catch trials was 100.0 %" in Path("results/report.html").read_text(
            "utf-8"
        )


def test_experimental_trials_need_scores(folder: Path) -> None:
    choices = pd.DataFrame(
        {
            "participant": ["1"] * 2,
            "sentence_1": ["He went home.", "Sentence 0 stands here."],
            "sentence_2": ["Home he went.", "Sentence 1 stands here."],
            "rating": [2.5, 2.5],
            "condition": ["natural", "natural"],
        }
    )
    with pytest.raises(InputError, match="has no score for 2 of 4 sentences"):
        evaluate(choices, SCORES)
    choices["condition"] = ["catch", "natural"]
    trials = normalise_trials(choices)
    assert find_unscored_catch_trials(trials, SCORES).tolist() == [True, False]
    assert find_unscored_catch_trials(trials, {"a": len}).tolist() == [False, False]
    # With nothing but catch trials there is no model to evaluate: what lacks is said.
    with pytest.raises(InputError, match="has no score for 2 of 2 sentences"):
        evaluate(choices[:1], SCORES)


def test_targets_match_column_names_of_score_tables(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = pd.read_csv("trials.csv").assign(model_1="a", model_2="b")
    trials[:N].to_csv("trials.csv", index=False)
    ask = ["design", "simulate", "trials.csv", "--follow", A, "--out", "choices.csv"]
    assert main(ask) == 0
    SCORES.melt("sentence", var_name="model", value_name="log_prob").to_csv("long.csv")
    long = [f"table:long.csv?model={name}" for name in "ab"]
    for one, two in ((A, B), long):
        ask = ["evaluate", "choices.csv", "--model", one, "--model", two, "--out", "results"]
        assert main([*ask]) == 0
        said = capsys.readouterr().err
        assert f"Model a of the trials is taken to be {one}." in said
        assert "none has scores" not in said
        found = pd.read_csv("results/models.csv")
        assert set(found.loc[found["analysis"] == "targeted", "model"]) == {one, two}
    # Two tables have a column of that name: which is meant is not known.
    SCORES.to_csv("other.csv", index=False)
    ask = ["evaluate", "choices.csv", "--model", A, "--model", "table:other.csv?column=a"]
    assert main([*ask, "--out", "results"]) == 0
    assert "If a target is one of these models, give both the same name." in capsys.readouterr().err


def test_different_models_with_one_name_are_rejected(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    simulate = ["design", "simulate", "trials.csv", "--follow", f"m={A}"]
    power = ["design", "power", "trials.csv", "--follow", f"m={A}", "--compare"]
    told = f"contstim: two models are called 'm': {A!r} and {B!r}; give each a different name\n"
    for asked in ([*simulate, "--follow", f"m={B}"], [*power, f"m={B}", A]):
        assert main([*asked, "--out", "out.csv"]) == 2
        assert capsys.readouterr().err == told
    # A model that is named twice is one model.
    assert main([*simulate, "--follow", f"m={A}=2", "--out", "out.csv"]) == 0


def test_model_names_are_used_in_the_results(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["design", "simulate", "trials.csv", "--follow", f"right={A}", "--lapse", "0"]
    assert main([*ask, "--out", "choices.csv"]) == 0
    # Trials made before the models had names target their specs.
    choices = pd.read_csv("choices.csv").assign(model_1=A, model_2=B)
    choices.loc[choices["condition"] == "catch", ["model_1", "model_2"]] = None
    choices.to_csv("choices.csv", index=False)
    named = {"right": A, "PPL of B": f"{B}&unit=score"}
    flags = [arg for name, spec in named.items() for arg in ("--model", f"{name}={spec}")]
    assert main(["evaluate", "choices.csv", *flags, "--out", "results"]) == 0
    said = capsys.readouterr().err
    assert f"PPL of B: {B}&unit=score, units sentences" in said
    assert f"Model {A} of the trials is taken to be right." in said
    for table in ("models", "participants"):
        assert set(pd.read_csv(f"results/{table}.csv")["model"]) == set(named)
    page = Path("results/report.html").read_text("utf-8")
    appendix = page[page.rindex("<h2>Models</h2>") :]
    for name, spec in named.items():
        assert re.search(f">{name}</td><td[^>]*>{re.escape(html.escape(spec))}</td>", appendix)
    assert "column=a" not in Path("results/figure.svg").read_text("utf-8")

    sentences = "sentences.txt"
    Path(sentences).write_text("\n".join(SCORES["sentence"]), "utf-8")
    assert main(["score", *flags, sentences, "--out", "named.csv"]) == 0
    table = pd.read_csv("named.csv")
    assert dict(table[["model", "spec"]].drop_duplicates().to_numpy()) == named
    by_table = evaluate(choices, table)
    assert by_table.provenance.specs == named
    assert by_table.provenance.units == {"right": "nats", "PPL of B": "score"}
    by_name = evaluate(choices, named)
    pd.testing.assert_frame_equal(by_name.models, by_table.models)
