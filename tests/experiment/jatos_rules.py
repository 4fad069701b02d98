"""The rules by which JATOS imports a study archive, for tests.

Source: the importer of JATOS 3.10 (``ImportExportService``, ``StudyDeserializer`` and the
validation of its study, component and batch properties).
"""

from __future__ import annotations

import re
import uuid
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any

from contstim.errors import ValidationError
from contstim.experiment.pages import WORKER_TYPES
from contstim.files import decode_json

LIMITS = ("maxActiveMembers", "maxTotalMembers", "maxTotalWorkers")  # of a batch
VERSION = "3"
_RESERVED = ("jatos", "publix", "public", "assets", "study_assets_root", "study_assets")
_HTML_PATH = re.compile(r"[\w-][\w/-]*\.[\w-]+", re.ASCII)
_ILLEGAL = re.compile(r"[\s\0*?\"\\/,`<>|:~!§$%&^°]")


def check_jatos_archive(archive: str | Path | IO[bytes]) -> None:
    """Check that JATOS would import a study archive.

    Parameters
    ----------
    archive
        A ``.jzip`` file, or a stream of one.

    Raises
    ------
    ValidationError
        Naming the first rule that is broken: no ZIP file; not exactly one ``.jas`` file and one
        folder in its root; a path that leads out of it; a ``.jas`` that is not version 3 or lacks
        fields; a title, description, comment or folder name with signs that are refused; an HTML
        file that is named wrongly or not there; ids that are no UUIDs or occur twice; an unknown
        kind of worker; input that is not JSON as text.

    Notes
    -----
    Source: the importer of JATOS 3.10 (``ImportExportService``, ``StudyDeserializer`` and the
    validation of its study, component and batch properties), read, and stated in our own words.
    Passing is not the same as an import into a running JATOS.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            names = opened.namelist()
            study, folder = _layout(names)
            try:
                table = decode_json(opened.read(study))
            except ValueError as error:
                raise ValidationError(f"{study} is not JSON: {error}") from None
    except zipfile.BadZipFile as error:
        raise ValidationError(f"the archive is not a ZIP file: {error}") from None
    data = _data(study, table)
    components, batches = _list(data, "componentList"), _list(data, "batchList")
    directory = data.get("dirName")
    if not isinstance(directory, str) or not 1 <= len(directory.strip()) <= 255:
        raise ValidationError(f"dirName is {directory!r}; JATOS takes 1 to 255 characters")
    if _ILLEGAL.search(directory) or directory in _RESERVED:
        raise ValidationError(f"dirName is {directory!r}, a name that JATOS refuses")
    if folder is not None and folder != directory:
        raise ValidationError(f"the folder is {folder!r}, but dirName is {directory!r}")
    _check_part(data, "the study", ("description", "comments", "studyEntryMsg"), "studyInput")
    for component in components:
        _check_part(component, "a component", ("comments",), "componentInput")
        path = component.get("htmlFilePath")
        if path and (not isinstance(path, str) or not _HTML_PATH.fullmatch(path)):
            raise ValidationError(f"htmlFilePath is {path!r}; JATOS takes one dot and no spaces")
        if path and f"{folder}/{path}" not in names:
            raise ValidationError(f"htmlFilePath is {path!r}, which is not in the archive")
    for batch in batches:
        _check_part(batch, "a batch", ("comments",), "batchInput")
        _check_batch(batch)
    ids = [part.get("uuid") for part in (data, *components, *batches)]
    for place, text in enumerate(ids):
        try:
            uuid.UUID(str(text))
        except ValueError:
            raise ValidationError(f"uuid is {text!r}, which is none") from None
        if text in ids[:place]:
            raise ValidationError(f"uuid {text} occurs twice")


def _layout(names: list[str]) -> tuple[str, str | None]:
    for name in names:
        parts = PurePosixPath(name).parts
        if name.startswith("/") or "\\" in name or ".." in parts:
            raise ValidationError(f"the archive's path {name!r} leads out of it")
    studies = [name for name in names if "/" not in name and name.endswith("jas")]
    if len(studies) != 1:
        raise ValidationError(
            f"the archive's root holds {len(studies)} .jas files; JATOS takes exactly one"
        )
    folders = sorted({name.split("/")[0] for name in names if "/" in name})
    if len(folders) > 1:
        raise ValidationError(
            f"the archive's root holds the folders {', '.join(folders)}; JATOS takes one"
        )
    return studies[0], folders[0] if folders else None


def _data(study: str, table: Any) -> Mapping[str, Any]:
    if not isinstance(table, dict) or not isinstance(table.get("data"), dict):
        raise ValidationError(f"{study} has no table 'data'")
    # JATOS searches the tree from its top, key by key: another key before could hide these two.
    if list(table)[:2] != ["version", "data"]:
        raise ValidationError(f"{study} does not begin with 'version' and 'data'")
    if str(table["version"]) != VERSION:
        raise ValidationError(f"{study} has version {table['version']!r}; JATOS reads 3")
    data: Mapping[str, Any] = table["data"]
    return data


def _check_part(part: Mapping[str, Any], what: str, texts: Iterable[str], entry: str) -> None:
    """Check what study, components and batches have: a title, other texts, JSON for scripts."""
    title = part.get("title")
    if not isinstance(title, str) or not 1 <= len(title.strip()) <= 255 or len(title) > 255:
        raise ValidationError(f"the title of {what} is {title!r}; JATOS takes 1 to 255 characters")
    shown = {f"{what}'s {name}": part.get(name) for name in texts}
    for name, text in {f"the title of {what}": title, **shown}.items():
        if text is not None and (not isinstance(text, str) or re.search(r"[<>&]", text)):
            raise ValidationError(f"{name} is {text!r}; JATOS takes text without HTML")
    value = part.get(entry)
    if value is not None and not isinstance(value, str):
        raise ValidationError(f"{entry} is {value!r}; JATOS takes JSON as text")
    try:
        decode_json(value or "null")
    except ValueError:
        raise ValidationError(f"{entry} is {value!r}, which is not JSON") from None


def _check_batch(batch: Mapping[str, Any]) -> None:
    for name in LIMITS:
        value = batch.get(name)
        if value is not None and (type(value) is not int or value < 1):
            raise ValidationError(f"{name} is {value!r}; JATOS takes null or a number from 1 up")
    active, total = batch.get("maxActiveMembers"), batch.get("maxTotalMembers")
    if active is not None and total is not None and active > total:
        raise ValidationError(f"maxActiveMembers is {active}, more than maxTotalMembers, {total}")
    for kind in batch.get("allowedWorkerTypes") or ():
        if kind not in WORKER_TYPES:
            raise ValidationError(f"allowedWorkerTypes holds {kind!r}, which JATOS does not know")


def _list(data: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = data.get(name)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValidationError(f"{name} is {value!r}; JATOS takes a list of tables")
    return value
