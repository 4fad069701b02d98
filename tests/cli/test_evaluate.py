"""Test the command `contstim evaluate`."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from contstim import load_model, pool
from contstim.cli import main


@pytest.fixture
def choices(tmp_path: Path) -> Path:
    """Write choices of eight participants who mostly follow the trigram model."""
    sentences = [s for s in pool() if len(s.split()) == 8][:40]
    scores = load_model("contstim:trigram").score(sentences)
    rng = np.random.default_rng(0)
    rows = []
    for participant in range(8):
        for trial in range(20):
            one, two = sentences[2 * trial], sentences[2 * trial + 1]
            better_2 = scores[2 * trial + 1] > scores[2 * trial]
            sure = rng.choice([0.5, 1.5, 2.5])
            sign = 1 if better_2 != (rng.random() < 0.1) else -1
            rows.append((f"p{participant}", "g", trial + 1, "natural", one, two, sign * sure))
    names = ["participant", "group", "trial", "condition", "sentence_1", "sentence_2", "rating"]
    path = tmp_path / "choices.csv"
    pd.DataFrame(rows, columns=names).to_csv(path, index=False)
    return path


def _accuracy(folder: Path) -> pd.Series:
    table = pd.read_csv(folder / "models.csv")
    rows = table[(table["analysis"] == "all") & (table["measure"] == "accuracy")]
    return rows.set_index("model")["value"]


def test_jspsych_format_needs_the_number_of_buttons(choices: Path, tmp_path: Path) -> None:
    table = pd.read_csv(choices)
    table["rating"] = np.where(table["rating"] > 0, 2.5, -2.5)
    forced = tmp_path / "forced.csv"
    table.to_csv(forced, index=False)
    pressed = tmp_path / "jspsych.csv"
    table["response"] = (table["rating"] > 0).astype(int)
    table.drop(columns="rating").to_csv(pressed, index=False)
    options = ["--model", "contstim:trigram"]
    assert main(["evaluate", str(forced), *options, "--out", str(tmp_path / "a")]) == 0
    command = ["evaluate", str(pressed), "--format", "jspsych", *options]
    assert main([*command, "--out", str(tmp_path / "b")]) == 2
    assert main([*command, "--buttons", "2", "--out", str(tmp_path / "b")]) == 0
    pd.testing.assert_series_equal(_accuracy(tmp_path / "a"), _accuracy(tmp_path / "b"))


def test_trials_with_unknown_words_are_excluded_and_reported(
    choices: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pd.read_csv(choices)
    table.loc[table["trial"] == 3, "sentence_2"] = "The zyzzyva slept."
    changed = tmp_path / "changed.csv"
    table.to_csv(changed, index=False)
    command = ["evaluate", str(changed), "--model"]
    assert main([*command, "contstim:trigram", "--out", str(tmp_path / "a")]) == 0
    assert (
        "8 choices were left out for a word unknown to contstim:trigram" in capsys.readouterr().err
    )
    excluded = pd.read_csv(tmp_path / "a" / "excluded.csv")
    assert excluded["n_rows"].tolist() == [1] * 8
    assert set(excluded["detail"]) == {"a word unknown to contstim:trigram"}
    models = pd.read_csv(tmp_path / "a" / "models.csv")
    assert set(models["n_trials"]) == {19}
    assert main([*command, "contstim:trigram?unknown=unk", "--out", str(tmp_path / "b")]) == 0
    assert set(pd.read_csv(tmp_path / "b" / "models.csv")["n_trials"]) == {20}
    # All that is left cannot be scored: one line, nothing written.
    table["sentence_2"] = "Zyzzyva. " + table["sentence_2"]
    table.to_csv(changed, index=False)
    assert main([*command, "contstim:trigram", "--out", str(tmp_path / "c")]) == 2
    assert "no trial is left without a word unknown to" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


def test_exclusion_rules_do_not_depend_on_unknown_words(
    choices: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pd.read_csv(choices)
    catch = table["trial"].isin([1, 2])
    table.loc[catch, "condition"], table["expected"] = "catch", np.where(catch, 2, np.nan)
    table["rating"] = table["rating"].mask(catch, 2.5)
    # p0 fails the catch trial with a word that the trigram does not know; p1 has another such.
    table.loc[table["trial"] == 1, "sentence_2"] = "The zyzzyva slept."
    table.loc[(table["trial"] == 1) & (table["participant"] == "p0"), "rating"] = -2.5
    table.loc[(table["trial"] == 5), "sentence_2"] = "The zyzzyva barked."
    changed = tmp_path / "changed.csv"
    table.to_csv(changed, index=False)
    command = ["evaluate", str(changed), "--exclude", "catch<0.75", "--model"]
    for name, options in (("knows", "?unknown=unk"), ("refuses", "")):
        assert main([*command, f"contstim:trigram{options}", "--out", str(tmp_path / name)]) == 0
        excluded = pd.read_csv(tmp_path / name / "excluded.csv")
        assert excluded.query("rule == 'catch trials'")["participant"].tolist() == ["p0"]
    assert excluded.query("rule == 'unknown word'")["n_rows"].tolist() == [1] * 8
    err = capsys.readouterr().err
    assert "8 choices were left out for a word unknown to contstim:trigram" in err
    assert "Catch trials that lack a score under at least one model: 1." in err
    models = pd.read_csv(tmp_path / "refuses" / "models.csv")
    assert set(models.query("analysis == 'all'")["n_trials"]) == {17}
    # Where nothing is asked but catch trials, they are the choices.
    table["condition"] = "catch"
    table.to_csv(changed, index=False)
    alone = [*command[:2], "--model", "contstim:trigram", "--out", str(tmp_path / "alone")]
    assert main(alone) == 0
    table["sentence_2"] = "Zyzzyva. " + table["sentence_2"]
    table.to_csv(changed, index=False)
    assert main(alone) == 2
    assert "no trial is left without a word unknown to" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["missing.csv"], "missing.csv"),
        (["{choices}", "--scores", "{choices}"], "the scores table needs a column 'sentence'"),
        (["{choices}", "--exclude", "cat<0.5"], "--exclude 'cat<0.5' is no rule; write catch<0.75"),
        (["{choices}", "--column", "who"], "--column 'who' is not OURS=THEIRS"),
        (["{choices}", "--format", "golan2023"], "column"),
        (["{choices}", "--format", "tidy", "--low", "1"], "not --format tidy"),
        (
            ["{choices}", "--format", "tidy", "--buttons", "2"],
            "--buttons 2 is for --format jspsych, not tidy",
        ),
        (["{choices}", "--model", "contstim:nothing"], "unknown bundled model 'nothing'"),
    ],
)
def test_invalid_arguments_are_rejected(
    argv: list[str],
    message: str,
    choices: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    filled = [a.format(choices=choices) for a in argv]
    out = tmp_path / "out"
    assert main(["evaluate", *filled, "--out", str(out)]) == 2
    err = capsys.readouterr().err
    assert len(err.strip().splitlines()) == 1
    assert message in err
    assert not out.exists()
