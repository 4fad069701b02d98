"""Files of the experiment page: its own, and third-party packages from the npm registry.

The npm packages are pinned by the hashes in ``page/package-lock.json`` and are not committed. The
build of the wheel imports this module, so it needs only the standard library and filelock.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from contstim.errors import MissingExtraError
from contstim.files import file_digest, json_digest, write_atomically

#: Folder with the files of the experiment's web page.
PAGE_FOLDER = Path(__file__).parent / "page"

#: Third-party files in ``page/vendor``, with their paths in npm's folder ``node_modules``.
VENDORED_FILES = {
    "jspsych.min.js": "jspsych/dist/index.browser.min.js",
    **{
        f"{name}.min.js": f"@jspsych/plugin-{name}/dist/index.browser.min.js"
        for name in ("survey-text", "survey-multi-choice", "survey-multi-select")
    },
}

# Own files of the page, except index.html.
_OWN_FILES = (
    "*.js", "page.css", "*.svg", "transports/*.js", "presentations/*.js", "THIRD_PARTY.txt"
)  # fmt: skip

_SOURCE_MAP = re.compile(r"^//# sourceMappingURL=.*$", re.MULTILINE)


@cache
def page_version(page: Path = PAGE_FOLDER) -> str:
    """Return a version of the experiment page: a hash of the content of its files.

    The version is part of the files' URLs. Browsers can cache the files forever, because a change
    of the content changes the URL. Third-party files are represented by their hashes in the lock
    file, so that the version is known before they are fetched.

    Parameters
    ----------
    page
        Folder with the files of the experiment's web page.

    Returns
    -------
    str
        Twelve hexadecimal digits.
    """
    patterns = (*_OWN_FILES, "dashboard.css", "index.html", "package-lock.json")
    paths = [path for pattern in patterns for path in sorted(page.glob(pattern))]
    return json_digest([[path.name, file_digest(path)] for path in paths])[:12]


def list_vendor_files(page: Path = PAGE_FOLDER) -> dict[str, Path]:
    """Return the paths of the third-party JavaScript files of the web page, by name.

    Raises
    ------
    MissingExtraError
        If a file is missing; the message names the command that fetches it.
    """
    files = {name: page / "vendor" / name for name in VENDORED_FILES}
    for name, path in files.items():
        if not path.is_file():
            raise MissingExtraError(
                f"the experiment's page lacks {name}; run `contstim experiment build`, which needs "
                "npm (in a checkout: make page)"
            )
    return files


def list_page_files() -> dict[str, Path]:
    """Return the paths of the web page's files, except ``index.html``, by their relative URLs.

    Raises
    ------
    MissingExtraError
        If a third-party file is missing; the message names the command that fetches it.
    """
    files = {}
    for pattern in _OWN_FILES:
        for path in sorted(PAGE_FOLDER.glob(pattern)):
            files[path.relative_to(PAGE_FOLDER).as_posix()] = path
    files |= {f"vendor/{name}": path for name, path in list_vendor_files().items()}
    return {f"static/{page_version()}/{name}": path for name, path in files.items()}


def fetch_on_first_use(page: Path = PAGE_FOLDER) -> None:
    """Fetch missing third-party JavaScript files of the web page, if npm is installed.

    Raises
    ------
    MissingExtraError, OutputError
        If npm fails, or the files cannot be written.
    """
    is_complete = all((page / "vendor" / name).is_file() for name in VENDORED_FILES)
    if not is_complete and shutil.which("npm") is not None:
        print("fetching the files of the experiment's page with npm, once ...", file=sys.stderr)
        fetch_vendor(page)


def fetch_vendor(page: Path = PAGE_FOLDER) -> list[Path]:
    """Install the page's npm packages in a temporary folder and copy the files that it needs.

    npm refuses packages that differ from the hashes in the lock file, and runs no scripts of
    packages. Links to source maps, which are on another host, are removed.

    Parameters
    ----------
    page
        Folder with ``package.json`` and ``package-lock.json``; the files are written to its
        subfolder ``vendor``.

    Returns
    -------
    list of Path
        Files that were written.

    Raises
    ------
    MissingExtraError
        If npm is not installed or fails.
    OutputError
        If the folder cannot be written.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise MissingExtraError("npm is not installed; install Node.js 18 or later, then try again")
    targets = []
    # Install the packages of the lock file in a temporary folder.
    with tempfile.TemporaryDirectory() as folder:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(page / name, folder)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev"]
        # The arguments are constant, and npm is found on the user's own PATH.
        process = subprocess.run(command, cwd=folder, capture_output=True, text=True)  # noqa: S603
        if process.returncode:
            errors = [line for line in process.stderr.splitlines() if "error" in line.lower()]
            reason = " ".join(errors[0].split()) if errors else "no reason given"
            raise MissingExtraError(f"npm could not install the page's packages: {reason}")
        # Copy the files that the page needs, without links to source maps on another host.
        for name, source in VENDORED_FILES.items():
            text = (Path(folder) / "node_modules" / source).read_text("utf-8")
            target = page / "vendor" / name
            write_atomically(target, _SOURCE_MAP.sub("", text))
            targets.append(target)
    return targets
