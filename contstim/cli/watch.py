"""Say how a study stands: which model is best by now, and whether the study may stop.

CHOICES is a tidy table of choices, one row per trial and participant, to which rows may be added
while this runs; a folder of such tables, taken together in the order of their names; or the folder
of a study of `contstim experiment`, which has scores and plan of its own if it is adaptive. Three
views: posterior (weights of the models), fit (e-values against each model), and a verdict
that may be asked for after every answer: best, equivalent, futile or go on, with what would help.
Without a plan, trials without propensities are taken for a fixed design. Exit status 0, whatever
the verdict; 2 if there are no answers, for which --every waits.

Examples:
  contstim watch choices.csv --scores scores.csv
  contstim watch study/ --every 60 --blinded
  contstim watch choices.csv --scores scores.csv --replay information --trials 20
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd

from contstim.adaptive import POLICIES, AdaptivePlan
from contstim.adaptive.standing import most_trials, replay, study_standing
from contstim.cli.parsing import CommandParser, number, positive
from contstim.errors import InputError, NoDataError
from contstim.evaluation import FORMATS, check_choices, read_choices
from contstim.evaluation.choices import clean_choices
from contstim.evaluation.options import read_adaptive_plan
from contstim.evaluation.scores import rising_table
from contstim.selection.scores import read_scores
from contstim.tables import read_table


def configure(parser: CommandParser) -> None:
    """Add the options."""
    parser.add("choices CHOICES", "a table, or a folder")
    parser.add("--format", "", choices=sorted(FORMATS), default="tidy")
    parser.add(
        "--scores SCORES",
        "log-probabilities of natural sentences and those of the study, as for `select` (default: "
        "those that the data hold)",
    )
    what = "compare these models of the scores (default: all)"
    parser.add("--model NAME", what, several=True, default=[])
    parser.add("--plan TOML", "with a table [adaptive]")
    what = "chosen trials of each participant (default: the plan's, or the most that one has)"
    parser.add("--trials N", what, positive)
    what = "ask for the answers of a finished study again, chosen by this policy"
    parser.add("--replay", what, choices=sorted(POLICIES))
    parser.add("--blinded", "say stop or go on, nothing else")
    what = "look again until the study may stop, and wait for the first answer (default: once)"
    parser.add("--every SECONDS", what, number(1, 1e6))  # each look reads the whole study again


def run(args: argparse.Namespace) -> int:
    """Look, and say what is seen."""
    # What no answer mends is refused before any is waited for.
    given = None if args.scores is None else _of_models(read_scores(args.scores), args.model)
    plan = None if args.plan is None else read_adaptive_plan(args.plan)
    before = None
    while True:
        stops, out = False, sys.stdout
        try:
            stops, message = _look(args, given, plan)
        except NoDataError as error:
            if args.every is None:
                raise
            message, out = f"no answers yet ({error}); looking every {args.every:g} s", sys.stderr
        if message != before:
            print(message, file=out, flush=True)
        before = message
        if args.every is None or stops:
            return 0
        time.sleep(args.every)


def _look(
    args: argparse.Namespace, given: pd.DataFrame | None, plan: AdaptivePlan | None
) -> tuple[bool, str]:
    """Return whether the study may stop, and what is to be said of it."""
    choices, scores, planned = _read(Path(args.choices), args.format, given)
    scores = _of_models(scores, args.model)
    plan = _plan(args, choices, plan or planned)
    if args.replay is not None:
        _, standing = replay(choices, scores, plan)
    else:
        standing = study_standing(choices, scores, plan, every=not args.blinded)
    return standing.stops, ("stop" if standing.stops else "go on") if args.blinded else str(
        standing
    )


def _of_models(scores: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return the scores of the models that are named; of all if none is."""
    for name in names:
        if name not in scores:
            known = ", ".join(map(str, scores.columns))
            raise InputError(f"--model {name!r} has no scores; there are {known}")
    return scores[names] if names else scores


def _plan(
    args: argparse.Namespace, choices: pd.DataFrame, planned: AdaptivePlan | None
) -> AdaptivePlan:
    plan = planned or AdaptivePlan()
    comparable = args.replay is None or POLICIES[args.replay].alike
    fixed = "propensity" not in choices and comparable
    if planned is None and fixed:
        choosing = replace(plan.choosing, policy="fixed")
        plan = replace(plan, choosing=choosing, stopping=replace(plan.stopping, constant=True))
    trials = args.trials
    if trials is None and planned is None:
        trials = most_trials(choices)
    if args.replay is not None:
        plan = replace(plan, choosing=replace(plan.choosing, policy=args.replay))
    return plan if trials is None else replace(plan, trials=trials)


def _read(
    path: Path, kind: str, scores: pd.DataFrame | None
) -> tuple[pd.DataFrame, pd.DataFrame, AdaptivePlan | None]:
    """Return choices, the scores that are given or else come with them, and the plan that does."""
    if path.is_dir() and (path / "study.toml").exists():
        from contstim.experiment.collected import read_collected
        from contstim.experiment.study import read_study

        study = read_study(path)
        if scores is None and study.adaptive is not None:
            from contstim.experiment.adaptive import scores_path

            scores = read_scores(scores_path(study))
        scores = _required(scores, path)
        return _tidy(read_collected(study).choices), scores, study.adaptive
    if path.is_dir():
        scores, parts = _required(scores, path), sorted(path.glob("*.csv"))
        if not parts:
            raise NoDataError(f"the folder {path} has no study.toml and no .csv; name a study's")
        tables = [read_table(part, cells="guessed") for part in parts]
        return _tidy(pd.concat(tables, ignore_index=True)), scores, None
    if kind == "tidy":
        scores = _required(scores, path)
        return _tidy(path), scores, None
    human = read_choices(path, kind)
    table = human.choices
    if scores is None and human.scores is not None:
        scores = rising_table(human.scores, [*table["sentence_1"], *table["sentence_2"]])
    return table, _required(scores, path), None


def _required(scores: pd.DataFrame | None, path: Path) -> pd.DataFrame:
    if scores is None:
        raise InputError(f"{path} holds no scores; give --scores")
    return scores


def _tidy(source: Path | pd.DataFrame) -> pd.DataFrame:
    """Check choices as `evaluate` does, each pair left in the order in which it was asked."""
    raw = FORMATS["tidy"](source)
    return check_choices(clean_choices(raw.table, raw.cleaning)[0], raw.scale)
