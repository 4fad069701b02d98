"""Psych-DS data sets: written from what was collected, and checked by the rules of the schema.

Source: Psych-DS 1.2, the schema at https://psych-ds.github.io. The check covers what the schema
requires of a data set of CSV files; what it only recommends is not checked.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from contstim.errors import InputError, ValidationError
from contstim.experiment.collected import Collected
from contstim.experiment.study import Study
from contstim.files import write_whole

_NAME = re.compile(r"([a-z]+-[a-zA-Z0-9]+)(_[a-z]+-[a-zA-Z0-9]+)*_data\.csv")
_REQUIRED = ("@context", "@type", "name", "description", "variableMeasured")

#: What the columns hold, for the data dictionary.
DICTIONARY = {
    "participant": "salted hash that stands for a participant, the same in all tables",
    "group": "group of participants who saw the same pairs of sentences",
    "trial": "number of the trial in the participant's order; of a check its id",
    "condition": "how the pair of sentences was made",
    "sentence_1": "the sentence that model 1 prefers; in catch trials the natural one",
    "sentence_2": "the sentence that model 2 prefers; in catch trials the shuffled one",
    "model_1": "model 1 of the pair of models that the sentences were chosen for",
    "model_2": "model 2 of the pair of models that the sentences were chosen for",
    "rating": "choice and confidence from -2.5 (sure of sentence 1) to 2.5 (sure of sentence 2)",
    "rt_ms": "milliseconds from the appearance of the sentences to the answer",
    "expected": "the sentence (1 or 2) or side that is right, where one is",
    "seat": "assignment: the participant of the design whose order and sides were shown",
    "item": "number of the pair of sentences in the design",
    "side_1": "side on which sentence 1 stood",
    "choice": "choice by side, from -3 (left, certain) to 3 (right, certain)",
    "input": "key, mouse, touch or pen",
    "focus_losses": "how often the page lost the focus during the trial",
    "hidden_ms": "milliseconds for which the page was hidden during the trial",
    "shown": "how often the trial was shown, 1 unless the page was loaded again",
    "answered_at": "time of the answer by the participant's clock",
    "late": "1 if the answer came after the time limit",
    "right": "whether the attention check was answered as asked",
    "session": "id of the session",
    "outcome": "how the session ended",
    "released": "why the assignment was given to somebody else, if it was",
    "source": "server, or import for data that came as files",
    "started_at": "time of consent",
    "minutes": "minutes from consent to the end of the session",
    "n_trials": "trials of the design",
    "n_answered": "trials of the design that were answered",
    "catch_right": "catch trials answered with the natural sentence",
    "catch_shown": "catch trials answered",
    "checks_right": "attention checks answered as asked",
    "checks_shown": "attention checks answered",
    "consent_version": "version of the consent form",
    "consent_sha256": "SHA-256 of the consent form",
    "materials_sha256": "SHA-256 of settings, texts and versions of the programs, in materials/",
    "question": "name of the question",
    "response": "what was answered; several options as a JSON list",
    "kind": "what happened",
    "at": "when, by the participant's clock",
    "detail": "more about it",
}


def data_files(study: Study, collected: Collected) -> dict[str, pd.DataFrame]:
    """Return the tables by the names that they have in the data set."""
    # Values of the names' keywords are letters and digits only.
    name = re.sub(r"[^A-Za-z0-9]", "", study.study.name) or "study"
    tables = {
        "choices": collected.choices,
        "checks": collected.checks,
        "sessions": collected.sessions,
        "conflicts": collected.conflicts,
        "events": collected.events,
        "responses": collected.responses,
    }
    return {
        f"study-{name}_task-{task}_data.csv": table
        for task, table in tables.items()
        if len(table) or task == "choices"
    }


def write_psychds(study: Study, collected: Collected, folder: Path) -> None:
    """Write a Psych-DS data set: tables, their dictionary, and the study's own files.

    Parameters
    ----------
    study
        The study.
    collected
        Its data.
    folder
        Where; files of the same names are replaced.

    Raises
    ------
    OutputError
        If the place cannot be written to.
    ValidationError
        If the data set is not as `check_psychds` asks.
    """
    files = data_files(study, collected)
    for name, table in files.items():
        write_whole(folder / "data" / name, table.to_csv(index=False, lineterminator="\n"))
    columns = dict.fromkeys(column for table in files.values() for column in table.columns)
    description = {
        "@context": "https://schema.org/",
        "@type": "Dataset",
        "name": study.study.title,
        "description": study.study.description
        or f"Choices between pairs of sentences, from the experiment {study.study.name}.",
        "inLanguage": study.study.language,
        "variableMeasured": [_variable(str(column)) for column in columns],
    }
    text = json.dumps(description, ensure_ascii=False, indent=2) + "\n"
    write_whole(folder / "dataset_description.json", text)
    write_whole(folder / "README.md", _readme(study, files))
    for source in ("study.toml", "texts.toml", study.consent.file, "trials.csv"):
        path = study.folder / source
        if path.exists():
            write_whole(folder / "materials" / source, path.read_text("utf-8"))
    check_psychds(folder)


def _variable(column: str) -> dict[str, str]:
    value = {"@type": "PropertyValue", "name": column}
    return {**value, "description": DICTIONARY.get(column, "a column of the design's table")}


def _readme(study: Study, files: Mapping[str, pd.DataFrame]) -> str:
    lines = [f"# {study.study.title}", "", study.study.description, ""]
    lines += [f"- `data/{name}`: {len(table)} rows" for name, table in files.items()]
    lines += ["- `materials/`: the study as it was run", ""]
    return "\n".join(lines)


def check_psychds(folder: str | Path) -> dict[str, int]:
    """Check that a folder is a Psych-DS data set.

    Returns
    -------
    dict
        The number of rows of each data file, by its path below the folder.

    Raises
    ------
    ValidationError
        Naming the file, and which rule it breaks.
    InputError
        If there is no such folder.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}")
    described = _described(folder / "dataset_description.json")
    data = folder / "data"
    if not data.is_dir():
        raise ValidationError(f"{folder} has no folder data")
    files = sorted(data.rglob("*.csv"))
    if not files:
        raise ValidationError(f"{data} holds no CSV file")
    rows = {}
    for path in files:
        shown = path.relative_to(folder).as_posix()
        if not _NAME.fullmatch(path.name):
            raise ValidationError(
                f"{shown} is not named as data are, keyword-value_..._data.csv with values of "
                "letters and digits"
            )
        rows[shown] = _check_table(path, shown, described)
    return rows


