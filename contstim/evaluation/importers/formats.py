"""The formats that are known by name, and the last steps that all of them share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from contstim.errors import UnknownNameError
from contstim.evaluation.choices import HumanData, RawChoices, finish
from contstim.evaluation.importers.exports import read_export, read_recognised
from contstim.evaluation.importers.golan2023 import read_golan2023
from contstim.evaluation.importers.jspsych import read_jspsych
from contstim.evaluation.importers.mapping import (
    BLIMP,
    SPROUSE2013,
    TIDY,
    ColumnMapping,
    map_columns,
)


def _read_any(source: str | Path | pd.DataFrame, **options: Any) -> RawChoices:
    """Read the export of a known program, or else the choices table itself."""
    table, kind = read_recognised(source)
    if kind is not None or any(value is not None for value in options.values()):
        return read_export(table, **options)
    return map_columns(table, TIDY)


#: Importers by the name of the format: from a path, or a table already read, to `RawChoices`.
FORMATS: dict[str, Callable[..., RawChoices]] = {
    "auto": _read_any,
    "tidy": partial(map_columns, mapping=TIDY),
    "golan2023": read_golan2023,
    "jspsych": read_jspsych,
    "sprouse2013": partial(map_columns, mapping=SPROUSE2013),
    "blimp": partial(map_columns, mapping=BLIMP),
}


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
        `read_export` for ``auto``, `n_choices` of `read_jspsych` for ``jspsych``.

    Raises
    ------
    InputError
        If the format is unknown or the data cannot be used; the message names the rows.
    """
    if format not in FORMATS:
        raise UnknownNameError.among("format", format, FORMATS)
    return finish(FORMATS[format](source, **options))


def read_mapped(source: str | Path | pd.DataFrame, mapping: ColumnMapping) -> HumanData:
    """Read human choices from any file or table with one row a trial, as `mapping` says.

    Raises
    ------
    InputError
        If a mapped column is absent or the data cannot be used; the message names the rows.
    """
    return finish(map_columns(source, mapping))
