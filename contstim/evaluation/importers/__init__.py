"""Readers of human data: raw files in, the choices table out, nothing prepared by hand.

The formats that are known by name, any CSV with one row per trial through a mapping of its columns,
and the last steps that all of them share.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from contstim.errors import InputError, near_matches
from contstim.evaluation.choices import (
    REQUIRED,
    Cleaning,
    HumanData,
    RawChoices,
    align_choices,
    finish,
    rescale,
    stack_exclusions,
)
from contstim.evaluation.importers.answers import are_codes, by_use, ends_used
from contstim.evaluation.importers.columns import theirs_for
from contstim.evaluation.importers.exports import read_export, read_recognised
from contstim.plugins import Registry
from contstim.tables import read_table, require_columns
from contstim.text.normalise import normalise_labels


@dataclass(frozen=True)
class ColumnMapping:
    """Where a file keeps what the choices table needs.

    Attributes
    ----------
    columns
        Pairs (column of the choices table, column of the file). Columns not named are kept
        under their own name if they clash with none.
    low, high
        The codes that mean sure of sentence 1 and sure of sentence 2; None if the ratings are
        zero-centred already.
    scale
        Passed to `check_choices`.
    expected
        Which sentence is the better one by design: ``1`` or ``2`` for all rows, or the name of a
        column that holds 1 and 2. Empty if none is.
    cleaning
        What to do with rows that cannot be analysed.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame(
    ...     {"subj": ["p1"], "left": ["He slept well."], "right": ["He slept good."], "answer": [7]}
    ... )
    >>> names = {"participant": "subj", "sentence_1": "left", "sentence_2": "right"}
    >>> names["rating"] = "answer"
    >>> read_mapped(table, ColumnMapping.of(names, low=7, high=1)).choices["rating"].tolist()
    [2.5]
    """

    columns: tuple[tuple[str, str], ...]
    low: float | None = None
    high: float | None = None
    scale: str | None = None
    expected: str = ""
    cleaning: Cleaning = field(default_factory=Cleaning)

    @classmethod
    def of(cls, columns: Mapping[str, str], **options: Any) -> ColumnMapping:
        """Make a mapping from a dictionary ``{"participant": "subject_id", ...}``."""
        return cls(tuple(columns.items()), **options)


TIDY = ColumnMapping(columns=())

_LENIENT = Cleaning("exclude", "exclude", "keep_first")

#: Sprouse, Schuetze and Almeida (2013): forced choice between two sentences of a phenomenon.
SPROUSE2013 = ColumnMapping(
    columns=(
        ("group", "survey"),
        ("trial", "order"),
        ("sentence_1", "bad_sentence"),
        ("sentence_2", "good_sentence"),
        ("rating", "chose_good"),
    ),
    low=0,
    high=1,
    expected="2",
    cleaning=_LENIENT,
)

#: Warstadt et al. (2020): forced choices by which BLiMP was validated.
BLIMP = ColumnMapping(
    columns=(("participant", "rater"), ("rating", "chosen"), ("expected", "correct")),
    low=1,
    high=2,
    expected="expected",
    cleaning=_LENIENT,
)


def map_columns(source: str | Path | pd.DataFrame, mapping: ColumnMapping) -> RawChoices:
    """Read a table or file as `mapping` says.

    Raises
    ------
    InputError
        If a mapped column is absent, a rating is off its scale, or one end of it is not given.
    """
    if (mapping.low is None) != (mapping.high is None):
        raise InputError("a scale has two ends; give both --low and --high")
    raw = source if isinstance(source, pd.DataFrame) else read_table(source, cells="guessed")
    renames = {source: name for name, source in mapping.columns}
    require_columns(raw, renames, "the file")
    present = [str(column) for column in raw.columns]
    if lacking := [ours for ours in REQUIRED if ours not in {*present, *renames.values()}]:
        named = [f"--column {ours}={theirs_for(ours, present) or 'THEIRS'}" for ours in lacking]
        raise InputError(
            f"the file has no column {' or '.join(map(repr, lacking))}; name yours, "
            f"{' '.join(named)}; {near_matches('', present, 'it has')}"
        )
    clashing = set(renames.values()) & (set(raw.columns) - set(renames))
    data = raw.drop(columns=list(clashing)).rename(columns=renames)
    if "rating" in data and mapping.low is not None and mapping.high is not None:
        data["rating"] = rescale(data["rating"], mapping.low, mapping.high)
    if mapping.expected in ("1", "2"):
        data["expected"] = int(mapping.expected)
    elif mapping.expected:
        require_columns(data, [mapping.expected], "the file")
        data = data.rename(columns={mapping.expected: "expected"})
    # Whoever says the ends of a scale may have a slider.
    scale = mapping.scale or (None if mapping.low is None else "slider")
    return RawChoices(data, mapping.cleaning, scale)


def _read_any(
    source: str | Path | pd.DataFrame,
    *,
    low: str | float | None = None,
    high: str | float | None = None,
    columns: dict[str, str] | None = None,
    **options: Any,
) -> RawChoices:
    """Read the choices table itself, or else the export of a program or somebody's own table."""
    table, program = read_recognised(source)
    columns, ends = columns or {}, (_as_number(low), _as_number(high))
    theirs = {ours: columns.get(ours, ours) for ours in REQUIRED}
    if (
        program is not None
        or any(value is not None for value in options.values())
        or any(isinstance(end, str) for end in ends)
        or not {*theirs.values()} <= {*map(str, table.columns)}
        or not pd.api.types.is_numeric_dtype(table[theirs["rating"]])
    ):
        return read_export(table, low=low, high=high, columns=columns, **options)
    notes = []
    if ends == (None, None) and are_codes(table[theirs["rating"]]):
        used = ends_used(
            table[theirs["rating"]],
            table[theirs["participant"]],
            table[[theirs["sentence_1"], theirs["sentence_2"]]],
            table.drop(columns=[*theirs.values()]),
        )
        if used is not None:
            ends = used
            low_end, high_end = used
            notes = [
                f"The ratings are numbers from {low_end:g} to {high_end:g}; {low_end:g} is sure of "
                f"sentence 1.{by_use(used)}"
            ]
    mapping = ColumnMapping.of(columns, low=ends[0], high=ends[1])
    return replace(map_columns(table, mapping), notes=notes)


