"""Weights of a log-linear combination, tuned to the corpus-level measure itself.

The measure is piecewise constant in the weights, so no gradient leads to its minimum. Along a line
in the space of weights, though, each hypothesis's score is a linear function of the step; the
hypothesis chosen for an utterance follows the upper envelope of its H lines, and the measure
changes only where some envelope has a corner. Visiting all corners in order gives the measure's
exact minimum on the line (Och 2003, doi 10.3115/1075096.1075117, section 4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.rescoring.measures import Measure

# Lines tried in each round besides the axes, where there are several weights.
_N_DIRECTIONS = 20
_MOST_ROUNDS = 50


@dataclass(frozen=True, eq=False)
class HypothesisArrays:
    """Hypotheses of U utterances as arrays; lists shorter than H are padded.

    Attributes
    ----------
    base
        The first pass's scores, shape (U, H).
    features
        The scores that are given weights, shape (U, H, F).
    there
        Which entries are hypotheses, shape (U, H).
    statistics
        What the measure counts, shape (U, H, K).
    """

    base: FloatArray
    features: FloatArray
    there: BoolArray
    statistics: FloatArray

    def choose(self, weights: FloatArray) -> IntArray:
        """Return each utterance's hypothesis of highest score, the first among equals: (U,)."""
        total = np.where(self.there, self.base + self.features @ weights, -np.inf)
        return np.asarray(total.argmax(axis=1), dtype=np.int64)

    def chosen(self, index: IntArray) -> FloatArray:
        """Return the statistics of one hypothesis of each utterance, (U,) to (U, K)."""
        return np.asarray(self.statistics[np.arange(len(index)), index])

    def loss(self, weights: FloatArray, measure: Measure) -> float:
        """Return the loss over all utterances with these weights."""
        return float(measure.loss(self.chosen(self.choose(weights)).sum(axis=0)[None])[0])


def tune(candidates: HypothesisArrays, measure: Measure, seed: int = 0) -> FloatArray:
    """Find weights that minimise the measure's loss over `candidates`.

    The first pass's score has weight 1. Beginning with weights of 0, which are the first pass's own
    choices, each round searches lines through the present weights exactly and moves to the best
    minimum found on any, until none is better. With one weight, one line is the whole space, so
    the minimum is global. With several the lines are the axes and 20 directions drawn at random in
    each round, each feature counted in units of its spread within utterances; the minimum found
    is never worse than the start, and may be local.

    Parameters
    ----------
    candidates
        The development part: the search sees nothing else.
    measure
        What is tuned to.
    seed
        Seed of the directions.

    Returns
    -------
    array
        The F weights.
    """
    n_features = candidates.features.shape[2]
    weights = np.zeros(n_features)
    if n_features == 0:
        return weights
    rng = np.random.default_rng(seed)
    units = _units(candidates)
    loss = candidates.loss(weights, measure)
    for _ in range(_MOST_ROUNDS):
        directions = list(np.eye(n_features))
        if n_features > 1:
            directions += list(rng.standard_normal((_N_DIRECTIONS, n_features)))
        best, best_loss = weights, loss
        for direction in directions:
            step, lowest = best_step(candidates, weights, direction * units, measure)
            if lowest < best_loss:
                best, best_loss = weights + step * direction * units, lowest
        if best_loss >= loss:
            break
        weights, loss = best, best_loss
    return weights


def best_step(
    candidates: HypothesisArrays, weights: FloatArray, direction: FloatArray, measure: Measure
) -> tuple[float, float]:
    """Minimise the loss exactly over weights + step * direction.

    Returns
    -------
    step
        The middle of the interval of steps with the least loss; of several intervals the widest,
        then the one nearest 0. An interval without an end reaches as far beyond its corner as all
        corners lie apart (1 if there is one alone).
    loss
        The loss there.
    """
    start, corners, old, new, where = _corners(candidates, weights, direction)
    order = np.argsort(corners, kind="stable")
    corners = corners[order]
    statistics = candidates.statistics
    change = statistics[where, new] - statistics[where, old]
    sums = candidates.chosen(start).sum(axis=0) + np.concatenate(
        [np.zeros((1, statistics.shape[2])), np.cumsum(change[order], axis=0)]
    )
    if len(corners) == 0:
        return 0.0, float(measure.loss(sums)[0])
    reach = float(corners[-1] - corners[0]) or 1.0
    ends = np.concatenate([[corners[0] - reach], corners, [corners[-1] + reach]])
    # Corners that coincide leave intervals of no width, in which no step lies.
    wide = np.diff(ends) > 0
    low, high, losses = ends[:-1][wide], ends[1:][wide], measure.loss(sums[wide])
    # Neighbours with one loss are one interval.
    first = np.flatnonzero(np.diff(losses, prepend=np.inf) != 0)
    last = np.append(first[1:], len(losses)) - 1
    low, high, losses = low[first], high[last], losses[first]
    middle = (low + high) / 2
    best = np.lexsort((np.abs(middle), low - high, losses))[0]
    return float(middle[best]), float(losses[best])


def _corners(
    candidates: HypothesisArrays, weights: FloatArray, direction: FloatArray
) -> tuple[IntArray, FloatArray, IntArray, IntArray, IntArray]:
    """Find the corners of all upper envelopes along a line.

    Returns the hypothesis chosen at step minus infinity (U,), and for each corner its step, the
    hypotheses before and after it, and the utterance. The envelopes of all utterances are
    followed side by side, from the flattest line to ever steeper ones.
    """
    height = np.where(candidates.there, candidates.base + candidates.features @ weights, -np.inf)
    slope = candidates.features @ direction
    every = np.arange(len(height))
    flattest = np.where(candidates.there, slope, np.inf).min(axis=1)
    start = np.where(slope == flattest[:, None], height, -np.inf).argmax(axis=1)
    steps, old, new, where = [], [], [], []
    now, live = start, every
    while len(live):
        at = now[live]
        rise = slope[live] - slope[live, at][:, None]
        steeper = candidates.there[live] & (rise > 0)
        fall = height[live, at][:, None] - height[live]
        crossing = np.full(rise.shape, np.inf)
        np.divide(fall, rise, out=crossing, where=steeper)
        first = crossing.min(axis=1)
        live = live[np.isfinite(first)]
        kept = np.isfinite(first)
        # Of lines that cross at one place the steepest is on the envelope beyond it.
        meets = crossing[kept] == first[kept][:, None]
        following = np.where(meets, rise[kept], -np.inf).argmax(axis=1)
        steps.append(first[kept])
        old.append(at[kept])
        new.append(following)
        where.append(live)
        now = now.copy()
        now[live] = following
    return (
        start.astype(np.int64),
        np.concatenate(steps),
        np.concatenate(old).astype(np.int64),
        np.concatenate(new).astype(np.int64),
        np.concatenate(where).astype(np.int64),
    )


def _units(candidates: HypothesisArrays) -> FloatArray:
    """Return the weight that makes each feature vary as much within utterances as the first pass.

    1 where one of the two does not vary.
    """
    there = candidates.there
    counts = there.sum(axis=1)

    def spread(values: FloatArray) -> float:
        kept = np.where(there, values, 0.0)
        means = kept.sum(axis=1) / counts
        return float(np.sqrt(np.where(there, (values - means[:, None]) ** 2, 0.0).sum()))

    base = spread(candidates.base)
    spreads = [spread(candidates.features[:, :, f]) for f in range(candidates.features.shape[2])]
    return np.array([base / s if base > 0 and s > 0 else 1.0 for s in spreads])
