"""Say how a study stands: which model is best by now, and whether the study may stop.

CHOICES is a tidy table of choices, one row a trial and participant, to which rows may be added
while this runs; a folder of such tables, taken together in the order of their names; or the folder
of a study of `contstim experiment`, which has scores and plan of its own if it is adaptive. Three
views: belief (posterior weights of the models), fit (e-values against each model), and a verdict
that may be asked for after every answer: best, equivalent, futile or go on, with what would help.
Without a plan, trials without propensities are taken for a fixed design. Exit status 0, whatever
the verdict.

Examples:
  contstim watch choices.csv --scores scores.csv
  contstim watch study/ --every 60 --blinded
  contstim watch choices.csv --scores scores.csv --replay information --trials 20
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd

from contstim.adaptive import POLICIES, AdaptivePlan
from contstim.adaptive.standing import most_trials, replay, study_standing
from contstim.cli.parsing import CommandParser, number, positive
from contstim.errors import InputError
from contstim.evaluation import FORMATS, check_choices, read_choices, score_table
from contstim.evaluation.choices import clean_choices
from contstim.evaluation.options import read_adaptive_plan
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
    what = "look again until the study may stop (default: once)"
    parser.add("--every SECONDS", what, number(1, 1e6))  # each look reads the whole study again


def run(args: argparse.Namespace) -> int:
    """Look, and say what is seen."""
    given = None if args.scores is None else read_scores(args.scores)
    before = None
    while True:
        choices, own, planned = _read(Path(args.choices), args.format, given is None)
        scores = own if given is None else given
        if scores is None:
            raise InputError(f"{args.choices} holds no scores; give --scores")
        for name in args.model:
            if name not in scores:
                known = ", ".join(map(str, scores.columns))
                raise InputError(f"--model {name!r} has no scores; there are {known}")
        scores = scores[args.model] if args.model else scores
        plan = _plan(args, choices, planned)
        if args.replay is not None:
            _, found = replay(choices, scores, plan)
        else:
            found = study_standing(choices, scores, plan, every=not args.blinded)
        said = ("stop" if found.stops else "go on") if args.blinded else str(found)
        if said != before:
            print(said, flush=True)
        before = said
        if args.every is None or found.stops:
            return 0
        time.sleep(args.every)


def _plan(
    args: argparse.Namespace, choices: pd.DataFrame, planned: AdaptivePlan | None
) -> AdaptivePlan:
    plan = planned or AdaptivePlan()
    if args.plan is not None:
        plan = read_adaptive_plan(args.plan)
    elif planned is not None:
        pass
    elif "propensity" not in choices and args.replay in (None, "fixed", "random"):
        fixed = replace(plan.choosing, policy="fixed")
        plan = replace(plan, choosing=fixed, stopping=replace(plan.stopping, constant=True))
    trials = args.trials
    if trials is None and args.plan is None and planned is None:
        trials = most_trials(choices)
    if args.replay is not None:
        plan = replace(plan, choosing=replace(plan.choosing, policy=args.replay))
    return plan if trials is None else replace(plan, trials=trials)


def _read(
    path: Path, kind: str, with_scores: bool
) -> tuple[pd.DataFrame, pd.DataFrame | None, AdaptivePlan | None]:
    """Return choices, and the scores and the plan that come with them."""
    if path.is_dir():
        if (path / "study.toml").exists():
            from contstim.experiment.collected import read_collected
            from contstim.experiment.study import read_study

            study = read_study(path)
            choices = _tidy(read_collected(study).choices)
            if study.adaptive is None:
                return choices, None, None
            from contstim.experiment.adaptive import scores_path

            scores = read_scores(scores_path(study)) if with_scores else None
            return choices, scores, study.adaptive
        parts = sorted(path.glob("*.csv"))
        if not parts:
            raise InputError(f"the folder {path} has no study.toml and no .csv; name a study's")
        tables = [read_table(part, cells="guessed") for part in parts]
        return _tidy(pd.concat(tables, ignore_index=True)), None, None
    if kind == "tidy":
        return _tidy(path), None, None
    human = read_choices(path, kind)
    table = human.choices
    if human.scores is None:
        return table, None, None
    own = score_table(human.scores, [*table["sentence_1"], *table["sentence_2"]])
    return table, own, None


def _tidy(source: Path | pd.DataFrame) -> pd.DataFrame:
    """Check choices as `evaluate` does, each pair left in the order in which it was asked."""
    raw = FORMATS["tidy"](source)
    return check_choices(clean_choices(raw.table, raw.cleaning)[0], raw.scale)
