"""Combinations of options of `contstim experiment new` and `contstim experiment export`."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from client_messages import play
from covering import Combinations, Outcome, Relation, Row, on_files, require_values, run
from material import MODELS, as_windows, decompose, nfc, rewrite, sentences, write_scores
from psychds_rules import check_psychds

from contstim.experiment.schema import PILOT_FILE
from contstim.experiment.store import Store
from contstim.experiment.study import read_study

NEW: dict[str, Any] = {
    "STUDY": ["study", "other"],
    "--trials": [None, "trials.csv"],
    "--stimuli": [None, "stimuli.csv"],
    "--factors": [None, "number"],
    "--participants": [None, "4"],
    "--pairs": [None, "pairs.csv"],
    "--scores": [None, "wide.csv"],
    "--plan": [None, "plan.toml"],
    "--catch": [None, "1"],
    "--seed": [None, "2"],
    "--presentation": [None, "rating"],
    "--preset": [None, "golan2023"],
    "--language": [None, "de"],
}
EXPORT: dict[str, Any] = {
    "STUDY": ["study", "./study"],
    "--all": [None, True],
    "--ids": [None, "ids.csv"],
    "--data": [None, "more.sqlite3"],
    "--pilot": [None, True],
    "--out": ["out", "out2"],
}
SYNONYMS = {
    "--preset": "preset",
    "--language": "the language",
    "--presentation": "presentation|for pairs of sentences",
    "--trials": r"--trials|trials\.csv",
    "--stimuli": r"--stimuli|stimuli\.csv",
}


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "inputs"
    folder.mkdir()
    monkeypatch.chdir(folder)
    write_scores(460)
    for name, per_pair in (("natural.csv", "2"), ("pairs.csv", "24")):
        given = {"SCORES": "wide.csv", "--per-pair": per_pair, "--out": name}
        assert run("select natural", given).status == 0
    design = {"--natural": "natural.csv", "--groups": "2", "--participants": "2", "--catch": "2"}
    assert run("design trials", {**design, "--out": "trials.csv"}).status == 0
    Path("trials.csv.meta.json").unlink(missing_ok=True)
    texts = sentences(16)
    stimuli = [
        {"item": k, "number": n, "sentence": f"{texts[k]} {n}.", "note": f"n{k}"}
        for k in range(8)
        for n in ("sg", "pl")
    ]
    pd.DataFrame(stimuli).to_csv("stimuli.csv", index=False)
    Path("plan.toml").write_text("[adaptive]\ntrials = 4\nseed = 9\n", "utf-8")
    return folder


def check_new(row: Row, outcome: Outcome) -> pd.DataFrame:
    """Check the study folder, and the trials in it."""
    study = read_study(row["STUDY"])
    assert study.study.language == (row["--language"] or "en")
    assert run("experiment check", {"STUDY": row["STUDY"]}).status == 0
    trials = pd.read_csv(Path(row["STUDY"]) / "trials.csv", dtype=str)
    toml = (Path(row["STUDY"]) / "study.toml").read_text("utf-8")
    assert f'presentation = "{row["--presentation"] or "choice"}"' in toml
    if row["--trials"]:
        given = pd.read_csv("trials.csv", dtype=str, encoding="utf-8-sig")
        assert trials.map(lambda c: nfc(str(c))).equals(given.map(lambda c: nfc(str(c))))
        assert len(study.design.groups) == 4
    if row["--stimuli"]:
        assert len(study.design.groups) == int(row["--participants"] or 24)
        assert (trials.groupby("participant")["item"].nunique() == 8).all()
        assert {*trials["condition"]} == {"sg", "pl"}
        assert {*trials["sentence"].map(nfc)} <= {
            nfc(f"{text} {n}.") for text in sentences(16) for n in ("sg", "pl")
        }
    if row["--pairs"]:
        catch = sum(t.condition == "catch" for t in study.design.trials[1])
        assert catch == int(row["--catch"] or 12)
        assert study.adaptive is not None
        seed = int(row["--seed"] or (9 if row["--plan"] else 0))
        assert study.adaptive.seed == seed
        assert study.adaptive.trials == 4 or not row["--plan"]
    return trials.map(lambda cell: nfc(str(cell)))


def equal(one: pd.DataFrame, two: pd.DataFrame) -> None:
    columns = [column for column in two if column in one]
    pd.testing.assert_frame_equal(one[columns], two[columns])


FILES = ["trials.csv", "stimuli.csv", "pairs.csv", "wide.csv"]
RELATIONS = {
    "NFD": Relation(on_files(FILES, decompose)),
    "CRLF and BOM": Relation(on_files(FILES, as_windows)),
    "quoted": Relation(on_files(FILES, lambda p: rewrite(p, quoting=csv.QUOTE_ALL))),
    "column added": Relation(
        on_files(FILES[:3], lambda p: rewrite(p, lambda t: t.assign(further="x")))
    ),
}


def test_experiment_new(inputs: Path, tmp_path: Path) -> None:
    require_values("experiment new", NEW)
    inert = [("--preset", "golan2023"), ("--language", "de"), ("--plan", "plan.toml")]
    Combinations("experiment new", NEW, inputs, check_new, equal, RELATIONS, SYNONYMS).check(
        tmp_path / "work", inert=inert
    )


def check_export(row: Row, outcome: Outcome) -> pd.DataFrame:
    """Check the choices: two whole participants and one who stopped, who all chose sentence 1."""
    choices = pd.read_csv(Path(row["--out"]) / "choices.csv", dtype={"participant": str})
    n_trials = len(pd.read_csv("study/trials.csv").query("participant == 1"))
    sizes = sorted(choices.groupby("participant").size())
    n_whole = 1 if row["--pilot"] or row["--data"] else 2
    assert sizes == [*[3] * bool(row["--all"]), *[n_trials] * n_whole]
    asked = choices[choices["condition"] != "catch"]
    assert (asked["rating"] < 0).all()
    given = pd.read_csv("study/trials.csv").map(lambda cell: nfc(str(cell)))
    shown = {*zip(given["sentence_1"], given["sentence_2"], strict=True)}
    assert {*zip(choices["sentence_1"], choices["sentence_2"], strict=True)} <= shown
    check_psychds(Path(row["--out"]) / "psychds")
    if row["--ids"]:
        ids = pd.read_csv("ids.csv", dtype=str)
        assert {*choices["participant"]} <= {*ids["participant"]}
        assert ids.astype(str).apply(lambda c: c.str.startswith("recruit")).any().any()
    following = {"CHOICES": f"{row['--out']}/choices.csv", "--scores": "wide.csv", "--out": "next"}
    assert run("evaluate", following).status == 0
    table = pd.read_csv("next/models.csv").query("analysis == 'all' and measure == 'accuracy'")
    scores = pd.read_csv("wide.csv", index_col=0)
    for line in table.itertuples():
        one, two = (scores[line.model].loc[asked[f"sentence_{k}"]].to_numpy() for k in (1, 2))
        right = pd.Series(one > two).groupby(asked["participant"].to_numpy()).mean()
        assert line.value == pytest.approx(right.mean())
    return choices.drop(columns=["received_at", "answered_at"], errors="ignore")


def test_experiment_export(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_values("experiment export", EXPORT)
    monkeypatch.setattr("contstim.evaluation.report.save_figure", lambda *_: None)
    assert run("experiment new", {"STUDY": "study", "--trials": "trials.csv"}).status == 0
    study = read_study("study")
    for path, n_whole in ((None, 2), (study.folder / PILOT_FILE, 1), (Path("more.sqlite3"), 1)):
        with Store(study, path) as store:
            for k in range(n_whole):
                play(store, f"recruit{k}")
            play(store, "recruit-stopped", n=3)
    assert len({*MODELS}) == 3
    Combinations("experiment export", EXPORT, inputs, check_export, equal).check(
        tmp_path / "work", inert=[("--ids", "ids.csv"), ("--out", "out2")]
    )
