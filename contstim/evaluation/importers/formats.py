"""The formats that are known by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from contstim.errors import UnknownNameError
from contstim.evaluation.choices import HumanData
from contstim.evaluation.importers.golan2023 import read_golan2023
from contstim.evaluation.importers.jspsych import read_jspsych
from contstim.evaluation.importers.mapping import BLIMP, SPROUSE2013, TIDY, read_mapped

__all__ = ["FORMATS", "read_choices"]


def _tidy(path: str | Path | pd.DataFrame) -> HumanData:
    return read_mapped(path, TIDY)


def _sprouse2013(path: str | Path | pd.DataFrame) -> HumanData:
    return read_mapped(path, SPROUSE2013)


def _blimp(path: str | Path | pd.DataFrame) -> HumanData:
    return read_mapped(path, BLIMP)


#: Readers by the name of the format.
FORMATS: dict[str, Callable[[str | Path | pd.DataFrame], HumanData]] = {
    "tidy": _tidy,
    "golan2023": read_golan2023,
    "jspsych": read_jspsych,
    "sprouse2013": _sprouse2013,
    "blimp": _blimp,
}


def read_choices(source: str | Path | pd.DataFrame, format: str = "tidy") -> HumanData:
    """Read human choices from a file or table in one of the known formats.

    Parameters
    ----------
    source
        A path, or a table already read.
    format
        ``tidy`` (the choices table itself), ``golan2023``, ``jspsych``, ``sprouse2013`` or
        ``blimp``. For any other file describe its columns and call `read_mapped`.

    Raises
    ------
    InputError
        If the format is unknown or the data cannot be used; the message names the rows.
    """
    if format not in FORMATS:
        raise UnknownNameError.among("format", format, FORMATS)
    return FORMATS[format](source)
