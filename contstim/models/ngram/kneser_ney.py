"""Interpolated modified Kneser-Ney smoothing of any order (Chen and Goodman 1998)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.models.ngram.corpus import Corpus
from contstim.models.ngram.table import Level, NgramTable
from contstim.models.words import END, START, UNKNOWN

__all__ = ["Counts", "count_ngrams", "discounts_of", "kneser_ney"]

Discounts = tuple[float, float, float]

_LEAST = 1e-99  # ARPA has no logarithm of 0; a back-off weight is 0 only if all discounts are


@dataclass(frozen=True, eq=False)
class Counts:
    """The n-grams of one order that occur in a text.

    Attributes
    ----------
    keys
        As in :class:`~contstim.models.ngram.table.Level`.
    suffixes
        Id, one order down, of each n-gram without its first word.
    raw
        How often each occurs.
    adjusted
        For the highest order and for n-grams that begin with ``<s>`` the raw count, otherwise
        the number of different words seen before the n-gram.
    """

    keys: IntArray
    suffixes: IntArray
    raw: IntArray
    adjusted: IntArray


def count_ngrams(corpus: Corpus, order: int) -> list[Counts]:
    """Count the n-grams of orders 1 to `order`, none of which reaches over a sentence's start."""
    size = len(corpus.words)
    start = corpus.words.index(START)
    ids = corpus.ids
    first = np.flatnonzero(ids == start)
    # Place of each token in its sentence, <s> being 0: how long an n-gram may end there.
    place = np.arange(len(ids), dtype=np.int32)
    place -= np.repeat(first, np.diff(np.append(first, len(ids)))).astype(np.int32)
    raw = np.bincount(ids, minlength=size)
    found = [(np.arange(size), np.zeros(size, dtype=np.int64), raw)]
    begins = np.arange(size) == start  # which n-grams begin with <s>
    begun = [begins]
    here: NDArray[np.int32] = ids  # id of the n-gram that ends at each token
    for n in range(2, order + 1):
        at = np.flatnonzero(place >= n - 1)
        keys = here[at - 1].astype(np.int64)
        keys *= size
        keys += ids[at]
        by_key = np.argsort(keys)
        keys = keys[by_key]
        new = np.empty(len(keys), dtype=np.bool_)
        new[:1] = True
        np.not_equal(keys[1:], keys[:-1], out=new[1:])
        head = np.flatnonzero(new)
        suffixes = here[at[by_key[head]]].astype(np.int64)
        found.append((keys[head], suffixes, np.diff(np.append(head, len(keys)))))
        begins = begins[keys[head] // size]
        begun.append(begins)
        if n < order:
            numbers = np.cumsum(new, dtype=np.int32)
            numbers -= 1
            here = np.zeros(len(ids), dtype=np.int32)
            here[at[by_key]] = numbers
    levels = []
    for n, ((keys, suffixes, raw), begins) in enumerate(zip(found, begun, strict=True), start=1):
        adjusted = raw
        if n < order:
            before = np.bincount(found[n][1], minlength=len(keys))
            adjusted = np.where(begins, raw, before)
        if n == 1:
            adjusted = np.where(begins, 0, adjusted)  # <s> is never predicted
        levels.append(Counts(keys, suffixes, raw, adjusted))
    return levels


def discounts_of(adjusted: IntArray, n: int, fallback: Discounts | None) -> Discounts:
    """Return the discounts of adjusted counts 1, 2 and 3 or more.

    With n_k n-grams of adjusted count k and Y = n_1 / (n_1 + 2 n_2),
    D_k = k - (k+1) Y n_{k+1} / n_k (Chen and Goodman 1998, equation 26).

    Raises
    ------
    InputError
        If an n_k is 0 or a discount lies outside 0 to k, unless there is a `fallback`.
    """
    n1, n2, n3, n4 = (int((adjusted == k).sum()) for k in (1, 2, 3, 4))
    if min(n1, n2, n3) == 0:
        k = 1 + [n1, n2, n3].index(0)
        problem = f"no {n}-gram has the adjusted count {k}"
    else:
        y = n1 / (n1 + 2 * n2)
        found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
        outside = [k for k, d in enumerate(found, start=1) if not 0 <= d <= k]
        if not outside:
            return found
        k = outside[0]
        problem = f"the {n}-gram discount of adjusted count {k} is {found[k - 1]:.3g}"
    if fallback is None:
        raise InputError(
            f"Kneser-Ney discounts cannot be estimated from this text, since {problem}; use more "
            "text, a lower order, or give fallback discounts such as 0.5, 1, 1.5"
        )
    return fallback


def kneser_ney(
    counts: Sequence[Counts],
    words: tuple[str, ...],
    *,
    cutoffs: Sequence[int] = (),
    fallback: Discounts | None = None,
) -> tuple[NgramTable, list[Discounts], list[BoolArray]]:
    """Estimate the model as KenLM's ``lmplz`` does.

    With the adjusted count a of each n-gram, p(w|h) = [a(hw) - D(a(hw))] / Σ a(h·) + b(h) p(w|h'),
    where b(h) = Σ D(a(h·)) / Σ a(h·) is the back-off weight and below the unigrams stands the
    uniform distribution over all words but ``<s>`` (Chen and Goodman 1998, section 3; Heafield et
    al. 2013, section 3). An n-gram whose raw count is at most its order's cut-off is left out, and
    its whole adjusted count goes to b(h).

    Parameters
    ----------
    counts
        From :func:`count_ngrams`.
    words
        The V words by id.
    cutoffs
        For each order the count up to which n-grams are left out; must not fall. The last value
        holds for all higher orders. ``<s>``, ``</s>`` and ``<unk>`` stay.
    fallback
        Discounts for an order whose own cannot be estimated.

    Returns
    -------
    table, discounts, kept
        The model, the three discounts of each order, and for each order which n-grams of
        `counts` it holds.

    Raises
    ------
    InputError
        For cut-offs that fall or discounts that cannot be estimated.
    """
    if any(c < 0 for c in cutoffs) or list(cutoffs) != sorted(cutoffs):
        raise InputError(f"count cut-offs must be 0 or more and not fall, got {tuple(cutoffs)}")
    if len(cutoffs) > len(counts):
        raise InputError(f"{len(cutoffs)} count cut-offs for a model of order {len(counts)}")
    limits = [*cutoffs, *[(cutoffs[-1] if cutoffs else 0)] * (len(counts) - len(cutoffs))]
    size = len(words)
    special = np.isin(np.array(words, dtype=object), [START, END, UNKNOWN])
    discounts: list[Discounts] = []
    kept: list[BoolArray] = []
    probs: list[FloatArray] = []
    gammas: list[FloatArray] = []
    lower: FloatArray = np.empty(0)
    for n, (level, limit) in enumerate(zip(counts, limits, strict=True), start=1):
        adjusted = level.adjusted
        context = level.keys // size
        n_contexts = 1 if n == 1 else len(counts[n - 2].keys)
        keep = level.raw > limit
        if n == 1:
            keep = keep | special if limit else np.ones(size, dtype=np.bool_)
        triple = discounts_of(adjusted, n, fallback)
        discount = np.array([0.0, *triple])[np.minimum(adjusted, 3)]
        total = np.bincount(context, weights=adjusted, minlength=n_contexts)
        freed = np.where(keep, discount, adjusted)
        followed = total > 0
        gamma = np.ones(n_contexts)
        np.divide(
            np.bincount(context, weights=freed, minlength=n_contexts),
            total,
            out=gamma,
            where=followed,
        )
        if n == 1:
            uniform = 1.0 / (int(keep.sum()) - 1)
            prob = (adjusted - discount) / total[0] + gamma[0] * uniform
        else:
            prob = (adjusted - discount) / total[context] + gamma[context] * lower[level.suffixes]
            gammas.append(gamma)
        discounts.append(triple)
        kept.append(keep)
        probs.append(prob)
        lower = prob
    gammas.append(np.ones(len(lower)))
    levels = [
        Level(level.keys, np.log10(np.minimum(prob, 1.0)), np.log10(np.maximum(gamma, _LEAST)))
        for level, prob, gamma in zip(counts, probs, gammas, strict=True)
    ]
    levels[0].log_probs[words.index(START)] = 0.0  # as lmplz writes it; no query asks for it
    return NgramTable(words, tuple(levels)).select(kept), discounts, kept
