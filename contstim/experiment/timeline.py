"""Trials of a design as ``timeline_variables`` of a jsPsych experiment."""

from __future__ import annotations

import json
from typing import Any

from contstim.errors import require_known
from contstim.experiment.options import TrialOptions
from contstim.experiment.presentations import Presentation, make_presentation
from contstim.experiment.trials import Design


def make_timeline_variables(
    design: Design, presentation: Presentation | None = None, lists_per: str = "participant"
) -> dict[str, list[dict[str, Any]]]:
    """Convert the trials of a design to ``timeline_variables`` for a jsPsych script.

    Parameters
    ----------
    design
        Design, for example from `read_design`.
    presentation
        How trials are shown, by default as pairs of sentences.
    lists_per
        ``participant`` for one list of trials per participant, or ``group`` for one list per group
        of participants, in the order in which the group's first participant sees the trials.

    Returns
    -------
    dict
        Lists of trials by the number of the participant or group. A trial has the fields to show
        (``left`` and ``right`` for pairs) and ``data``, the row of the design with these changes:

        - ``participant`` is named ``assignment``, because participants of the experiment have
          other ids;
        - ``stimulus`` is named ``stimulus_number``, because jsPsych plugins write a column
          ``stimulus``;
        - ``expected`` is the number of the sentence that is correct in a catch trial.

        All values are strings, because numbers would become floats in a column with empty cells.

    Raises
    ------
    UnknownNameError
        If `lists_per` is neither ``participant`` nor ``group``.
    """
    require_known("list", lists_per, ("participant", "group"))
    presentation = presentation or make_presentation(TrialOptions())
    # In the experiment, participants have other ids. jsPsych plugins write a column `stimulus`.
    new_names = {"participant": "assignment", "stimulus": "stimulus_number"}
    # Columns about one participant do not apply to a whole group.
    omitted_columns = ("participant", "assignment", "trial") if lists_per == "group" else ()

    trial_lists: dict[str, list[dict[str, Any]]] = {}
    for participant, trials in design.trials.items():
        list_number = str(design.groups[participant] if lists_per == "group" else participant)
        if list_number in trial_lists:
            continue  # use the order of the group's first participant
        trial_lists[list_number] = []
        for trial in trials:
            data = {}
            for column, value in trial.row.items():
                if value and column not in omitted_columns:
                    data[new_names.get(column, column)] = value
            # A trial names the expected sentence by its side. The analysis needs its number.
            if presentation.is_pair and trial.expected:
                data["expected"] = "1" if trial.expected == trial.side_1 else "2"
            trial_lists[list_number].append({**trial.shown, "data": data})
    return trial_lists


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
