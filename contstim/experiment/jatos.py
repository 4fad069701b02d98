"""The study as an archive that JATOS imports, and the check that it would."""

from __future__ import annotations

import io
import json
import re
import uuid
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import IO, Any

from contstim.errors import ValidationError
from contstim.experiment.pages import index_html, study_files
from contstim.experiment.study import Study
from contstim.files import digest_of, write_whole

_HEAD = '<script src="jatos.js"></script>'
_WHEN = (2000, 1, 1, 0, 0, 0)  # the same study gives the same archive

#: Names of the kinds of workers that a batch may admit.
WORKER_TYPES = (
    "Jatos",
    "PersonalSingle",
    "PersonalMultiple",
    "GeneralSingle",
    "GeneralMultiple",
    "MT",
    "MTSandbox",
)
_WORKERS = [name for name in WORKER_TYPES if not name.startswith("MT")]


def write_jatos(study: Study, path: str | Path) -> Path:
    """Write a study as a JATOS study archive (``.jzip``).

    Raises
    ------
    MissingExtraError
        If the page's vendored files are not there.
    OutputError
        If the place cannot be written to.
    """
    path = Path(path)
    write_whole(path, jatos_archive(study))
    return path


def jatos_archive(study: Study) -> bytes:
    """Return the archive: the study's properties (``.jas``) and one folder of assets.

    The ids are made from the study's name and its trials, so that JATOS updates a study that is
    exported again and takes another design for another study. The study can be reloaded: the page
    resumes. Data come as JSON lines, for ``contstim experiment import``.

    Raises
    ------
    MissingExtraError
        If the page's vendored files are not there.
    ValidationError
        If JATOS would refuse the archive.
    """
    folder = f"contstim_{study.study.name}"
    files = study_files(study, index_html(study, "jatos", _HEAD), {})
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, f"{study.study.name}.jas", json.dumps(_properties(study, folder), indent=2))
        parents = {f"{parent}/" for path in files for parent in Path(folder, path).parents}
        for parent in sorted(parents - {"./"}):
            archive.writestr(zipfile.ZipInfo(parent, _WHEN), b"")
        for path, content in files.items():
            _add(archive, f"{folder}/{path}", content)
    content = stream.getvalue()
    check_jatos_archive(io.BytesIO(content))
    return content


def _add(archive: zipfile.ZipFile, path: str, content: str | bytes) -> None:
    entry = zipfile.ZipInfo(path, _WHEN)
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)


def _properties(study: Study, folder: str) -> dict[str, Any]:
    trials = {
        assignment: [asdict(trial) for trial in own]
        for assignment, own in study.design.trials.items()
    }
    root = uuid.uuid5(uuid.NAMESPACE_URL, f"contstim:{study.study.name}:{digest_of(trials)}")
    title = _plain(study.study.title)
    component = {
        "uuid": str(uuid.uuid5(root, "component")),
        "title": title,
        "htmlFilePath": "index.html",
        "reloadable": True,
        "active": True,
        "comments": "",
        "componentInput": None,
    }
    batch = {
        "uuid": str(uuid.uuid5(root, "batch")),
        "title": "Default",
        "active": True,
        "maxActiveMembers": None,
        "maxTotalMembers": None,
        "maxTotalWorkers": None,
        "allowedWorkerTypes": _WORKERS,
        "comments": "",
        "batchInput": None,
    }
    data = {
        "uuid": str(root),
        "title": title,
        "description": _plain(study.study.description),
        "groupStudy": False,
        "linearStudy": False,
        "allowPreview": False,
        "dirName": folder,
        "comments": "",
        "studyInput": None,
        "endRedirectUrl": "",
        "studyEntryMsg": "",
        "componentList": [component],
        "batchList": [batch],
    }
    # JATOS takes the first "version" and "data" that it finds.
    return {"version": "3", "data": data}


def _plain(text: str) -> str:
    """Return `text` without the signs of HTML, which JATOS refuses; the page shows the original."""
    for sign, other in (("&", "and"), ("<", "("), (">", ")")):
        text = text.replace(sign, other)
    return text[:255]


