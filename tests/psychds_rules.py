"""Rules of the Psych-DS standard for data sets of CSV files.

Source: the requirements, not the recommendations, of the schema of Psych-DS 1.2,
https://psych-ds.github.io.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

from contstim.errors import InputError, ValidationError
from contstim.files import decode_json

_DATA_FILE = re.compile(r"([a-z]+-[a-zA-Z0-9]+)(_[a-z]+-[a-zA-Z0-9]+)*_data\.csv")
_REQUIRED_KEYS = ("@context", "@type", "name", "description", "variableMeasured")


def check_psychds(folder: str | Path) -> dict[str, int]:
    """Check that a folder is a Psych-DS data set.

    Parameters
    ----------
    folder
        Folder with ``dataset_description.json``.

    Returns
    -------
    dict
        Number of rows by data file; the file is given relative to the folder.

    Raises
    ------
    ValidationError
        If a file breaks a rule; the message names both.
    InputError
        If the folder does not exist.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}")

    # Read the names of the variables.
    path = folder / "dataset_description.json"
    try:
        description: Any = decode_json(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ValidationError(f"there is no {path}") from None
    except (OSError, ValueError) as error:
        raise ValidationError(f"{path} is not JSON: {error}") from None
    if not isinstance(description, dict):
        raise ValidationError(f"{path} is not a JSON object")
    for key in _REQUIRED_KEYS:
        if not description.get(key):
            raise ValidationError(f"{path} lacks {key!r}")
    if "schema.org" not in str(description["@context"]):
        raise ValidationError(f"{path}: @context is {description['@context']!r}, not schema.org")
    if description["@type"] != "Dataset":
        raise ValidationError(f"{path}: @type is {description['@type']!r}, not 'Dataset'")
    measured = description["variableMeasured"]
    if not isinstance(measured, list):
        raise ValidationError(f"{path}: variableMeasured is not a list")
    variables = {str(v.get("name")) if isinstance(v, dict) else str(v) for v in measured}

    # Check the data files.
    data = folder / "data"
    if not data.is_dir():
        raise ValidationError(f"{folder} has no folder data")
    paths = sorted(data.rglob("*.csv"))
    if not paths:
        raise ValidationError(f"{data} has no CSV file")
    n_rows = {}
    for path in paths:
        name = path.relative_to(folder).as_posix()
        if not _DATA_FILE.fullmatch(path.name):
            raise ValidationError(
                f"{name} is not a name of a data file; write keyword-value_..._data.csv with "
                "values of letters and digits"
            )
        n_rows[name] = _check_table(path, name, variables)
    return n_rows


def _check_table(path: Path, name: str, variables: set[str]) -> int:
    """Check one data file of a Psych-DS data set and return its number of rows.

    `variables` contains the names of the columns that the description of the data set declares.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            table = list(csv.reader(file, strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValidationError(f"{name} is not a CSV file of UTF-8 text: {error}") from None
    if not table:
        raise ValidationError(f"{name} has no header")
    header, *rows = table
    for column in header:
        if header.count(column) > 1:
            raise ValidationError(f"{name} has the column {column!r} twice")
        if column not in variables:
            raise ValidationError(f"{name}: variableMeasured does not name column {column!r}")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise ValidationError(
                f"{name}: row {number} has {len(row)} cells, the header {len(header)}"
            )
    if "row_id" in header:
        ids = [row[header.index("row_id")] for row in rows]
        if len(set(ids)) < len(ids):
            raise ValidationError(f"{name}: row_id is not unique")
    return len(rows)
