"""Files and folders: atomic writing, digests, lock files and metadata."""

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

#: Seconds between two heartbeats of the holder of a lock.
HEARTBEAT_INTERVAL = 20.0
#: Seconds without a heartbeat after which a holder on another machine is considered dead.
LOCK_TIMEOUT = 120.0
#: Seconds after which a lock file without a holder is an error.
UNSIGNED_TIMEOUT = 10.0


def digest(content: str | bytes) -> str:
    """Return the SHA-256 of bytes or of a text (as UTF-8) as 64 hexadecimal digits."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def digest_parts(parts: Iterable[bytes]) -> str:
    """Return the SHA-256 of the concatenation of byte strings as 64 hexadecimal digits."""
    sha256 = hashlib.sha256()
    for part in parts:
        sha256.update(part)
    return sha256.hexdigest()


def json_digest(value: Any) -> str:
    """Return the first 32 hexadecimal digits of the SHA-256 of a JSON value with sorted keys."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return digest(text)[:32]


def decode_json(text: str | bytes) -> Any:
    """Decode a JSON text with or without a byte-order mark.

    Raises
    ------
    ValueError
        If the text is not JSON or has too many levels of nested values.
    """
    try:
        return json.loads(text.removeprefix("\ufeff") if isinstance(text, str) else text)
    except RecursionError:
        raise ValueError("it has too many levels of nested values") from None


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
    """Return the folder for converted models and downloaded data sets.

    This is ``$CONTSTIM_CACHE``, or by default the user's cache folder.
    """
    if folder := os.environ.get("CONTSTIM_CACHE"):
        return Path(folder)
    import platformdirs  # not installed on the minimal server of an experiment

    return platformdirs.user_cache_path("contstim", appauthor=False)


@contextmanager
def replace_atomically(path: Path, *, hint: str = "") -> Iterator[Path]:
    """Yield a temporary path that replaces a file or folder when the ``with`` block ends.

    The temporary file or folder is written to disk and then renamed. Other processes see either the
    old or the new content, also on network file systems, and the new content survives a power
    failure. If the block fails, the temporary file is removed. If `path` is a symbolic link, its
    target is replaced. A pipe or a device, e.g. ``/dev/null``, is written directly.

    Parameters
    ----------
    path
        Path of the file or folder. A file may exist; a folder may exist if it is empty.
    hint
        Instruction for the error message if `path` cannot be written.

    Yields
    ------
    Path
        Temporary path, in the same folder as `path`.

    Raises
    ------
    OutputError
        If the path cannot be written.
    """
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if target.is_symlink():
        raise OutputError(f"cannot write {path}: its links form a circle; remove it")
    # A pipe or a device cannot be replaced and is written directly.
    if is_stream(path):
        temporary = target
    else:
        # The name is random because several processes may write the same file at the same time.
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        yield temporary
        if temporary != target:
            # The content must be on the disk before the name changes, to survive a power failure.
            _flush_all_to_disk(temporary)
            temporary.replace(target)
            _flush_to_disk(target.parent)
    except OutputError:
        raise
    except OSError as error:
        advice = f"; {hint}" if hint else ""
        raise OutputError(f"cannot write {path}: {error.strerror or error}{advice}") from None
    finally:
        # If the block failed, the temporary file still exists.
        if temporary != target:
            with suppress(OSError):
                remove(temporary)


def check_new_folder(path: Path) -> None:
    """Check that a folder does not exist and can be created.

    Raises
    ------
    OutputError
        If the path exists or the folder that would contain it cannot be written.
    """
    if path.exists():
        raise OutputError(f"{path} exists; choose another folder, or remove it")
    parent = next((p for p in path.absolute().parents if p.exists()), Path("/"))
    if not (parent.is_dir() and os.access(parent, os.W_OK)):
        raise OutputError(f"cannot write {path}: no folder can be created in {parent}")


