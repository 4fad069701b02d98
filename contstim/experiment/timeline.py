"""Trials of a design as ``timeline_variables`` of a jsPsych experiment."""

from __future__ import annotations

import json
from typing import Any

from contstim.errors import require_known
from contstim.experiment.options import TrialOptions
from contstim.experiment.presentations import Presentation, make_presentation
from contstim.experiment.trials import Design


def timeline_variables(
    design: Design, presentation: Presentation | None = None, by: str = "participant"
) -> dict[str, list[dict[str, Any]]]:
    """Convert a design to lists of trials for the ``timeline_variables`` of a jsPsych script.

    Parameters
    ----------
    design
        Design, for example from `read_design`.
    presentation
        Presentation of the trials, by default pairs of sentences; the same as for `read_design`.
    by
        ``participant``: one list per participant of the design, in the order of presentation.
        ``group``: one list per group, in the order of its first participant.

    Returns
    -------
    dict
        Lists of trials by participant or group number. A trial has the fields to show (``left``
        and ``right`` for pairs) and ``data``, its row of the design. In ``data``, the column
        ``participant`` is named ``assignment``, because participants of the experiment have other
        ids; ``stimulus`` is named ``stimulus_number``, because jsPsych plugins write a column
        ``stimulus``; and catch trials have ``expected``, 1. All values are strings: numbers would
        become floats in a column with empty cells.

    Raises
    ------
    UnknownNameError
        If `by` is neither ``participant`` nor ``group``.
    """
    require_known("list", by, ("participant", "group"))
    presentation = presentation or make_presentation(TrialOptions())
    by_participant = by == "participant"
    names = {"participant": "assignment", "stimulus": "stimulus_number"}
    omitted = () if by_participant else ("participant", "assignment", "trial")

    lists: dict[str, list[dict[str, Any]]] = {}
    for assignment, trials in design.trials.items():
        key = str(assignment if by_participant else design.groups[assignment])
        if key in lists:
            continue
        lists[key] = []
        for trial in trials:
            data = {
                names.get(column, column): value
                for column, value in trial.row.items()
                if value and column not in omitted
            }
            if presentation.is_pair and trial.expected:
                data["expected"] = "1" if trial.expected == trial.side_1 else "2"
            lists[key].append({**trial.shown, "data": data})
    return lists


def format_timeline(lists: dict[str, list[dict[str, Any]]], script: bool = False) -> str:
    """Format lists of trials as text.

    Parameters
    ----------
    lists
        Lists from `timeline_variables`.
    script
        Whether to write a JavaScript file that defines the constant ``timeline_variables``. By
        default the text is JSON.

    Returns
    -------
    str
        Content of the file.
    """
    text = json.dumps(lists, ensure_ascii=False, indent=1)
    return f"const timeline_variables = {text};\n" if script else f"{text}\n"
