"""Readers of human data: raw files in, the choices table out, nothing prepared by hand.

The formats that are known by name, any CSV with one row per trial through a mapping of its columns,
and the last steps that all of them share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from contstim.errors import InputError
from contstim.evaluation.choices import Cleaning, HumanData, RawChoices, finish, rescale
from contstim.evaluation.importers.exports import read_export, read_recognised
from contstim.plugins import Registry
from contstim.tables import read_table, require_columns


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
    clashing = set(renames.values()) & (set(raw.columns) - set(renames))
    data = raw.drop(columns=list(clashing)).rename(columns=renames)
    if "rating" in data and mapping.low is not None and mapping.high is not None:
        data["rating"] = rescale(data["rating"], mapping.low, mapping.high)
    if mapping.expected in ("1", "2"):
        data["expected"] = int(mapping.expected)
    elif mapping.expected:
        require_columns(data, [mapping.expected], "the file")
        data = data.rename(columns={mapping.expected: "expected"})
    return RawChoices(data, mapping.cleaning, mapping.scale)


def _read_any(source: str | Path | pd.DataFrame, **options: Any) -> RawChoices:
    """Read the export of a known program, or else the choices table itself."""
    table, kind = read_recognised(source)
    if kind is not None or any(value is not None for value in options.values()):
        return read_export(table, **options)
    return map_columns(table, TIDY)


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
    """
    return finish(FORMATS[format](source, **options))


def read_mapped(source: str | Path | pd.DataFrame, mapping: ColumnMapping) -> HumanData:
    """Read human choices from any file or table with one row per trial, as `mapping` says.

    Raises
    ------
    InputError
        If a mapped column is absent or the data cannot be used; the message names the rows.
    """
    return finish(map_columns(source, mapping))
