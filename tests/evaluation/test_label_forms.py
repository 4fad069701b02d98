"""Test labels that could be misread, such as participants named NA."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from contstim.cli import main
from contstim.errors import InputError
from contstim.evaluation import evaluate, read_choices


def simulate_study() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return 8 participants, 16 pairs, 3 catch trials, 2 fillers and scores of two models."""
    rng = np.random.default_rng(0)
    kinds = ["catch"] * 3 + ["filler"] * 2 + ["größer"] * 8 + ["kleiner"] * 8
    rows = [
        (
            *(f"é{who}", f"Süd {who % 2}", kind, f"Stück {k // 2}"),
            *(f"Der Bär {k} schläft.", f"Der Bär schläft {k}."),
            *(rng.choice([-2.5, 2.5]), 2 if kind == "catch" else None, f"für {k % 2}", 900 + k),
        )
        for who in range(8)
        for k, kind in enumerate(kinds)
    ]
    columns = ["participant", "group", "condition", "item", "sentence_1", "sentence_2"]
    choices = pd.DataFrame(rows, columns=[*columns, "rating", "expected", "länge", "rt_ms"])
    sentences = pd.unique(choices[["sentence_1", "sentence_2"]].to_numpy().ravel())
    scores = pd.DataFrame({"sentence": sentences, "a": -rng.random(42), "b": -rng.random(42)})
    return choices, scores


def test_evaluate_and_watch_count_the_same_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`evaluate` and `watch` count the same trials under any labels."""
    monkeypatch.chdir(tmp_path)
    choices, scores = simulate_study()
    scores.to_csv("scores.csv", index=False)
    experimental = choices[~choices["condition"].isin(["catch", "filler"])]
    for changes in (
        {},
        {"condition": choices["condition"].replace({"catch": "test", "filler": "Practice"})},
        {"condition": choices["condition"].replace({"catch": "Attention check"})},
    ):
        choices.assign(**changes).to_csv("choices.csv", index=False)
        assert main(["watch", "choices.csv", "--scores", "scores.csv"]) == 0
        assert f"{len(experimental)} answers of 8 participants" in capsys.readouterr().out
        result = evaluate(read_choices("choices.csv"), scores)
        rows = result.models.query("analysis == 'all' and measure == 'accuracy'")
        assert set(rows["n_trials"]) == {16}
    # If all trials have an expected sentence, it states what is right by design.
    experimental.assign(expected=1).to_csv("choices.csv", index=False)
    assert main(["watch", "choices.csv", "--scores", "scores.csv"]) == 0
    assert f"{len(experimental)} answers of 8 participants" in capsys.readouterr().out


def test_pairs_can_differ_only_in_the_final_period() -> None:
    pairs = [(f"Ann{k} left.", f"Ann{k} left") for k in range(6)]
    rows = [(f"p{who}", *pair, 2.5) for who in range(4) for pair in pairs]
    choices = pd.DataFrame(rows, columns=["participant", "sentence_1", "sentence_2", "rating"])
    texts = [text for pair in pairs for text in pair]
    scores = pd.DataFrame({"sentence": texts, "m": np.arange(12.0)})
    table = evaluate(choices, scores).models.query("measure == 'accuracy'")
    assert table["value"].tolist() == [1.0]
    with pytest.raises(InputError, match="no score for 6 of 12 sentences, for example 'Ann0 left'"):
        evaluate(choices, scores[::2])


def test_participants_called_na_are_kept(tmp_path: Path) -> None:
    choices, scores = simulate_study()
    names = {"é0": "NA", "é1": "null", "é2": "None", "é3": "007", "é4": "1e5"}
    choices = choices.assign(
        participant=choices["participant"].replace(names),
        group=choices["group"].replace({"Süd 0": "NA"}),
    )
    choices.to_csv(tmp_path / "choices.csv", index=False)
    read = read_choices(tmp_path / "choices.csv")
    assert {"NA", "null", "None", "007", "1e5"} < {*read.choices["participant"]}
    assert {*read.choices["group"]} == {"NA", "Süd 1"}
    pd.testing.assert_frame_equal(evaluate(read, scores).models, evaluate(choices, scores).models)
