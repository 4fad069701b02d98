"""Doing tasks: what every executor runs, in this process or another."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from contstim.errors import ContstimError, InputError, OutputError
from contstim.models.base import SentenceModel
from contstim.models.cache import ScoreCache
from contstim.models.registry import load_model
from contstim.models.threads import torch_threads
from contstim.pipeline.plan import SynthesisOptions
from contstim.pipeline.store import RunStore
from contstim.pipeline.tasks import Outcome, Task, synthesis_record
from contstim.provenance import describe_model, versions
from contstim.search.proposals import WordReplacement
from contstim.search.search import synthesize
from contstim.search.strategies import OPTION_OF
from contstim.text.bundled import bundled_vocabulary
from contstim.text.vocabulary import Vocabulary

__all__ = ["TRIES", "Worker", "Workplace"]

#: How often a task is tried before it fails; faults of its input are certain at once.
TRIES = 3


@dataclass(frozen=True)
class Workplace:
    """Where a run's work is done, the same for all of its tasks; all paths are absolute.

    Attributes
    ----------
    store
        The run's store.
    scores
        The score cache.
    folder
        The study plan's folder, which is the working folder while tasks run: model specs
        with relative paths mean the same to every worker.
    vocabulary
        The vocabulary's file; None: the bundled one.
    """

    store: str
    scores: str
    folder: str
    vocabulary: str | None = None


class Worker:
    """Does tasks and commits their results, keeping the models of one pair loaded.

    Parameters
    ----------
    workplace
        The run's. The working folder must be its `folder` while tasks run.
    """

    def __init__(self, workplace: Workplace) -> None:
        self.workplace = workplace
        self.store = RunStore(workplace.store)
        self.cache = ScoreCache(workplace.scores)
        self._models: dict[str, tuple[SentenceModel, dict[str, Any]]] = {}
        self._versions = versions()
        self._proposal: tuple[str, WordReplacement] | None = None

    @cached_property
    def _vocabulary(self) -> tuple[Vocabulary, str]:
        """The words that may be written, and their digest, which takes a while to compute."""
        path = self.workplace.vocabulary
        words = bundled_vocabulary() if path is None else Vocabulary.read(path)
        return words, words.digest

    def run(self, task: Task) -> Outcome:
        """Do a task, unless its result is there, and commit the result before returning.

        A task that raises is tried again; at last its error is put into the store.

        Raises
        ------
        OutputError
            If the store cannot be written to: then nothing can be kept, and work must stop.
        """
        if self.store.has(task.key):
            return Outcome(task.key)
        tries = 0
        while True:
            tries += 1
            try:
                self._do(task)
            except OutputError:
                raise
            except Exception as error:  # noqa: BLE001 - any fault fails its task alone, the rest goes on
                if tries < TRIES and not isinstance(error, ContstimError):
                    continue
                message = " ".join(f"{type(error).__name__}: {error}".split())
                self.store.fail(task, message, traceback.format_exc())
                return Outcome(task.key, message)
            return Outcome(task.key)

    def _do(self, task: Task) -> None:
        config = task.config
        if config["versions"] != self._versions:
            raise InputError(
                f"this worker has {_difference(self._versions, config['versions'])}; install the "
                "versions that the run was begun with, or start it again"
            )
        started = time.monotonic()
        if task.kind == "score":
            self._score(task)
            return
        models = {role: self._model(config, role) for role in ("reject", "accept")}
        if self._vocabulary[1] != config["vocabulary"]:
            # A worker that outlives a run may have read the file before it was changed.
            del self._vocabulary
            self._proposal = None
        if self._vocabulary[1] != config["vocabulary"]:
            raise InputError("the vocabulary has changed since the run was begun; start it again")
        if self._proposal is None or self._proposal[0] != task.group:
            both = (models["reject"], models["accept"])
            self._proposal = (task.group, WordReplacement(self._vocabulary[0], both))
        options = {key: config[key] for key in ("strategy", *OPTION_OF)}
        with torch_threads():
            result = synthesize(
                config["sentence"],
                reject=models["reject"],
                accept=models["accept"],
                strategy=SynthesisOptions(**options).word_search,
                seed=config["seed"],
                proposal=self._proposal[1],
            )
        self.store.commit(task, synthesis_record(result), time.monotonic() - started)

    def _score(self, task: Task) -> None:
        """Score a batch; where a sentence cannot be scored, keep the others and say which."""
        config = task.config
        identity = {"model": config["model"], "versions": config["versions"]}
        known = self.cache.read(identity)
        missing = [sentence for sentence in config["sentences"] if sentence not in known]
        if not missing:
            return
        model = self._model(config, "model")
        with torch_threads():
            refused = self._keep(identity, model, missing)
        if refused:
            raise InputError(
                f"{len(refused)} of {len(config['sentences'])} sentences have no score: "
                f"{refused[0]}"
            )
        self.store.cleared(task.key)

    def _keep(
        self, identity: Mapping[str, Any], model: SentenceModel, sentences: list[str]
    ) -> list[str]:
        """Score sentences and keep the scores; return the errors of those that have none."""
        try:
            self.cache.add(identity, sentences, model.totals(sentences))
        except InputError as error:
            if len(sentences) == 1:
                return [f"{sentences[0]!r}: {error}"]
            return [
                refusal
                for sentence in sentences
                for refusal in self._keep(identity, model, [sentence])
            ]
        return []

    def _model(self, config: Mapping[str, Any], role: str) -> SentenceModel:
        given = config["given"][role]
        warm = self._models.get(given)
        if warm is None or warm[1] != config[role]:
            self._models.pop(given, None)
            self._proposal = None  # it holds on to the models before
            for other in self._models.keys() - set(config["given"].values()):
                del self._models[other]
            model = load_model(given)
            warm = (model, describe_model(model))
            if warm[1] != config[role]:
                raise InputError(
                    f"the model {given} has changed since the run was begun; start it again"
                )
            self._models[given] = warm
        return warm[0]


def _difference(found: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    names = [name for name in sorted({*found, *wanted}) if found.get(name) != wanted.get(name)]
    return ", ".join(
        f"{name} {found.get(name, 'missing')} (the run: {wanted.get(name, 'none')})"
        for name in names
    )
