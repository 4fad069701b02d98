"""Fractional ranks of sentences, on which models of different calibration compare."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError


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
