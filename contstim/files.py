"""Files and folders that are there whole or not at all, their digests, and locks on them."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from filelock import SoftFileLease, Timeout

from contstim.errors import InputError, OutputError

#: Seconds between two signs of life of a lock's holder.
HEARTBEAT_INTERVAL = 20.0

#: Seconds without a sign of life after which a holder on another machine is taken for dead.
LOCK_TIMEOUT = 120.0
#: Seconds after which a lock that does not say who holds it is left over.
UNSIGNED_TIMEOUT = 10.0


def digest(content: str | bytes) -> str:
    """Return the SHA-256 of bytes, or of a text's UTF-8, as 64 hexadecimal digits."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def digest_parts(parts: Iterable[bytes]) -> str:
    """Return the SHA-256 of bytes that come in parts, as 64 hexadecimal digits."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part)
    return whole.hexdigest()


def json_digest(value: Any) -> str:
    """Return 32 hexadecimal digits of the SHA-256 of a JSON value, keys in order."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return digest(text)[:32]


def decode_json(text: str | bytes) -> Any:
    """Return the value of a JSON text, with a byte-order mark or without.

    Raises
    ------
    ValueError
        If it is none, or its values lie too deep within others to be read.
    """
    try:
        return json.loads(text.removeprefix("\ufeff") if isinstance(text, str) else text)
    except RecursionError:
        raise ValueError("its values lie too deep within others") from None


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cache_folder() -> Path:
    """Return the folder for what can be had again: ``$CONTSTIM_CACHE``, or the user's cache.

    Converted models and data sets are there.
    """
    if place := os.environ.get("CONTSTIM_CACHE"):
        return Path(place)
    import platformdirs  # the lean server of an experiment lacks it

    return platformdirs.user_cache_path("contstim", appauthor=False)


@contextmanager
def replace_atomically(path: Path, *, hint: str = "") -> Iterator[Path]:
    """Yield a place for a file or folder that takes the name `path` when the block ends.

    What the block writes to that place, beside `path`, is synchronised and renamed; then the
    folder around it is synchronised. That holds on local disks and on the network file systems of
    clusters: readers see what was there before or the new thing, and what was seen survives a
    power cut. If the block fails, nothing of it stays. A symbolic link stays one: what it points to
    is replaced. What is there and not a file, such as a pipe or ``/dev/null``, is written to as it
    is.

    Parameters
    ----------
    path
        The file or folder; a file may be there already, a folder only if it is empty.
    hint
        What to do where `path` cannot be written, for the message.

    Raises
    ------
    OutputError
        If the place cannot be written to.
    """
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if target.is_symlink():
        raise OutputError(f"cannot write {path}: its links lead round in a circle; remove it")
    if is_stream(path):
        temporary = target
    else:
        # Another process, on another machine too, may write the same file at the same time.
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        yield temporary
        if temporary != target:
            _synchronise_all(temporary)
            temporary.replace(target)
            _synchronise(target.parent)
    except OutputError:
        raise
    except OSError as error:
        advice = f"; {hint}" if hint else ""
        raise OutputError(f"cannot write {path}: {error.strerror or error}{advice}") from None
    finally:
        if temporary != target:
            with suppress(OSError):
                remove(temporary)


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Yield a place for a folder that takes that of one that may be there already.

    Like `replace_atomically`, except that a crash may leave the complete new folder
    beside the place of the old one.

    Raises
    ------
    OutputError
        If the place cannot be written to, or as `check_replaceable`.
    """
    check_replaceable(folder)
    new = folder.with_name(f".{folder.name}.new")
    remove(new)
    with replace_atomically(new) as temporary:
        yield temporary
    remove(folder)
    new.replace(folder)


def check_replaceable(folder: Path) -> None:
    """Refuse a folder that cannot be replaced, for the working folder is it or below it.

    Raises
    ------
    OutputError
        Naming it.
    """
    here = Path.cwd()
    if Path(os.path.realpath(folder)) in (here, *here.parents):
        raise OutputError(
            f"cannot replace {folder}, in which you work; go to another folder, or give another"
        )


def check_new_folder(path: Path) -> None:
    """Refuse a place that is taken or cannot be written to, before any work.

    Raises
    ------
    OutputError
        Naming the place.
    """
    if path.exists():
        raise OutputError(f"{path} exists; choose another folder, or remove it")
    # The nearest folder that is there must take a new one.
    above = next((p for p in path.absolute().parents if p.exists()), Path("/"))
    if not (above.is_dir() and os.access(above, os.W_OK)):
        raise OutputError(f"cannot write {path}: {above} takes no new folder")


def check_empty_folder(folder: Path) -> None:
    """Refuse a place where something is, but for an empty folder.

    Raises
    ------
    InputError
        If something is there.
    OutputError
        If it cannot be looked at.
    """
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(f"{folder} is there already and not empty; choose another folder")
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from None


def write_atomically(path: Path, content: str | bytes) -> None:
    """Put `content`, bytes or text (UTF-8), at `path` in one step, on the disk before returning.

    Folders that are not there are made.

    Raises
    ------
    OutputError
        If the place cannot be written to.
    """
    with replace_atomically(path) as temporary:
        _make_folder(path.parent)
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def write_folder(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write a folder of files, whole if it is not there yet.

    An empty one that is there may be somebody's working folder, which cannot be replaced: its files
    come into it one by one, in their order.

    Parameters
    ----------
    folder
        The folder; those above it are made.
    contents
        What is in the files, by their paths below it.

    Raises
    ------
    OutputError
        If the place cannot be written to.
    """
    if folder.exists():
        for name, content in contents.items():
            write_atomically(folder / name, content)
        return
    with replace_atomically(folder) as place:
        for name, content in contents.items():
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def is_stream(path: Path) -> bool:
    """Return whether something is at `path` that is neither file nor folder, such as a pipe."""
    # os.path answers False where pathlib raises: for names that are too long.
    return os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it; it need not be there.

    Raises
    ------
    OSError
        If it cannot be removed.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _synchronise(folder.parent)


