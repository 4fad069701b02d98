"""Implementation of `contstim experiment replace`, which finds trials for new participants."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from contstim.cli.common import print_message, write_table
from contstim.errors import InputError, format_count
from contstim.evaluation.choices import check_choices
from contstim.evaluation.exclusion import ExclusionRules, exclude, parse_rules
from contstim.experiment.maintenance import make_replacement_table, release_sessions
from contstim.experiment.study import read_study
from contstim.experiment.study_data import read_study_data


def list_replacements(
    folder: str, rules: Sequence[str], release: bool, database: Path | None, out: str
) -> None:
    """List the assignments of participants who have to be replaced.

    An *assignment* is the list of trials for one participant. A participant has to be replaced if
    the session was abandoned, or if the exclusion rules exclude all of the participant's choices.

    Parameters
    ----------
    folder
        Folder of the study.
    rules
        Exclusion rules, for example ``catch<0.91`` or ``rt<300``.
    release
        Whether to make the assignments available to new participants.
    database
        Data file, or None for the one in the study's folder.
    out
        Table to write, ``-`` for standard output.

    Raises
    ------
    InputError
        If the study has no data, or a rule cannot be applied.
    """
    study = read_study(folder)
    collected = read_study_data(study, database)
    if rules and "choices" not in collected.tables:
        raise InputError(
            "--exclude applies to choices between two sentences, which this study does not ask "
            "for; leave it out"
        )

    # List complete participants without any trial after exclusion.
    excluded = pd.DataFrame(columns=["rule", "participant", "n_rows", "detail"])
    choices = collected.choices
    if rules:
        choices = choices[choices["participant"].isin(collected.complete_participants)]
        if not choices.empty:
            parsed = ExclusionRules(**parse_rules(rules))
            included, excluded = exclude(check_choices(choices), parsed, allow_none=True)
            excluded = excluded[~excluded["participant"].isin(included["participant"])]

    table = make_replacement_table(collected, excluded, time.time())
    write_table(table, out)
    print_message(
        f"{format_count(len(table), 'assignment')} to replace, of "
        f"{format_count(len(collected.sessions), 'session')}"
    )
    if not release:
        return

    # Participants with an abandoned session get the assignment back if they return in time.
    sessions = collected.sessions
    unfinished = {*sessions.loc[sessions["outcome"] == "unfinished", "session"]}
    reasons = {
        session: "abandoned" if session in unfinished else "excluded"
        for session in table["session"]
    }
    released = release_sessions(study, reasons, database=database)
    print_message(f"{format_count(len(released), 'assignment')} released")
