"""Implementation of `contstim watch`: repeated interim analyses of a running study."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd

from contstim.adaptive import AdaptivePlan
from contstim.adaptive.interim import interim_analysis, max_chosen_trials
from contstim.adaptive.preregistration import find_deviations, read_adaptive_plan
from contstim.errors import InputError, NoDataError
from contstim.evaluation import FORMATS, check_choices, read_choices
from contstim.evaluation.choices import clean_choices
from contstim.evaluation.scores import score_table
from contstim.experiment.adaptive import find_scores
from contstim.experiment.schema import PILOT_FILE
from contstim.experiment.study import read_study
from contstim.experiment.study_data import read_study_data
from contstim.selection.scores import read_scores


def watch_study(
    source: str,
    table_format: str,
    scores_file: str | None,
    plan_file: str | None,
    pilot: bool,
    blinded: bool,
    interval: float | None,
) -> None:
    """Analyse a running study repeatedly, and print each new result, until the study may stop.

    Parameters
    ----------
    source
        Table of choices, or folder of a study.
    table_format
        Format of the table of choices.
    scores_file
        Log-probabilities, or None for the default file in the study folder.
    plan_file
        Study plan with a table ``[adaptive]``. None for the plan in the study folder or, if there
        is none, the default plan.
    pilot
        Whether to use the data of a pilot.
    blinded
        Whether to print only "stop" or "continue".
    interval
        Seconds between analyses, or None for a single analysis.

    Raises
    ------
    InputError
        If a file or option cannot be used.
    NoDataError
        If there are no answers and `interval` is None.
    """
    # Read scores and plan first: an invalid file is reported before waiting for answers.
    scores = None if scores_file is None else read_scores(scores_file)
    plan_from_file = None if plan_file is None else read_adaptive_plan(plan_file)
    previous_message = None
    while True:
        may_stop = False
        try:
            choices, log_probs, study_plan = _read_data(Path(source), table_format, scores, pilot)
            plan = plan_from_file or study_plan
            if plan is None:
                plan = replace(AdaptivePlan(), trials=max_chosen_trials(choices))
            result = interim_analysis(choices, log_probs, plan, last_only=blinded)
            may_stop = result.stops
            if blinded:
                message = "stop" if may_stop else "continue"
            else:
                deviations = find_deviations(choices, plan_from_file) if plan_from_file else []
                lines = [f"deviation from the plan: {text}" for text in deviations]
                message = "\n".join([str(result), *lines])
            stream = sys.stdout
        except NoDataError as error:
            if interval is None:
                raise
            message = f"no answers yet ({error}); waiting {interval:g} s"
            stream = sys.stderr
        if message != previous_message:
            print(message, file=stream, flush=True)
        previous_message = message
        if interval is None or may_stop:
            return
        time.sleep(interval)


def _read_data(
    path: Path, table_format: str, scores: pd.DataFrame | None, pilot: bool
) -> tuple[pd.DataFrame, pd.DataFrame, AdaptivePlan | None]:
    """Read the data for an interim analysis from a table or from the folder of a study.

    Returns
    -------
    choices : DataFrame
        Choices of the participants.
    scores : DataFrame
        Log-probabilities of the sentences under the models.
    plan : AdaptivePlan or None
        Plan of the study; None if the source is a table, or the study has a fixed design.
    """
    plan = None
    if path.is_dir():
        # Data of an experiment, by default with the scores and the plan in the study's folder.
        study = read_study(path)
        plan = study.adaptive
        if scores is None and plan is not None:
            scores = read_scores(find_scores(study))
        collected = read_study_data(study, path / PILOT_FILE if pilot else None)
        choices = _check_tidy_choices(collected.choices)
    elif pilot:
        raise InputError(f"--pilot belongs to the folder of a study; {path} is a table")
    elif table_format == "tidy":
        choices = _check_tidy_choices(path)
    else:
        # Convert a table of another format, which may contain the models' scores.
        human = read_choices(path, table_format)
        choices = human.choices
        if scores is None and human.scores is not None:
            sentences = [*choices["sentence_1"], *choices["sentence_2"]]
            scores = score_table(human.scores, sentences)
    if scores is None:
        raise InputError(f"{path} has no scores; give --scores")
    return choices, scores, plan


def _check_tidy_choices(source: Path | pd.DataFrame) -> pd.DataFrame:
    """Read and check a table of choices in the tidy format.

    The checks are the same as in `contstim evaluate`, except that the order of the two sentences in
    a row is not changed.
    """
    raw = FORMATS["tidy"](source)
    return check_choices(clean_choices(raw.table, raw.cleaning)[0], raw.scale)
