"""The durable store of a run: one small file for each finished task.

``tasks/ab/abcd....json`` holds a result, ``failed/ab/abcd....json`` the error of a task that was
given up; ``scores/`` is the score cache. Files appear whole (temporary file, fsync, rename, fsync
of the folder), are named by the task's key and hold the whole task, so any number of processes and
machines may write at once. The store is the truth; what spreads the work can be replaced.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from contstim.errors import InputError
from contstim.files import write_whole
from contstim.pipeline.tasks import Task

__all__ = ["RunStore"]


class RunStore:
    """Results and failures of tasks in a folder.

    Parameters
    ----------
    folder
        The run's folder; nothing is written before the first result.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def _path(self, kind: str, key: str) -> Path:
        return self.folder / kind / key[:2] / f"{key}.json"

    def has(self, key: str) -> bool:
        """Say whether the task's result is committed."""
        return self._path("tasks", key).is_file()

    def finished(self) -> set[str]:
        """Return the keys of all committed results."""
        return {path.stem for path in (self.folder / "tasks").glob("??/*.json")}

    def commit(self, task: Task, result: dict[str, Any], seconds: float) -> None:
        """Put the task's result on the disk; it is there for good when this returns.

        Raises
        ------
        OutputError
            If the folder cannot be written to.
        """
        record = {
            "task": task.config,
            "result": result,
            "seconds": round(seconds, 3),
            "host": platform.node(),
        }
        text = json.dumps(record, ensure_ascii=False, indent=1) + "\n"
        write_whole(self._path("tasks", task.key), text)
        self._path("failed", task.key).unlink(missing_ok=True)

    def result(self, key: str) -> dict[str, Any]:
        """Return a committed result.

        Raises
        ------
        InputError
            If there is none, or its file is damaged.
        """
        path = self._path("tasks", key)
        try:
            record = json.loads(path.read_text("utf-8"))["result"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is no result of a task ({error}); remove it") from None
        return dict(record)

    def seconds(self, keys: Iterable[str]) -> list[float]:
        """Return how long the committed ones of `keys` took."""
        paths = [self._path("tasks", key) for key in keys]
        return [json.loads(p.read_text("utf-8"))["seconds"] for p in paths if p.is_file()]

    def fail(self, task: Task, error: str, details: str) -> None:
        """Record that a task was given up, and why."""
        record = {"task": task.config, "error": error, "details": details, "host": platform.node()}
        text = json.dumps(record, ensure_ascii=False, indent=1) + "\n"
        write_whole(self._path("failed", task.key), text)

    def cleared(self, key: str) -> None:
        """Forget that a task was given up."""
        self._path("failed", key).unlink(missing_ok=True)

    def error(self, key: str) -> str | None:
        """Return the one-line error of a task that was given up, or None."""
        path = self._path("failed", key)
        if not path.is_file():
            return None
        return str(json.loads(path.read_text("utf-8"))["error"])
