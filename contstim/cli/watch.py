"""Analyse a study while it runs, and say whether it may stop.

CHOICES is a table of choices, to which rows may be added while this runs, or the folder of a study
of `contstim experiment`, which has scores and plan of its own if it is adaptive. Prints the
posterior weights of the models, e-values against each model, and the conclusion: best, equivalent,
inconclusive, or continue. Exit status 0 whatever the conclusion; 2 if there are no answers, for
which --every waits.

Examples:
  contstim watch choices.csv --scores scores.csv
  contstim watch my-study --every 60 --blinded
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd

from contstim.adaptive import AdaptivePlan
from contstim.adaptive.interim import interim_analysis, max_trials
from contstim.adaptive.preregister import plan_departures, read_adaptive_plan
from contstim.cli.experiment_data import add_data_file, data_file
from contstim.cli.parsing import CommandParser, number
from contstim.errors import InputError, NoDataError
from contstim.evaluation import FORMATS, check_choices, read_choices
from contstim.evaluation.choices import clean_choices
from contstim.evaluation.scores import score_table
from contstim.selection.scores import read_scores


def configure(parser: CommandParser) -> None:
    """Add the options."""
    parser.add("choices CHOICES", "a table, or the folder of a study")
    parser.add("--format", "", choices=sorted(FORMATS), default="tidy")
    what = "log-probabilities of natural sentences and those of the study (default: the study's)"
    parser.add("--scores SCORES", what)
    parser.add("--plan TOML", "study plan with a table [adaptive] (default: the study's)")
    add_data_file(parser)
    parser.add("--blinded", "print only stop or continue")
    what = "interval between analyses, until the study may stop (default: one analysis)"
    parser.add("--every SECONDS", what, number(1, 1e6))  # each reads the whole study again


def run(args: argparse.Namespace) -> int:
    """Analyse the study, once or until it may stop."""
    # Whatever more answers cannot mend is refused before waiting for any.
    scores = None if args.scores is None else read_scores(args.scores)
    plan = None if args.plan is None else read_adaptive_plan(args.plan)
    before = None
    while True:
        stops, out = False, sys.stdout
        try:
            choices, log_probs, planned = _read(args, scores)
            planned = plan or planned
            if planned is None:
                planned = replace(AdaptivePlan(), trials=max_trials(choices))
            result = interim_analysis(choices, log_probs, planned, every=not args.blinded)
            stops = result.stops
            deviations = [] if plan is None else plan_departures(choices, plan)
            lines = [str(result), *(f"deviation from the plan: {text}" for text in deviations)]
            message = ("stop" if stops else "continue") if args.blinded else "\n".join(lines)
        except NoDataError as error:
            if args.every is None:
                raise
            message, out = f"no answers yet ({error}); waiting {args.every:g} s", sys.stderr
        if message != before:
            print(message, file=out, flush=True)
        before = message
        if args.every is None or stops:
            return 0
        time.sleep(args.every)


def _read(
    args: argparse.Namespace, scores: pd.DataFrame | None
) -> tuple[pd.DataFrame, pd.DataFrame, AdaptivePlan | None]:
    """Return choices, scores, and the plan of the study, if it has one."""
    path, plan = Path(args.choices), None
    if path.is_dir():
        from contstim.experiment.adaptive import scores_path
        from contstim.experiment.collected import read_collected
        from contstim.experiment.study import read_study

        study = read_study(path)
        plan = study.adaptive
        if scores is None and plan is not None:
            scores = read_scores(scores_path(study))
        choices = _tidy(read_collected(study, data_file(args)).choices)
    elif args.pilot or args.data is not None:
        raise InputError(f"--pilot and --data belong to the folder of a study; {path} is a table")
    elif args.format == "tidy":
        choices = _tidy(path)
    else:
        human = read_choices(path, args.format)
        choices = human.choices
        if scores is None and human.scores is not None:
            sentences = [*choices["sentence_1"], *choices["sentence_2"]]
            scores = score_table(human.scores, sentences)
    if scores is None:
        raise InputError(f"{path} has no scores; give --scores")
    return choices, scores, plan


def _tidy(source: Path | pd.DataFrame) -> pd.DataFrame:
    """Check choices as `evaluate` does, but leave each pair in the order of its row."""
    raw = FORMATS["tidy"](source)
    return check_choices(clean_choices(raw.table, raw.cleaning)[0], raw.scale)