_VERSION = 3
_RESERVED = ("jatos", "publix", "public", "assets", "study_assets_root", "study_assets")
_HTML_PATH = re.compile(r"[\w-][\w/-]*\.[\w-]+", re.ASCII)
_ILLEGAL = re.compile(r"[\s\0*?\"\\/,`<>|:~!§$%&^°]")
_LIMITS = ("maxActiveMembers", "maxTotalMembers", "maxTotalWorkers")


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
                table = json.loads(opened.read(study))
            except (UnicodeDecodeError, json.JSONDecodeError) as error:
                raise ValidationError(f"{study} is not JSON: {error}") from None
    except zipfile.BadZipFile as error:
        raise ValidationError(f"the archive is no ZIP file: {error}") from None
    data = _data(study, table)
    _check_study(data, folder)
    for component in _list(data, "componentList"):
        _check_component(component, set(names), folder)
    for batch in _list(data, "batchList"):
        _check_batch(batch)
    _check_ids(data)


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
    if str(table["version"]) != str(_VERSION):
        raise ValidationError(f"{study} has version {table['version']!r}; JATOS reads {_VERSION}")
    data: Mapping[str, Any] = table["data"]
    return data


def _check_study(data: Mapping[str, Any], folder: str | None) -> None:
    _title("the study", data)
    for name in ("description", "comments", "studyEntryMsg"):
        _no_html(f"the study's {name}", data.get(name))
    directory = data.get("dirName")
    if not isinstance(directory, str) or not 1 <= len(directory.strip()) <= 255:
        raise ValidationError(f"dirName is {directory!r}; JATOS takes 1 to 255 characters")
    if _ILLEGAL.search(directory) or directory in _RESERVED:
        raise ValidationError(f"dirName is {directory!r}, a name that JATOS refuses")
    if folder is not None and folder != directory:
        raise ValidationError(f"the folder is {folder!r}, but dirName is {directory!r}")
    _input("studyInput", data.get("studyInput"))


def _check_component(component: Mapping[str, Any], names: set[str], folder: str | None) -> None:
    _title("a component", component)
    _no_html("a component's comments", component.get("comments"))
    path = component.get("htmlFilePath")
    if path:
        if not isinstance(path, str) or not _HTML_PATH.fullmatch(path):
            raise ValidationError(f"htmlFilePath is {path!r}; JATOS takes one dot and no spaces")
        if f"{folder}/{path}" not in names:
            raise ValidationError(f"htmlFilePath is {path!r}, which is not in the archive")
    _input("componentInput", component.get("componentInput"))


def _check_batch(batch: Mapping[str, Any]) -> None:
    _title("a batch", batch)
    _no_html("a batch's comments", batch.get("comments"))
    for name in _LIMITS:
        value = batch.get(name)
        if value is not None and (type(value) is not int or value < 1):
            raise ValidationError(f"{name} is {value!r}; JATOS takes null or a number from 1 up")
    active, total = batch.get("maxActiveMembers"), batch.get("maxTotalMembers")
    if active is not None and total is not None and active > total:
        raise ValidationError(f"maxActiveMembers is {active}, more than maxTotalMembers, {total}")
    for kind in batch.get("allowedWorkerTypes") or ():
        if kind not in WORKER_TYPES:
            raise ValidationError(f"allowedWorkerTypes holds {kind!r}, which JATOS does not know")
    _input("batchInput", batch.get("batchInput"))


def _check_ids(data: Mapping[str, Any]) -> None:
    seen = set()
    for item in (data, *_list(data, "componentList"), *_list(data, "batchList")):
        text = item.get("uuid")
        try:
            uuid.UUID(str(text))
        except ValueError:
            raise ValidationError(f"uuid is {text!r}, which is none") from None
        if text in seen:
            raise ValidationError(f"uuid {text} occurs twice")
        seen.add(text)


def _list(data: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = data.get(name)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValidationError(f"{name} is {value!r}; JATOS takes a list of tables")
    return value


def _title(what: str, item: Mapping[str, Any]) -> None:
    title = item.get("title")
    if not isinstance(title, str) or not 1 <= len(title.strip()) <= 255 or len(title) > 255:
        raise ValidationError(f"the title of {what} is {title!r}; JATOS takes 1 to 255 characters")
    _no_html(f"the title of {what}", title)


def _no_html(what: str, text: object) -> None:
    if text is not None and (not isinstance(text, str) or re.search(r"[<>&]", text)):
        raise ValidationError(f"{what} is {text!r}; JATOS takes text without HTML")


def _input(name: str, value: object) -> None:
    if value is None or value == "":
        return
    try:
        if not isinstance(value, str):
            raise ValidationError(f"{name} is {value!r}; JATOS takes JSON as text")
        json.loads(value)
    except json.JSONDecodeError:
        raise ValidationError(f"{name} is {value!r}, which is not JSON") from None
