"""Importers: raw files of human data in, choices out.

An importer reads one format. `read_choices` then cleans, checks and aligns the choices.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from contstim.errors import InputError
from contstim.evaluation.choices import REQUIRED, HumanData, RawChoices, prepare_choices
from contstim.evaluation.importers.answers import has_codes
from contstim.evaluation.importers.combine import combine_choices, join_participants
from contstim.evaluation.importers.exports import read_export, read_export_table
from contstim.plugins import Registry
from contstim.tables import read_table

__all__ = ["FORMATS", "combine_choices", "join_participants", "read_choices"]


def _read_tidy(source: str | Path | pd.DataFrame, scale: str | None = None) -> RawChoices:
    """Read a choices table; `scale` is its rating scale, see `check_choices`."""
    table = source if isinstance(source, pd.DataFrame) else read_table(source, cells="inferred")
    return RawChoices(table, scale=scale)


def _read_recognised(source: str | Path | pd.DataFrame, **options: Any) -> RawChoices:
    """Recognise the format of a file or table by its columns, and read it.

    Parameters
    ----------
    source
        Path of a file, or a table. If it has the columns of a choices table and ratings from -2.5
        to 2.5, it is read without changes. Any other table is read by `read_export`.
    options
        Parameters of `read_export`.
    """
    table, program = read_export_table(source)
    is_choices_table = {*REQUIRED} <= {*map(str, table.columns)} and not has_codes(table["rating"])
    has_options = any(value is not None for value in options.values())
    if program is None and not has_options and is_choices_table:
        return RawChoices(table, notes=("Read as a choices table (format tidy).",))
    return read_export(source, **options)


#: Importers by name of the format. An importer converts a path or a table to `RawChoices`.
#: Installed packages add formats by entry points of the group ``contstim.importers``.
FORMATS: Registry[Callable[..., RawChoices]] = Registry(
    "format",
    "contstim.importers",
    {
        "auto": _read_recognised,
        "tidy": _read_tidy,
        "golan2023": "contstim.evaluation.importers.golan2023:read_golan2023",
        "jspsych": partial(read_export, program="jsPsych"),
    },
)


def read_choices(
    source: str | Path | pd.DataFrame, format: str = "auto", **options: Any
) -> HumanData:
    """Read human choices from a file or a table.

    Parameters
    ----------
    source
        Path of a file, or a table.
    format
        Name of the format: ``tidy`` (a choices table), ``golan2023``, ``jspsych``, or ``auto``,
        which recognises exports of jsPsych, PCIbex, Gorilla and Qualtrics and choices tables by
        their columns. Other tables are described by `options`. The notes of the result state the
        recognised format.
    options
        Options of the importer. For ``tidy``: `scale`, see `check_choices`. For ``auto`` and
        ``jspsych``:

        - `columns`: mapping from standard column names (`participant`, `sentence_1` and
          `sentence_2` or `left` and `right`, `rating` or `response`, `rt_ms`, `trial`, `item`, ...)
          to the names in the table;
        - `low`, `high`: answers that express the strongest preference for sentence 1 and for
          sentence 2, or for the left and the right sentence if sides are known;
        - `side`: name of the column with the side of sentence 1 (``left`` or ``right``, or 1 or 2);
          by default the column ``side``, or in exports also one such as ``swapped``; ``none``
          ignores these columns;
        - `n_choices`: number of response buttons, if jsPsych recorded button numbers;
        - `trials`: table of the questions of a Qualtrics export.

    Raises
    ------
    InputError
        If the format is unknown or the data are invalid; the message names the rows.

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
            f"read_choices reads one table or file, not a {type(source).__name__}; combine several "
            "with combine_choices({NAME: read_choices(FILE), ...})"
        )
    return prepare_choices(FORMATS[format](source, **options))
