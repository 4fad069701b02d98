"""Figures read off a model's word and token scores: surprisal, and perplexity of a corpus."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contstim.arrays import FloatArray
from contstim.errors import InputError, UnknownNameError
from contstim.models.base import SentenceModel, as_sentences

_UNITS = {"nats": 1.0, "bits": float(np.log(2.0))}


def surprisal(
    model: SentenceModel, sentences: Sequence[str], unit: str = "nats"
) -> list[FloatArray]:
    """Return each word's surprisal, -log p(word | its context).

    Parameters
    ----------
    model
        The model; its event says what a word's context is.
    sentences
        S sentences.
    unit
        ``nats`` (natural logarithm) or ``bits`` (base 2).

    Returns
    -------
    list of arrays
        S arrays (W,); NaN where the model does not predict a word.

    Raises
    ------
    UnknownNameError
        For another unit.
    InputError
        As the model's `score_words`, and for a model with a reduction.
    """
    if unit not in _UNITS:
        raise UnknownNameError.among("unit", unit, _UNITS)
    _check_plain(model)
    # The sign of a zero is of no interest.
    return [0.0 - words / _UNITS[unit] for words in model.score_words(sentences)]


def corpus_perplexity(model: SentenceModel, sentences: Sequence[str], per: str = "token") -> float:
    """Return exp(-sum of LP / N) over a corpus, N the number of scored tokens or of words.

    For a masked model it is the pseudo-perplexity of Salazar et al. (2020), section 2.3. Per
    token, only models with one vocabulary can be compared; per word, any (ibid.).

    Parameters
    ----------
    model
        The model.
    sentences
        The S sentences of the corpus.
    per
        ``token`` or ``word``.

    Raises
    ------
    UnknownNameError
        If `per` is neither.
    InputError
        As the model's own scores, for an empty corpus, and for a model with a reduction.
    """
    if per not in ("token", "word"):
        raise UnknownNameError.among("unit of perplexity", per, ("token", "word"))
    _check_plain(model)
    listed = as_sentences(sentences)
    if not listed:
        raise InputError("a corpus needs at least one sentence, got none")
    if per == "token":
        totals = model.totals(listed)
        return float(np.exp(-totals.score.sum() / totals.n_tokens.sum()))
    # A word that is not predicted counts neither above nor below.
    words = np.concatenate(model.score_words(listed))
    return float(np.exp(-np.nanmean(words)))


def _check_plain(model: SentenceModel) -> None:
    if model.event.reduction != "sum":
        raise InputError(
            f"{model.spec!r} gives reduced scores; take the model without its reduction"
        )
