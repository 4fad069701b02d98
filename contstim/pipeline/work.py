"""Durable work: tasks, the store of what is finished, the worker, and the tables made of it.

A task is a record whose key is the digest of its JSON form, of all that its result depends on.
The store is a folder with one small file for each finished task: ``tasks/ab/abcd....json`` holds a
result, ``failed/ab/abcd....json`` the error of a task that was given up; ``scores/`` is the score
cache. Files appear whole (temporary file, fsync, rename, fsync of the folder), are named by the
task's key and hold the whole task, so any number of processes and machines may write at once. A
file that is damaged, or holds another task than its name says, counts as not there: its task is
done again. The store is the truth; what spreads the work can be replaced.
"""

from __future__ import annotations

import json
import platform
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from contstim.errors import ContstimError, InputError, OutputError
from contstim.files import decode_json, digest, file_digest, json_digest, write_atomically
from contstim.models import ModelSpec
from contstim.models.base import SentenceModel
from contstim.models.cache import ScoreCache, describe_model, package_versions
from contstim.models.registry import load_model
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.synthesis.strategy import load_cached_model
from contstim.text.vocabulary import Vocabulary, bundled_vocabulary

#: How often a task is tried before it fails; faults of its input are certain at once.
TRIES = 3

# What a file of the store says besides its task.
_NEEDED = {"tasks": {"result", "seconds"}, "failed": {"error"}}

#: Models that stay loaded from task to task: those of a pair.
_LOADED = 2


@dataclass(frozen=True)
class ModelRecord:
    """A model: its spec as it was given, and what :func:`describe_model` says of it."""

    given: str
    description: Mapping[str, Any]

    @classmethod
    def of(cls, spec: str, loaded: LoadedModels | None = None) -> ModelRecord:
        """Load a model and say what it is.

        The model is loaded on the processor, whatever device its spec asks for: what hands out
        the work may have no GPU. One that asks for none stays among those `loaded`.
        """
        parsed = ModelSpec.parse(spec)
        device = parsed.get("device", "cpu")
        if loaded is not None and device == "cpu":
            return loaded.get(spec)[1]
        description = describe_model(model_on_processor(spec))
        if device != "cpu":
            canonical = ModelSpec.parse(description["spec"])
            options = tuple(sorted([*canonical.options, ("device", device)]))
            description["spec"] = str(replace(canonical, options=options))
        return cls(spec, description)

    @property
    def name(self) -> str:
        """What tables call the model: the name it was given, or else its canonical spec."""
        return ModelSpec.parse(self.given).name or self.spec

    @property
    def spec(self) -> str:
        """The model's canonical spec, with the device that was asked for."""
        return str(self.description["spec"])


def model_on_processor(spec: str) -> SentenceModel:
    """Load a model on the processor, whatever device its spec asks for."""
    parsed = ModelSpec.parse(spec)
    elsewhere = tuple(option for option in parsed.options if option[0] != "device")
    return load_model(replace(parsed, options=elsewhere))


class LoadedModels:
    """The models that were used last in this process, as many as a pair has, by spec as given."""

    def __init__(self) -> None:
        self._models: dict[str, tuple[SentenceModel, ModelRecord]] = {}

    def holds(self, record: ModelRecord) -> bool:
        """Return whether a model is loaded, and is what `record` says."""
        return record.given in self._models and self._models[record.given][1] == record

    def get(self, spec: str, keep: Collection[str] = ()) -> tuple[SentenceModel, ModelRecord]:
        """Return a model, loading it unless it is, in place of one that is not among `keep`."""
        loaded = self._models.pop(spec, None)
        if loaded is None:
            others = [given for given in self._models if given not in keep]
            for given in others[: max(0, len(self._models) - _LOADED + 1)]:
                del self._models[given]
            model = load_model(spec)
            loaded = model, ModelRecord(spec, describe_model(model))
        self._models[spec] = loaded  # the last used is last
        return loaded

    def drop(self, spec: str) -> None:
        """Forget a model, if it is loaded."""
        self._models.pop(spec, None)


@dataclass(frozen=True, eq=False)
class Task(ABC):
    """One piece of work; `versions` are those of the packages that numbers depend on."""

    kind: ClassVar[str]
    versions: Mapping[str, str]

    @cached_property
    def record(self) -> dict[str, Any]:
        """The task as JSON values."""
        return {"task": self.kind, **asdict(self)}

    @cached_property
    def key(self) -> str:
        """The task's name: 32 hexadecimal digits."""
        return json_digest(self.record)

    @property
    @abstractmethod
    def models(self) -> Sequence[ModelRecord]:
        """The models that the task loads."""

    @property
    def group(self) -> str:
        """Tasks of one group load the same models, whichever way round."""
        return "\n".join(sorted(model.given for model in self.models))

    @property
    def part(self) -> str:
        """A digest: tasks of which one may have to wait for another are of one part."""
        return self.key

    def is_done(self, store: RunStore) -> bool:
        """Return whether the task's result is in the store."""
        return store.has(self.key)

    @abstractmethod
    def do(self, worker: Worker) -> dict[str, Any] | None:
        """Return the task's result as JSON values, or None if it is kept elsewhere."""


