"""The formats that are known by name, and the last steps that all of them share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from contstim.errors import UnknownNameError
from contstim.evaluation.choices import HumanData, RawChoices, finish
from contstim.evaluation.importers.golan2023 import read_golan2023
from contstim.evaluation.importers.jspsych import read_jspsych
from contstim.evaluation.importers.mapping import (
    BLIMP,
    SPROUSE2013,
    TIDY,
    ColumnMapping,
    map_columns,
)

#: Importers by the name of the format: from a path, or a table already read, to `RawChoices`.
FORMATS: dict[str, Callable[..., RawChoices]] = {
    "tidy": partial(map_columns, mapping=TIDY),
    "golan2023": read_golan2023,
    "jspsych": read_jspsych,
    "sprouse2013": partial(map_columns, mapping=SPROUSE2013),
    "blimp": partial(map_columns, mapping=BLIMP),
}


def read_choices(
    source: str | Path | pd.DataFrame, format: str = "tidy", **options: Any
) -> HumanData:
    """Read human choices from a file or table in one of the known formats.

    Parameters
    ----------
    source
        A path, or a table already read.
    format
        ``tidy`` (the choices table itself), ``golan2023``, ``jspsych``, ``sprouse2013`` or
        ``blimp``. For any other file describe its columns and call `read_mapped`.
    options
        Of the format's importer, for example `n_choices` of `read_jspsych`.

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
