"""Fractional ranks of sentences, on which models of different calibration compare."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.selection.people import (
    People,
    log_bayes_factor_halves,
    log_bayes_factors,
    log_ratio_scale,
)

# Steps in which the bound on expected log Bayes factors is lowered.
_BOUND_STEPS = 80


@dataclass(frozen=True, eq=False)
class RankedScores:
    """Sentences ranked under every model, in an order that is a function of their scores alone.

    Attributes
    ----------
    labels
        Index labels of the R ranked sentences.
    models
        The M model names, sorted.
    doubled
        Twice the average-tie rank, shape (R, M): whole numbers, so that sums of ranks compare
        exactly. The least probable sentence has rank 1, the most probable R.
    finite
        Whether the sentence has a finite score under every model, shape (R,).
    excluded
        For each reason the number of sentences that cannot be selected.
    """

    labels: pd.Index
    models: tuple[str, ...]
    doubled: IntArray
    finite: BoolArray
    excluded: dict[str, int]

    @property
    def fractions(self) -> FloatArray:
        """Fractional ranks rank / R in (0, 1], shape (R, M)."""
        return self.doubled / (2.0 * len(self.labels))

    def apart(self, pairs: IntArray) -> FloatArray:
        """Return how far two sentences' fractional ranks are apart, shape (pairs, M)."""
        ranks = self.doubled[pairs] / (2.0 * len(self.labels))
        return np.abs(ranks[:, 0] - ranks[:, 1])

    def signs(self, pairs: IntArray, margin: float = 0.0) -> IntArray:
        """Return which sentence each model ranks higher, 0 within the margin; shape (pairs, M)."""
        one, two = pairs.T
        return np.where(
            self.apart(pairs) > margin, np.sign(self.doubled[one] - self.doubled[two]), 0
        )


def fractional_ranks(log_probs: pd.DataFrame) -> pd.DataFrame:
    """Rank the sentences under each model: 1 / R for the least probable, 1 for the most.

    Parameters
    ----------
    log_probs
        Log-probabilities, shape (S, M): a row a sentence, a column a model.

    Returns
    -------
    pandas.DataFrame
        Average-tie ranks divided by R, the number of sentences that have a score under every
        model; NaN for the others. A score of minus infinity is a score: it ranks lowest.

    Notes
    -----
    Source: Golan et al. (2023), Supplementary Section 6.2. The ranks are taken over all
    sentences, before any filter. All models are ranked over the same sentences, so that their
    ranks compare; the published scores had none missing.

    Examples
    --------
    >>> scores = pd.DataFrame({"a": [-30.0, -40.0], "b": [-35.0, -31.0]}, index=["One.", "Two."])
    >>> fractional_ranks(scores)
            a    b
    One.  1.0  0.5
    Two.  0.5  1.0
    """
    values = _scores(log_probs)
    scored = ~(np.isnan(values) | np.isposinf(values)).any(axis=1)
    ranks = np.full(values.shape, np.nan)
    if scored.any():
        ranks[scored] = rankdata(values[scored], axis=0) / scored.sum()
    return pd.DataFrame(ranks, index=log_probs.index, columns=log_probs.columns)


def rank_scores(log_probs: pd.DataFrame) -> RankedScores:
    """Rank the sentences and put them in canonical order.

    Sentences are sorted by their ranks, models by name; those with equal ranks under every model,
    which are interchangeable, by their labels.
    So nothing that is computed from it depends on the order of rows or columns.
    """
    values = _scores(log_probs)
    names = sorted(str(name) for name in log_probs.columns)
    by_name = np.argsort(np.array([str(name) for name in log_probs.columns], dtype=object))
    values = values[:, by_name]
    missing: BoolArray = np.asarray((np.isnan(values) | np.isposinf(values)).any(axis=1))
    values = values[~missing]
    labels = log_probs.index[~missing]
    infinite: BoolArray = np.asarray(np.isneginf(values).any(axis=1))
    doubled = np.empty(values.shape, dtype=np.int64)
    for column in range(values.shape[1]):
        doubled[:, column] = np.rint(2.0 * rankdata(values[:, column]))
    order = _canonical_order(doubled, labels)
    excluded = {"missing score": int(missing.sum()), "infinite score": int(infinite.sum())}
    return RankedScores(labels[order], tuple(names), doubled[order], ~infinite[order], excluded)


def eligible_rows(
    ranked: RankedScores, eligible: pd.Series | None
) -> tuple[IntArray, dict[str, int]]:
    """Return the rows that may be selected, and how many may not, by the first reason met.

    Parameters
    ----------
    ranked
        The ranked sentences.
    eligible
        True for each sentence that may be selected, by label; None: all.

    Raises
    ------
    InputError
        If `eligible` has no or two values for a sentence.
    """
    excluded = dict(ranked.excluded)
    keep = ranked.finite.copy()
    if eligible is not None:
        if not eligible.index.is_unique:
            raise InputError("eligible names a sentence twice; give one value for each label")
        answer = eligible.reindex(ranked.labels)
        if answer.isna().any():
            label = ranked.labels[int(np.flatnonzero(answer.isna())[0])]
            raise InputError(f"eligible says nothing of sentence {label!r}; give True or False")
        allowed = answer.to_numpy(dtype=bool)
        excluded["not eligible"] = int((keep & ~allowed).sum())
        keep &= allowed
    return np.flatnonzero(keep), excluded


