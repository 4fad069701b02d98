"""The page as files: for the study's own server, JATOS, and as a folder for any web host."""

from __future__ import annotations

import html
import io
import json
import uuid
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from contstim.errors import InputError
from contstim.experiment.messages import (
    make_bundle,
    make_outcome_link,
    make_page_checks,
    make_study_info,
    module_path,
)
from contstim.experiment.study import Study
from contstim.experiment.vendor import PAGE_FOLDER, page_files, page_version
from contstim.files import check_empty_folder, json_digest, write_atomically, write_folder

#: Texts that the page shows before, or in place of, what its scripts do.
_BEFORE_SCRIPTS = ("loading", "no_script", "not_loaded", "reload_button")
#: How a session can end where no server of ours decides.
_OUTCOMES = ("complete", "declined", "screened_out", "failed_checks", "time_limit", "unsent")
#: What a page without a server ships in the folder `bundles`, one file per assignment.
_OF_ASSIGNMENT = (
    "assignment", "group", "digest", "settings", "questions", "responded", "practice", "trials"
)  # fmt: skip


_WHEN = (2000, 1, 1, 0, 0, 0)  # the same study gives the same archive

#: Kinds of workers that a batch may admit.
WORKER_TYPES = (
    "Jatos",
    "PersonalSingle",
    "PersonalMultiple",
    "GeneralSingle",
    "GeneralMultiple",
    "MT",
    "MTSandbox",
)
_LIMITS = ("maxActiveMembers", "maxTotalMembers", "maxTotalWorkers")  # of a batch
_VERSION = "3"  # of study archives


def index_html(study: Study, transport: str, head: str = "", page: Path = PAGE_FOLDER) -> str:
    """Return the page itself.

    Parameters
    ----------
    study
        Its title, language, direction and the texts that are shown before any script runs.
    transport
        Which way the data go: ``server``, ``static`` or ``jatos``.
    head
        Elements for the head of the page, before its own scripts.
    page
        The folder of the page's files.
    """
    text = (page / "index.html").read_text("utf-8")
    values = {
        "lang": study.study.language,
        "dir": study.study.direction,
        "title": study.study.title,
        "transport": transport,
        "static": f"static/{page_version(page)}",
        **{name: study.texts[name] for name in _BEFORE_SCRIPTS},
    }
    # The head last: it is HTML, and nothing in it is filled in.
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", html.escape(value))
    return text.replace("{head}", f"\n{head}" if head else "")


def study_files(study: Study, index: str, collect: Mapping[str, Any]) -> dict[str, bytes]:
    """Return a whole page without a server of ours, by paths.

    Parameters
    ----------
    study
        The study.
    index
        The page, from `index_html`.
    collect
        Where data go, for the page's transport.

    Returns
    -------
    dict
        ``index.html``, the files under ``static/``, ``study.json`` (what is shown before consent,
        the assignments in the order in which they are given out, the completion codes) and
        ``bundles/N.json``, the trials of assignment N: a participant's browser loads one of them.

    Raises
    ------
    MissingExtraError
        If the files of other projects are not there.
    """
    if study.adaptive is not None:
        raise InputError(
            f"{study.folder} chooses trials by the answers, which needs a server; run it with "
            "`contstim experiment serve`"
        )
    info = make_study_info(study)
    info["assignments"] = [
        {"assignment": assignment, "group": study.design.groups[assignment]}
        for assignment in _order(study)
    ]
    info["links"] = {name: make_outcome_link(study, name) for name in _OUTCOMES}
    info["collect"] = dict(collect)
    files = {"index.html": index.encode(), "study.json": _json(info)}
    files |= {path: source.read_bytes() for path, source in page_files().items()}
    if study.module is not None:
        files[f"static/{page_version()}/{module_path(study)}"] = study.module.encode()
    for assignment in study.design.trials:
        bundle = make_bundle(study, assignment)
        bundle["settings"]["checks"] = make_page_checks(study, assignment)
        files[f"bundles/{assignment}.json"] = _json({name: bundle[name] for name in _OF_ASSIGNMENT})
    return files


