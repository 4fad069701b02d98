"""A study from pilot data to its report, by the commands of a lab."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import pandas as pd

from contstim.cli import main
from contstim.experiment.study import Study, read_study
from contstim.experiment.study_data import read_study_data
from contstim.text import pool

MODELS = ("contstim:bigram", "contstim:trigram")
PLAN = """\
[adaptive]
trials = {trials}
anchors = 1
auto_close = true

[adaptive.trial_selection]
policy = "{policy}"
block_size = 3

[adaptive.stopping]
analyses = {analyses}
participants = {people}
"""


def run_command(*words: object) -> None:
    """Run a command and assert that it succeeds."""
    assert main([str(word) for word in words]) == 0


def plan_study(folder: Path, policy: str, trials: int) -> Study:
    """Plan a study from pilot data, preregister it and create its folder."""
    at = {name: folder / f"{name}.csv" for name in ("scores", "pairs", "few", "trials", "pilot")}
    (folder / "natural.txt").write_text("\n".join(pool()) + "\n", "utf-8")
    specs = [word for model in MODELS for word in ("--model", model)]
    run_command("score", folder / "natural.txt", *specs, "--out", at["scores"])
    run_command("select", "set", at["scores"], "--n", 120, "--out", at["pairs"])
    pd.read_csv(at["pairs"]).head(24).to_csv(at["few"], index=False)

    design = ["--groups", 1, "--participants", 8, "--catch", 2]
    run_command("design", "trials", "--natural", at["few"], *design, "--out", at["trials"])
    follow = ["--follow", MODELS[1], "--noise", 0.5]
    run_command("design", "simulate", at["trials"], *follow, "--out", at["pilot"])
    like = ["--pilot-choices", at["pilot"], "--scores", at["scores"], "--trials-each", trials]
    table = folder / "power.csv"
    run_command("design", "power", *like, "--simulations", 100, "--out", table)
    power = pd.read_csv(table).query("measure == 'accuracy' and power >= 0.8")
    people = int(power["n_participants"].min())

    analyses = [-(-people // 2), people]
    plan = folder / "plan.toml"
    words = {"policy": policy, "trials": trials, "analyses": analyses, "people": people}
    plan.write_text(PLAN.format(**words), "utf-8")
    of_plan = ["--scores", at["scores"], "--plan", plan]
    run_command("preregister", plan, "--out", folder / "preregistration.md")
    run_command(
        "experiment", "new", folder / "study", "--pairs", at["pairs"], *of_plan, "--catch", 1
    )
    (folder / "study/consent.md").write_text("# About\n\nTaking part is voluntary.\n", "utf-8")
    run_command("experiment", "check", folder / "study")
    return read_study(folder / "study")


def choose(scores: pd.Series, left: str, right: str) -> int:
    """Return the button, 1 to 6, of a participant who follows the scores."""
    return 6 if scores.get(right, float("-inf")) > scores.get(left, float("-inf")) else 1


def read_scores(folder: Path) -> pd.Series:
    """Return the log-probabilities that participants follow, by sentence."""
    table = pd.read_csv(folder / "scores.csv").query("model == @MODELS[1]")
    return table.set_index("sentence")["log_prob"]


def closing_reasons(study: Study) -> list[str]:
    """Return the reasons for which the study was closed."""
    moves = read_study_data(study).allocations
    return moves.loc[moves["action"] == "closed", "reason"].tolist()


def play_until_closed(study: Study, take_part: Callable[[], str]) -> str:
    """Let participants take part in turn until the study closes; return the conclusion.

    It is not closed before `contstim watch` says that it may stop, and then by itself.
    """
    for _ in study.design.trials:
        assert take_part() != "over"
        said = io.StringIO()
        with redirect_stdout(said):
            run_command("watch", study.folder, "--blinded")
        if said.getvalue() == "stop\n":
            break
        assert not closing_reasons(study)
    end = time.monotonic() + 120
    while not closing_reasons(study):  # the server looks beside what it does for people
        assert time.monotonic() < end, "the study is not closed"
        time.sleep(0.1)
    assert take_part() == "over"
    (why,) = closing_reasons(study)
    return why.removeprefix("by its rule: ")


def evaluate_study(folder: Path) -> tuple[str, list[str]]:
    """Export and evaluate the data; return the report page and its listed deviations."""
    run_command("experiment", "export", folder / "study", "--out", folder / "collected")
    given = ["--scores", folder / "scores.csv", "--plan", folder / "plan.toml"]
    run_command("evaluate", folder / "collected/choices.csv", *given, "--out", folder / "results")
    page = (folder / "results/report.html").read_text("utf-8")
    _, _, after = page.partition("Deviations from the analysis plan</h2>")
    return page, re.findall(r"<li>(.*?)</li>", after.partition("<h2")[0])


def watch_study(folder: Path, plan: str = "plan.toml") -> str:
    """Return the output of `contstim watch` for the study and a plan."""
    said = io.StringIO()
    with redirect_stdout(said):
        run_command("watch", folder / "study", "--plan", folder / plan)
    return said.getvalue()