def _synchronise_all(path: Path) -> None:
    """Have a file, or a folder and all that is in it, on the disk."""
    if path.is_dir():
        for part in path.iterdir():
            _synchronise_all(part)
    _synchronise(path)


def _synchronise(path: Path) -> None:
    if os.name != "posix":
        return  # Windows synchronises no file opened for reading; its renames are journalled.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class LockedError(InputError):
    """Another process works on what was to be worked on."""


class LockHolder(NamedTuple):
    """Who holds a lock: a process, its machine, and the local time since when."""

    pid: int
    host: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"


def find_lock_holder(path: Path) -> LockHolder | None:
    """Return the holder of a lock, or None if it has no living one.

    On this machine the dead are known; a holder on another one counts as living.
    """
    if not path.is_file():
        return None
    try:
        with _lease(path).acquire(timeout=0):
            return None
    except (Timeout, PermissionError):  # held, or in a folder that may only be looked at
        return _read_holder(path)


@contextmanager
def lock(path: Path, what: str, *, wait: bool = False) -> Iterator[Callable[[], None]]:
    """Hold a lock for the duration of a block.

    The lock is a small file, so that it works between the machines of a cluster, and says who
    holds it. A dead holder cannot keep it: on the holder's own machine it is recognised at once;
    a holder on another machine is dead when it gives no sign of life for `LOCK_TIMEOUT` seconds,
    which are waited for.

    Parameters
    ----------
    path
        The file that is the lock; its folder is made if need be.
    what
        What it protects, for messages.
    wait
        Whether to wait until the lock is free.

    Yields
    ------
    callable
        Raises a `LockedError` if the lock was lost, as happens to a process that was suspended.

    Raises
    ------
    LockedError
        If a living process holds the lock; the message says which, where, and since when. Or if
        the process that made it was killed before it could say so.
    OutputError
        If the lock cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lease = _lease(path)
        _acquire(lease, path, what, wait=wait)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"since={time.strftime('%Y-%m-%d %H:%M:%S')}\n")
    except OSError as error:
        raise OutputError(f"cannot lock {path}: {error.strerror or error}") from None

    def check() -> None:
        if lease.compromise is not None:
            raise LockedError(f"the lock {path} was taken over by another process; this one stops")

    try:
        yield check
    finally:
        lease.release()


def _lease(path: Path) -> SoftFileLease:
    return SoftFileLease(
        path, lease_duration=LOCK_TIMEOUT, heartbeat_interval=HEARTBEAT_INTERVAL, thread_local=False
    )


def _acquire(lease: SoftFileLease, path: Path, what: str, *, wait: bool) -> None:
    """Acquire a lease, waiting for one of another machine as long as it may be dead."""
    first = unsigned = _last_sign(path)
    reported, seen = False, time.monotonic()
    while True:
        try:
            # Long enough to outlast one who only looks at it.
            lease.acquire(timeout=0.5)
        except Timeout:
            holder = _read_holder(path)
            if holder is None and unsigned == _last_sign(path) != 0:
                if time.monotonic() - seen > UNSIGNED_TIMEOUT:
                    raise LockedError(
                        f"the lock {path} does not say who holds {what}: the process that "
                        "made it was killed at that moment; remove it if nothing runs there"
                    ) from None
            else:
                unsigned, seen = _last_sign(path), time.monotonic()
            if wait or holder is None:
                continue
            first = first or _last_sign(path)
            if holder.host == _this_host(path) or _last_sign(path) != first:
                raise LockedError(
                    f"{what} is held by {holder}; wait for it, or end it first"
                ) from None
            if not reported:
                print(
                    f"waiting for a sign of life of {holder}, which holds {path}", file=sys.stderr
                )
                reported = True
        else:
            return


def _read_holder(path: Path) -> LockHolder | None:
    owner = _lease(path).owner
    if owner is None:
        return None
    try:
        text = path.read_text("utf-8")
    except OSError:
        return None
    since = next((x[6:] for x in text.splitlines() if x.startswith("since=")), "just now")
    return LockHolder(owner.pid, owner.hostname, since)


def _this_host(beside: Path) -> str | None:
    """Return the name by which locks in a folder know this machine."""
    probe = _lease(beside.with_name(f".{secrets.token_hex(8)}.tmp"))
    with probe:
        return probe.owner and probe.owner.hostname


def _last_sign(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def metadata_path(table: Path) -> Path:
    """Return the path of the file that records how a table was made: seed and options."""
    return table.with_name(f"{table.name}.meta.json")


def write_metadata(table: Path, options: Mapping[str, Any]) -> None:
    """Write beside a table how it was made: version, options and seed, and its digest.

    Raises
    ------
    OutputError
        If the place cannot be written to.
    """
    made = {"contstim": version("contstim"), "options": options, "sha256": file_digest(table)}
    write_atomically(metadata_path(table), json.dumps(made, indent=2) + "\n")