@dataclass(frozen=True)
class TaskResult:
    """What became of a task: committed (`error` None), or given up with a line that says why."""

    key: str
    error: str | None = None


class RunStore:
    """Results and failures of tasks in a folder.

    Parameters
    ----------
    folder
        The run's folder; nothing is written before the first result.
    scores
        The score cache's folder; by default in the run's.
    """

    def __init__(self, folder: Path | str, scores: Path | str | None = None) -> None:
        self.folder = Path(folder)
        self.scores = ScoreCache(self.folder / "scores" if scores is None else scores)
        self._whole: set[str] = set()

    def _path(self, kind: str, key: str) -> Path:
        return self.folder / kind / key[:2] / f"{key}.json"

    def has(self, key: str) -> bool:
        """Return whether the task's result is committed, whole and its own."""
        if key not in self._whole and self._read("tasks", key) is not None:
            self._whole.add(key)
        return key in self._whole

    def left(self, tasks: Iterable[Task]) -> list[Task]:
        """Return those of the tasks whose results are not there."""
        self._whole &= {path.stem for path in (self.folder / "tasks").glob("??/*.json")}
        return [task for task in tasks if not task.is_done(self)]

    def commit(self, task: Task, result: dict[str, Any] | None, seconds: float) -> None:
        """Put the task's result on the disk; it is there for good when this returns.

        Parameters
        ----------
        task, result
            The task and its result; None if that is kept elsewhere.
        seconds
            How long it took.

        Raises
        ------
        OutputError
            If the folder cannot be written to.
        """
        if result is not None:
            self._write("tasks", task, result=result, seconds=round(seconds, 3))
        self._path("failed", task.key).unlink(missing_ok=True)

    def fail(self, task: Task, error: str, details: str) -> None:
        """Record that a task was given up, and why."""
        self._write("failed", task, error=error, details=details)

    def _write(self, kind: str, task: Task, **values: Any) -> None:
        record = {"task": task.record, **values, "host": platform.node()}
        text = json.dumps(record, ensure_ascii=False, indent=1) + "\n"
        write_atomically(self._path(kind, task.key), text)

    def result(self, key: str) -> dict[str, Any]:
        """Return a committed result.

        Raises
        ------
        InputError
            If there is none, or its file is damaged or another task's.
        """
        record = self._read("tasks", key)
        if record is None:
            path = self._path("tasks", key)
            raise InputError(f"{path} is not a result of its task; run again to make it anew")
        return dict(record["result"])

    def seconds(self, tasks: Iterable[Task]) -> list[float]:
        """Return how long the committed ones of `tasks` took."""
        records = (self._read("tasks", task.key) for task in tasks)
        return [float(record["seconds"]) for record in records if record is not None]

    def error(self, task: Task) -> str | None:
        """Return the one-line error of a task that was given up, or None."""
        record = self._read("failed", task.key)
        return None if record is None else str(record["error"])

    def _read(self, kind: str, key: str) -> dict[str, Any] | None:
        """Return what the store has of a task; None for nothing, for damage and another task's."""
        path = self._path(kind, key)
        try:
            record = decode_json(path.read_bytes())
            is_own = json_digest(record["task"]) == key and _NEEDED[kind] <= record.keys()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}") from None
        except (ValueError, KeyError, TypeError):
            return None
        return record if is_own else None


@dataclass(frozen=True)
class RunContext:
    """Where a run's work is done, the same for all of its tasks; all paths are absolute.

    Attributes
    ----------
    store
        The run's store.
    scores
        The score cache.
    folder
        The working folder while tasks run, so that model specs with relative paths mean the same
        to every worker: that of the study plan.
    vocabulary
        The vocabulary's file; None: the bundled one.
    threads
        Threads of PyTorch; another number may change a network's last digits.
    """

    store: Path
    scores: Path
    folder: Path
    vocabulary: Path | None = None
    threads: int = 1


