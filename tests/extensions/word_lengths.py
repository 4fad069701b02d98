"""A custom model family: a model of word lengths, ``length:NATS_A_LETTER``."""

from __future__ import annotations

import numpy as np

from contstim import Event, ModelSpec, SentenceModel, TokenScores


class LengthModel(SentenceModel):
    """Every letter costs the same."""

    event = Event(units="words", start="none", end="none", punctuation="keep")

    def __init__(self, spec: ModelSpec) -> None:
        spec.check_options([])
        super().__init__(spec)
        self.letter = float(spec.location)

    @property
    def fingerprint(self):
        return str(self.letter)

    def in_vocabulary(self, words):
        return np.ones(len(words), dtype=bool)

    def score_tokens(self, sentences):
        return [self._one(sentence.split()) for sentence in sentences]

    def _one(self, words):
        values = np.array([-self.letter * len(word) for word in words])
        return TokenScores(tuple(words), values, np.arange(len(words)), len(words))
