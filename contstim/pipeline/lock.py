"""Who works on a run: a lock that tells, and that a dead holder cannot keep.

The lock is a small file made by an atomic link. On the holder's own machine a dead process is
recognised at once; on another machine a holder is taken for dead when it has not touched its lock
for `PATIENCE` seconds (ages are measured on the file system's own clock).
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from contstim.errors import InputError, OutputError

__all__ = ["PATIENCE", "LockedError", "RunLock", "holders"]

#: Seconds between two signs of life.
HEARTBEAT = 20.0

#: Seconds without a sign of life after which a holder on another machine is taken for dead.
PATIENCE = 600.0


class LockedError(InputError):
    """Another process works on the run."""


def _birth(pid: int) -> str:
    """Say when `pid` began, so that a number used again is not taken for its first bearer."""
    with suppress(OSError, IndexError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        return f"{boot}:{fields[19]}"
    return ""


def _alive(pid: int, birth: str) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    now = _birth(pid)
    return not (birth and now) or birth == now


def _read(path: Path) -> dict[str, Any] | None:
    """Return the holder that the lock names, with the lock's age in seconds; None if not there."""
    probe = path.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        holder: dict[str, Any] = json.loads(path.read_text("utf-8"))
        probe.touch()
        holder["age"] = probe.stat().st_mtime - path.stat().st_mtime
    except FileNotFoundError:
        return None
    except ValueError:
        raise InputError(f"{path} is no lock of a run; remove it if nothing runs there") from None
    finally:
        probe.unlink(missing_ok=True)
    return holder


def _dead(holder: dict[str, Any]) -> bool:
    if holder["host"] == platform.node():
        return not _alive(int(holder["pid"]), str(holder["birth"]))
    return bool(holder["age"] > PATIENCE)


def holders(folder: Path) -> list[dict[str, Any]]:
    """Return the living holders of a run's locks."""
    found = []
    for path in sorted(folder.glob("*.lock")):
        holder = _read(path)
        if holder is not None and not _dead(holder):
            found.append(holder)
    return found


class RunLock:
    """The right to work on a run, or on one shard of it.

    Parameters
    ----------
    folder
        Where the run keeps its locks.
    name
        ``run``, or a shard's name: shards of one run do not disturb each other, but a shard and
        the whole run do.
    """

    def __init__(self, folder: Path, name: str = "run") -> None:
        self.folder = folder
        self.name = name
        self.path = folder / f"{name}.lock"
        self._token = uuid.uuid4().hex
        self._stop = threading.Event()
        self._lost = False

    @contextmanager
    def held(self) -> Iterator[RunLock]:
        """Hold the lock for the duration of a block.

        Raises
        ------
        LockedError
            If a living process works on the run; the message says which, where, and since when.
        OutputError
            If the folder cannot be written to.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._take()
        except OSError as error:
            if isinstance(error, OutputError):
                raise
            raise OutputError(f"cannot lock {self.folder}: {error.strerror or error}") from None
        beat = threading.Thread(target=self._beat, name="run lock", daemon=True)
        try:
            self._refuse_others()
            beat.start()
            yield self
        finally:
            self._stop.set()
            if self._mine():
                self.path.unlink(missing_ok=True)

    def check(self) -> None:
        """Stop if the lock was taken over while this process was suspended.

        Raises
        ------
        LockedError
            If it was.
        """
        if self._lost:
            raise LockedError(
                f"the lock {self.path} was taken over by another process; this one stops"
            )

    def _take(self) -> None:
        own = {
            "name": self.name,
            "host": platform.node(),
            "pid": os.getpid(),
            "birth": _birth(os.getpid()),
            "since": time.strftime("%Y-%m-%d %H:%M:%S"),
            "token": self._token,
        }
        temporary = self.folder / f".{self._token}.tmp"
        temporary.write_text(json.dumps(own) + "\n", "utf-8")
        try:
            while not _linked(temporary, self.path):
                holder = _read(self.path)
                if holder is not None and not _dead(holder):
                    raise self._refusal(holder)
                if holder is not None:
                    self._remove_dead(holder, temporary)
        finally:
            temporary.unlink(missing_ok=True)

    def _remove_dead(self, holder: dict[str, Any], temporary: Path) -> None:
        """Remove a dead holder's lock, one taker at a time: the next may be another's new lock."""
        turn = self.path.with_suffix(".turn")
        if not _linked(temporary, turn):
            with suppress(FileNotFoundError):
                if time.time() - turn.stat().st_mtime > PATIENCE:
                    turn.unlink()
            time.sleep(0.05)
            return
        try:
            current = _read(self.path)
            if current is not None and current["token"] == holder["token"]:
                self.path.unlink(missing_ok=True)
        finally:
            turn.unlink(missing_ok=True)

    def _refuse_others(self) -> None:
        for holder in holders(self.folder):
            if holder["token"] != self._token and "run" in (holder["name"], self.name):
                raise self._refusal(holder)

    def _refusal(self, holder: dict[str, Any]) -> LockedError:
        what = "the run" if holder["name"] == "run" else holder["name"]
        return LockedError(
            f"{self.folder.parent} is being worked on: {what} is held by process {holder['pid']} "
            f"on {holder['host']} since {holder['since']}; wait for it, or end it first"
        )

    def _mine(self) -> bool:
        try:
            holder = _read(self.path)
        except (OSError, InputError):
            return False
        return holder is not None and holder["token"] == self._token

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT):
            if not self._mine():
                self._lost = True
                return
            with suppress(OSError):
                os.utime(self.path)


def _linked(source: Path, target: Path) -> bool:
    """Give `source` the second name `target`, unless that exists."""
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    except OSError:
        # No hard links on this file system; then the name alone is what is exclusive.
        try:
            with target.open("x", encoding="utf-8") as file:
                file.write(source.read_text("utf-8"))
        except FileExistsError:
            return False
    return True
