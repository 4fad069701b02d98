"""Guided sampling: a pool of sentences from a language model that the compared models guide."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from contstim.models.prefixes import COMMA
from contstim.settings import settings
from contstim.synthesis.candidates import Candidates, SharedVocabulary, extend_models
from contstim.synthesis.coordinate_search import Search, Strategy, load_cached_model
from contstim.synthesis.problem import Problem
from contstim.synthesis.writer import (
    Draft,
    SentenceForm,
    SentenceWriter,
    WritingOptions,
    guidance_weights,
)
from contstim.text import Sentence, format_prompt, parse_length_range, pool
from contstim.text.languages import ENGLISH


class PooledStrategy(Strategy):
    """A strategy that samples whole sentences in batches.

    For a set of natural sentences the sampled sentences form one pool, from which each natural
    sentence gets its own (`contstim.synthesis.pool`). For a single natural sentence, sentences of
    the same number of words are sampled for it alone.
    """

    is_pooled: ClassVar[bool] = True
    starts_at_natural: ClassVar[bool] = False
    supports_edits: ClassVar[bool] = False

    @abstractmethod
    def n_batches(self, n_natural: int) -> int:
        """Return the number of batches for each side of a pair."""

    @abstractmethod
    def sentence_form(self, natural: Iterable[str]) -> SentenceForm:
        """Return the form of sentences sampled beside natural ones."""

    @abstractmethod
    def sample_batch(
        self,
        number: int,
        problem: Problem,
        shared_vocabulary: SharedVocabulary,
        form: SentenceForm,
        natural: Sequence[str],
        rng: np.random.Generator,
    ) -> list[Draft]:
        """Sample a batch of sentences.

        Parameters
        ----------
        number
            Index of the batch, from 0.
        problem
            The problem.
        shared_vocabulary, form
            The words that may be used, and the form of the sentences.
        natural
            Natural sentences, for prompts.
        rng
            Random number generator.
        """

    def search_word(self, candidates: Candidates) -> bool:
        """Replace no single word."""
        return False

    def run(self, search: Search) -> bool:
        """Sample for one natural sentence, and take the best that satisfies the constraints."""
        natural = search.start
        fixed = {p: (natural.words[p],) for p in range(len(natural)) if p not in search.positions}
        commas = tuple(p for p, mark in enumerate(natural.after[:-1]) if mark.startswith(COMMA))
        form = SentenceForm(len(natural), len(natural), (natural.after[-1] or ".",), commas, fixed)
        rng = search.chance()
        others = pool() if natural.language is ENGLISH else [str(natural)]
        prompts = [text for text in others if text != str(natural)] or others
        for number in range(self.n_batches(1)):
            drafts = self.sample_batch(
                number, search.problem, search.shared_vocabulary, form, prompts, rng
            )
            for draft in drafts:
                words = Sentence.parse(draft.sentence, natural.language).words
                search.take(natural.with_words(words))
        return True


@settings
class GuidedSampling(WritingOptions, PooledStrategy):
    """Sample sentences from a language model, guided by the compared models."""

    @property
    def models(self) -> tuple[str, ...]:
        """The writer, and the guide if there is one."""
        return (self.writer,) if self.guide is None else (self.writer, self.guide)

    def n_batches(self, n_natural: int) -> int:
        """Return the number of batches for each side of a pair."""
        return -(-self.n_samples // self.batch_size)

    def sentence_form(self, natural: Iterable[str]) -> SentenceForm:
        """Return the form of sentences sampled beside natural ones."""
        if self.lengths is not None:
            shortest, longest = parse_length_range(self.lengths)
        else:
            words = [len(sentence.split()) for sentence in natural]
            shortest, longest = max(2, min(words) - 1), max(words) + 1
        return SentenceForm(
            shortest, longest, tuple(self.marks), None if self.commas == "yes" else ()
        )

    def sample_batch(
        self,
        number: int,
        problem: Problem,
        shared_vocabulary: SharedVocabulary,
        form: SentenceForm,
        natural: Sequence[str],
        rng: np.random.Generator,
    ) -> list[Draft]:
        """Sample a batch of sentences after a prompt of random natural sentences."""
        model, models = load_cached_model(self.writer), problem.models_by_name
        words = extend_models(shared_vocabulary, model)
        guide = None if self.guide is None else load_cached_model(self.guide)
        if guide is not None:
            words = extend_models(words, guide)
        guiding = [(c, models[name]) for name, c in guidance_weights(problem).items()]
        writer = SentenceWriter(model, guiding, words, form, self, guide)
        n = min(self.n_prompts, len(natural))
        chosen = rng.choice(len(natural), size=n, replace=False)
        return writer.write(format_prompt(natural[i] for i in chosen), rng)
