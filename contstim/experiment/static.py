"""The study as a folder for any web host."""

from __future__ import annotations

import html
from pathlib import Path
from urllib.parse import urlsplit

from contstim.errors import InputError, OutputError
from contstim.experiment.pages import index_html, study_files
from contstim.experiment.study import Study
from contstim.files import replacing

__all__ = ["write_static"]


def write_static(
    study: Study,
    folder: str | Path,
    endpoint: str | None = None,
    experiment_id: str | None = None,
) -> Path:
    """Write a study as a folder of files for a web host that runs no program of ours.

    Participants get an assignment drawn at random, or the one that ``?seat=N`` in the address
    names, or one of the group that ``?group=N`` names.

    Parameters
    ----------
    study
        The study.
    folder
        Where; it must not exist, or be empty.
    endpoint
        An https address that takes ``{"experimentID", "filename", "data"}`` as DataPipe does.
        Every batch of answers becomes a file of JSON lines there. Without it each participant
        saves a file in the end.
    experiment_id
        The id of the experiment at the endpoint.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    InputError
        If the folder holds something, or the endpoint is no https address or has no id.
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
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(f"{folder} is there already and not empty; choose another folder")
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from None
    with replacing(folder) as temporary:
        for path, content in files.items():
            target = temporary / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
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
            f"endpoint {endpoint!r} is no https address; data would travel unprotected"
        )
    if any(sign in endpoint for sign in " ;,'\"") or parts.username is not None:
        raise InputError(f"endpoint {endpoint!r} holds signs that no address has; check it")
    if not experiment_id:
        raise InputError("an endpoint needs the experiment's id there; give both")
    return f" {parts.scheme}://{parts.netloc}"
