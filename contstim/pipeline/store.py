"""Durable storage of the results of a run, and of the tables that stages write.

The store of a run is a folder with one small JSON file per finished task. A task is identified by
its key, a digest of everything that its result depends on.

- ``tasks/ab/abcd….json``: result of the task with the key ``abcd…``
- ``failed/ab/abcd….json``: error of a task that was given up
- ``scores/``: score cache

Files are written atomically (temporary file, then rename), so that any number of processes and
machines can write at the same time. Each file contains the whole task. A file that is damaged, or
that contains a task with a different key, is ignored, and its task is executed again.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from contstim.errors import InputError
from contstim.files import decode_json, digest, file_digest, json_digest, write_atomically
from contstim.models.cache import ScoreCache

if TYPE_CHECKING:
    from contstim.pipeline.tasks import Task

# Required fields of the files in each folder, besides the task.
_REQUIRED_KEYS = {"tasks": {"result", "seconds"}, "failed": {"error"}}


class RunStore:
    """Store of the results and errors of a run, as a folder with one file per task.

    A task is a small part of a run, for example the search for one synthetic sentence.

    Parameters
    ----------
    folder
        Folder of the run. It is created when the first result is written.
    scores
        Folder in which scores of sentences are cached. Default: the subfolder ``scores`` of the
        run.
    """

    def __init__(self, folder: Path | str, scores: Path | str | None = None) -> None:
        self.folder = Path(folder)
        self.score_cache = ScoreCache(self.folder / "scores" if scores is None else scores)
        self._valid_keys: set[str] = set()

    def _path(self, kind: str, key: str) -> Path:
        return self.folder / kind / key[:2] / f"{key}.json"

    def has_result(self, key: str) -> bool:
        """Return whether the store contains a valid result of the task with this key."""
        if key not in self._valid_keys and self._read("tasks", key) is not None:
            self._valid_keys.add(key)
        return key in self._valid_keys

    def find_missing(self, tasks: Iterable[Task]) -> list[Task]:
        """Return the tasks that have no result yet."""
        # Files of known results may have been removed from the folder.
        self._valid_keys &= {path.stem for path in (self.folder / "tasks").glob("??/*.json")}
        return [task for task in tasks if not task.is_done(self)]

    def find_pending(self, tasks: Iterable[Task]) -> list[Task]:
        """Return the tasks that have no result and were not given up because of an error."""
        return [task for task in self.find_missing(tasks) if self.read_error(task) is None]

    def commit(self, task: Task, result: dict[str, Any] | None, seconds: float) -> None:
        """Write the result of a task to a file, and remove the error of an earlier try.

        Parameters
        ----------
        task
            Task that was executed.
        result
            Result as JSON values. None for a task that has written its scores to the score cache.
        seconds
            Duration of the task in seconds.

        Raises
        ------
        OutputError
            If the folder is not writable.
        """
        if result is not None:
            self._write("tasks", task, result=result, seconds=round(seconds, 3))
        self._path("failed", task.key).unlink(missing_ok=True)

    def write_error(self, task: Task, error: str, details: str) -> None:
        """Write the single-line error and the details of a failed task."""
        self._write("failed", task, error=error, details=details)

    def _write(self, kind: str, task: Task, **values: Any) -> None:
        record = {"task": task.record, **values, "host": platform.node()}
        text = json.dumps(record, ensure_ascii=False, indent=1) + "\n"
        write_atomically(self._path(kind, task.key), text)

    def read_result(self, key: str) -> dict[str, Any]:
        """Return the stored result of a task as JSON values.

        Parameters
        ----------
        key
            Digest by which the task is identified (`Task.key`).

        Raises
        ------
        InputError
            If the file with the result is missing or damaged.
        """
        record = self._read("tasks", key)
        if record is None:
            path = self._path("tasks", key)
            raise InputError(f"{path} is missing or damaged; repeat the command to replace it")
        return dict(record["result"])

    def read_durations(self, tasks: Iterable[Task]) -> list[float]:
        """Return the durations, in seconds, of the tasks that have results in the store."""
        records = (self._read("tasks", task.key) for task in tasks)
        return [float(record["seconds"]) for record in records if record is not None]

    def read_error(self, task: Task) -> str | None:
        """Return the single-line error of a failed task; None for other tasks."""
        record = self._read("failed", task.key)
        return None if record is None else str(record["error"])

    def _read(self, kind: str, key: str) -> dict[str, Any] | None:
        """Read the file with the result or the error of a task.

        Parameters
        ----------
        kind
            ``tasks`` for the result, or ``failed`` for the error.
        key
            Digest by which the task is identified (`Task.key`).

        Returns
        -------
        dict or None
            Content of the file. None if the file is missing or damaged, or if it contains a task
            with a different key.
        """
        path = self._path(kind, key)
        try:
            record = decode_json(path.read_bytes())
            # The key is the digest of the task. A different digest shows that the file is damaged.
            is_valid = json_digest(record["task"]) == key and _REQUIRED_KEYS[kind] <= record.keys()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}") from None
        except (ValueError, KeyError, TypeError):
            return None  # The file is damaged, so the task will be executed again.
        return record if is_valid else None


@dataclass(frozen=True)
class StageTable:
    """Table that is written as a CSV file, with its provenance in a second file.

    The second file, ``FILE.meta.json``, contains a digest of all data from which the table was
    made, the SHA-256 of the table, and statistics (notes).

    Attributes
    ----------
    path
        Path of the CSV file.
    """

    path: Path

    @property
    def meta_path(self) -> Path:
        """Path of the file with the provenance of the table."""
        return self.path.with_name(self.path.name + ".meta.json")

    @property
    def work_folder(self) -> Path:
        """Folder for unfinished work of commands that write only this table."""
        return self.path.with_name(f".{self.path.name}.run")

    def _read_meta(self) -> dict[str, Any]:
        """Return the content of ``FILE.meta.json``, or an empty dictionary if it is unreadable."""
        try:
            meta = decode_json(self.meta_path.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return meta if isinstance(meta, dict) else {}

    def is_current(self, inputs: Any) -> bool:
        """Return whether the table is unchanged and was made from `inputs` (JSON values)."""
        meta, sha256 = self._read_meta(), self.sha256
        if sha256 is None or meta.get("sha256") != sha256:
            return False
        return bool(meta.get("inputs") == json_digest(inputs))

    @property
    def sha256(self) -> str | None:
        """SHA-256 of the CSV file; None if the file cannot be read."""
        try:
            return file_digest(self.path)
        except OSError:
            return None

    @property
    def notes(self) -> dict[str, Any] | None:
        """Notes on the table; None if they cannot be read."""
        notes = self._read_meta().get("notes")
        return notes if isinstance(notes, dict) else None

    def write(self, text: str, inputs: Any, notes: dict[str, Any]) -> None:
        """Write the table to a CSV file and its provenance to a second file.

        Parameters
        ----------
        text
            Table as CSV text.
        inputs
            All data and settings from which the table was made, as JSON values. Only their digest
            is written.
        notes
            Statistics and settings to record beside the table, by name.
        """
        # Write the table last, so that an interruption cannot leave a table without provenance.
        meta = {"inputs": json_digest(inputs), "sha256": digest(text), "notes": notes}
        # NumPy scalars in notes become Python numbers.
        meta_text = json.dumps(meta, indent=1, ensure_ascii=False, default=np.generic.item)
        write_atomically(self.meta_path, meta_text + "\n")
        write_atomically(self.path, text)
