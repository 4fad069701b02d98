"""From scores and triplets to trials, by the commands.

Tests `contstim.cli.design`, `contstim.cli.design_studies` and `contstim.cli.study_simulation`.
"""

import io
import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from contstim.cli import main
from contstim.cli.study_simulation import describe_sample_size
from contstim.models.registry import load_model
from contstim.text import pool


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


def test_power(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sentences = pool()
    design = pd.DataFrame({"sentence_1": sentences[:-1], "sentence_2": sentences[1:]})
    ratios = [
        load_model(spec).score(design["sentence_2"]) - load_model(spec).score(design["sentence_1"])
        for spec in ("contstim:bigram", "contstim:trigram")
    ]
    design = design[ratios[0] * ratios[1] < 0]  # pairs on which the two disagree
    path = tmp_path / "pairs.csv"
    design.to_csv(path, index=False)
    argv = ["design", "power", str(path), "--compare", "contstim:bigram", "contstim:trigram"]
    argv += ["--participants", "4", "20", "--simulations", "40", "--noise", "2"]
    assert main(argv) == 0
    captured = capsys.readouterr()
    n = len(design)
    said = f"Of {n} sentence pairs, contstim:bigram and contstim:trigram disagree on {n}."
    assert said in captured.err
    table = pd.read_csv(io.StringIO(captured.out))
    by_accuracy = table[table["measure"] == "accuracy"]
    assert by_accuracy["n_participants"].tolist() == [4, 20]
    assert by_accuracy["power"].iloc[0] < by_accuracy["power"].iloc[1]
    assert (table["recovery"] > 0.7).all()
    # Participants follow the first model by default.
    assert table["first_better"].iloc[-1] > 0.9 * table["power"].iloc[-1]
    assert main([*argv, "--follow", "contstim:trigram"]) == 0
    followed = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert followed["first_better"].iloc[-1] < 0.1 * followed["power"].iloc[-1]
    answers = tmp_path / "choices.csv"
    simulate = ["design", "simulate", str(path), "--follow", "contstim:bigram", "--out"]
    assert main([*simulate, str(answers), "--item-sd", "0.5", "--shared", "1"]) == 0
    scores = tmp_path / "scores.csv"
    sentences = pd.unique(design.to_numpy().ravel())
    values = {spec: load_model(spec).score(sentences) for spec in argv[4:6]}
    pd.DataFrame({"sentence": sentences, **values}).to_csv(scores, index=False)
    capsys.readouterr()
    small = ["--participants", "8", "--simulations", "20"]
    by_table = ["design", "power", str(path), "--scores", str(scores), "--noise", "2"]
    assert main([*by_table, "--participants", "4", "20", "--simulations", "40"]) == 0
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(capsys.readouterr().out)), table)
    pilot = ["design", "power", "--scores", str(scores), *small, "--pilot-choices"]
    assert main([*pilot, str(answers)]) == 0
    captured = capsys.readouterr()
    assert "\npilot: contstim:bigram minus contstim:trigram, accuracy: " in captured.err
    found = captured.out
    assert pd.read_csv(io.StringIO(found))["n_trials"].tolist() == [40, 40]
    # A pilot in a format of its own is read as `evaluate` reads it.
    codes = {-2.5: 1, -1.5: 2, -0.5: 3, 0.5: 4, 1.5: 5, 2.5: 6}
    own = pd.read_csv(answers).replace({"rating": codes})
    own = own.rename(columns={"participant": "Vp", "rating": "Urteil"})
    own.to_csv(tmp_path / "own.csv", index=False)
    columns = ["--column", "participant=Vp,rating=Urteil", "--low", "1", "--high", "6"]
    assert main([*pilot, str(tmp_path / "own.csv"), *columns, "--side", "none"]) == 0
    assert capsys.readouterr().out == found


def test_power_of_a_stated_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figure = tmp_path / "power.svg"
    argv = ["design", "power", "--difference", "0.5", "--simulations", "50", "--trials-each"]
    assert main([*argv, "4", "60", "--figure", str(figure)]) == 0
    captured = capsys.readouterr()
    messages = captured.err.splitlines()
    assert messages[0].startswith("first and second, accuracy, 4 trials each: power is at most")
    assert messages[0].endswith("; use more pairs, or pairs that differ more")
    assert messages[2].startswith("first and second, accuracy, 60 trials each: 80% power takes")
    assert messages[2].endswith("within the Monte Carlo error)")
    table = pd.read_csv(io.StringIO(captured.out))
    assert set(table["n_trials"]) == {4, 60}
    assert "share of studies" in figure.read_text("utf-8")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--difference", "0.2", "--noise", "2"], "--noise has no effect with --difference; leave"),
        (["t.csv", "--difference", "0.2"], "the table of trials has no effect with --difference"),
        (
            ["--difference", "0.2", "--low", "1"],
            "--low has no effect with --difference; leave it out",
        ),
        (
            ["--pilot-choices", "choices.csv"],
            "give the models to compare: either --compare or --scores",
        ),
        (["--compare", "contstim:bigram"], "give one of a table of trials, --difference and --pi"),
        (
            ["--difference", "0.2", "--figure", "x.gif"],
            "--figure: x.gif does not end in .svg, .pdf",
        ),
    ],
)
def test_options_of_another_power(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["design", "power", *argv]) == 2
    assert message in capsys.readouterr().err


def test_a_kind_shows_its_own_examples(capsys: pytest.CaptureFixture[str]) -> None:
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
def test_bad_input(
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


def test_what_is_excluded_is_told_in_words(
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


def test_a_target_within_monte_carlo_error_is_not_out_of_reach() -> None:
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
