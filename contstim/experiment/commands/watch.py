"""Analyse a study while it runs, and say whether it may stop.

CHOICES is a table of choices, to which rows may be added while this runs, or the folder of a study
of `contstim experiment`, which has scores and plan of its own if it is adaptive. Prints the
posterior weights of the models, e-values against each model, and the conclusion: best, equivalent,
inconclusive, or continue. Exit status 0 whatever the conclusion; 2 if there are no answers, for
which --every waits.

examples:
  contstim watch choices.csv --scores scores.csv
  contstim watch my-study --every 60 --blinded
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from contstim.cli.application import create_application
from contstim.cli.parameters import File, Name, float_parameter
from contstim.errors import InputError, NoDataError

if TYPE_CHECKING:
    import pandas as pd

    from contstim.adaptive import AdaptivePlan

app = create_application("watch", __doc__)

DATA = Group.create_ordered("data")
OUTPUT = Group.create_ordered("output")


@app.default
def watch(
    choices: File,
    /,
    *,
    format: Annotated[Name, Parameter(group=DATA)] = "tidy",
    scores: Annotated[File | None, Parameter(group=DATA)] = None,
    plan: Annotated[File | None, Parameter(group=DATA)] = None,
    pilot: Annotated[bool, Parameter(group=DATA)] = False,
    blinded: Annotated[bool, Parameter(group=OUTPUT)] = False,
    every: Annotated[
        float | None, float_parameter(1, 1e6, "SECONDS"), Parameter(group=OUTPUT)
    ] = None,
) -> None:
    """Analyse a study while it runs.

    Parameters
    ----------
    choices
        table of choices, or folder of a study
    format
        format of the table, as for `contstim evaluate`
    scores
        log-probabilities of natural sentences and those of the study [those of the study]
    plan
        plan of the study (TOML) with a table [adaptive] [that of the study]
    pilot
        use the data of a pilot of the study
    blinded
        show only stop or continue
    every
        interval between analyses, until the study may stop [one analysis]
    """
    from contstim.adaptive import AdaptivePlan
    from contstim.adaptive.interim import interim_analysis, max_chosen_trials
    from contstim.adaptive.preregistration import find_deviations, read_adaptive_plan
    from contstim.selection.scores import read_scores

    # Whatever more answers cannot mend is refused before waiting for any.
    given_scores = None if scores is None else read_scores(scores)
    given_plan = None if plan is None else read_adaptive_plan(plan)
    before = None
    while True:
        stops, out = False, sys.stdout
        try:
            table, log_probs, own_plan = _read(Path(choices), format, given_scores, pilot)
            planned = given_plan or own_plan
            if planned is None:
                planned = replace(AdaptivePlan(), trials=max_chosen_trials(table))
            result = interim_analysis(table, log_probs, planned, after_each=not blinded)
            stops = result.stops
            deviations = [] if given_plan is None else find_deviations(table, given_plan)
            lines = [str(result), *(f"deviation from the plan: {text}" for text in deviations)]
            message = ("stop" if stops else "continue") if blinded else "\n".join(lines)
        except NoDataError as error:
            if every is None:
                raise
            message, out = f"no answers yet ({error}); waiting {every:g} s", sys.stderr
        if message != before:
            print(message, file=out, flush=True)
        before = message
        if every is None or stops:
            return
        time.sleep(every)


def _read(
    path: Path, kind: str, scores: pd.DataFrame | None, pilot: bool
) -> tuple[pd.DataFrame, pd.DataFrame, AdaptivePlan | None]:
    """Return choices, scores, and the plan of the study, if it has one."""
    from contstim.evaluation import read_choices
    from contstim.evaluation.scores import score_table
    from contstim.selection.scores import read_scores

    plan = None
    if path.is_dir():
        from contstim.experiment.adaptive import find_scores
        from contstim.experiment.schema import PILOT_FILE
        from contstim.experiment.study import read_study
        from contstim.experiment.study_data import read_study_data

        study = read_study(path)
        plan = study.adaptive
        if scores is None and plan is not None:
            scores = read_scores(find_scores(study))
        collected = read_study_data(study, path / PILOT_FILE if pilot else None)
        choices = _tidy(collected.choices)
    elif pilot:
        raise InputError(f"--pilot belongs to the folder of a study; {path} is a table")
    elif kind == "tidy":
        choices = _tidy(path)
    else:
        human = read_choices(path, kind)
        choices = human.choices
        if scores is None and human.scores is not None:
            sentences = [*choices["sentence_1"], *choices["sentence_2"]]
            scores = score_table(human.scores, sentences)
    if scores is None:
        raise InputError(f"{path} has no scores; give --scores")
    return choices, scores, plan


def _tidy(source: Path | pd.DataFrame) -> pd.DataFrame:
    """Check choices as `evaluate` does, but leave each pair in the order of its row."""
    from contstim.evaluation import FORMATS, check_choices
    from contstim.evaluation.choices import clean_choices

    raw = FORMATS["tidy"](source)
    return check_choices(clean_choices(raw.table, raw.cleaning)[0], raw.scale)