def _described(path: Path) -> set[str]:
    """Return the columns that the description names."""
    try:
        description: Any = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ValidationError(f"there is no {path}") from None
    except (OSError, ValueError) as error:
        raise ValidationError(f"{path} is not JSON: {error}") from None
    if not isinstance(description, dict):
        raise ValidationError(f"{path} is no JSON object")
    for key in _REQUIRED:
        if not description.get(key):
            raise ValidationError(f"{path} lacks {key!r}")
    if "schema.org" not in str(description["@context"]):
        raise ValidationError(f"{path}: @context is {description['@context']!r}, not schema.org")
    if description["@type"] != "Dataset":
        raise ValidationError(f"{path}: @type is {description['@type']!r}, not 'Dataset'")
    variables = description["variableMeasured"]
    if not isinstance(variables, list):
        raise ValidationError(f"{path}: variableMeasured is no list")
    return {str(v.get("name")) if isinstance(v, dict) else str(v) for v in variables}


def _check_table(path: Path, shown: str, described: set[str]) -> int:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            table = list(csv.reader(file, strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValidationError(f"{shown} is no CSV file of UTF-8 text: {error}") from None
    if not table:
        raise ValidationError(f"{shown} has no header")
    header, *rows = table
    if len(set(header)) < len(header):
        raise ValidationError(f"{shown} has a column twice")
    for column in header:
        if column not in described:
            raise ValidationError(f"{shown}: variableMeasured does not name column {column!r}")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise ValidationError(
                f"{shown}: row {number} has {len(row)} cells, the header {len(header)}"
            )
    if "row_id" in header:
        ids = [row[header.index("row_id")] for row in rows]
        if len(set(ids)) < len(ids):
            raise ValidationError(f"{shown}: row_id is not unique")
    return len(rows)
