"""Readers of human data: raw files in, the choices table out, nothing prepared by hand.

The formats that are known by name, any CSV with one row per trial through a mapping of its columns,
and the last steps that all of them share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from contstim.errors import InputError
from contstim.evaluation.choices import (
    REQUIRED,
    CleaningRules,
    HumanData,
    RawChoices,
    align_choices,
    prepare_choices,
)
from contstim.evaluation.importers.exports import has_codes, read_export, read_export_table
from contstim.evaluation.ratings import rescale
from contstim.evaluation.rows import concat_exclusions
from contstim.plugins import Registry
from contstim.tables import read_table, require_columns
from contstim.text.normalise import normalise_labels
from contstim.trial_kinds import EXPERIMENTAL


def read_tidy(
    source: str | Path | pd.DataFrame,
    *,
    columns: Mapping[str, str] | None = None,
    low: float | None = None,
    high: float | None = None,
    scale: str | None = None,
    expected: str = "",
    cleaning: CleaningRules | None = None,
) -> RawChoices:
    """Read a choices table, or one whose columns have other names.

    Parameters
    ----------
    source
        A path, or a table already read.
    columns
        Names of columns: that of the choices table, that of the file. Columns not named are kept
        under their own name if they clash with none.
    low, high
        The codes that mean certain of sentence 1 and of sentence 2; None if the ratings are
        zero-centred already.
    scale
        Passed to `check_choices`.
    expected
        Sentence that is correct by design in experimental trials: ``1`` or ``2`` for all rows, or
        the name of a column that holds 1 and 2. Empty if none is.
    cleaning
        What to do with rows that cannot be analysed.

    Raises
    ------
    InputError
        If a column is absent, a rating is off its scale, or one end of it is not given.
    """
    if (low is None) != (high is None):
        raise InputError("a scale has two ends; give both low and high")
    raw = source if isinstance(source, pd.DataFrame) else read_table(source, cells="inferred")
    renames = {theirs: ours for ours, theirs in (columns or {}).items()}
    require_columns(raw, renames, "the file")
    clashing = set(renames.values()) & (set(raw.columns) - set(renames))
    data = raw.drop(columns=list(clashing)).rename(columns=renames)
    require_columns(data, REQUIRED, "the choices table")
    if low is not None and high is not None:
        data["rating"] = rescale(data["rating"], low, high)
    if expected in ("1", "2"):
        data["expected"] = int(expected)
    elif expected:
        require_columns(data, [expected], "the file")
        data = data.rename(columns={expected: "expected"})
    if expected and "kind" not in data:
        data["kind"] = EXPERIMENTAL
    # Whoever names the ends of a scale may have a slider.
    scale = scale or (None if low is None else "slider")
    return RawChoices(data, cleaning or CleaningRules(), scale)


def _read_any(source: str | Path | pd.DataFrame, **options: Any) -> RawChoices:
    """Read the choices table itself, or the export of a program, or a table as it is described."""
    table, program = read_export_table(source)
    plain = program is None and all(value in (None, {}) for value in options.values())
    if plain and {*REQUIRED} <= {*map(str, table.columns)} and not has_codes(table["rating"]):
        return read_tidy(table)
    return read_export(source, **options)


_LENIENT = CleaningRules("exclude", "exclude", "keep_first")

#: Importers by the name of the format: from a path, or a table already read, to `RawChoices`.
#: Installed packages bring more by entry points of the group ``contstim.importers``.
FORMATS: Registry[Callable[..., RawChoices]] = Registry(
    "format",
    "contstim.importers",
    {
        "auto": _read_any,
        "tidy": read_tidy,
        "golan2023": "contstim.evaluation.importers.golan2023:read_golan2023",
        "jspsych": partial(read_export, program="jsPsych"),
        # Sprouse, Schuetze and Almeida (2013): choices between two sentences of a phenomenon.
        "sprouse2013": partial(
            read_tidy,
            columns={
                "group": "survey",
                "trial": "order",
                "sentence_1": "bad_sentence",
                "sentence_2": "good_sentence",
                "rating": "chose_good",
            },
            low=0,
            high=1,
            expected="2",
            cleaning=_LENIENT,
        ),
        # Warstadt et al. (2020): forced choices by which BLiMP was validated.
        "blimp": partial(
            read_tidy,
            columns={"participant": "rater", "rating": "chosen", "expected": "correct"},
            low=1,
            high=2,
            expected="expected",
            cleaning=_LENIENT,
        ),
    },
)


def read_choices(
    source: str | Path | pd.DataFrame, format: str = "auto", **options: Any
) -> HumanData:
    """Read human choices from a file or table in one of the known formats.

    Parameters
    ----------
    source
        A path, or a table already read.
    format
        ``auto``: an export of jsPsych, PCIbex, Gorilla or Qualtrics, recognised by its columns, or
        else ``tidy``, the choices table itself, or a table that the options describe. Or one of
        ``tidy``, ``golan2023``, ``jspsych``, ``sprouse2013`` and ``blimp``.
    options
        Of the format's importer: those of `read_export` for ``auto`` and ``jspsych``, those of
        `read_tidy` for ``tidy``.

    Raises
    ------
    InputError
        If the format is unknown or the data cannot be used; the message names the rows.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame(
    ...     {
    ...         "participant": ["p1", "p2"],
    ...         "sentence_1": "He slept good.",
    ...         "sentence_2": "He slept well.",
    ...         "rating": [2.5, -0.5],
    ...     }
    ... )
    >>> read_choices(table).choices[["participant", "sentence_1", "rating"]]
      participant      sentence_1  rating
    0          p1  He slept good.     2.5
    1          p2  He slept good.    -0.5
    """
    if not isinstance(source, str | Path | pd.DataFrame):
        raise InputError(
            f"read_choices reads one table or file, not a {type(source).__name__}; join several "
            "with combine_choices({NAME: read_choices(FILE), ...})"
        )
    return prepare_choices(FORMATS[format](source, **options))


def join_participants(human: HumanData, people: pd.DataFrame) -> HumanData:
    """Return choices with what is known of those who made them, for ``by`` and mixed models.

    Parameters
    ----------
    human
        The choices.
    people
        A row per participant: ``participant`` and whatever else is known; or ``responses.csv`` of
        an experiment, a row per participant and question.

    Raises
    ------
    InputError
        If there is no column ``participant``, somebody has two rows, or choices have a column of
        the table already.

    Examples
    --------
    >>> choices = pd.DataFrame({"participant": ["p1", "p2"], "rating": [2.5, -2.5]})
    >>> human = read_choices(choices.assign(sentence_1="Go home.", sentence_2="Home go."))
    >>> people = pd.DataFrame({"participant": ["p1", "p2"], "native": ["yes", "no"]})
    >>> join_participants(human, people).choices["native"].tolist()
    ['yes', 'no']
    """
    require_columns(people, ["participant"], "the table of participants")
    keys = ["participant"]
    if {"question", "response"} <= set(people.columns):
        keys.append("question")
    table = people.assign(participant=normalise_labels(people["participant"]))
    if (twice := table.duplicated(keys)).any():
        what = " and ".join(str(table.loc[twice, key].iloc[0]) for key in keys)
        raise InputError(f"the table of participants has two rows of {what}; keep one")
    if len(keys) > 1:
        wide = table.pivot_table("response", "participant", "question", aggfunc="first")
        table = wide.reset_index()
    clashing = [name for name in table if name != "participant" and name in human.choices]
    if clashing:
        raise InputError(
            f"the choices have a column {clashing[0]!r} as the table of participants has; rename "
            "one of them"
        )
    joined = human.choices.merge(table, on="participant", how="left").set_axis(human.choices.index)
    unknown = sorted({*human.choices["participant"]} - {*table["participant"]})
    notes = human.notes
    if unknown:
        notes += (
            f"The table of participants has no row of {len(unknown)} of them, such as "
            f"{unknown[0]!r}.",
        )
    return replace(human, choices=joined, notes=notes)


def combine_choices(parts: Mapping[str, HumanData]) -> HumanData:
    """Return the choices of several files as one table, whose column ``file`` says which.

    If each file has one participant, and no two files the same one, they are one data set: there is
    no column ``file``, and groups are those of the files.
    Otherwise participants with one name in two files count as different participants, and so do
    groups.
    Pairs with one name in the column `item` are of one item whatever their files, as those of
    numbers are, too, where other files have texts.

    Parameters
    ----------
    parts
        What was read, by what the files are to be called.

    Raises
    ------
    InputError
        If a file has a column ``file`` of its own, or a pair has one condition here and another
        there.

    Examples
    --------
    >>> from contstim import datasets, read_choices
    >>> human = read_choices(datasets.simulated_choices())
    >>> both = combine_choices({"first": human, "second": human})
    >>> both.choices["file"].value_counts().to_dict(), both.choices["participant"].nunique()
    ({'first': 600, 'second': 600}, 60)
    """
    tables, notes, seen = [], list[str](), Counter[str]()
    for human in parts.values():
        seen.update(human.choices["participant"].unique())
    twice = [name for name, n in seen.items() if n > 1]
    one_each = sum(seen.values()) == len(parts)
    for name, human in parts.items():
        if one_each and not twice:
            tables.append(human.choices)
            notes += human.notes
            continue
        if "file" in human.choices:
            raise InputError(f"{name} has a column 'file' of its own; rename it")
        table = human.choices.assign(file=name, group=f"{name}: " + human.choices["group"])
        shared = table["participant"].isin(twice)
        table["participant"] = table["participant"].mask(shared, f"{name}: " + table["participant"])
        tables.append(table)
        notes += [f"{name}: {note}" for note in human.notes]
    if twice:
        notes.append(
            f"{len(twice)} participants of several files are called alike, such as {twice[0]!r}; "
            "they count as different people."
        )
    if one_each and not twice:
        notes = [f"{len(parts)} files with one participant each.", *dict.fromkeys(notes)]
    choices = align_choices(pd.concat(tables, ignore_index=True))
    scores = [human.scores for human in parts.values() if human.scores is not None]
    turned = [human.is_swapped for human in parts.values() if human.is_swapped is not None]
    return HumanData(
        choices,
        pd.concat(scores, ignore_index=True) if len(scores) == len(parts) else None,
        concat_exclusions(*(human.excluded for human in parts.values())),
        tuple(notes),
        pd.concat(turned, ignore_index=True) if len(turned) == len(parts) else None,
    )
