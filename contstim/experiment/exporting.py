"""Export of collected data as CSV files and as a Psych-DS 1.2 data set.

Psych-DS (https://psych-ds.github.io) is a standard for folders of CSV files with a description of
every column.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd

from contstim.experiment.messages import EVENT_KINDS
from contstim.experiment.recruitment import OUTCOMES
from contstim.experiment.schema import get_data_path, open_data, read_salt
from contstim.experiment.study import Study
from contstim.experiment.study_data import StudyData, hash_participant
from contstim.files import metadata_path, write_atomically
from contstim.tables import escape_table
from contstim.text_files import format_csv
from contstim.trial_kinds import TRIAL_KINDS

_UNSTORED_OUTCOMES = ("declined", "full", "unsent")
_DATA_TYPES = {"b": "boolean", "i": "integer", "u": "integer", "f": "number"}  # by NumPy kind


@dataclass(frozen=True)
class Column:
    """Description of a column for the data dictionary.

    Attributes
    ----------
    description
        Meaning of the column, for the codebook.
    data_type
        ``string``, ``integer``, ``number``, ``boolean`` or ``datetime`` (ISO 8601).
    unit
        Unit of numbers in the column, for example ``ms``.
    levels
        All valid values, if there are only a few.
    minimum, maximum
        Smallest and largest valid number in the column.
    """

    description: str
    data_type: str = "string"
    unit: str = ""
    levels: tuple[str | int | bool, ...] = ()
    minimum: float | None = None
    maximum: float | None = None

    def to_property(self, name: str) -> dict[str, Any]:
        """Return the description as a ``PropertyValue`` of schema.org."""
        properties = {
            "@type": "PropertyValue",
            "name": name,
            "description": self.description,
            "value": self.data_type,
            "unitText": self.unit,
            "levels": list(self.levels),
            "minValue": self.minimum,
            "maxValue": self.maximum,
        }
        # Leave out properties that the column does not have.
        return {key: value for key, value in properties.items() if value not in ("", [], None)}


_LEVELS: dict[str, tuple[str, ...]] = {
    "outcome": (*(name for name in OUTCOMES if name not in _UNSTORED_OUTCOMES), "unfinished"),
    "kind": (*TRIAL_KINDS, *(kind for kind in EVENT_KINDS if kind != "responses")),
}
#: Descriptions of columns that mean the same in all tables, by name.
COLUMN_DESCRIPTIONS = {
    name: Column(**{**entry, "levels": _LEVELS.get(name, tuple(entry.get("levels", ())))})
    for name, entry in tomllib.loads(
        (files("contstim.experiment") / "columns.toml").read_text("utf-8")
    ).items()
}


def describe_columns(study: Study, tables: Iterable[pd.DataFrame]) -> dict[str, Column]:
    """Describe the columns in the exported tables of a study, for a data dictionary.

    Parameters
    ----------
    study
        Study that collected the data.
    tables
        Tables to export.

    Returns
    -------
    dict
        Descriptions by name of the column. A column of several tables has one description.
    """
    tables = list(tables)
    presentation = study.presentation
    trials = [*study.practice_trials]
    for assignment_trials in study.design.trials.values():
        trials += assignment_trials
    choices: set[int] = set()
    for trial in trials:
        choices.update(presentation.choices(trial.shown) or ())
    if any("stimulus" in table for table in tables):
        item = Column("item that the stimulus is a version of")
    else:
        item = Column("number of the sentences in the design", "integer", minimum=1)
    descriptions = COLUMN_DESCRIPTIONS | {
        "choice": Column(
            f"choice of the participant: {presentation.answer_description}",
            "integer",
            levels=tuple(sorted(choices)),
        ),
        "item": item,
        "expected": Column("expected answer, if any: a sentence (1 or 2), a side or a choice"),
        "trial": Column(
            "position of the trial in the participant's order; in practice.csv, checks.csv and "
            "conflicts.csv the id of the trial"
        ),
    }
    columns: dict[str, Column] = {}
    for table in tables:
        for name in map(str, table.columns):
            if name in columns:
                continue
            data_type = _DATA_TYPES.get(table[name].dtype.kind, "string")
            default = "column of the design, or value sent by the study's own module (detail_...)"
            columns[name] = descriptions.get(name, Column(default, data_type))
    return columns


def list_data_files(study: Study, collected: StudyData) -> dict[str, pd.DataFrame]:
    """Select the tables of a Psych-DS data set, and name their files.

    Parameters
    ----------
    study
        Study that collected the data; its name becomes part of the file names.
    collected
        Collected data of the study.

    Returns
    -------
    dict
        Tables by file name: all tables with rows, and the main table even if it is empty.
    """
    # Values in file names may have only letters and digits.
    name = re.sub(r"[^A-Za-z0-9]", "", study.study.name) or "study"
    return {
        f"study-{name}_task-{task}_data.csv": table
        for task, table in collected.tables.items()
        if len(table) or task in ("choices", "answers")
    }


def write_export(
    study: Study, collected: StudyData, folder: Path, include_incomplete: bool = False
) -> None:
    """Export the data of a study: CSV files, and a Psych-DS data set in the folder ``psychds``.

    Parameters
    ----------
    study
        Study that collected the data.
    collected
        Collected data of the study.
    folder
        Folder to write; files with the same names are replaced.
    include_incomplete
        Whether choices, answers and words include participants who left trials unanswered. The data
        set always includes them.

    Raises
    ------
    OutputError
        If a file cannot be written.
    """
    for name, table in collected.tables.items():
        if name in ("choices", "answers", "words") and not include_incomplete:
            is_complete = table["participant"].isin(collected.complete_participants)
            table = table[is_complete]
        write_csv(folder / f"{name}.csv", table)
    write_psychds(study, collected, folder / "psychds")


def write_psychds(study: Study, collected: StudyData, folder: Path) -> None:
    """Write the data of a study as a Psych-DS data set, a format for behavioural data.

    The data set contains the tables, ``dataset_description.json`` with a description of every
    column, a ``README.md``, and the files of the study.

    Parameters
    ----------
    study
        Study that collected the data.
    collected
        Collected data of the study.
    folder
        Folder to write; files with the same names are replaced.

    Raises
    ------
    OutputError
        If a file cannot be written.
    """
    files = list_data_files(study, collected)
    for name, table in files.items():
        write_csv(folder / "data" / name, table)
    # Metadata in JSON, with a description of each column.
    description = format_dataset_description(
        study.study.title,
        study.study.description or f"Judgements of sentences in the experiment {study.study.name}.",
        study.study.language,
        describe_columns(study, files.values()),
    )
    write_atomically(folder / "dataset_description.json", description)
    # Overview of the data set for readers.
    lines = [f"# {study.study.title}", "", study.study.description, ""]
    lines += [f"- `data/{name}`: {len(table)} rows" for name, table in files.items()]
    lines += ["- `materials/`: files of the study, and materials that were shown, by digest", ""]
    write_atomically(folder / "README.md", "\n".join(lines))

    # Copy the files of the study, and write the settings and texts that participants saw.
    materials = folder / "materials"
    if study.module is not None:
        write_atomically(materials / study.presentation.module, study.module)
    metadata = metadata_path(study.folder / "trials.csv").name
    for source in ("study.toml", "texts.toml", study.consent.file, "trials.csv", metadata):
        path = study.folder / source
        if path.exists():
            write_atomically(materials / source, path.read_text("utf-8"))
    for name, content in collected.materials.items():
        write_atomically(materials / f"{name}.json", content + "\n")


def format_dataset_description(
    name: str, description: str, language: str, columns: Mapping[str, Column], **properties: Any
) -> str:
    """Format the ``dataset_description.json`` of a Psych-DS data set.

    Parameters
    ----------
    name
        Name of the data set.
    description
        Description of the data set.
    language
        Language tag.
    columns
        Descriptions by name of the column.
    **properties
        Further keys of schema.org; empty values are omitted.
    """
    content = {
        "@context": "https://schema.org/",
        "@type": "Dataset",
        "name": name,
        "description": description,
        "inLanguage": language,
        # Further properties of schema.org, without empty ones.
        **{key: value for key, value in properties.items() if value},
        "variableMeasured": [column.to_property(name) for name, column in columns.items()],
    }
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a table as a CSV file that is safe to open in a spreadsheet program.

    Text that the program would execute as a formula is escaped.

    Parameters
    ----------
    path
        File to write.
    table
        Table to write.
    """
    write_atomically(path, format_csv(escape_table(table)))


