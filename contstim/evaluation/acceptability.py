"""Acceptability criteria on minimal pairs: z-scores, deltas, BLiMP and Acceptability Delta."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from contstim.arrays import BoolArray, FloatArray
from contstim.errors import InputError
from contstim.models.learnt.cola import matthews_correlation

__all__ = [
    "acceptability_delta_criterion",
    "blimp_criterion",
    "criteria_table",
    "matthews_correlation",
    "overlap_table",
    "pair_deltas",
    "pearson",
    "z_scores",
]


def z_scores(values: ArrayLike) -> FloatArray:
    """Return values minus their mean over their standard deviation (that of a population).

    Missing values stay missing and do not count.

    Raises
    ------
    InputError
        If there is no variation.

    Source
    ------
    Vazquez Martinez (2021), Section 1.3.3, which does not say by what the sum of squares is
    divided; with thousands of sentences it does not show.
    """
    given = np.asarray(values, dtype=np.float64)
    there = given[~np.isnan(given)]
    if len(there) < 2 or np.ptp(there) == 0:
        raise InputError("z-scores need at least two different values")
    return np.asarray((given - there.mean()) / there.std())


def pair_deltas(first: ArrayLike, second: ArrayLike) -> FloatArray:
    """Return the score of the acceptable minus that of the unacceptable sentence, shape (P,)."""
    one, two = (np.asarray(v, dtype=np.float64) for v in (first, second))
    if one.shape != two.shape:
        raise InputError(f"the two sides have shapes {one.shape} and {two.shape}, not the same")
    return np.asarray(one - two)


def blimp_criterion(delta: ArrayLike) -> BoolArray:
    """Return for which pairs the acceptable sentence has the strictly higher score.

    Source
    ------
    Warstadt et al. (2020); Vazquez Martinez (2021), Section 1.3.3.
    """
    return np.asarray(np.asarray(delta, dtype=np.float64) > 0)


def acceptability_delta_criterion(human: ArrayLike, model: ArrayLike, delta: float) -> BoolArray:
    """Return for which pairs the model's delta has the sign of people's and is nearer than `delta`.

    Parameters
    ----------
    human, model
        Deltas in standard deviations, shape (P,).
    delta
        Largest deviation, itself excluded; infinity leaves the sign alone.

    Raises
    ------
    InputError
        If `delta` is not positive.

    Source
    ------
    Vazquez Martinez (2021), Eq. 1.1 and 1.2.
    """
    if not delta > 0:
        raise InputError(f"delta must be positive, not {delta}")
    people, own = (np.asarray(v, dtype=np.float64) for v in (human, model))
    return np.asarray((np.sign(people) == np.sign(own)) & (np.abs(people - own) < delta))


def pearson(x: ArrayLike, y: ArrayLike) -> float:
    """Return Pearson's correlation over the entries where both are known.

    Raises
    ------
    InputError
        If fewer than two are, or one does not vary.
    """
    one, two = (np.asarray(v, dtype=np.float64) for v in (x, y))
    both = ~np.isnan(one) & ~np.isnan(two)
    one, two = one[both], two[both]
    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(two) == 0:
        raise InputError("a correlation needs at least two pairs of values that vary")
    return float(np.corrcoef(one, two)[0, 1])


def criteria_table(
    human_deltas: ArrayLike,
    model_deltas: Mapping[str, FloatArray],
    deltas: Sequence[float] = (0.5, 1.0, 5.0),
) -> pd.DataFrame:
    """Return for each model the share of pairs that meet each criterion.

    Columns: `model`, `pair_correlation`, `blimp`, ``adc_DELTA`` for each, `n_pairs` (the pairs
    for which both deltas are known). The shares are of those pairs.
    """
    people = np.asarray(human_deltas, dtype=np.float64)
    rows = []
    for model, own in model_deltas.items():
        known = ~np.isnan(people) & ~np.isnan(own)
        if not known.any():
            raise InputError(f"model {model!r} has no pair in common with the ratings")
        row: dict[str, object] = {
            "model": model,
            "pair_correlation": pearson(people[known], own[known]),
            "blimp": float(blimp_criterion(own[known]).mean()),
        }
        for delta in deltas:
            met = acceptability_delta_criterion(people[known], own[known], delta)
            row[f"adc_{delta:g}"] = float(met.mean())
        row["n_pairs"] = int(known.sum())
        rows.append(row)
    return pd.DataFrame(rows)


def overlap_table(
    human_deltas: ArrayLike,
    model_deltas: Mapping[str, FloatArray],
    baseline: str,
    deltas: Sequence[float] = (0.5, 1.0),
) -> pd.DataFrame:
    """Return how far each model's success is that of a baseline.

    Columns: `model`, `delta`; `original`, the share of pairs that meet the Acceptability Delta
    Criterion; `reduced`, the same after the pairs that the baseline meets are removed;
    `overlap`, the share of all pairs that both meet; `n_pairs`, `n_reduced`. Pairs are those for
    which people, model and baseline have a delta.

    Raises
    ------
    InputError
        If the baseline is not among the models.

    Source
    ------
    Vazquez Martinez (2021), Tables 2.6, 3.6 and 3.7.
    """
    if baseline not in model_deltas:
        raise InputError(f"the baseline {baseline!r} is not among the models")
    people = np.asarray(human_deltas, dtype=np.float64)
    rows = []
    for model, own in model_deltas.items():
        if model == baseline:
            continue
        other = model_deltas[baseline]
        known = ~np.isnan(people) & ~np.isnan(own) & ~np.isnan(other)
        for delta in deltas:
            met = acceptability_delta_criterion(people[known], own[known], delta)
            base = acceptability_delta_criterion(people[known], other[known], delta)
            left = met[~base]
            rows.append(
                {
                    "model": model,
                    "delta": delta,
                    "original": float(met.mean()),
                    "reduced": float(left.mean()) if len(left) else None,
                    "overlap": float((met & base).mean()),
                    "n_pairs": int(known.sum()),
                    "n_reduced": len(left),
                    "note": "" if len(left) else "the baseline meets every pair",
                }
            )
    return pd.DataFrame(rows)
