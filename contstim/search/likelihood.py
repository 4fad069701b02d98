"""How probable candidates are given the words before them, under a left-to-right model."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.models.registry import load_model
from contstim.text.sentence import Sentence, WordList

__all__ = ["likelihood", "likelihood_by_name"]


def likelihood(
    model: SentenceModel, sentence: Sentence, position: int, upper: FloatArray
) -> FloatArray | None:
    """Return bounds on log p(candidate | words before), nats, from the bounds of the sentences.

    Parameters
    ----------
    model
        The model.
    sentence, position
        The place.
    upper
        ``model.replacements(sentence, position, words).upper``, shape (V,).

    Returns
    -------
    array or None
        Shape (V,); None if the model does not add up log-probabilities from left to right.
    """
    event = model.event
    if event.metric != "chain" or event.reduction != "sum":
        return None
    # The first word is missing, NaN, where nothing stands before it.
    before = np.nansum(model.score_words([str(sentence)])[0][:position])
    return upper - before


def likelihood_by_name(spec: str, sentence: Sentence, position: int, words: WordList) -> FloatArray:
    """Return the same under the model `spec`; minus infinity for words that it does not know.

    Raises
    ------
    InputError
        If that model does not score from left to right, or gives no bounds from the words before
        alone, as n-gram models do.
    """
    model = _loaded(spec)
    known, places = _known(spec, words, sentence.before[position], sentence.after[position])
    table = model.replacements(sentence, position, known)
    if table.exact and position + 1 < len(sentence):
        raise InputError(
            f"candidates={spec!r} gives whole sentences at once, and no probability of a word "
            "alone; name a causal or recurrent network"
        )
    values = likelihood(model, sentence, position, table.upper)
    if values is None:
        raise InputError(
            f"candidates={spec!r} does not add up log-probabilities from left to right; name a "
            "causal or recurrent network, without a reduction"
        )
    found = np.full(len(words), -np.inf)
    found[places] = values
    return found


@lru_cache(maxsize=1)
def _loaded(spec: str) -> SentenceModel:
    return load_model(spec)


@lru_cache(maxsize=16)
def _known(spec: str, words: WordList, before: str, after: str) -> tuple[WordList, IntArray]:
    """Return the words that the model knows, and where in `words` they stand."""
    known = _loaded(spec).knows([before + word + after for word in words])
    if not known.any():
        raise InputError(
            f"none of the {len(words)} candidate words is known to candidates={spec!r}; name a "
            "model that shares the vocabulary"
        )
    places = np.flatnonzero(known)
    return WordList(tuple(words.words[i] for i in places)), places
