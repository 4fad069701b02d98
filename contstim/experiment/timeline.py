"""The trials of a design for a jsPsych experiment of one's own, as its ``timeline_variables``."""

from __future__ import annotations

import json
from typing import Any

from contstim.errors import require_known
from contstim.experiment.options import TrialOptions
from contstim.experiment.presentations import Presentation, make_presentation
from contstim.experiment.trials import Design, Trial

#: Of what there is a list.
LISTS = ("participant", "group")

# jsPsych's plugins write columns of these names.
_THEIRS = {"stimulus": "stimulus_number"}


def timeline_variables(
    design: Design, presentation: Presentation | None = None, by: str = "participant"
) -> dict[str, list[dict[str, Any]]]:
    """Return a design's trials as lists that jsPsych takes as ``timeline_variables``.

    Parameters
    ----------
    design
        From `read_design`.
    presentation
        How trials are shown, as for `read_design`.
    by
        ``participant``: a list for each participant of the design, in the order of presentation.
        ``group``: one for each group, in the order of its first participant.

    Returns
    -------
    dict
        Lists by number. A trial has what is shown (of pairs ``left`` and ``right``) and ``data``,
        its row of the design, from which `read_export` knows the trial again: ``assignment`` in
        place of ``participant``, for people have ids of their own; ``stimulus_number`` in place of
        ``stimulus``, which jsPsych's plugins write; and in catch trials ``expected``, 1. The
        design's numbers are text: as numbers they would be 1.0 where other trials have none.

    Raises
    ------
    UnknownNameError
        If `by` is neither.
    """
    require_known("list", by, LISTS)
    shown = presentation or make_presentation(TrialOptions())
    of_participants = by == "participant"
    lists = {}
    for assignment, trials in design.trials.items():
        name = str(assignment if of_participants else design.groups[assignment])
        if name not in lists:
            lists[name] = [_variables(trial, shown, of_participants) for trial in trials]
    return lists


def _variables(trial: Trial, shown: Presentation, with_assignment: bool) -> dict[str, Any]:
    row = {"assignment" if k == "participant" else k: v for k, v in trial.row.items() if v}
    data = {
        _THEIRS.get(name, name): value
        for name, value in row.items()
        if with_assignment or name not in ("assignment", "trial")
    }
    if shown.is_pair and trial.expected:
        data["expected"] = "1" if trial.expected == trial.side_1 else "2"
    return {**trial.shown, "data": data}


def format_timeline(lists: dict[str, list[dict[str, Any]]], script: bool = False) -> str:
    """Return lists of trials as JSON, or as a script that defines ``timeline_variables``."""
    text = json.dumps(lists, ensure_ascii=False, indent=1)
    return f"const timeline_variables = {text};\n" if script else f"{text}\n"