def check_writable(path: Path) -> None:
    """Check that a file can be written, before a long computation.

    Raises
    ------
    OutputError
        If the folder of the file cannot be written.
    """
    probe = path.with_name(path.name + ".partial")
    # Create and remove an empty file beside `path`, whose content stays unchanged.
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        reason = error.strerror
        raise OutputError(f"cannot write {str(path)!r}: {reason}; choose another place") from error


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file atomically, see `replace_atomically`; missing folders are created.

    Parameters
    ----------
    path
        File to write.
    content
        Bytes, or text that is encoded as UTF-8.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    with replace_atomically(path) as temporary:
        _make_folder(path.parent)
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def is_stream(path: Path) -> bool:
    """Return whether a path exists and is neither a file nor a folder, e.g. a pipe."""
    # For names that are too long, os.path returns False, whereas pathlib raises an error.
    return os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))


def remove(path: Path) -> None:
    """Remove a file, or a folder with all its files, if it exists.

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
    """Create a folder and the missing folders above it, and write them to disk."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _flush_to_disk(folder.parent)


def _flush_all_to_disk(path: Path) -> None:
    """Write a file, or a folder with all its files, from the system's cache to disk."""
    if path.is_dir():
        for entry in path.iterdir():
            _flush_all_to_disk(entry)
    _flush_to_disk(path)


def _flush_to_disk(path: Path) -> None:
    """Write a file, or the list of entries of a folder, from the system's cache to disk."""
    if os.name != "posix":
        return  # Windows cannot synchronise a file opened for reading; its renames are journalled.
    # `fsync` waits until the data in the system's cache are on the disk.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class LockedError(InputError):
    """File or folder that another process has locked."""


class LockHolder(NamedTuple):
    """Holder of a lock: process, machine, and local time of the acquisition."""

    pid: int
    host: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"


def find_lock_holder(path: Path) -> LockHolder | None:
    """Return the process that holds a lock; None if no living process holds it.

    The death of a process is noticed only if the process ran on this machine.

    Parameters
    ----------
    path
        Path of the lock file.
    """
    if not path.is_file():
        return None
    # If the lock can be acquired for a moment, no living process holds it.
    try:
        with _create_lease(path).acquire(timeout=0):
            return None
    except (Timeout, PermissionError):  # locked, or in a folder that is read-only
        return _read_holder(path)