def _scores(log_probs: pd.DataFrame) -> FloatArray:
    """Return the scores as floats, refusing tables that are not one."""
    if not isinstance(log_probs, pd.DataFrame):
        raise InputError(
            f"log_probs must be a DataFrame of sentences by models, got {type(log_probs).__name__}"
        )
    if log_probs.shape[1] < 2:
        named = ", ".join(map(repr, log_probs.columns)) or "none"
        raise InputError(
            f"there are scores of {log_probs.shape[1]} model ({named}), and a pair needs two; add "
            "a column for each further model"
        )
    names = pd.Index([str(name) for name in log_probs.columns])
    for what, index in (("model", names), ("sentence", log_probs.index)):
        if not index.is_unique:
            twice = index[index.duplicated()][0]
            raise InputError(f"{what} {twice!r} comes twice in log_probs; keep one of them")
    for name, dtype in zip(names, log_probs.dtypes, strict=True):
        if not pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_bool_dtype(dtype):
            raise InputError(f"column {name!r} of log_probs holds {dtype}, not numbers")
    return log_probs.to_numpy(dtype=np.float64, na_value=np.nan)


def _canonical_order(doubled: IntArray, labels: pd.Index) -> IntArray:
    names = [f"{type(label).__name__} {label}" for label in labels]
    return np.lexsort((np.array(names), *doubled.T[::-1]))


class PairMeasure:
    """What a pair of sentences adds for every two models, of which a selection has the sum.

    Attributes
    ----------
    ranked
        Ranks, shape (R, M).
    scaled
        Log-probabilities in standard deviations, shape (R, M).
    margin
        Of rank differences, for separations.
    people
        For expected log Bayes factors; None: separations count.

    Standard deviations are over the sentences `rows`.
    """

    def __init__(
        self,
        log_probs: pd.DataFrame,
        ranked: RankedScores,
        rows: IntArray,
        margin: float,
        people: People | None,
    ) -> None:
        self.ranked, self.margin, self.people = ranked, margin, people
        self.scaled: FloatArray = np.empty((0, 0))
        if people is not None:
            named = log_probs.set_axis([str(name) for name in log_probs.columns], axis=1)
            values = named.loc[ranked.labels, list(ranked.models)].to_numpy(dtype=np.float64)
            self.scaled = values / log_ratio_scale(values[rows])

    def separated(self, pairs: IntArray) -> BoolArray:
        """Return which two models each pair of rows separates, shape (pairs, model pairs)."""
        signs = self.ranked.signs(pairs, self.margin)
        i, j = np.triu_indices(len(self.ranked.models), 1)
        return np.asarray(signs[:, i] * signs[:, j] < 0)

    def terms(self, pairs: IntArray) -> FloatArray:
        """Return what each pair of rows adds for every two models, shape (pairs, model pairs)."""
        if self.people is None:
            return self.separated(pairs).astype(np.float64)
        one, two = pairs.T
        return log_bayes_factors(self.people.probabilities(self.scaled[two] - self.scaled[one]))

    def bound(self, rows: IntArray, n: int, uses: int) -> float:
        """Return what no `n` pairs of the sentences `rows` exceed for the two models of least.

        The least is at most every weighted mean over model pairs. With equal weights no pair of
        sentences has more value than one on which the models split evenly and are as sure as they
        can be. For separations see `select_set`. For expected log Bayes factors, with
        q = p - 1/2 and l = logit p, the sum over model pairs depends on one model's q as
        ((M - 1) q l - P l - L q) / 2, where P and L are the sums of q and l over the others. Its
        second derivative is at least (M - 1) (1/4 - a |q|) / (1/4 - q²)² > 0, as
        |P| <= (M - 1) a with a < 1/2 the largest |q|: convex, so the maximum has every q at an end.

        A second bound looks at the sentences. With z a sentence's standardised log-probabilities,
        models i and j get at most k(|z_i - z_j|) of either sentence together, k of
        `log_bayes_factor_halves`; the mean of z_i - z_j is taken off, as it is in both sentences.
        Summed with weights over model pairs and then over n pairs of different sentences, that is
        at most the sum over the 2 n sentences of most. Mirror descent moves the weights to where
        the bound is low; it holds at every step. It is not reached where the sentences of most are
        not opposite to each other.
        """
        m = len(self.ranked.models)
        count = m * (m - 1) // 2
        even = n * (m // 2) * (m - m // 2)
        if self.people is None:
            return float(even // count)
        most = self.people.probabilities(np.array([-self.people.most, self.people.most]))
        bound = even / count * float(log_bayes_factors(most)[0])
        sentences = -(-2 * n // uses)
        values = np.empty((len(rows), count), dtype=np.float32)
        for pair, (i, j) in enumerate(combinations(range(m), 2)):
            apart = self.scaled[rows, i] - self.scaled[rows, j]
            values[:, pair] = log_bayes_factor_halves(self.people, np.abs(apart - apart.mean()))
        weights = np.full(count, 1 / count)
        lowest = np.inf
        for step in range(_BOUND_STEPS):
            sums = values @ weights.astype(np.float32)
            top = np.argpartition(-sums, min(sentences, len(sums)) - 1)[:sentences]
            each = values[top].sum(axis=0, dtype=np.float64)
            # What single precision rounds off is far below one in a million.
            lowest = min(lowest, float(each @ weights) * (1 + 1e-6))
            weights = weights * np.exp(-2 / np.sqrt(step + 1) * each / max(each.max(), 1e-300))
            weights /= weights.sum()
        return min(bound, uses * lowest)
