"""Group-sequential designs: stopping boundaries at prespecified interim analyses.

A study that is analysed after n_1 < ... < n_K participants has a larger error rate than one that is
analysed once, unless the error is spent across the analyses (Lan and DeMets 1983, doi
10.1093/biomet/70.3.659). The estimates at the analyses are jointly normal, and the covariance of
two of them is the variance of the later one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from contstim.arrays import FloatArray

_FARTHEST = 12.0  # standard errors: what lies further off does not happen
_NEAREST = (
    1e-3  # the least growth of information from look to look, a share, that is told from none
)
_FINE = 6.0  # nodes a standard deviation of the increments
_MOST_NODES = 1500


def _obrien_fleming(alpha: float, share: FloatArray) -> FloatArray:
    return np.asarray(2 * ndtr(ndtri(alpha / 2) / np.sqrt(share)))


def _pocock(alpha: float, share: FloatArray) -> FloatArray:
    return np.asarray(alpha * np.log1p((np.e - 1) * share))


#: How much of a side's error is spent when so large a share of the participants is there: late, or
#: about alike at each look.
SPENDING: dict[str, Callable[[float, FloatArray], FloatArray]] = {
    "obrien-fleming": _obrien_fleming,
    "pocock": _pocock,
}


def information_fractions(looks: Sequence[int], items: float = 0.0) -> FloatArray:
    """Return the information at each look over that at the last, shape (K,).

    Parameters
    ----------
    looks
        Numbers of participants, ascending.
    items
        The share of the variance after the last look that is due to the items, which are the same
        at all looks: it does not fall with participants, so that information grows more slowly
        than they do, and two looks are the more alike.
    """
    people = np.asarray(looks, dtype=np.float64)
    return np.asarray(1.0 / (items + (1.0 - items) * people[-1] / people))


@lru_cache(maxsize=_MOST_NODES)
def _gauss(n: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of Gauss and Legendre's rule."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return np.asarray(nodes), np.asarray(weights)


@dataclass(frozen=True, eq=False)
class _Continuing:
    """The distribution of Z sqrt(I) of the studies that have not stopped: weighed points."""

    points: FloatArray
    weights: FloatArray

    def beyond(self, growth: float, drift: float, limit: float) -> tuple[float, float]:
        """Return how probable it is to be below -limit, and above it, when information grew so."""
        ahead, spread = self.points + drift * growth, np.sqrt(growth)
        below, above = ndtr((-limit - ahead) / spread), ndtr((ahead - limit) / spread)
        return float(self.weights @ below), float(self.weights @ above)

    def grown(self, growth: float, drift: float, regions: list[tuple[float, float]]) -> _Continuing:
        """Return the distribution after a look at which only studies in the regions continue.

        The recursion of Armitage, McPherson and Rowe (1969), doi 10.2307/2343787.
        """
        spread = np.sqrt(growth)
        parts = []
        for low, high in regions:
            wanted = _FINE * (high - low) / spread
            nodes, weights = _gauss(int(np.clip(wanted, 24, _MOST_NODES)))
            parts.append((low + (high - low) * (nodes + 1) / 2, weights * (high - low) / 2))
        points = np.concatenate([part[0] for part in parts])
        weights = np.concatenate([part[1] for part in parts])
        gaps = (points[:, None] - self.points - drift * growth) / spread
        density = np.exp(-(gaps**2) / 2) @ self.weights / (spread * np.sqrt(2 * np.pi))
        return _Continuing(points, weights * density)


_START = _Continuing(np.zeros(1), np.ones(1))


def _growths(amounts: FloatArray) -> FloatArray:
    """Return by how much information grew up to each look, never quite nothing."""
    return np.asarray(np.maximum(np.diff(amounts, prepend=0.0), _NEAREST * amounts))


def _limit(continuing: _Continuing, growth: float, root: float, left: float) -> float:
    """Return the Z beyond which, on both sides together, so probable a share `left` lies."""

    def short(z: float) -> float:
        return sum(continuing.beyond(growth, 0.0, z * root)) - left

    if short(_FARTHEST) >= 0 or left <= 0:
        return float(np.inf)
    return float(brentq(short, 0.0, _FARTHEST, xtol=1e-10)) if short(0.0) > 0 else 0.0


def next_boundary(amounts: FloatArray, earlier: Sequence[float], spent: float) -> float:
    """Return how far from 0 the estimate at the last of K looks must be to stop.

    Parameters
    ----------
    amounts
        Information at the looks, in any unit, ascending, shape (K,).
    earlier
        The limits at the K - 1 looks before.
    spent
        How probable it is to be by now, where there is no difference, to have been beyond one.

    Returns
    -------
    float
        In standard errors; infinite where all of that is used up.
    """
    continuing, used = _START, 0.0
    growths, roots = _growths(amounts), np.sqrt(amounts)
    for growth, root, z in zip(growths[:-1], roots[:-1], earlier, strict=True):
        limit = min(z, _FARTHEST) * float(root)
        used += sum(continuing.beyond(growth, 0.0, limit))
        continuing = continuing.grown(growth, 0.0, [(-limit, limit)])
    return _limit(continuing, float(growths[-1]), float(roots[-1]), spent - used)


def alpha_spent(looks: Sequence[int], alpha: float, spending: str) -> FloatArray:
    """Return how much of the error, both sides together, is spent by each look, shape (K,)."""
    people = np.asarray(looks, dtype=np.float64)
    return 2 * SPENDING[spending](alpha / 2, people / people[-1])


def stopping_boundaries(amounts: FloatArray, spent: FloatArray) -> FloatArray:
    """Return how far from 0 estimates must be to stop, in standard errors, shape (K,).

    Parameters
    ----------
    amounts
        Information at the looks, shape (K,).
    spent
        Of the error, both sides together, by each look, shape (K,): `alpha_spent`.

    Examples
    --------
    >>> looks = [1, 2, 3, 4, 5]
    >>> spent = alpha_spent(looks, 0.05, "obrien-fleming")
    >>> stopping_boundaries(information_fractions(looks), spent).round(3)
    array([4.877, 3.357, 2.68 , 2.29 , 2.031])
    """
    found: list[float] = []
    for k, so_far in enumerate(spent):
        found.append(next_boundary(amounts[: k + 1], found, float(so_far)))
    return np.array(found)


@lru_cache(maxsize=4096)
def interim_boundaries(
    looks: tuple[int, ...], spent: tuple[float, ...], items: tuple[float, ...]
) -> tuple[float, ...]:
    """Return the limits at the looks so far, each by what was known at it.

    Parameters
    ----------
    looks
        All that were announced, shape (K,).
    spent
        As for `stopping_boundaries`.
    items
        Of `information_fractions`, as it was estimated at each look so far, shape (k,).
    """
    if not items:
        return ()
    earlier = interim_boundaries(looks, spent, items[:-1])
    amounts = information_fractions(looks[: len(items)], items[-1])
    return (*earlier, next_boundary(amounts, earlier, spent[len(items) - 1]))


def repeated_p_value(
    p: float, looks: tuple[int, ...], spending: str, items: tuple[float, ...]
) -> float:
    """Return the p-value at the last of some looks that allows for those before.

    The least error, both sides together, that could have been spent on all looks and the
    difference yet be found at this one (Jennison and Turnbull 2000, chapter 9): it holds whatever
    the reason for which a study stops, as the repeated confidence interval does.

    Parameters
    ----------
    p
        At this look by itself.
    looks, spending, items
        As for `interim_boundaries` and `alpha_spent`.
    """
    far, least = -float(ndtri(max(p, 1e-15) / 2)), float(np.log(max(p, 1e-15)))

    def short(log_alpha: float) -> float:
        spent = tuple(alpha_spent(looks, float(np.exp(log_alpha)), spending).tolist())
        return min(interim_boundaries(looks, spent, items)[-1], _FARTHEST) - far

    if short(0.0) >= 0:
        return 1.0
    return float(np.exp(brentq(short, least, 0.0, xtol=1e-4))) if short(least) > 0 else p
