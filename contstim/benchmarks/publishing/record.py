"""``benchmark.json``: what a published folder says of itself, for programs."""

from __future__ import annotations

import json
from dataclasses import asdict, field
from pathlib import Path
from typing import Annotated, Any

from contstim.benchmarks.publishing.about import About
from contstim.errors import InputError
from contstim.evaluation.options import PRESETS
from contstim.files import json_value
from contstim.settings import Several, build, matching, one_of, settings

#: The file's name.
RECORD_FILE = "benchmark.json"

_Path = Annotated[
    str, matching(r"data/(?!.*\.\.)[A-Za-z0-9_/-]+\.csv", "name a CSV file below data/")
]
_Date = Annotated[str, matching(r"\d{4}-\d\d-\d\d", "give a date, 2026-11-25")]


@settings
class ScoresFile:
    """The scores of a model, and where they are from.

    Attributes
    ----------
    model
        What tables call it.
    file
        Its path.
    sha256
        Of the file.
    date
        When it was added.
    version
        Of the model's weights, as far as that is known.
    spec
        How contstim names the model, if it does.
    source, licence
        Of the model.
    """

    model: str
    file: _Path
    sha256: Annotated[str, matching(r"[0-9a-f]{64}", "give 64 hexadecimal digits")]
    date: _Date
    version: str = ""
    spec: str = ""
    source: str = ""
    licence: str = ""


@settings
class Record:
    """What ``benchmark.json`` says.

    Attributes
    ----------
    about
        What the authors say.
    date
        Of publication.
    contstim
        The version that made the folder.
    choices, stimuli
        Paths of these tables.
    scores
        The models' scores.
    preset
        Of the analysis; the rest is in ``plan.toml``, if it is there.
    people, review, warning
        For the appendix: sentences, and the content warning that was shown.
    removed
        Where, what and how, of what did not leave as it was.
    columns
        What columns of tables hold.
    format
        Of the file.
    """

    about: About
    date: _Date
    contstim: str
    choices: _Path
    stimuli: _Path
    scores: Several[ScoresFile] = ()
    preset: Annotated[str, one_of(PRESETS, "preset")] = "default"
    people: Several[str] = ()
    review: Several[str] = ()
    warning: str = ""
    removed: Several[Several[str]] = ()
    columns: dict[str, dict[str, Any]] = field(default_factory=dict)
    format: int = 1

    def __post_init__(self) -> None:
        names = [scores.model for scores in self.scores]
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"scores has {name!r} twice; name each model once")

    @property
    def text(self) -> str:
        """The file's text."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n"


def read_folder_record(folder: Path) -> Record:
    """Read what a folder says of itself.

    Raises
    ------
    InputError
        If there is no such file, or naming the key that is not right.
    """
    path = folder / RECORD_FILE
    try:
        value = json_value(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{folder} holds no {RECORD_FILE}; make such a folder with `contstim publish`"
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f"{path} holds no table but {str(value)[:40]!r}; make it again")
    if value.get("format", 1) != 1:
        raise InputError(f"{path}: format is {value['format']!r}; this version of contstim reads 1")
    try:
        return build(Record, value)
    except InputError as error:
        raise type(error)(f"{path}: {error}") from None
