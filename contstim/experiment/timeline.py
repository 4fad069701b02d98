"""Trials of a design as ``timeline_variables`` of a jsPsych experiment."""

from __future__ import annotations

import json
from typing import Any

from contstim.errors import require_known
from contstim.experiment.options import TrialOptions
from contstim.experiment.presentations import Presentation, make_presentation
from contstim.experiment.trials import Design


def make_timeline_variables(
    design: Design, presentation: Presentation | None = None, unit: str = "participant"
) -> dict[str, list[dict[str, Any]]]:
    """Convert the trials of a design to ``timeline_variables`` for a jsPsych script.

    Parameters
    ----------
    design
        Design, for example from `read_design`.
    presentation
        Presentation of the trials, by default pairs of sentences; the same as for `read_design`.
    unit
        Unit that gets a separate list of trials: ``participant`` (in the order of presentation) or
        ``group`` (in the order of the group's first participant).

    Returns
    -------
    dict
        Mapping from the number of the participant or group to its list of trials. A trial has the
        fields to show (``left`` and ``right`` for pairs) and ``data``, the row of the design with
        these changes:

        - ``participant`` is named ``assignment``, because participants of the experiment have
          other ids;
        - ``stimulus`` is named ``stimulus_number``, because jsPsych plugins write a column
          ``stimulus``;
        - ``expected`` is the number of the sentence that is correct in a catch trial.

        All values are strings, because numbers would become floats in a column with empty cells.

    Raises
    ------
    UnknownNameError
        If `unit` is neither ``participant`` nor ``group``.
    """
    require_known("list", unit, ("participant", "group"))
    presentation = presentation or make_presentation(TrialOptions())
    new_names = {"participant": "assignment", "stimulus": "stimulus_number"}
    # The list of a group is not the list of one of its participants.
    omitted_columns = ("participant", "assignment", "trial") if unit == "group" else ()

    trials_by_unit: dict[str, list[dict[str, Any]]] = {}
    for participant, trials in design.trials.items():
        number = str(design.groups[participant] if unit == "group" else participant)
        if number in trials_by_unit:
            continue  # use the order of the group's first participant
        trials_by_unit[number] = []
        for trial in trials:
            data = {}
            for column, value in trial.row.items():
                if value and column not in omitted_columns:
                    data[new_names.get(column, column)] = value
            # The correct sentence is named by its side, "left" or "right". The analysis needs its
            # number.
            if presentation.is_pair and trial.expected:
                data["expected"] = "1" if trial.expected == trial.side_1 else "2"
            trials_by_unit[number].append({**trial.shown, "data": data})
    return trials_by_unit


def format_timeline(lists: dict[str, list[dict[str, Any]]], script: bool = False) -> str:
    """Format lists of trials as text.

    Parameters
    ----------
    lists
        Lists of trials from `make_timeline_variables`.
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
