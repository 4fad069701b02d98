"""Trial lists for other platforms: sides and order resolved, in the columns that they read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from contstim.errors import UnknownNameError
from contstim.experiment.study import Study
from contstim.experiment.trials import Trial
from contstim.files import write_whole


def _plain(study: Study, assignment: int, trial: Trial) -> dict[str, object]:
    one = {"left": "1", "right": "2"}
    return {
        "seat": assignment,
        "group": study.design.groups[assignment],
        "number": trial.number,
        "trial": trial.trial,
        "kind": trial.kind,
        "condition": trial.condition,
        "left": trial.left,
        "right": trial.right,
        "left_is": one.get(trial.side_1 or "", ""),
        "expected": trial.expected or "",
    }


def _pcibex(study: Study, assignment: int, trial: Trial) -> dict[str, object]:
    # PennController gives a participant the rows of one value of the column Group.
    plain = _plain(study, assignment, trial)
    names = {
        "Group": "seat",
        "DesignGroup": "group",
        "Number": "number",
        "Item": "trial",
        "Kind": "kind",
        "Condition": "condition",
        "Left": "left",
        "Right": "right",
        "LeftIs": "left_is",
        "Expected": "expected",
    }
    return {name: plain[key] for name, key in names.items()}


def _gorilla(study: Study, assignment: int, trial: Trial) -> dict[str, object]:
    # A spreadsheet of Gorilla's task builder: `display` names the screen that shows the row.
    plain = _plain(study, assignment, trial)
    return {"display": trial.kind, "randomise_trials": "", **plain}


#: Platforms, how a row is made, and whether each assignment has a file of its own.
PLATFORMS: dict[str, tuple[Callable[[Study, int, Trial], dict[str, object]], bool]] = {
    "pcibex": (_pcibex, False),
    "gorilla": (_gorilla, True),
    "generic": (_plain, False),
}


def trial_lists(study: Study, platform: str) -> dict[str, pd.DataFrame]:
    """Return the tables of a platform by their file names.

    Parameters
    ----------
    study
        The study; practice trials come first, with ``kind`` saying which they are.
    platform
        ``pcibex``: one table, a value of ``Group`` for each assignment. ``gorilla``: a
        spreadsheet for each assignment, to be chosen by a counterbalance. ``generic``: one table of
        all assignments.

    Returns
    -------
    dict
        Tables in the order of presentation, with ``left`` and ``right`` as shown, and ``left_is``
        (1 or 2), by which an answer is turned into a rating afterwards.

    Raises
    ------
    UnknownNameError
        If there is no such platform.
    """
    if platform not in PLATFORMS:
        raise UnknownNameError.among("platform", platform, PLATFORMS)
    row, apart = PLATFORMS[platform]
    tables = {
        assignment: pd.DataFrame(row(study, assignment, t) for t in (*study.practice_trials, *own))
        for assignment, own in study.design.trials.items()
    }
    name = f"{study.study.name}_{platform}"
    if apart:
        return {f"{name}_seat{assignment}.csv": table for assignment, table in tables.items()}
    return {f"{name}.csv": pd.concat(tables.values(), ignore_index=True)}


def write_trial_lists(study: Study, platform: str, folder: Path) -> list[Path]:
    """Write the tables of a platform into a folder and return the files.

    Raises
    ------
    UnknownNameError
        If there is no such platform.
    OutputError
        If the place cannot be written to.
    """
    written = []
    for name, table in trial_lists(study, platform).items():
        path = folder / name
        write_whole(path, table.to_csv(index=False, lineterminator="\n"))
        written.append(path)
    return written