def read_recruiter_ids(study: Study, database: Path | None = None) -> pd.DataFrame:
    """Read the ids that participants have on the recruitment platform.

    The ids are personal data, and therefore not part of the tables of `StudyData`.

    Parameters
    ----------
    study
        Study that collected the data.
    database
        Database of the study; by default the file in the study's folder.

    Returns
    -------
    pandas.DataFrame
        Columns ``participant`` (hash), ``recruiter_id`` and the stored URL query parameters. Two
        imported sessions with the same id are two participants.

    Raises
    ------
    InputError
        If the data file does not exist or belongs to another study.
    """
    with closing(open_data(get_data_path(study, database))) as connection:
        salt = read_salt(connection)
        sessions = connection.execute(
            "SELECT session, recruiter_id, claimed, parameters FROM sessions JOIN participants"
            " USING (participant)"
        ).fetchall()
    names = [] if study.recruiter is None else [*study.recruiter.parameters]
    parameters_by_session = [json.loads(row["parameters"]) for row in sessions]
    # JATOS identifies a run of the study by the id of its result.
    if any("jatos_result" in parameters for parameters in parameters_by_session):
        names.append("jatos_result")
    rows = [
        {
            "participant": hash_participant(salt, row["session"], row["recruiter_id"]),
            "recruiter_id": row["recruiter_id"] or row["claimed"],
            **{name: parameters.get(name) for name in names},
        }
        for row, parameters in zip(sessions, parameters_by_session, strict=True)
    ]
    return pd.DataFrame(rows, columns=["participant", "recruiter_id", *names])
