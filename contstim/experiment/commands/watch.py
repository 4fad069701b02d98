"""Analyse the data of a running study and report whether it may stop.

CHOICES is a table of choices or the folder of a study of `contstim experiment`. More rows may be
added during the analysis; the folder of an adaptive study has its own scores and plan. Prints the
posterior probability of each model, e-values against each model, and the conclusion: best,
equivalent, inconclusive, or continue. The exit status is 0 for every conclusion, and 2 if there are
no answers yet; with --every, the command waits for the first answer.

examples:
  contstim watch choices.csv --scores scores.csv
  contstim watch my-study --every 60 --blinded
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Group, Parameter

from contstim.cli.application import create_application
from contstim.cli.parameters import File, Name, float_parameter

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
    """Analyse the choices collected so far, and report whether the study may stop.

    Parameters
    ----------
    choices
        table of choices, or folder of a study
    format
        format of the table, as for `contstim evaluate`
    scores
        log-probabilities of natural sentences and of the sentences of the study, in nats [scores in
        the study folder]
    plan
        study plan, a TOML file with a table "adaptive" [plan in the study folder]
    pilot
        use the data of a pilot run
    blinded
        hide interim results: print only "stop" or "continue"
    every
        interval between analyses in seconds, until the study may stop [one analysis]
    """
    # Loads pandas and SciPy, which the help does without.
    from contstim.experiment.commands.watch_loop import watch_study

    watch_study(choices, format, scores, plan, pilot, blinded, every)
