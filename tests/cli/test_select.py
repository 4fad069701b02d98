"""Test the commands from scores and triplets to trials.

Tests `contstim.cli.design`, `contstim.cli.design_studies` and `contstim.cli.study_simulation`.
"""

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from contstim.cli import main
from contstim.cli.study_simulation import describe_sample_size


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    common = rng.normal(size=200)
    columns = {
        name: -50 + 5 * common + rng.normal(scale=3, size=200) for name in ("m1", "m2", "m3")
    }
    frame = pd.DataFrame(columns, index=[f"This is sentence number {i}." for i in range(200)])
    path = tmp_path / "scores.csv"
    frame.to_csv(path, index_label="sentence")
    return path


@pytest.fixture
def triplets(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    rows = []
    for a, b in itertools.combinations(("m1", "m2", "m3"), 2):
        for i in range(30):
            n1, n2 = rng.normal(-50, 5, size=2)
            falls = rng.uniform(5, 30, size=2)
            texts = [f"{kind} of {a} {b} {i}." for kind in ("Natural", "First", "Second")]
            rows.append((a, b, *texts, n1, n2, n1 + 1, n2 - falls[0], n1 - falls[1], n2 + 1))
    names = ["model_1", "model_2", "natural", "synthetic_1", "synthetic_2"]
    names += [f"{k}_lp_{m}" for k in ("natural", "synthetic_1", "synthetic_2") for m in (1, 2)]
    path = tmp_path / "triplets.csv"
    pd.DataFrame(rows, columns=names).to_csv(path, index=False)
    return path


def test_subcommand_help_shows_its_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["design", "simulate", "--help"]) == 0
    example = "  contstim design simulate trials.csv --follow contstim:trigram --out choices.csv\n"
    assert capsys.readouterr().out.split("examples:\n")[1].startswith(f"{example}\narguments:")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["select", "natural", "missing.csv"], "missing.csv"),
        (["select", "triplets", "{scores}"], "has no column 'model_1'"),
        (["select", "natural", "{scores}", "--per-pair", "100"], "m1"),
        (["design", "trials", "--layout", "golan"], "unknown layout 'golan'"),
        (["design", "trials", "--layout", "golan2023", "--groups", "3"], "not both"),
        (["design", "trials", "--natural", "{scores}", "--groups", "3"], "sentence_1"),
        (["design", "trials", "--natural", "missing.csv"], "there is no file missing.csv"),
    ],
)
def test_invalid_arguments_are_rejected(
    argv: list[str],
    message: str,
    scores: Path,
    triplets: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    filled = [a.format(scores=scores, triplets=triplets) for a in argv]
    out = tmp_path / "out.csv"
    assert main([*filled, "--out", str(out)]) == 2
    err = capsys.readouterr().err
    assert len(err.strip().splitlines()) == 1
    assert message in err
    assert not out.exists()


def test_excluded_sentences_are_counted_by_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = pd.DataFrame(
        {"sentence": list("abcd"), "m": [-1.0, -2, -3, -4], "n": [-4.0, -2, -3, -1]}
    )
    scores.loc[3, "n"] = np.nan
    scores.to_csv(tmp_path / "scores.csv", index=False)
    main(["select", "natural", str(tmp_path / "scores.csv"), "--per-pair", "1", "--out", "-"])
    line = next(x for x in capsys.readouterr().err.splitlines() if x.startswith("excluded: "))
    assert "1 (missing score)" in line
    assert not {*"{}':"} & {*line.removeprefix("excluded: ")}


@pytest.mark.parametrize(
    ("n_groups", "ending"), [(1, ""), (2, ", of {} in all, divided between 2")]
)
def test_trial_summary_states_the_number_of_all_trials(
    n_groups: int, ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--groups", str(n_groups), "--participants", "3", "--random-natural", "4"]
    assert main(["design", "trials", *options, "--out", str(tmp_path / "trials.csv")]) == 0
    trials = pd.read_csv(tmp_path / "trials.csv")
    # Count the different sentence pairs of one participant, and of all participants.
    pairs = trials[["sentence_1", "sentence_2"]]
    n_seen = len(pairs[trials["participant"] == 1].drop_duplicates())
    n_all = len(pairs.drop_duplicates())
    summary = f"{n_seen} trials per participant{ending.format(n_all)}"
    assert capsys.readouterr().err.strip().removesuffix(" groups") == summary
    assert n_all == 4 * n_groups


def test_sample_size_text_allows_for_monte_carlo_error() -> None:
    row = {"analysis": "all", "measure": "accuracy", "model_1": "a", "model_2": "b"}
    size = {"n_groups": 1, "n_trials": 22}
    tried = pd.DataFrame(
        [row | size | {"n_participants": n, "power": p} for n, p in ((64, 0.84), (128, 0.77))]
    )
    need = row | {"n_participants": np.nan}
    assert describe_sample_size(need, 0.8, tried) == (
        "a and b, accuracy, 22 trials each: power is about 80%, at most 84% with up to 128 "
        "participants; simulate more studies (--simulations) or use more pairs"
    )
    assert "power is at most 84% with up to 128 participants" in describe_sample_size(
        need, 0.9, tried
    )
