"""The page's files: its own, and those of other projects, from the npm registry.

The latter are named and pinned, with the hashes that npm checks, in ``page/package-lock.json`` and
are never committed. This module needs nothing but the standard library and filelock: the wheel's
build runs it.
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

#: The page's own sources.
PAGE_FOLDER = Path(__file__).parent / "page"

#: Files of ``page/vendor`` and where npm puts them.
VENDORED_FILES = {
    "jspsych.min.js": "jspsych/dist/index.browser.min.js",
    **{
        f"{name}.min.js": f"@jspsych/plugin-{name}/dist/index.browser.min.js"
        for name in ("survey-text", "survey-multi-choice", "survey-multi-select")
    },
}

#: The page's own files, all but ``index.html``.
_OWN_FILES = (
    "*.js",
    "page.css",
    "*.svg",
    "transports/*.js",
    "presentations/*.js",
    "THIRD_PARTY.txt",
)

_HOW = "run `contstim experiment build`, which needs npm (in a checkout: make page)"
_SOURCE_MAP = re.compile(r"^//# sourceMappingURL=.*$", re.MULTILINE)


@cache
def page_version(page: Path = PAGE_FOLDER) -> str:
    """Return a digest of the page's sources, by which browsers may keep them.

    The files of other projects count by their lock file, which is there before they are.
    """
    names = (*_OWN_FILES, "dashboard.css", "index.html", "package-lock.json")
    paths = [path for pattern in names for path in sorted(page.glob(pattern))]
    return json_digest([[path.name, file_digest(path)] for path in paths])[:12]


def vendor_files(page: Path = PAGE_FOLDER) -> dict[str, Path]:
    """Return the files of other projects by name.

    Raises
    ------
    MissingExtraError
        If one is not there; the message names the command that fetches it.
    """
    files = {name: page / "vendor" / name for name in VENDORED_FILES}
    for name, path in files.items():
        if not path.is_file():
            raise MissingExtraError(f"the experiment's page lacks {name}; {_HOW}")
    return files


def page_files() -> dict[str, Path]:
    """Return the page's files by their addresses, relative to the page; ``index.html`` is apart.

    Raises
    ------
    MissingExtraError
        If the files of other projects are not there; the message names the command to run.
    """
    own = [path for pattern in _OWN_FILES for path in sorted(PAGE_FOLDER.glob(pattern))]
    files = {path.relative_to(PAGE_FOLDER).as_posix(): path for path in own}
    files |= {f"vendor/{name}": path for name, path in vendor_files().items()}
    return {f"static/{page_version()}/{name}": path for name, path in files.items()}


def fetch_on_first_use(page: Path = PAGE_FOLDER) -> None:
    """Fetch the files of other projects if they are lacking and npm is there; say so.

    Raises
    ------
    MissingExtraError, OutputError
        As `fetch_vendor`.
    """
    lacking = [name for name in VENDORED_FILES if not (page / "vendor" / name).is_file()]
    if lacking and shutil.which("npm") is not None:
        print("fetching the files of the experiment's page with npm, once ...", file=sys.stderr)
        fetch_vendor(page)


def fetch_vendor(page: Path = PAGE_FOLDER) -> list[Path]:
    """Install the page's npm packages in a temporary folder and keep the files that it needs.

    npm refuses a package whose hash is not the one in the lock file, and runs no package's
    scripts. The line that points to a source map on another host is left out.

    Parameters
    ----------
    page
        The folder with ``package.json`` and ``package-lock.json``; files go to its ``vendor``.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    MissingExtraError
        If npm is not installed, or fails.
    OutputError
        If the folder cannot be written to.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise MissingExtraError("npm is not installed; install Node.js 18 or later, then try again")
    written = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(page / name, folder)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev"]
        # The command is fixed; npm's place comes from the user's own PATH.
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)  # noqa: S603
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line.lower()]
            reason = " ".join((lines or ["no reason given"])[0].split())
            raise MissingExtraError(f"npm could not install the page's packages: {reason}")
        for name, source in VENDORED_FILES.items():
            text = (Path(folder) / "node_modules" / source).read_text("utf-8")
            target = page / "vendor" / name
            write_atomically(target, _SOURCE_MAP.sub("", text))
            written.append(target)
    return written