def _order(study: Study) -> list[int]:
    """Return the assignments so that groups fill evenly: the first of each, then the second."""
    groups = study.design.groups
    place = {a: study.design.list_assignments(group).index(a) for a, group in groups.items()}
    return sorted(groups, key=lambda assignment: (place[assignment], groups[assignment]))


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def write_static(
    study: Study,
    folder: str | Path,
    endpoint: str | None = None,
    experiment_id: str | None = None,
) -> Path:
    """Write a study as a folder of files for a web host that runs no program of ours.

    Participants get an assignment drawn at random, or the one that ``?assignment=N`` in the address
    names, or one of the group that ``?group=N`` names.

    Parameters
    ----------
    study
        The study.
    folder
        Where; it must not exist, or be empty.
    endpoint
        An https address that takes ``{"experimentID", "filename", "data"}`` as DataPipe does.
        Every batch of answers becomes a file there, a JSON array of objects with ``trial_type``.
        Without it each participant saves a file in the end.
    experiment_id
        The id of the experiment at the endpoint.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    InputError
        If the folder holds something, or the endpoint is not an https address or has no id.
    MissingExtraError
        If the page's vendored files are not there.
    OutputError
        If the place cannot be written to.

    Notes
    -----
    The page may connect to its own host and the endpoint only: a content security policy in it
    says so to the browser. A recruiter's id of the participant is not sent along, since such
    endpoints publish what they are given; the completion code is part of the files.
    """
    folder = Path(folder)
    host = _host(endpoint, experiment_id)
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        f"connect-src 'self'{host}; base-uri 'none'; form-action 'none'"
    )
    head = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">'
    collect = {"endpoint": endpoint, "experiment_id": experiment_id}
    files = study_files(study, index_html(study, "static", head), collect)
    check_empty_folder(folder)
    write_folder(folder, files)
    return folder


def _host(endpoint: str | None, experiment_id: str | None) -> str:
    """Return the endpoint's origin for the policy, with a space before it."""
    if endpoint is None:
        if experiment_id is not None:
            raise InputError(f"experiment id {experiment_id!r} needs an endpoint; give both")
        return ""
    parts = urlsplit(endpoint)
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if not parts.netloc or parts.scheme not in (("http", "https") if local else ("https",)):
        raise InputError(
            f"endpoint {endpoint!r} is not an https address; data would travel unprotected"
        )
    if any(sign in endpoint for sign in " ;,'\"") or parts.username is not None:
        raise InputError(f"endpoint {endpoint!r} holds signs that no address has; check it")
    if not experiment_id:
        raise InputError("an endpoint needs the experiment's id there; give both")
    return f" {parts.scheme}://{parts.netloc}"


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
    write_atomically(path, jatos_archive(study))
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
    """
    folder = f"contstim_{study.study.name}"
    files = study_files(study, index_html(study, "jatos", '<script src="jatos.js"></script>'), {})
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, f"{study.study.name}.jas", json.dumps(_properties(study, folder), indent=2))
        parents = {f"{parent}/" for path in files for parent in Path(folder, path).parents}
        for parent in sorted(parents - {"./"}):
            archive.writestr(zipfile.ZipInfo(parent, _WHEN), b"")
        for path, content in files.items():
            _add(archive, f"{folder}/{path}", content)
    return stream.getvalue()


def _add(archive: zipfile.ZipFile, path: str, content: str | bytes) -> None:
    entry = zipfile.ZipInfo(path, _WHEN)
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)


def _properties(study: Study, folder: str) -> dict[str, Any]:
    trials = {
        assignment: [asdict(trial) for trial in own]
        for assignment, own in study.design.trials.items()
    }
    root = uuid.uuid5(uuid.NAMESPACE_URL, f"contstim:{study.study.name}:{json_digest(trials)}")
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
        **dict.fromkeys(_LIMITS),
        "allowedWorkerTypes": [kind for kind in WORKER_TYPES if not kind.startswith("MT")],
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
    return {"version": _VERSION, "data": data}


def _plain(text: str) -> str:
    """Return `text` without the signs of HTML, which JATOS refuses; the page shows the original."""
    for sign, other in (("&", "and"), ("<", "("), (">", ")")):
        text = text.replace(sign, other)
    return text[:255]
