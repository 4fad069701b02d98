"""Combine several files of choices, or join choices with a table of participants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from contstim.errors import InputError, format_count
from contstim.evaluation.choices import HumanData, align_choices
from contstim.evaluation.rows import concat_exclusions
from contstim.tables import require_columns
from contstim.text.normalise import normalise_labels


def join_participants(human: HumanData, participants: pd.DataFrame) -> HumanData:
    """Add the columns of a table of participants, such as their native language, to the choices.

    Parameters
    ----------
    human
        Choices of the participants.
    participants
        Table with a column `participant` and one row per participant; or, as written by
        `contstim experiment`, one row per participant and question, with the columns
        `participant`, `question` and `response`.

    Raises
    ------
    InputError
        If the column `participant` is missing, a participant has two rows, or a column exists in
        both tables.

    Examples
    --------
    >>> from contstim import read_choices
    >>> choices = pd.DataFrame({"participant": ["p1", "p2"], "rating": [2.5, -2.5]})
    >>> human = read_choices(choices.assign(sentence_1="Go home.", sentence_2="Home go."))
    >>> participants = pd.DataFrame({"participant": ["p1", "p2"], "native": ["yes", "no"]})
    >>> join_participants(human, participants).choices["native"].tolist()
    ['yes', 'no']
    """
    require_columns(participants, ["participant"], "the table of participants")
    # A long table has one row per participant and question: reshape it to one column per question.
    is_long = {"question", "response"} <= set(participants.columns)
    keys = ["participant", "question"] if is_long else ["participant"]
    table = participants.assign(participant=normalise_labels(participants["participant"]))
    is_duplicate = table.duplicated(keys)
    if is_duplicate.any():
        duplicate = " and ".join(str(table.loc[is_duplicate, key].iloc[0]) for key in keys)
        raise InputError(f"the table of participants has two rows for {duplicate}; keep one")
    if is_long:
        wide = table.pivot_table("response", "participant", "question", aggfunc="first")
        table = wide.reset_index()
    # A new column must not replace a column of the choices.
    clashing = [name for name in table if name != "participant" and name in human.choices]
    if clashing:
        raise InputError(
            f"the choices and the table of participants both have a column {clashing[0]!r}; rename "
            "one of them"
        )
    # Participants without a row get missing values. Merging resets the index, so restore it.
    joined = human.choices.merge(table, on="participant", how="left").set_axis(human.choices.index)
    # State in a note which participants have no row.
    unknown = sorted({*human.choices["participant"]} - {*table["participant"]})
    notes = human.notes
    if unknown:
        notes += (
            f"The table of participants lacks {format_count(len(unknown), 'participant')} of the "
            f"choices, for example {unknown[0]!r}.",
        )
    return replace(human, choices=joined, notes=notes)


def combine_choices(parts: Mapping[str, HumanData], separate: bool = False) -> HumanData:
    """Combine the choices of several files.

    By default, the files are parts of one data set, and each participant must be in one file only.
    With `separate`, the files are different data sets. The choices then get a column `file`, groups
    of different files are distinct, and so are participants with equal names. In both cases, equal
    labels in the column `item` denote the same item.

    Parameters
    ----------
    parts
        Choices by name of the file.
    separate
        Whether the files are different data sets. They can be compared with `file` as a condition.

    Raises
    ------
    InputError
        If files of one data set share a participant, a file of a separate data set has a column
        `file`, or a pair has different conditions in two files.

    Examples
    --------
    >>> from contstim import datasets, read_choices
    >>> human = read_choices(datasets.simulated_choices())
    >>> combined = combine_choices({"first": human, "second": human}, separate=True)
    >>> combined.choices["file"].value_counts().to_dict()
    {'first': 600, 'second': 600}
    >>> combined.choices["participant"].nunique()
    60
    """
    files_by_participant: dict[str, list[str]] = {}
    for file, human in parts.items():
        for participant in human.choices["participant"].unique():
            files_by_participant.setdefault(participant, []).append(file)
    shared = [name for name, files in files_by_participant.items() if len(files) > 1]
    if shared and not separate:
        first, second, *_ = files_by_participant[shared[0]]
        raise InputError(
            f"participant {shared[0]!r} is in {first} and in {second}; if the files are separate "
            "data sets, compare them with --condition file (in Python: separate=True); if not, "
            "give each participant one file"
        )
    tables: list[pd.DataFrame] = []
    notes: list[str] = []
    if separate:
        for file, human in parts.items():
            if "file" in human.choices:
                raise InputError(f"{file} has a column 'file' already; rename it")
            table = human.choices.assign(file=file, group=f"{file}: " + human.choices["group"])
            is_shared = table["participant"].isin(shared)
            names = table["participant"].mask(is_shared, f"{file}: " + table["participant"])
            tables.append(table.assign(participant=names))
            notes += [f"{file}: {note}" for note in human.notes]
        notes.append(f"{len(parts)} files are separate data sets, compared by the column 'file'.")
        if shared:
            notes.append(
                f"{len(shared)} participant names occur in several files, for example "
                f"{shared[0]!r}; they denote different participants."
            )
    else:
        tables = [human.choices for human in parts.values()]
        notes.append(
            f"{len(parts)} files were combined into one data set of {len(files_by_participant)} "
            "participants."
        )
        # Repeat a note only once, even if it applies to several files.
        notes += dict.fromkeys(note for human in parts.values() for note in human.notes)
    scores = [human.scores for human in parts.values() if human.scores is not None]
    is_swapped = [human.is_swapped for human in parts.values() if human.is_swapped is not None]
    return HumanData(
        choices=align_choices(pd.concat(tables, ignore_index=True)),
        scores=pd.concat(scores, ignore_index=True) if len(scores) == len(parts) else None,
        excluded=concat_exclusions(*(human.excluded for human in parts.values())),
        notes=tuple(notes),
        is_swapped=(
            pd.concat(is_swapped, ignore_index=True) if len(is_swapped) == len(parts) else None
        ),
    )
