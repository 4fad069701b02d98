"""Strategies that write whole sentences from the left: a pool, of which the best are taken."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from contstim.models.beginnings import COMMA
from contstim.settings import settings
from contstim.synthesis.candidates import Candidates, WordReplacement, known_to
from contstim.synthesis.options import FluentOptions
from contstim.synthesis.problem import Problem
from contstim.synthesis.sweeps import Search, Strategy, loaded
from contstim.synthesis.writer import Draft, Form, SentenceWriter, tilts
from contstim.text import Sentence, length_range, pool, prompt_of
from contstim.text.languages import ENGLISH


class PooledStrategy(Strategy):
    """A strategy that writes whole sentences, batch by batch, whatever they are wanted beside.

    Of a set of natural sentences what is written is a pool, from which each gets its own
    (`contstim.synthesis.pool`); for a single one, or where words are to stay, sentences of as many
    words are written for it alone.
    """

    pooled: ClassVar[bool] = True
    starts_at_natural: ClassVar[bool] = False

    @abstractmethod
    def batches(self, n_natural: int) -> int:
        """Return how many batches are written for each side of a pair, given natural sentences."""

    @abstractmethod
    def form(self, natural: Iterable[str]) -> Form:
        """Return what sentences look like that are written beside natural ones."""

    @abstractmethod
    def batch(
        self,
        number: int,
        problem: Problem,
        proposal: WordReplacement,
        form: Form,
        natural: Sequence[str],
        rng: np.random.Generator,
    ) -> list[Draft]:
        """Write a batch.

        Parameters
        ----------
        number
            Of the batch, from 0.
        problem
            What is wanted.
        proposal, form
            The words, and what sentences look like.
        natural
            Natural sentences, for strategies that look at some.
        rng
            Source of chance.
        """

    def look(self, candidates: Candidates) -> bool:
        """Look at no word alone."""
        return False

    def run(self, search: Search) -> bool:
        """Write for one natural sentence, and take the best that keeps the constraints."""
        natural = search.start
        fixed = {p: (natural.words[p],) for p in range(len(natural)) if p not in search.positions}
        words = {**dict(search.problem.edits.words), **fixed}
        commas = tuple(p for p, mark in enumerate(natural.after[:-1]) if mark.startswith(COMMA))
        form = Form(len(natural), len(natural), (natural.after[-1] or ".",), commas, words)
        rng = search.chance()
        others = pool() if natural.language is ENGLISH else [str(natural)]
        beside = [text for text in others if text != str(natural)] or others
        for number in range(self.batches(1)):
            drafts = self.batch(number, search.problem, search.proposal, form, beside, rng)
            for draft in drafts:
                cores = Sentence.parse(draft.sentence, natural.language).words
                search.take(natural.with_words(cores))
        return True


@settings
class Fluent(FluentOptions, PooledStrategy):
    """Write sentences with a language model, tilted towards what is wanted."""

    @property
    def models(self) -> tuple[str, ...]:
        """The writer, and what stands in for models that do not tilt."""
        return (self.writer,) if self.guide is None else (self.writer, self.guide)

    def batches(self, n_natural: int) -> int:
        """Return how often sentences are begun."""
        return -(-self.begun // self.rows)

    def form(self, natural: Iterable[str]) -> Form:
        """Return what sentences look like that are written beside natural ones."""
        if self.lengths is not None:
            shortest, longest = length_range(self.lengths)
        else:
            words = [len(sentence.split()) for sentence in natural]
            shortest, longest = max(2, min(words) - 1), max(words) + 1
        return Form(shortest, longest, tuple(self.marks), None if self.commas == "yes" else ())

    def batch(
        self,
        number: int,
        problem: Problem,
        proposal: WordReplacement,
        form: Form,
        natural: Sequence[str],
        rng: np.random.Generator,
    ) -> list[Draft]:
        """Write after a prompt of some natural sentences, which are drawn for it."""
        model, models = loaded(self.writer), problem.by_name
        words = known_to(proposal, model)
        guide = None if self.guide is None else loaded(self.guide)
        if guide is not None:
            words = known_to(words, guide)
        tilting = [(c, models[name]) for name, c in tilts(problem).items()]
        writer = SentenceWriter(model, tilting, words, form, self, guide)
        n = min(self.prompt, len(natural))
        chosen = rng.choice(len(natural), size=n, replace=False)
        return writer.write(prompt_of(natural[i] for i in chosen), rng)
