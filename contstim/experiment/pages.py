"""Files of the experiment page for the study's server, JATOS, and any web host."""

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
from contstim.experiment import page_data
from contstim.experiment.scaffold import check_empty_folder, write_folder
from contstim.experiment.study import Study
from contstim.experiment.vendor import PAGE_FOLDER, list_page_files, page_version
from contstim.files import json_digest, write_atomically

# Texts that the page needs before its scripts run, or without them.
_TEXTS_BEFORE_SCRIPTS = ("loading", "no_script", "not_loaded", "reload_button")

# Outcomes of sessions without a server.
_OUTCOMES = ("complete", "declined", "screened_out", "failed_checks", "time_limit", "unsent")

# Keys of the session data that are stored per assignment; the others are in `study.json`.
_ASSIGNMENT_KEYS = (
    "assignment", "group", "digest", "settings", "questions", "responded", "practice", "trials"
)  # fmt: skip

# A constant modification time, so that the same study gives the same archive.
_ARCHIVE_TIME = (2000, 1, 1, 0, 0, 0)

#: Worker types of a JATOS batch.
WORKER_TYPES = (
    "Jatos", "PersonalSingle", "PersonalMultiple", "GeneralSingle", "GeneralMultiple",
    "MT", "MTSandbox",
)  # fmt: skip

_JATOS_FORMAT = "3"  # version of JATOS study archives


def render_index(study: Study, transport: str, head: str = "", page: Path = PAGE_FOLDER) -> str:
    """Fill in the template ``index.html``, with which a browser starts the experiment page.

    Parameters
    ----------
    study
        Study with the title, language, writing direction and texts.
    transport
        How the page sends its data: to the study's own ``server``, to ``jatos``, or as files
        (``static``).
    head
        HTML elements to add to the page's head, before its scripts.
    page
        Folder with the files of the experiment's web page.

    Returns
    -------
    str
        HTML page.
    """
    text = (page / "index.html").read_text("utf-8")
    values = {
        "lang": study.study.language,
        "dir": study.study.direction,
        "title": study.study.title,
        "transport": transport,
        "static": f"static/{page_version(page)}",
        **{name: study.texts[name] for name in _TEXTS_BEFORE_SCRIPTS},
    }
    # Replace the placeholders of the template, e.g. {title}.
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", html.escape(value))
    # The head comes last, since it is HTML and contains no placeholders.
    return text.replace("{head}", f"\n{head}" if head else "")


def make_study_files(study: Study, index: str, collect: Mapping[str, Any]) -> dict[str, bytes]:
    """Return all files of an experiment page that runs on a web host or in JATOS.

    Such a page needs no contstim server.

    Parameters
    ----------
    study
        Study to show.
    index
        HTML page from `render_index`.
    collect
        Destination of the data, for the page's transport.

    Returns
    -------
    dict
        Content of each file, by its path.

        - ``index.html``: the page
        - ``static/``: scripts and styles of the page
        - ``study.json``: data shown before consent, assignments (lists of trials for one
          participant) in the order of their use, and completion codes
        - ``bundles/N.json``: trials of assignment N

    Raises
    ------
    InputError
        If the study is adaptive, which needs a server.
    MissingExtraError
        If third-party files of the page are missing.
    """
    if study.adaptive is not None:
        raise InputError(
            f"{study.folder} is an adaptive study, which needs a server; run it with "
            "`contstim experiment serve`"
        )
    # Fill groups evenly: first assignment of every group, then the second, and so on.
    groups = study.design.groups
    rank_in_group = {
        assignment: [other for other in groups if groups[other] == group].index(assignment)
        for assignment, group in groups.items()
    }
    order = sorted(groups, key=lambda assignment: (rank_in_group[assignment], groups[assignment]))

    info = page_data.make_study_info(study)
    info["assignments"] = [
        {"assignment": assignment, "group": groups[assignment]} for assignment in order
    ]
    info["links"] = {outcome: page_data.make_outcome_link(study, outcome) for outcome in _OUTCOMES}
    info["collect"] = dict(collect)
    files = {"index.html": index.encode(), "study.json": _to_json(info)}
    files |= {path: source.read_bytes() for path, source in list_page_files().items()}
    if study.module is not None:
        files[f"static/{page_version()}/{page_data.get_module_path(study)}"] = study.module.encode()
    for assignment in study.design.trials:
        data = page_data.make_session_data(study, assignment)
        data["settings"]["checks"] = page_data.hash_wrong_answers(study, assignment)
        content = {key: data[key] for key in _ASSIGNMENT_KEYS}
        files[f"bundles/{assignment}.json"] = _to_json(content)
    return files