class Worker:
    """Does tasks and commits their results, keeping the models of one pair loaded.

    Parameters
    ----------
    context
        The run's. The working folder must be its `folder` while tasks run.
    loaded
        Models that are loaded already.
    """

    def __init__(self, context: RunContext, loaded: LoadedModels | None = None) -> None:
        self.context = context
        self.store = RunStore(context.store, context.scores)
        self._loaded = LoadedModels() if loaded is None else loaded
        self._versions = package_versions()
        self._others: Sequence[ModelRecord] = ()
        # Of the models of a group, the whole one; and one that leaves some words out.
        self._proposal: tuple[str, SharedVocabulary] | None = None
        self._barred: tuple[tuple[str, ...], SharedVocabulary] | None = None

    @cached_property
    def _vocabulary(self) -> tuple[Vocabulary, str]:
        """The words that may be written, and their digest, which takes a while to compute."""
        path = self.context.vocabulary
        words = bundled_vocabulary() if path is None else Vocabulary.read(path)
        return words, words.digest

    def run(self, task: Task) -> TaskResult:
        """Do a task, unless its result is there, and commit the result before returning.

        A task that raises is tried again; at last its error is put into the store.

        Raises
        ------
        OutputError
            If the store cannot be written to: then nothing can be kept, and work must stop.
        """
        tries = 0
        while not task.is_done(self.store):
            tries += 1
            started = time.monotonic()
            try:
                self._check_versions(task)
                result = task.do(self)
                self.store.commit(task, result, time.monotonic() - started)
            except OutputError:
                raise
            except Exception as error:  # noqa: BLE001 - any fault fails its task alone, the rest goes on
                if tries < TRIES and not isinstance(error, ContstimError):
                    continue
                message = " ".join(f"{type(error).__name__}: {error}".split())
                self.store.fail(task, message, traceback.format_exc())
                return TaskResult(task.key, message)
            break
        return TaskResult(task.key)

    def _check_versions(self, task: Task) -> None:
        here, wanted = self._versions, task.versions
        others = ", ".join(
            f"{name} {here.get(name, 'missing')} (the run: {wanted.get(name, 'none')})"
            for name in sorted({*here, *wanted})
            if here.get(name) != wanted.get(name)
        )
        if others:
            raise InputError(
                f"this worker has {others}; install the versions that the run was begun with, or "
                "start it again"
            )

    def load(self, task: Task) -> tuple[SentenceModel, ...]:
        """Return a task's models, loading those that are not loaded yet.

        Raises
        ------
        InputError
            If a model is not what the task says that it is.
        """
        wanted = [record.given for record in task.models]
        models = []
        for record in task.models:
            if not self._loaded.holds(record):
                self._proposal = None  # it holds on to the models before
                self._loaded.drop(record.given)
            model, there = self._loaded.get(record.given, wanted)
            if there != record:
                raise InputError(
                    f"the model {record.given} has changed since the run was begun; start it again"
                )
            models.append(model)
        return tuple(models)

    def expect(self, others: Sequence[ModelRecord]) -> None:
        """Let strategies load what they work with anew, unless the tasks before had the same."""
        if others != self._others:
            load_cached_model.cache_clear()
            self._others = others

    def proposal(
        self, task: Task, vocabulary: str, barred: tuple[str, ...] = ()
    ) -> SharedVocabulary:
        """Return the candidates that a task's models know, of the words that may be written.

        Parameters
        ----------
        task
            The task.
        vocabulary
            The digest of its words.
        barred
            Words among them that may not be written, case-folded.

        Raises
        ------
        InputError
            If the words are others.
        """
        if self._vocabulary[1] != vocabulary:
            # A worker that outlives a run may have read the file before it was changed.
            del self._vocabulary
            self._proposal = None
        if self._vocabulary[1] != vocabulary:
            raise InputError("the vocabulary has changed since the run was begun; start it again")
        if self._proposal is None or self._proposal[0] != task.group:
            self._proposal = task.group, SharedVocabulary(self._vocabulary[0], self.load(task))
            self._barred = None
        if self._barred is None or self._barred[0] != barred:
            self._barred = barred, self._proposal[1].exclude(frozenset(barred))
        return self._barred[1]


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is no JSON value")


@dataclass(frozen=True)
class StageTable:
    """A stage's CSV file and, beside it, ``FILE.meta.json``: its inputs, digest and notes."""

    path: Path

    @property
    def meta(self) -> Path:
        """The file beside it."""
        return self.path.with_name(self.path.name + ".meta.json")

    @property
    def work(self) -> Path:
        """The folder beside it in which a command of its own keeps what is finished."""
        return self.path.with_name(f".{self.path.name}.run")

    def holds(self, inputs: Any) -> bool:
        """Return whether the file is whole and was made from `inputs`, JSON values."""
        try:
            meta = decode_json(self.meta.read_text("utf-8"))
            same = meta["sha256"] == self.sha256 is not None
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return bool(same and meta["inputs"] == json_digest(inputs))

    @property
    def sha256(self) -> str | None:
        """Digest of the file's bytes; None if it is not there."""
        if not self.path.is_file():
            return None
        return file_digest(self.path)

    @property
    def notes(self) -> dict[str, Any] | None:
        """What is noted beside it; None if that cannot be read."""
        try:
            notes = decode_json(self.meta.read_text("utf-8"))["notes"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return notes if isinstance(notes, dict) else None

    def write(self, text: str, inputs: Any, notes: dict[str, Any]) -> None:
        """Put the table in place, after its meta file: what stops between them leaves no table."""
        meta = {"inputs": json_digest(inputs), "sha256": digest(text), "notes": notes}
        said = json.dumps(meta, indent=1, ensure_ascii=False, default=_plain) + "\n"
        write_atomically(self.meta, said)
        write_atomically(self.path, text)
