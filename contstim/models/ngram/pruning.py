"""Entropy pruning of back-off models (Stolcke 1998)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.models.ngram.table import Level, NgramTable

__all__ = ["prune_by_entropy", "round_probabilities"]

_LEAST = 1e-6


def prune_by_entropy(
    table: NgramTable, frequencies: Sequence[FloatArray], threshold: float
) -> NgramTable:
    """Leave out n-grams whose loss changes the model least, and compute back-off weights again.

    Leaving out w after h changes the model by the relative entropy
    D = -P(h) {p(w|h) [log p(w|h') + log b'(h) - log p(w|h)] + [log b'(h) - log b(h)] r(h)},
    where b' is the back-off weight without w, b the one with it, and r(h) the mass that h leaves to
    shorter contexts (Stolcke 1998, equation 5). N-grams with exp(D) - 1 below `threshold` go,
    longest first.

    Departures from the paper: P(h) is the relative frequency of h in the training text, since
    the lower orders of a Kneser-Ney model do not give the probability of a history (Chelba et al.
    2010); and an n-gram stays while a longer one that stays begins or ends with it.

    Parameters
    ----------
    table
        The model.
    frequencies
        For each order but the highest the P(h) of its n-grams.
    threshold
        Relative change of perplexity below which an n-gram is left out.

    Raises
    ------
    InputError
        If `threshold` is negative.
    """
    if not threshold >= 0:
        raise InputError(f"the entropy threshold must be 0 or more, got {threshold}")
    size = len(table.words)
    suffixes = table.suffixes
    kept: list[BoolArray] = [np.ones(len(level.keys), dtype=np.bool_) for level in table.levels]
    levels = list(table.levels)
    needed = np.zeros(len(levels[-1].keys), dtype=np.bool_)
    for n in range(table.order - 1, 0, -1):
        level, lower = levels[n], levels[n - 1]
        context = level.keys // size
        count = len(lower.keys)
        prob = np.power(10.0, level.log_probs)
        backed = np.power(10.0, lower.log_probs[suffixes[n]])
        rest = _rest(context, prob, count)[context]
        rest_backed = _rest(context, backed, count)[context]
        log_weight = np.log((rest + prob) / (rest_backed + backed))
        change = log_weight - np.log(10.0) * lower.log_backoffs[context]
        inner = prob * (np.log(backed) + log_weight - np.log(prob)) + change * rest
        loss = np.expm1(-frequencies[n - 1][context] * inner)
        keep = needed | (loss >= threshold)
        kept[n] = keep
        changed = np.zeros(count, dtype=np.bool_)
        changed[context[~keep]] = True
        weights = _rest(context[keep], prob[keep], count)
        below = _rest(context[keep], backed[keep], count)
        log_backoffs = lower.log_backoffs.copy()
        log_backoffs[changed] = np.log10(weights[changed] / below[changed])
        levels[n - 1] = Level(lower.keys, lower.log_probs, log_backoffs)
        needed = np.zeros(count, dtype=np.bool_)
        needed[context[keep]] = True
        needed[suffixes[n][keep]] = True
    return NgramTable(table.words, tuple(levels)).select(kept)


def round_probabilities(table: NgramTable, digits: int) -> NgramTable:
    """Round the logarithms of probabilities and set the back-off weights so that sums stay 1.

    The weight of a context that leaves almost nothing to shorter ones is kept as it is.
    """
    size = len(table.words)
    levels = [level._replace(log_probs=np.round(level.log_probs, digits)) for level in table.levels]
    for n, suffixes in enumerate(table.suffixes[1:], start=1):
        level, lower = levels[n], levels[n - 1]
        context = level.keys // size
        count = len(lower.keys)
        rest = _rest(context, np.power(10.0, level.log_probs), count)
        below = _rest(context, np.power(10.0, lower.log_probs[suffixes]), count)
        fit = (rest > _LEAST) & (below > _LEAST) & (rest < 1.0)
        log_backoffs = lower.log_backoffs.copy()
        log_backoffs[fit] = np.log10(rest[fit] / below[fit])
        levels[n - 1] = lower._replace(log_backoffs=log_backoffs)
    return NgramTable(table.words, tuple(levels))


def _rest(context: IntArray, prob: FloatArray, n_contexts: int) -> FloatArray:
    """Return what the probabilities of each context leave of 1."""
    given = np.bincount(context, weights=prob, minlength=n_contexts)
    left: FloatArray = np.maximum(1.0 - given, 0.0)
    return left
