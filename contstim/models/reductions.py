"""Reductions: from the scored units of a sentence to one number, by name.

A reduction weights the log-probability LP of a sentence of T scored units (Lau, Clark & Lappin
2017; Vaswani et al. 2017 for the length penalty). Each is one factor, so the words' shares still
sum to the score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from contstim.errors import UnknownNameError
from contstim.models.base import (
    BoolArray,
    Event,
    FloatArray,
    IntArray,
    Replacements,
    SentenceModel,
    SentenceParts,
    Totals,
)
from contstim.models.spec import ModelSpec
from contstim.text import Sentence, WordList

__all__ = ["REDUCTIONS", "ReducedModel", "reduction_factor"]

#: Names of the reductions and what each computes.
REDUCTIONS = {
    "sum": "LP, the log-probability",
    "mean": "MeanLP = LP / T",
    "pen": "PenLP = LP / ((5 + T) / (5 + 1))^0.8",
}


def reduction_factor(name: str, n_tokens: IntArray) -> FloatArray:
    """Return the factor by which reduction `name` multiplies LP.

    Parameters
    ----------
    name
        One of `REDUCTIONS`.
    n_tokens
        T of each sentence, shape (S,).

    Raises
    ------
    UnknownNameError
        If there is no such reduction; all are listed.
    """
    lengths = np.asarray(n_tokens, dtype=np.float64)
    if name == "sum":
        return np.ones_like(lengths)
    if name == "mean":
        return 1.0 / lengths
    if name == "pen":
        return np.asarray((6.0 / (5.0 + lengths)) ** 0.8)
    raise UnknownNameError.among("reduction", name, REDUCTIONS)


@dataclass(frozen=True)
class _Rescaled:
    """Exact scores of candidates on demand, reduced."""

    model: ReducedModel
    sentence: Sentence
    position: int
    words: WordList

    def __call__(self, index: IntArray) -> FloatArray:
        texts = [str(self.sentence.replace(self.position, self.words.words[i])) for i in index]
        return self.model.score(texts)


class ReducedModel(SentenceModel):
    """A model whose score is a reduction of another's parts.

    Parameters
    ----------
    model
        The model that scores the units.
    name
        One of `REDUCTIONS`.
    spec
        The spec of the two together.
    """

    def __init__(self, model: SentenceModel, name: str, spec: ModelSpec) -> None:
        super().__init__(spec)
        reduction_factor(name, np.ones(1, dtype=np.int64))
        self.model = model
        self.name = name

    @property
    def event(self) -> Event:
        """The inner model's event, with this reduction."""
        return replace(self.model.event, reduction=self.name)

    @property
    def fingerprint(self) -> str:
        """The inner model's fingerprint: a reduction has no weights."""
        return self.model.fingerprint

    @property
    def resolution(self) -> float:
        """The inner model's resolution: factors are at most 1."""
        return self.model.resolution

    def knows(self, words: Sequence[str]) -> BoolArray:
        """Say what the inner model knows; shape (V,)."""
        return self.model.knows(words)

    def parts(self, sentences: Sequence[str]) -> list[SentenceParts]:
        """Return the inner parts, each log-probability multiplied by the sentence's factor."""
        inner = self.model.parts(sentences)
        lengths = np.array([len(p.log_probs) for p in inner], dtype=np.int64)
        factors = reduction_factor(self.name, lengths)
        return [
            replace(p, log_probs=p.log_probs * f, stderr=p.stderr * float(f))
            for p, f in zip(inner, factors, strict=True)
        ]

    def totals(self, sentences: Sequence[str]) -> Totals:
        """Score sentences: the reduced log-probability in the column of the log-probability."""
        inner = self.model.totals(sentences)
        factors = reduction_factor(self.name, inner.n_tokens)
        return replace(inner, log_prob=inner.log_prob * factors, stderr=inner.stderr * factors)

    def replacements(self, sentence: Sentence, position: int, words: WordList) -> Replacements:
        """Score candidates; exact where all have as many units as the sentence itself."""
        inner = self.model.replacements(sentence, position, words)
        example = str(sentence.replace(position, words.words[0]))
        lengths = self.model.totals([example]).n_tokens
        factor = float(reduction_factor(self.name, lengths)[0])
        on_demand = _Rescaled(self, sentence, position, words)
        if inner.exact and self.event.units == "words":
            # A candidate is one unit in place of one, so the number of units does not change.
            return Replacements(inner.upper * factor, inner.estimate * factor, True, on_demand)
        return Replacements(np.zeros(len(words)), inner.estimate * factor, False, on_demand)
