"""The export: tables as CSV files and a Psych-DS data set, in a folder or an archive.

Psych-DS data sets are written from what was collected, and checked by the rules of the schema.
Source: Psych-DS 1.2, the schema at https://psych-ds.github.io. The check covers what the schema
requires of a data set of CSV files; what it only recommends is not checked.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from contstim.errors import InputError, ValidationError
from contstim.experiment.messages import EVENT_KINDS
from contstim.experiment.options import OUTCOMES
from contstim.experiment.study import Study
from contstim.experiment.study_data import StudyData
from contstim.files import decode_json, metadata_path, write_atomically
from contstim.tables import escape_table
from contstim.text_files import format_csv
from contstim.trial_kinds import TRIAL_KINDS

_NAME = re.compile(r"([a-z]+-[a-zA-Z0-9]+)(_[a-z]+-[a-zA-Z0-9]+)*_data\.csv")
_REQUIRED = ("@context", "@type", "name", "description", "variableMeasured")

_DESCRIPTION = "Answers of people to sentences, from the experiment {}."


@dataclass(frozen=True)
class Column:
    """What a column holds, for the data dictionary.

    Attributes
    ----------
    description
        In words.
    kind
        ``string``, ``integer``, ``number``, ``boolean`` or ``datetime`` (ISO 8601).
    unit
        Of a number.
    levels
        All values that it can have, where they are few.
    least, most
        Bounds of a number.
    """

    description: str
    kind: str = "string"
    unit: str = ""
    levels: tuple[str | int | bool, ...] = ()
    least: float | None = None
    most: float | None = None

    def variable(self, name: str) -> dict[str, Any]:
        """Return it as a ``PropertyValue`` of the name."""
        properties = {
            "@type": "PropertyValue",
            "name": name,
            "description": self.description,
            "value": self.kind,
            "unitText": self.unit,
            "levels": list(self.levels),
            "minValue": self.least,
            "maxValue": self.most,
        }
        return {key: value for key, value in properties.items() if value not in ("", [], None)}


def _count(description: str) -> Column:
    return Column(description, "integer", "1", least=0)


def _milliseconds(description: str) -> Column:
    return Column(description, "number", "ms", least=0)


#: What columns of our tables hold, wherever they stand.
COLUMN_DESCRIPTIONS = {
    "participant": Column("salted hash that stands for a participant, the same in all tables"),
    "group": Column("group of participants who saw the same sentences", "integer", least=1),
    "condition": Column("how the sentences were made, or which version of an item they are"),
    "sentence_1": Column("the sentence that model 1 prefers; in catch trials the natural one"),
    "sentence_2": Column("the sentence that model 2 prefers; in catch trials the shuffled one"),
    "model_1": Column("model 1 of the pair of models that the sentences were chosen for"),
    "model_2": Column("model 2 of the pair of models that the sentences were chosen for"),
    "kind_1": Column("what sentence 1 is: N natural, S synthetic, R random, C of a catch trial"),
    "kind_2": Column("what sentence 2 is"),
    "sentence": Column("the sentence that was shown; bars part the regions that were read"),
    "question": Column("what was asked about the sentence; in responses.csv the question's name"),
    "rating": Column(
        "choice and confidence, from sure of sentence 1 to sure of sentence 2",
        "number",
        "1",
        least=-2.5,
        most=2.5,
    ),
    "rt_ms": _milliseconds(
        "from the appearance of what was shown to the answer; of a word from its "
        "uncovering to the next press, of a sentence that was read the sum"
    ),
    "question_rt_ms": _milliseconds("from the appearance of a sentence's question to the answer"),
    "position": Column("number of the word or region in its sentence", "integer", least=1),
    "word": Column("the word or region that was uncovered"),
    "assignment": Column(
        "assignment: whose trials of the design were shown, 0 for none", "integer", least=0
    ),
    "stimulus": Column("number of what was shown in the design", "integer", least=1),
    "side_1": Column("side on which sentence 1 stood", levels=("left", "right")),
    "block": Column("number of the trial's block in the order of issue", "integer", least=0),
    "propensity": Column("how probable the choice of the trial was", "number", least=0, most=1),
    "available": Column("pairs that could be chosen when the block was begun", "integer", least=0),
    "pool": Column("pairs of the pool", "integer", least=1),
    "input": Column(
        "what the answer was given with", levels=("key", "mouse", "touch", "pen", "unknown")
    ),
    "focus_losses": _count("how often the page lost the focus during the trial"),
    "hidden_ms": _milliseconds("for which the page was hidden during the trial"),
    "shown": _count("how often the trial was shown, 1 unless the page was loaded again"),
    "answered_at": Column("time of the answer by the participant's clock", "datetime"),
    "received_at": Column(
        "time by the server's clock at which the data had it; of data that came as "
        "files the time of the session's last row",
        "datetime",
    ),
    "late": Column("whether the answer came after the time limit", "integer", levels=(0, 1)),
    "right": Column(
        "whether the answer was the expected one; empty where none is",
        "boolean",
        levels=(True, False),
    ),
    "session": Column("id of the session"),
    "code": Column("code of the session, as the last screen showed it to the participant"),
    "outcome": Column(
        "how the session ended",
        levels=(
            *(one for one in OUTCOMES if one not in ("declined", "full", "unsent")),
            "unfinished",
        ),
    ),
    "released": Column("why the assignment was given to somebody else, if it was"),
    "source": Column("where the data came from: the server, or files", levels=("server", "import")),
    "started_at": Column("time of consent", "datetime"),
    "finished_at": Column("time of the end of the session", "datetime"),
    "minutes": Column("from consent to the end of the session", "number", "min", least=0),
    "n_trials": _count("trials of the design"),
    "n_answered": _count("trials of the design that were answered"),
    "catch_right": _count("catch trials, or trials with an expected answer, answered rightly"),
    "catch_shown": _count("catch trials, or trials with an expected answer, answered"),
    "checks_right": _count("attention checks answered as asked"),
    "checks_shown": _count("attention checks answered"),
    "consent_version": Column("version of the consent form"),
    "consent_sha256": Column("SHA-256 of the consent form"),
    "materials_sha256": Column(
        "SHA-256 of settings, texts and versions of the programs, which names "
        "their file in materials/"
    ),
    "contstim_version": Column("version of contstim that showed the study"),
    "page_version": Column("digest of the page's scripts"),
    "browsers": Column("browsers in which the session was opened", "integer", least=1),
    "response": Column("what was answered; several options as a JSON list"),
    "kind": Column(
        "kind of a trial; of an event what happened",
        levels=(*TRIAL_KINDS, *(kind for kind in EVENT_KINDS if kind != "responses")),
    ),
    "at": Column(
        "when: of events and responses by the participant's clock, of allocations by the server's",
        "datetime",
    ),
    "detail": Column("more about it"),
    "action": Column(
        "what became of the assignment, or of the study, whose assignment is 0",
        levels=("taken", "released", "returned", "closed", "reopened"),
    ),
    "why": Column("the reason"),
}


def describe_columns(study: Study, tables: Iterable[pd.DataFrame]) -> dict[str, Column]:
    """Return what each column of the tables holds; of a column of several, the same in all."""
    shown, tables = study.presentation, list(tables)
    trials = [*study.practice_trials, *chain.from_iterable(study.design.trials.values())]
    of_trials = {
        "choice": Column(
            f"what was chosen: {shown.answer_description}",
            "integer",
            levels=tuple(sorted({c for t in trials for c in shown.choices(t.shown) or ()})),
        ),
        "item": Column("number of the sentences in the design", "integer", least=1)
        if not any("stimulus" in table for table in tables)
        else Column("the item that this was made from, of which there are other versions"),
        "expected": Column(
            "what is right, where anything is: a sentence (1 or 2), a side or answer"
        ),
        "trial": Column(
            "number of the trial in the participant's order; of a check, of practice and "
            "of a second answer its id"
        ),
    }
    described = COLUMN_DESCRIPTIONS | of_trials
    columns: dict[str, Column] = {}
    for table in tables:
        for name in map(str, table.columns):
            columns.setdefault(name, described.get(name) or _of_design(table[name]))
    return columns


def _of_design(column: pd.Series[Any]) -> Column:
    kind = {"b": "boolean", "i": "integer", "u": "integer", "f": "number"}.get(column.dtype.kind)
    what = "a column of the design's table, or what the study's own module sent (detail_...)"
    return Column(what, kind or "string")


def list_data_files(study: Study, collected: StudyData) -> dict[str, pd.DataFrame]:
    """Return the tables by the names that they have in the data set."""
    # Values of the names' keywords are letters and digits only.
    name = re.sub(r"[^A-Za-z0-9]", "", study.study.name) or "study"
    return {
        f"study-{name}_task-{task}_data.csv": table
        for task, table in collected.tables.items()
        if len(table) or task in ("choices", "answers")
    }


def write_export(study: Study, collected: StudyData, folder: Path, everybody: bool = False) -> None:
    """Write the tables, and the data set into ``psychds``.

    Parameters
    ----------
    study
        The study.
    collected
        Its data.
    folder
        Where; files of the same names are replaced.
    everybody
        Whether the tables of answers hold also those who did not answer every trial; the data set
        always does.

    Raises
    ------
    OutputError
        If the place cannot be written to.
    ValidationError
        As `write_psychds`; the tables are written all the same.
    """
    for name, table in collected.tables.items():
        whole = table
        if name in ("choices", "answers", "words") and not everybody:
            whole = table[table["participant"].isin(collected.complete_participants)]
        _write_table(folder / f"{name}.csv", whole)
    write_psychds(study, collected, folder / "psychds")


def write_psychds(study: Study, collected: StudyData, folder: Path) -> None:
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
    files = list_data_files(study, collected)
    for name, table in files.items():
        _write_table(folder / "data" / name, table)
    text = format_dataset_description(
        study.study.title,
        study.study.description or _DESCRIPTION.format(study.study.name),
        study.study.language,
        describe_columns(study, files.values()),
    )
    write_atomically(folder / "dataset_description.json", text)
    lines = [f"# {study.study.title}", "", study.study.description, ""]
    lines += [f"- `data/{name}`: {len(table)} rows" for name, table in files.items()]
    lines += ["- `materials/`: the study as it is, and what was shown, by its digest", ""]
    write_atomically(folder / "README.md", "\n".join(lines))
    trials = metadata_path(study.folder / "trials.csv").name
    if study.module is not None:
        write_atomically(folder / "materials" / study.presentation.module, study.module)
    for source in ("study.toml", "texts.toml", study.consent.file, "trials.csv", trials):
        path = study.folder / source
        if path.exists():
            write_atomically(folder / "materials" / source, path.read_text("utf-8"))
    for name, content in collected.materials.items():
        write_atomically(folder / "materials" / f"{name}.json", content + "\n")
    check_psychds(folder)


def format_dataset_description(
    name: str, description: str, language: str, columns: Mapping[str, Column], **others: Any
) -> str:
    """Return the text of a data set's ``dataset_description.json``.

    Parameters
    ----------
    name, description, language
        Of the data set.
    columns
        What the columns of its tables hold, by their names.
    others
        Further keys of the vocabulary of schema.org; empty values are left out.
    """
    content = {
        "@context": "https://schema.org/",
        "@type": "Dataset",
        "name": name,
        "description": description,
        "inLanguage": language,
        **{key: value for key, value in others.items() if value},
        "variableMeasured": [column.variable(name) for name, column in columns.items()],
    }
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def _write_table(path: Path, table: pd.DataFrame) -> None:
    # Participants' texts are among the cells: no spreadsheet may take one for a formula.
    write_atomically(path, format_csv(escape_table(table)))


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
        description: Any = decode_json(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ValidationError(f"there is no {path}") from None
    except (OSError, ValueError) as error:
        raise ValidationError(f"{path} is not JSON: {error}") from None
    if not isinstance(description, dict):
        raise ValidationError(f"{path} is not a JSON object")
    for key in _REQUIRED:
        if not description.get(key):
            raise ValidationError(f"{path} lacks {key!r}")
    if "schema.org" not in str(description["@context"]):
        raise ValidationError(f"{path}: @context is {description['@context']!r}, not schema.org")
    if description["@type"] != "Dataset":
        raise ValidationError(f"{path}: @type is {description['@type']!r}, not 'Dataset'")
    variables = description["variableMeasured"]
    if not isinstance(variables, list):
        raise ValidationError(f"{path}: variableMeasured is not a list")
    return {str(v.get("name")) if isinstance(v, dict) else str(v) for v in variables}


def _check_table(path: Path, shown: str, described: set[str]) -> int:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            table = list(csv.reader(file, strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValidationError(f"{shown} is not a CSV file of UTF-8 text: {error}") from None
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