def _to_json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def write_static(
    study: Study, folder: str | Path, endpoint: str | None = None, experiment_id: str | None = None
) -> Path:
    """Write a study as a folder of static files for any web host.

    An assignment is the list of trials for one participant of the design. Each participant gets a
    random assignment, or the assignment of the URL query parameter ``?assignment=N``, or a random
    assignment of the group ``?group=N``.

    Parameters
    ----------
    study
        Study to write.
    folder
        Folder to write. It is created if it does not exist; an existing folder must be empty.
    endpoint
        HTTPS URL to which the page sends the data, in the format of DataPipe: a JSON object with
        the keys ``experimentID``, ``filename`` and ``data``. Each batch of answers becomes a file
        on this server. By default, participants save their data as a file at the end.
    experiment_id
        Id of the experiment on the server of the endpoint.

    Returns
    -------
    Path
        Folder that was written.

    Raises
    ------
    InputError
        If the folder is not empty, or the endpoint is not an HTTPS URL or has no experiment id.
    MissingExtraError
        If third-party files of the page are missing.
    OutputError
        If the folder cannot be written.

    Notes
    -----
    A content security policy restricts the page's connections to its host and the endpoint. The
    participant id of the recruitment platform is not sent, since endpoints may publish their data.
    Completion codes are part of the files.
    """
    folder = Path(folder)
    sources = "'self'"
    if endpoint is not None:
        sources += f" {_check_endpoint(endpoint)}"
    if endpoint is not None and not experiment_id:
        raise InputError("an endpoint needs the experiment's id there; give both")
    if endpoint is None and experiment_id is not None:
        raise InputError(f"experiment id {experiment_id!r} needs an endpoint; give both")
    # A content security policy restricts the page's connections to its host and the endpoint.
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        f"connect-src {sources}; base-uri 'none'; form-action 'none'"
    )
    head = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">'
    # Destination of the data, to which the page sends answers.
    collect = {"endpoint": endpoint, "experiment_id": experiment_id}
    files = make_study_files(study, render_index(study, "static", head), collect)
    check_empty_folder(folder)
    write_folder(folder, files)
    return folder


def _check_endpoint(endpoint: str) -> str:
    """Check the URL to which a static page sends data, and return its origin.

    The origin consists of scheme, host and port. The URL must use HTTPS, so that data travel
    encrypted; only endpoints on this machine may use HTTP.
    """
    parts = urlsplit(endpoint)
    is_local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    # Unencrypted connections are permitted only within this machine.
    schemes = ("http", "https") if is_local else ("https",)
    if not parts.netloc or parts.scheme not in schemes:
        raise InputError(f"endpoint {endpoint!r} is not https; data would travel unprotected")
    if any(character in endpoint for character in " ;,'\"") or parts.username is not None:
        raise InputError(f"endpoint {endpoint!r} contains characters that are invalid in a URL")
    return f"{parts.scheme}://{parts.netloc}"  # origin of the URL


def write_jatos(study: Study, path: str | Path) -> Path:
    """Write a study as a JATOS study archive (``.jzip``).

    Parameters
    ----------
    study
        Study to write.
    path
        Archive to write.

    Returns
    -------
    Path
        Archive that was written.

    Raises
    ------
    MissingExtraError
        If third-party files of the page are missing.
    OutputError
        If the archive cannot be written.
    """
    path = Path(path)
    write_atomically(path, make_jatos_archive(study))
    return path


def make_jatos_archive(study: Study) -> bytes:
    """Return a study as the content of a JATOS study archive, which is a ZIP file.

    The archive contains a file with the study's properties (``.jas``) and a folder with the files
    of the page. The id of the study is computed from its name and trials. If the same study is
    imported into JATOS again, JATOS therefore updates it; if its trials have changed, JATOS creates
    a new study. JATOS stores results as JSON lines, which ``contstim experiment import`` reads.

    Parameters
    ----------
    study
        Study to archive.

    Returns
    -------
    bytes
        ZIP archive.

    Raises
    ------
    MissingExtraError
        If third-party files of the page are missing.
    """
    folder = f"contstim_{study.study.name}"
    index = render_index(study, "jatos", '<script src="jatos.js"></script>')
    files = make_study_files(study, index, {})
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        # All entries have the same time, so that equal studies give equal archives.
        def add_file(path: str, content: str | bytes) -> None:
            entry = zipfile.ZipInfo(path, _ARCHIVE_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)

        properties = json.dumps(_make_properties(study, folder), indent=2)
        add_file(f"{study.study.name}.jas", properties)
        # The archive has an entry for each folder, before the entries of its files.
        parents = {f"{parent}/" for path in files for parent in Path(folder, path).parents}
        for parent in sorted(parents - {"./"}):
            archive.writestr(zipfile.ZipInfo(parent, _ARCHIVE_TIME), b"")
        for path, content in files.items():
            add_file(f"{folder}/{path}", content)
    return stream.getvalue()


def _make_properties(study: Study, folder: str) -> dict[str, Any]:
    """Return the JSON object that describes a study in a JATOS archive.

    A JATOS study consists of components (pages) and batches (groups of workers that may take part).
    This study has one of each.

    Parameters
    ----------
    study
        Study to describe.
    folder
        Name of the folder with the files of the page.
    """
    trials = {
        assignment: [asdict(trial) for trial in assignment_trials]
        for assignment, assignment_trials in study.design.trials.items()
    }
    study_id = uuid.uuid5(uuid.NAMESPACE_URL, f"contstim:{study.study.name}:{json_digest(trials)}")
    title = _remove_markup(study.study.title)
    component = {
        "uuid": str(uuid.uuid5(study_id, "component")),
        "title": title,
        "htmlFilePath": "index.html",
        "reloadable": True,
        "active": True,
        "comments": "",
        "componentInput": None,
    }
    batch = {
        "uuid": str(uuid.uuid5(study_id, "batch")),
        "title": "Default",
        "active": True,
        "maxActiveMembers": None,
        "maxTotalMembers": None,
        "maxTotalWorkers": None,
        "allowedWorkerTypes": [kind for kind in WORKER_TYPES if not kind.startswith("MT")],
        "comments": "",
        "batchInput": None,
    }
    data = {
        "uuid": str(study_id),
        "title": title,
        "description": _remove_markup(study.study.description),
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
    # "version" must come first, since JATOS reads the first such key in the file.
    return {"version": _JATOS_FORMAT, "data": data}


def _remove_markup(text: str) -> str:
    """Replace characters with a meaning in HTML, which JATOS refuses, and limit the length."""
    return text.replace("&", "and").replace("<", "(").replace(">", ")")[:255]
