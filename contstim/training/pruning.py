"""Smaller n-gram models: entropy pruning and rounded probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.models.ngram import NgramLevel, NgramTable

# Minimum back-off mass of contexts for which a back-off weight can be computed reliably.
_MIN_MASS = 1e-6


def prune_by_entropy(
    table: NgramTable, frequencies: Sequence[FloatArray], threshold: float
) -> NgramTable:
    """Remove the n-grams that change the model least (Stolcke 1998).

    Removing word w after context h changes the model by the relative entropy

        D = -P(h) {p(w|h) [log p(w|h') + log b'(h) - log p(w|h)] + [log b'(h) - log b(h)] r(h)}.

    Here P(h) is the probability of the context, h' is h without its first word, b(h) and b'(h) are
    the back-off weights before and after the removal, and r(h) is the probability of all words that
    are predicted from the shorter context h' (equation 5). Removal increases the perplexity by the
    fraction exp(D) - 1. N-grams for which it is below `threshold` are removed, longest first, and
    the back-off weights of their contexts are computed again.

    Two details differ from the paper. P(h) is the relative frequency of h in the training text,
    because the lower orders of a Kneser-Ney model do not estimate the probability of a context
    (Chelba et al. 2010). An n-gram is not removed if it is the context or the suffix of a longer
    n-gram that stays in the model.

    Parameters
    ----------
    table
        N-gram model to prune.
    frequencies
        Relative frequency P(h) of each n-gram as a context, for all orders except the highest.
    threshold
        Relative increase of the perplexity below which an n-gram is removed, at least 0.
    """
    n_words = len(table.words)
    levels = list(table.levels)
    masks: list[BoolArray] = [np.ones(len(level.keys), dtype=np.bool_) for level in levels]
    is_needed = np.zeros(len(levels[-1].keys), dtype=np.bool_)
    for n in range(table.order - 1, 0, -1):
        level, lower, suffix_ids = levels[n], levels[n - 1], table.suffix_ids[n]
        contexts, n_contexts = level.keys // n_words, len(lower.keys)

        # Relative entropy D for the removal of each n-gram alone. `mass` is r(h), `log_weight` is
        # log b'(h), and `weight_change` is log b'(h) - log b(h).
        prob = np.power(10.0, level.log_probs)
        lower_prob = np.power(10.0, lower.log_probs[suffix_ids])
        mass = _backoff_mass(contexts, prob, n_contexts)[contexts]
        lower_mass = _backoff_mass(contexts, lower_prob, n_contexts)[contexts]
        log_weight = np.log((mass + prob) / (lower_mass + lower_prob))
        weight_change = log_weight - np.log(10.0) * lower.log_backoffs[contexts]
        divergence = -frequencies[n - 1][contexts] * (
            prob * (np.log(lower_prob) + log_weight - np.log(prob)) + weight_change * mass
        )
        is_kept = is_needed | (np.expm1(divergence) >= threshold)
        masks[n] = is_kept

        # New back-off weights of the contexts that lost an n-gram.
        is_changed = np.zeros(n_contexts, dtype=np.bool_)
        is_changed[contexts[~is_kept]] = True
        new_mass = _backoff_mass(contexts[is_kept], prob[is_kept], n_contexts)
        new_lower_mass = _backoff_mass(contexts[is_kept], lower_prob[is_kept], n_contexts)
        log_backoffs = lower.log_backoffs.copy()
        log_backoffs[is_changed] = np.log10(new_mass[is_changed] / new_lower_mass[is_changed])
        levels[n - 1] = NgramLevel(lower.keys, lower.log_probs, log_backoffs)

        is_needed = np.zeros(n_contexts, dtype=np.bool_)
        is_needed[contexts[is_kept]] = True
        is_needed[suffix_ids[is_kept]] = True
    return NgramTable(table.words, tuple(levels)).select_ngrams(masks)


def round_probabilities(table: NgramTable, digits: int) -> NgramTable:
    """Round the log-probabilities of an n-gram model to `digits` decimals and adjust its weights.

    The back-off weight of a context multiplies the probabilities of the words that were not
    observed after it. The adjusted weights make the probabilities of all words after a context sum
    to 1 again. If the observed words already have almost all of the probability, the back-off
    weight cannot be computed reliably and is left unchanged.

    Parameters
    ----------
    table
        The n-gram model, with logarithms to base 10.
    digits
        Number of decimals.
    """
    n_words = len(table.words)
    levels = [level._replace(log_probs=np.round(level.log_probs, digits)) for level in table.levels]
    # Each pass adjusts the back-off weights of one order, which multiply the probabilities of words
    # that were not seen after a context.
    for n, suffix_ids in enumerate(table.suffix_ids[1:], start=1):
        level, lower = levels[n], levels[n - 1]
        # The key of an n-gram is context id * number of words + id of the last word.
        contexts, n_contexts = level.keys // n_words, len(lower.keys)
        lower_prob = np.power(10.0, lower.log_probs[suffix_ids])
        # b(h) = mass / lower_mass: the probability that the rounded n-grams leave to all other
        # words after the context, at the present order and at the next lower order.
        mass = _backoff_mass(contexts, np.power(10.0, level.log_probs), n_contexts)
        lower_mass = _backoff_mass(contexts, lower_prob, n_contexts)
        # A small remainder consists mostly of rounding error; such a context keeps its weight.
        is_reliable = (mass > _MIN_MASS) & (lower_mass > _MIN_MASS) & (mass < 1.0)
        log_backoffs = lower.log_backoffs.copy()
        log_backoffs[is_reliable] = np.log10(mass[is_reliable] / lower_mass[is_reliable])
        levels[n - 1] = lower._replace(log_backoffs=log_backoffs)
    return NgramTable(table.words, tuple(levels))


def _backoff_mass(contexts: IntArray, prob: FloatArray, n_contexts: int) -> FloatArray:
    """Return the probability that each context leaves to words without an n-gram.

    It is 1 minus the sum of the probabilities `prob` of its n-grams; `contexts` contains the index
    of each n-gram's context.
    """
    sums = np.bincount(contexts, weights=prob, minlength=n_contexts)
    mass: FloatArray = np.maximum(1.0 - sums, 0.0)
    return mass
