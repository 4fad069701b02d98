"""From a study plan to tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from contstim.errors import InputError
from contstim.files import digest_of
from contstim.models.registry import load_model
from contstim.models.spec import ModelSpec
from contstim.pipeline.plan import StudyPlan
from contstim.pipeline.tasks import Task
from contstim.provenance import describe_model, versions
from contstim.search.strategies import OPTION_OF
from contstim.text.bundled import bundled_vocabulary
from contstim.text.sentences import length_range, pool, read_sentences
from contstim.text.vocabulary import Vocabulary

__all__ = ["TaskList", "describe", "shard_of"]

#: Sentences that one task scores, and that are committed together.
BATCH = 256


def describe(spec: str) -> dict[str, Any]:
    """Load a model and say what it is, as :func:`~contstim.provenance.describe_model` does.

    The model is loaded on the processor, whatever device its spec asks for: what hands out the
    work may have no GPU.
    """
    parsed = ModelSpec.parse(spec)
    elsewhere = tuple(option for option in parsed.options if option[0] != "device")
    description = describe_model(load_model(replace(parsed, options=elsewhere)))
    device = parsed.get("device", "cpu")
    if device != "cpu":
        canonical = ModelSpec.parse(description["spec"])
        options = tuple(sorted([*canonical.options, ("device", device)]))
        description["spec"] = str(replace(canonical, options=options))
    return description


@dataclass(frozen=True, eq=False)
class TaskList:
    """The tasks of a study plan.

    Attributes
    ----------
    plan
        What is to be made.
    models
        For each spec as given in the file, the description of its model.
    versions
        Of the packages that numbers depend on.
    """

    plan: StudyPlan
    models: Mapping[str, Mapping[str, Any]]
    versions: Mapping[str, str]

    @classmethod
    def of(cls, plan: StudyPlan) -> TaskList:
        """List the tasks of a study plan; loads its models, one at a time, for their fingerprints.

        Raises
        ------
        InputError
            If a model, the sentences or the vocabulary cannot be read; if two specs name the
            same model.
        """
        with chdir(plan.folder):
            models = {spec: describe(spec) for spec in plan.models}
        tasks = cls(plan, models, versions())
        names = [tasks.name(spec) for spec in plan.models]
        for given, name in zip(plan.models, names, strict=True):
            if names.count(name) > 1:
                raise InputError(f"models lists {name!r} twice, once as {given!r}; keep one")
        return tasks

    def name(self, given: str) -> str:
        """Return the canonical spec of a model, by which tables call it."""
        return str(self.models[given]["spec"])

    @cached_property
    def sentences(self) -> list[str]:
        """The natural sentences, each once, single-spaced, in the order of the file."""
        options = self.plan.sentences
        found = pool() if options.file is None else read_sentences(self.plan.folder / options.file)
        clean = list(dict.fromkeys(" ".join(sentence.split()) for sentence in found))
        if options.words is not None:
            least, most = length_range(options.words)
            clean = [s for s in clean if least <= len(s.split()) <= most]
        clean = clean[: options.limit]
        if not clean:
            raise InputError(f"no sentence has {options.words} words; change sentences.words")
        return clean

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The words that may be written."""
        path = self.plan.vocabulary.file
        if path is None:
            return bundled_vocabulary()
        return Vocabulary.read(self.plan.folder / path)

    @cached_property
    def vocabulary_digest(self) -> str:
        """The digest of the vocabulary, which takes a while to compute."""
        return self.vocabulary.digest

    def identity(self, given: str) -> dict[str, Any]:
        """Return what a model's scores depend on: its key in the score cache."""
        return {"model": dict(self.models[given]), "versions": dict(self.versions)}

    @cached_property
    def score_tasks(self) -> list[Task]:
        """Batches of sentences under each model, model by model."""
        return [
            Task(
                {
                    "task": "score",
                    **self.identity(given),
                    "given": {"model": given},
                    "sentences": self.sentences[first : first + BATCH],
                }
            )
            for given in self.plan.models
            for first in range(0, len(self.sentences), BATCH)
        ]

    @cached_property
    def starts(self) -> dict[tuple[str, str], list[str]]:
        """The start sentences of each model pair (specs as given), in the order of the work.

        Notes
        -----
        Source: Golan et al. (2023) shuffled the natural sentences and shared them out to the 36
        model pairs in turn, about 170 each. Departure: another random generator.
        """
        options = self.plan.synthesis
        assert options is not None
        usable = [sentence for sentence in self.sentences if len(sentence.split()) > 1]
        if len(usable) < len(self.sentences):
            single = next(s for s in self.sentences if len(s.split()) == 1)
            raise InputError(
                f"a sentence to start from needs at least two words, got {single!r}; leave it out"
            )
        seed = self.plan.study.seed
        pairs = self.plan.pairs()
        if options.starts == "partitioned":
            order = np.random.default_rng(seed).permutation(len(usable))
            hands = [[usable[i] for i in order[k :: len(pairs)]] for k in range(len(pairs))]
        else:
            hands = []
            for one, two in pairs:
                own = int(digest_of([self.name(one), self.name(two)]), 16)
                order = np.random.default_rng([seed, own]).permutation(len(usable))
                hands.append([usable[i] for i in order])
        return {pair: hand[: options.per_pair] for pair, hand in zip(pairs, hands, strict=True)}

    def directions(self, pair: tuple[str, str], sentence: str) -> tuple[Task, Task]:
        """Return the two tasks of one pair and start: model 1 accepts, then model 2 accepts."""
        return self._synthesis(pair[1], pair[0], sentence), self._synthesis(*pair, sentence)

    def _synthesis(self, reject: str, accept: str, sentence: str) -> Task:
        options = self.plan.synthesis
        assert options is not None
        return Task(
            {
                "task": "synthesize",
                "reject": dict(self.models[reject]),
                "accept": dict(self.models[accept]),
                "given": {"reject": reject, "accept": accept},
                "versions": dict(self.versions),
                "vocabulary": self.vocabulary_digest,
                "strategy": options.strategy,
                **{option: getattr(options, option) for option in OPTION_OF},
                "seed": self.plan.study.seed,
                "sentence": sentence,
            }
        )

    @cached_property
    def synthesis_tasks(self) -> list[Task]:
        """Both directions of every pair and start sentence, pair by pair."""
        if self.plan.synthesis is None:
            return []
        return [
            task
            for pair, sentences in self.starts.items()
            for sentence in sentences
            for task in self.directions(pair, sentence)
        ]


def shard_of(tasks: Sequence[Task], shard: tuple[int, int] | None) -> list[Task]:
    """Return the tasks of shard i of n (from 1), by their keys; all of them for None."""
    if shard is None:
        return list(tasks)
    number, total = shard
    return [task for task in tasks if int(task.key, 16) % total == number - 1]
