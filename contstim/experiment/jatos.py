"""The study as an archive that JATOS imports, and the check that it would."""

from __future__ import annotations

import io
import json
import uuid
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from contstim.experiment.jatos_rules import WORKER_TYPES, check_jatos_archive
from contstim.experiment.pages import index_html, study_files
from contstim.experiment.study import Study
from contstim.files import digest_of, write_whole

__all__ = ["check_jatos_archive", "jatos_archive", "write_jatos"]

_HEAD = '<script src="jatos.js"></script>'
_WHEN = (2000, 1, 1, 0, 0, 0)  # the same study gives the same archive
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