@contextmanager
def lock(path: Path, resource: str, *, wait: bool = False) -> Iterator[Callable[[], None]]:
    """Hold a lock file for the duration of a ``with`` block.

    The lock also works between machines with a shared file system. If the process that holds the
    lock has died, the lock is taken over: immediately if the process ran on this machine, otherwise
    after `LOCK_TIMEOUT` seconds without a heartbeat.

    Parameters
    ----------
    path
        Path of the lock file. Missing folders are created.
    resource
        Name of the locked resource, for error messages.
    wait
        Whether to wait until a living holder releases the lock.

    Yields
    ------
    callable
        Function that raises a `LockedError` if another process has taken over the lock, e.g. while
        this process was suspended.

    Raises
    ------
    LockedError
        If another process holds the lock; the message names it. Also if the lock file names no
        process, because a process was killed while creating it.
    OutputError
        If the lock file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lease = _create_lease(path)
        _acquire_lock(lease, path, resource, wait=wait)
        # Record the time, to be shown to other processes that want the lock.
        with path.open("a", encoding="utf-8") as file:
            file.write(f"since={time.strftime('%Y-%m-%d %H:%M:%S')}\n")
    except OSError as error:
        raise OutputError(f"cannot lock {path}: {error.strerror or error}") from None

    # The caller can check from time to time whether it still holds the lock.
    def check() -> None:
        if lease.compromise is not None:
            raise LockedError(f"the lock {path} was taken over by another process; this one stops")

    try:
        yield check
    finally:
        lease.release()


def _create_lease(path: Path) -> SoftFileLease:
    return SoftFileLease(
        path, lease_duration=LOCK_TIMEOUT, heartbeat_interval=HEARTBEAT_INTERVAL, thread_local=False
    )


def _acquire_lock(lease: SoftFileLease, path: Path, resource: str, *, wait: bool) -> None:
    """Acquire a lock, or raise `LockedError` if another process holds it.

    A process on another machine that holds the lock shows that it is alive by its *heartbeat*: it
    updates the modification time of the lock file regularly. Otherwise the lock is taken over after
    `LOCK_TIMEOUT` seconds.

    Parameters
    ----------
    lease
        Lock to acquire.
    path
        Path of the lock file.
    resource
        Name of the locked resource, for messages.
    wait
        Whether to wait until a living holder releases the lock.
    """
    first_heartbeat = unsigned_heartbeat = _last_heartbeat(path)
    is_reported, unsigned_since = False, time.monotonic()
    # A heartbeat is the modification time of the lock file, which its holder updates regularly.
    # `unsigned_heartbeat` is the heartbeat of a lock file that names no process (holder).
    while True:
        try:
            # `find_lock_holder` holds the lock for a moment, so try for longer than that.
            lease.acquire(timeout=0.5)
        except Timeout:
            holder = _read_holder(path)
        else:
            return
        heartbeat = _last_heartbeat(path)
        # A lock file without a holder is being created, unless it does not change for long.
        if holder is None and unsigned_heartbeat == heartbeat != 0:
            if time.monotonic() - unsigned_since > UNSIGNED_TIMEOUT:
                raise LockedError(
                    f"the lock {path} has no holder, because the process that locked {resource} "
                    "was killed at that moment; remove the lock if no such process runs"
                )
        else:
            unsigned_heartbeat, unsigned_since = heartbeat, time.monotonic()
        # Try again if the caller wants to wait, or if the lock file is being created.
        if wait or holder is None:
            continue
        # A new heartbeat shows that a holder on another machine is alive. Until then, keep trying:
        # a lock without heartbeats is taken over.
        first_heartbeat = first_heartbeat or heartbeat
        if holder.host == _host_name(path) or _last_heartbeat(path) != first_heartbeat:
            raise LockedError(f"{resource} is held by {holder}; wait for it, or end it first")
        if not is_reported:
            print(f"waiting for a heartbeat of {holder}, which holds {path}", file=sys.stderr)
            is_reported = True


def _read_holder(path: Path) -> LockHolder | None:
    """Return the process that holds a lock, or None if the lock is free."""
    # A lease is a lock that the process holding it (`owner`) must renew regularly. This object only
    # reads the lock file, because it does not call `acquire`.
    process = _create_lease(path).owner
    if process is None:
        return None
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError:  # The lock was released in the meantime.
        return None
    # The holder has appended the time at which it acquired the lock.
    times = [line.removeprefix("since=") for line in lines if line.startswith("since=")]
    return LockHolder(process.pid, process.hostname, times[0] if times else "just now")


def _host_name(path: Path) -> str | None:
    """Return the name by which lock files in the folder of `path` identify this machine."""
    with _create_lease(path.with_name(f".{secrets.token_hex(8)}.tmp")) as lease:
        return lease.owner and lease.owner.hostname


def _last_heartbeat(path: Path) -> int:
    """Return the modification time of a lock file in nanoseconds; 0 if it does not exist."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def metadata_path(table: Path) -> Path:
    """Return the path of the metadata of a table, ``TABLE.meta.json``."""
    return table.with_name(f"{table.name}.meta.json")


def write_metadata(table: Path, options: Mapping[str, Any]) -> None:
    """Write the metadata of a table: version of contstim, options and seed, and digest.

    Parameters
    ----------
    table
        Path of the table that the metadata describe.
    options
        Options that the table was made with.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    metadata = {"contstim": version("contstim"), "options": options, "sha256": file_digest(table)}
    write_atomically(metadata_path(table), json.dumps(metadata, indent=2) + "\n")
