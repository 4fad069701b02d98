"""Means over participants in many resamples at once, where participants share their trials."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.evaluation.ranks import square_sum
from contstim.evaluation.subset import Subset

__all__ = ["block_means", "has_blocks"]


_MOST_LEVELS = 16
# Work arrays of this size stay in the cache; much larger ones cost four times as much.
_MOST_CELLS = 300_000


def has_blocks(subset: Subset) -> bool:
    """Say whether enough participants share their trials for `block_means` to be the faster way.

    Ratings must also have few sizes, which a slider has not.
    """
    if subset.n_sets > max(4, subset.n_people // 8):
        return False
    return len(np.unique(np.abs(subset.rating))) <= _MOST_LEVELS


def block_means(subset: Subset, measure: str, people: FloatArray, pairs: FloatArray) -> FloatArray:
    """Return each model's mean over participants in each of B resamples, shape (B, M here).

    The same numbers as `Subset.values` with each row of weights, averaged; here as products of
    dense matrices, one for each set of participants who saw the same pairs.

    Parameters
    ----------
    people
        How often each participant of the subset counts, shape (B, N here).
    pairs
        How often each of the P pairs counts, shape (B, P).
    """
    n_draws, n_models = len(people), len(subset.models)
    total, weight = np.zeros((n_draws, n_models)), np.zeros((n_draws, n_models))
    prepare = _accuracy if measure == "accuracy" else _cosine
    for members, pair, rating in subset.set_blocks():
        ratios = subset.data.log_ratio[pair][:, subset.models]
        value = prepare(rating, ratios)
        step = max(1, _MOST_CELLS // max(rating.size, len(members)))
        for start in range(0, n_draws, step):
            draws = slice(start, start + step)
            chosen = people[draws][:, members]
            for m, values in enumerate(value(pairs[draws][:, pair])):
                there = ~np.isnan(values)
                total[draws, m] += np.einsum("bn,bn->b", chosen, np.where(there, values, 0.0))
                weight[draws, m] += np.einsum("bn,bn->b", chosen, there.astype(np.float64))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(total / weight)


def _accuracy(rating: FloatArray, ratios: FloatArray) -> Callable[[FloatArray], list[FloatArray]]:
    human, model = np.sign(rating), np.sign(ratios)

    def values(weights: FloatArray) -> list[FloatArray]:
        n = weights.sum(axis=1)[:, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            return [0.5 + 0.5 * ((weights * sign) @ human.T) / n for sign in model.T]

    return values


def _cosine(rating: FloatArray, ratios: FloatArray) -> Callable[[FloatArray], list[FloatArray]]:
    size, sign = np.abs(rating), np.sign(rating)
    levels = [level for level in np.unique(size) if level > 0]
    signed = [np.where(size == level, sign, 0.0).T for level in levels]
    orders = [_tie_order(ratio) for ratio in ratios.T]

    def values(weights: FloatArray) -> list[FloatArray]:
        ranks, before = [], np.zeros((len(weights), len(rating)))
        for block in signed:
            mass = weights @ np.abs(block)  # how many trials have this size, (B, n)
            ranks.append(before + (mass + 1) / 2)
            before = before + mass
        human_norm = np.sqrt(square_sum(before))
        out = []
        for ratio, (order, starts, tie) in zip(ratios.T, orders, strict=True):
            model = np.zeros_like(weights)
            n_model = np.zeros(len(weights))
            if len(order):
                mass = np.add.reduceat(weights[:, order], starts, axis=1)
                after = np.cumsum(mass, axis=1)
                rank = after - mass + (mass + 1) / 2
                model[:, order] = rank[:, tie] * np.sign(ratio[order])
                n_model = after[:, -1]
            weighted = weights * model
            dot = np.zeros_like(before)
            for rank, block in zip(ranks, signed, strict=True):
                dot += rank * (weighted @ block)
            norm = human_norm * np.sqrt(square_sum(n_model))[:, None]
            with np.errstate(invalid="ignore", divide="ignore"):
                out.append(dot / norm)
        return out

    return values


def _tie_order(ratio: FloatArray) -> tuple[IntArray, IntArray, IntArray]:
    """Order of the non-zero values by size, where ties start, and which tie each is in."""
    nonzero = np.flatnonzero(ratio)
    order = nonzero[np.argsort(np.abs(ratio[nonzero]), kind="stable")]
    first = np.ones(len(order), dtype=bool)
    first[1:] = np.diff(np.abs(ratio[order])) != 0
    return order, np.flatnonzero(first), np.cumsum(first) - 1