def _as_number(code: str | float | None) -> float | str | None:
    """Return a code as a number where it is a finite one."""
    try:
        return float(code) if code is not None and math.isfinite(float(code)) else code
    except ValueError:
        return code


#: Importers by the name of the format: from a path, or a table already read, to `RawChoices`.
#: Installed packages bring more by entry points of the group ``contstim.importers``.
FORMATS: Registry[Callable[..., RawChoices]] = Registry(
    "format",
    "contstim.importers",
    {
        "auto": _read_any,
        "tidy": partial(map_columns, mapping=TIDY),
        "golan2023": "contstim.evaluation.importers.golan2023:read_golan2023",
        "jspsych": partial(read_export, program="jsPsych"),
        "sprouse2013": partial(map_columns, mapping=SPROUSE2013),
        "blimp": partial(map_columns, mapping=BLIMP),
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
        else ``tidy``, the choices table itself. Or one of ``tidy``, ``golan2023``, ``jspsych``,
        ``sprouse2013`` and ``blimp``. For any other file describe its columns and call
        `read_mapped`.
    options
        Of the format's importer: `low`, `high`, `side`, `n_choices`, `trials` and `columns` of
        `read_export`, for ``auto`` and ``jspsych``.

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
    return finish(FORMATS[format](source, **options))


def read_mapped(source: str | Path | pd.DataFrame, mapping: ColumnMapping) -> HumanData:
    """Read human choices from any file or table with one row per trial, as `mapping` says.

    Raises
    ------
    InputError
        If a mapped column is absent or the data cannot be used; the message names the rows.

    Examples
    --------
    >>> import pandas as pd
    >>> from contstim.evaluation import ColumnMapping
    >>> table = pd.DataFrame(
    ...     {"subj": ["p1"], "left": ["He slept well."], "right": ["He slept good."], "answer": [2]}
    ... )
    >>> names = {"participant": "subj", "sentence_1": "left", "sentence_2": "right"}
    >>> names["rating"] = "answer"
    >>> human = read_mapped(table, ColumnMapping.of(names, low=1, high=7))
    >>> human.choices["rating"].round(2).tolist()
    [1.67]
    """
    return finish(map_columns(source, mapping))


def with_people(human: HumanData, people: pd.DataFrame) -> HumanData:
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
    >>> with_people(human, people).choices["native"].tolist()
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


def together(parts: Mapping[str, HumanData]) -> HumanData:
    """Return the choices of several files as one table, whose column ``file`` says which.

    Participants who are called alike in two files count as different people, and so do groups.
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
    >>> both = together({"first": human, "second": human})
    >>> both.choices["file"].value_counts().to_dict(), both.choices["participant"].nunique()
    ({'first': 600, 'second': 600}, 60)
    """
    tables, notes, seen = [], [], Counter[str]()
    for human in parts.values():
        seen.update(human.choices["participant"].unique())
    twice = [name for name, n in seen.items() if n > 1]
    for name, human in parts.items():
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
    choices = align_choices(pd.concat(tables, ignore_index=True))
    scores = [human.scores for human in parts.values() if human.scores is not None]
    turned = [human.turned for human in parts.values() if human.turned is not None]
    return HumanData(
        choices,
        pd.concat(scores, ignore_index=True) if len(scores) == len(parts) else None,
        stack_exclusions(*(human.excluded for human in parts.values())),
        tuple(notes),
        pd.concat(turned, ignore_index=True) if len(turned) == len(parts) else None,
    )
