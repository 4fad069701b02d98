"""Fetching the files of a data set: by address with resumption and mirrors, or from a folder.

A file takes its place when its digest is right, and not before; what came of it until the
connection broke stays beside, hidden, and the next attempt goes on from there.
"""

from __future__ import annotations

import hashlib
import http.client
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from contstim import __version__
from contstim.benchmarks.datasets.dataset import DataFile, DataSet
from contstim.errors import InputError, OutputError
from contstim.files import cache_folder, file_digest, lock, remove, replacing, write_whole
from contstim.progress import track

# Seconds without a byte after which a connection counts as broken.
_PATIENCE = 30.0
_PART = 1 << 16
# Connections to one address that may break in a row without a byte more.
_TRIES = 2
#: What the folder of a data set says of it; whoever sees it was told before.
ABOUT = "ABOUT.txt"


def data_folder(data_set: DataSet) -> Path:
    """Return where the files of a data set are kept, in `cache_folder`."""
    return cache_folder() / "datasets" / data_set.name


def get_files(data_set: DataSet, source: Path | None = None) -> Path:
    """Have all files of a data set at hand, and return their folder.

    Before they are fetched for the first time, what the data set is, who made it and under which
    terms is printed on standard error.

    Parameters
    ----------
    data_set
        Which.
    source
        A folder that has the files, which are recognised by their digests whatever they are called;
        None: they are fetched from their addresses, unless they are at hand.

    Raises
    ------
    InputError
        If a file can be had nowhere, each address with its reason, or `source` lacks it.
    OutputError
        If the files cannot be kept: no room, or no right to write.
    """
    folder = data_folder(data_set)
    with lock(
        folder.with_name(f".{data_set.name}.lock"), f"the data set {data_set.name}", wait=True
    ):
        lacking = [file for file in data_set.files if not _is_there(file, folder / file.path)]
        if not (folder / ABOUT).exists():
            print(data_set.card, f"Kept in {folder}", sep="\n", file=sys.stderr)
            write_whole(folder / ABOUT, data_set.card + "\n")
        if source is not None:
            _copy(data_set, lacking, source, folder)
        else:
            _check_room(lacking, folder)
            for file in lacking:
                _fetch(data_set, file, folder / file.path)
    return folder


def digest_as(path: Path, like: str) -> str:
    """Return the digest of a file, of the kind that another has; see `DataFile`."""
    if not like.startswith("git:"):
        return f"sha256:{file_digest(path)}"
    whole = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while part := file.read(_PART):
            whole.update(part)
    return f"git:{whole.hexdigest()}"


def _is_there(file: DataFile, path: Path) -> bool:
    """Return whether a file is at `path`, whole; one without a known digest needs to be there."""
    if not path.is_file() or (file.size is not None and path.stat().st_size != file.size):
        return False
    return not file.digest or digest_as(path, file.digest) == file.digest


def _copy(data_set: DataSet, files: list[DataFile], source: Path, folder: Path) -> None:
    if not source.is_dir():
        raise InputError(f"there is no folder {source}; give one that has files of {data_set.name}")
    for file in files:
        place = next((path for path in _places(file, source) if _is_there(file, path)), None)
        if place is None:
            raise InputError(
                f"{source} has no file with the content of {file.path} ({file.digest or 'any'}); "
                f"get it from {_page(data_set, file)}"
            )
        with replacing(folder / file.path) as temporary:
            temporary.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(place, temporary)


def _places(file: DataFile, source: Path) -> Iterator[Path]:
    """Yield where in a folder a file may be: by path, by name, and by its size alone."""
    yield source / file.path
    yield source / Path(file.path).name
    if file.digest:
        yield from sorted(path for path in source.rglob("*") if path.is_file())


def _page(data_set: DataSet, file: DataFile) -> str:
    return next(iter(file.addresses), data_set.source)


def _check_room(files: list[DataFile], folder: Path) -> None:
    needed = sum(file.size or 0 for file in files)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OutputError(
            f"cannot write {folder}: {needed:,} bytes are needed and {free:,} free; set "
            "CONTSTIM_CACHE to a folder with more room"
        )


def _fetch(data_set: DataSet, file: DataFile, path: Path) -> None:
    """Fetch a file from the first address that has it, and put it in place."""
    if not file.digest:
        raise InputError(
            f"{file.path} of {data_set.name} is not fetched: no digest of it is known; get it from "
            f"{_page(data_set, file)} and name its folder, --from FOLDER"
        )
    part = path.with_name(f".{path.name}.part")
    faults = []
    for address in file.addresses:
        try:
            _download(address, part, file)
        except OutputError:
            raise
        except (http.client.HTTPException, OSError) as error:
            reason = getattr(error, "reason", None) or error
            faults.append(f"{address}: {' '.join(str(reason).split())}")
            continue
        if _is_there(file, part):
            part.replace(path)
            return
        remove(part)  # another file, or one that was put together of two
        faults.append(f"{address}: its content has another digest")
    raise InputError(
        f"{file.path} of {data_set.name} cannot be fetched ({'; '.join(faults)}); try again later, "
        "or name a folder that has it, --from FOLDER"
    )


def _download(address: str, part: Path, file: DataFile) -> None:
    """Add to `part` what it lacks of what is at an address, going on where connections break.

    Raises
    ------
    HTTPException, OSError
        If the address has no such file, or connections break.
    OutputError
        If the file cannot be written.
    """
    tries = 0
    while True:
        before = part.stat().st_size if part.exists() else 0
        try:
            _go_on(address, part, before, file)
        except OutputError:
            raise
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE or not before:
                raise
            part.unlink()  # longer than the file is
        except (http.client.HTTPException, OSError):
            grown = part.exists() and part.stat().st_size > before
            tries = 0 if grown else tries + 1
            if tries >= _TRIES:
                raise
        else:
            return


def _go_on(address: str, part: Path, start: int, file: DataFile) -> None:
    headers = {"User-Agent": f"contstim/{__version__}"}
    if start:
        headers["Range"] = f"bytes={start}-"
    request = urllib.request.Request(address, headers=headers)  # noqa: S310 - a data set's own
    with closing(urllib.request.urlopen(request, timeout=_PATIENCE)) as answer:  # noqa: S310
        goes_on = answer.status == http.client.PARTIAL_CONTENT
        promised = answer.headers.get("Content-Length")
        whole = file.size or start + int(promised or 0)
        blocks = iter(partial(answer.read, _PART), b"")
        shown = track(
            blocks, -(-whole // _PART), f"fetching {file.path}", start // _PART if goes_on else 0
        )
        received = _append(shown, part, "ab" if goes_on else "wb")
        if promised is not None and received < int(promised):
            raise http.client.IncompleteRead(b"", int(promised) - received)


def _append(blocks: Iterable[bytes], part: Path, mode: str) -> int:
    """Write blocks as they come, and return how many bytes they had."""
    received = 0
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        opened = part.open(mode, buffering=0)
    except OSError as error:
        raise _unwritten(part, error) from None
    with opened as place:
        for block in blocks:
            try:
                place.write(block)
            except OSError as error:
                raise _unwritten(part, error) from None
            received += len(block)
    return received


def _unwritten(part: Path, error: OSError) -> OutputError:
    return OutputError(
        f"cannot write {part}: {error.strerror or error}; make room, or set CONTSTIM_CACHE to "
        "another folder; what has come is kept"
    )
