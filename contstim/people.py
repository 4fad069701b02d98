"""People: how they would answer if a model were right, and what so many of them can show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from html import escape
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.special import expit

from contstim.arrays import FloatArray
from contstim.errors import InputError, require_whole
from contstim.settings import option, settings

#: From so many groups on, tests run across groups; the smallest two-sided p of six is 0.031.
MIN_GROUPS = 6

_MOST_UNITS = 10**6  # of a design
_NODES = 64  # of each quadrature
_GRID = 1001  # points of the tabled curve, whose error is below 1e-5


@settings
class People:
    """How people choose if a model is right, with effects of persons and of pairs of sentences.

    Person p chooses sentence 2 of pair x with probability

        lapse / 2 + (1 - lapse) sigma(beta_p g_x + b_p + u_x),

    where g_x is the model's log p(sentence 2) - log p(sentence 1) in standard deviations of its
    log-probability over natural sentences, cut off at ± `most`, so that no outlier decides; sigma
    is the logistic function, log beta_p ~ N(log slope, slope_sd²), b_p ~ N(0, side_sd²) and
    u_x ~ N(0, item_sd²).

    Attributes
    ----------
    slope
        Median over persons of beta, logits.
    slope_sd
        Standard deviation of log beta over persons.
    side_sd
        Of the persons' leanings to one side of the screen, logits.
    item_sd
        Of the pairs' effects, logits: what all people see in a pair and the model does not.
    lapse
        Share of answers that are the toss of a coin.
    most
        Where g is cut off.

    Notes
    -----
    A logistic regression with crossed random effects (Baayen, Davidson and Bates 2008, doi
    10.1016/j.jml.2007.12.005) and a lapse rate (Wichmann and Hill 2001, doi 10.3758/BF03194544).
    The defaults are fitted to the second experiment of Golan et al. (2023), 30 people and 120
    pairs, by ``experiments/set-power/fit.py``.
    """

    slope: Annotated[float, Field(ge=0, le=100)] = option(
        0.91, "log-odds a standard deviation of log-probability", "NUMBER"
    )
    slope_sd: Annotated[float, Field(ge=0, le=2)] = option(
        0.47, "of the logarithm of the slope, over people", "NUMBER"
    )
    side_sd: Annotated[float, Field(ge=0, le=100)] = option(
        0.29, "of people's leanings to one side, logits", "NUMBER"
    )
    item_sd: Annotated[float, Field(ge=0, le=100)] = option(
        1.36, "of the effects of pairs of sentences, logits", "NUMBER"
    )
    lapse: Annotated[float, Field(ge=0, le=1)] = option(
        0.011, "share of answers at random", "NUMBER"
    )
    most: Annotated[float, Field(gt=0, le=100)] = 3.0

    def preferences(self, scaled: FloatArray) -> FloatArray:
        """Return g: differences of log-probabilities in standard deviations, cut off."""
        return np.clip(scaled, -self.most, self.most)

    def probabilities(self, scaled: FloatArray) -> FloatArray:
        """Return how often sentence 2 is chosen, over all persons and pairs like these.

        Parameters
        ----------
        scaled
            Differences of log-probabilities in standard deviations, any shape.

        Returns
        -------
        array
            Probabilities, of the same shape: the mean over effects, by Gauss and Hermite's
            quadrature; NaN where a difference is.

        Examples
        --------
        >>> People().probabilities(np.array([-1.0, 0.0, 1.0])).round(2)
        array([0.33, 0.5 , 0.67])
        """
        curve = _curve(self)
        # Linear interpolation between equally spaced points.
        place = np.minimum(np.abs(scaled) * ((_GRID - 1) / self.most), _GRID - 1.0)
        before = np.minimum(np.nan_to_num(place).astype(np.int64), _GRID - 2)
        chosen = curve[before] + (place - before) * np.diff(curve)[before]
        return np.where(np.asarray(scaled) < 0, 1 - chosen, chosen)


@lru_cache(maxsize=8)
def _curve(people: People) -> FloatArray:
    """Return the probabilities at equally spaced values of g from 0 up to `most`.

    A table, as selections ask for millions of values.
    """
    grid = np.linspace(0.0, people.most, _GRID)
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    weights = weights / weights.sum()
    slopes = people.slope * np.exp(people.slope_sd * nodes)
    offsets = np.hypot(people.side_sd, people.item_sd) * nodes
    curve = np.zeros(_GRID)
    for slope, weight in zip(slopes, weights, strict=True):
        curve += weight * (expit(grid[:, None] * slope + offsets) @ weights)
    # Away from 0 and 1, so that no single answer excludes a model.
    return np.clip(people.lapse / 2 + (1 - people.lapse) * curve, 1e-9, 1 - 1e-9)


def log_bayes_factors(probabilities: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return expected log Bayes factors of one answer for the right one of two models, nats.

    Parameters
    ----------
    probabilities
        Of choosing sentence 2, shape (..., M), under M models.
    weights
        Symmetric, shape (M, M), diagonal 0: sum the factors of all model pairs with these weights
        (each pair counts by its weight once).

    Returns
    -------
    array
        For models i and j, (p_i - p_j)(logit p_i - logit p_j) / 2: the mean of the
        Kullback-Leibler divergences of both directions, as either model may be right. Shape
        (..., M (M - 1) / 2), the pairs in the order of `itertools.combinations`; with weights
        (...,).

    Notes
    -----
    Source: Kullback and Leibler (1951), doi 10.1214/aoms/1177729694, whose divergence J between two
    hypotheses is twice this, for one Bernoulli trial.
    """
    logits = np.log(probabilities) - np.log1p(-probabilities)
    if weights is not None:
        laplacian = np.diag(weights.sum(axis=0)) - weights
        return np.asarray((probabilities * (logits @ laplacian)).sum(axis=-1) / 2)
    i, j = np.triu_indices(probabilities.shape[-1], 1)
    return np.asarray(
        (probabilities[..., i] - probabilities[..., j]) * (logits[..., i] - logits[..., j]) / 2
    )


def log_bayes_factor_halves(people: People, apart: FloatArray) -> FloatArray:
    """Return k, where no log Bayes factor of models i and j exceeds k(x) + k(y).

    That holds wherever |g_i - g_j| <= x + y, so that what a pair of sentences can tell is bounded
    by what either brings.

    Parameters
    ----------
    people
        How people answer.
    apart
        The values x, not negative, any shape.

    Notes
    -----
    With G(t) the largest factor of any |g_i - g_j| <= t, C a convex function above G and c the
    largest factor of all, k(x) = min(C(2 x) / 2, c): either C(2 x) / 2 + C(2 y) / 2 >= C(x + y), as
    C is convex, or one of the two is c.
    """
    grid, halves, largest = _halves(people)
    return np.minimum(np.interp(apart, grid, halves), largest)


@lru_cache(maxsize=8)
def _halves(people: People) -> tuple[FloatArray, FloatArray, float]:
    """Return values x, those of C(2 x) / 2 and c, as `log_bayes_factor_halves` defines them."""
    g = np.linspace(-people.most, people.most, _GRID)
    probabilities = people.probabilities(g)
    logits = np.log(probabilities) - np.log1p(-probabilities)
    factors = (
        np.subtract.outer(probabilities, probabilities) * np.subtract.outer(logits, logits) / 2
    )
    # Factors grow with the distance, so that values between points of the grid, and between those
    # of C, are within those of three steps more.
    steps = np.minimum(np.arange(_GRID) + 3, _GRID - 1)
    most = np.array([factors.diagonal(step).max() for step in range(_GRID)])[steps]
    slopes = np.maximum.accumulate(np.diff(most, append=most[-1]))
    convex = np.concatenate([most[:1], most[0] + np.cumsum(slopes)])
    missing = 2 * most[-1] - convex[-1]
    if missing > 0:
        further = int(np.ceil(missing / slopes[-1]))
        convex = np.append(convex, convex[-1] + slopes[-1] * np.arange(1, further + 1))
    width = g[1] - g[0]
    return np.arange(len(convex)) * width / 2, convex / 2, float(most[-1])


def log_ratio_scale(log_probs: FloatArray, models: Sequence[str]) -> FloatArray:
    """Return each model's standard deviation over sentences, shape (M,), from shape (S, M).

    Raises
    ------
    InputError
        If a model gives all sentences the same score, naming it.
    """
    finite = np.where(np.isfinite(log_probs), log_probs, np.nan)
    scale = np.nanstd(finite, axis=0)
    if not (scale > 0).all():
        raise InputError(
            f"model {models[int(np.flatnonzero(~(scale > 0))[0])]!r} gives all sentences the same "
            "score, so it prefers none; leave it out"
        )
    return np.asarray(scale)


def unit_of_tests(groups: int, min_groups: int = MIN_GROUPS) -> str:
    """Return what tests run across in a design of so many groups: ``group`` or ``participant``."""
    return "group" if groups >= min_groups else "participant"


def unit_sentence(groups: int, min_groups: int = MIN_GROUPS) -> str:
    """Say the rule of `unit_of_tests` and what it means for so many groups."""
    unit = unit_of_tests(groups, min_groups)
    return (
        f"Signed-rank tests run across groups from {min_groups} groups on and across participants "
        f"below: with {groups} group{'s' * (groups != 1)}, across {unit}s."
    )


@dataclass(frozen=True)
class DesignPlan:
    """The statistical floor of a design; printed, it is a plain sentence or three.

    Attributes
    ----------
    groups, comparisons, alpha
        As asked.
    unit
        What tests run across: ``group`` or ``participant``, see `unit_of_tests`.
    n_units
        How many of them there are.
    smallest_p
        The smallest p-value the test can give, whatever the data.
    threshold_alone
        What Benjamini-Hochberg asks of the smallest p-value if nothing else is significant.
    needed
        How many comparisons must reach `smallest_p` together for any to be significant; None if
        not even all of them would suffice.
    units_alone
        From how many units on a lone comparison can be significant.
    """

    groups: int
    comparisons: int
    alpha: float
    unit: str
    n_units: int
    smallest_p: float
    threshold_alone: float
    needed: int | None
    units_alone: int

    def _repr_html_(self) -> str:
        """Return it as a paragraph, which notebooks show."""
        return f"<p>{escape(str(self))}</p>"

    def __str__(self) -> str:
        # A thousand units take the smallest p below what a float can hold.
        p = f"{self.smallest_p:.3g}" if self.smallest_p > 0 else "below 1e-300"
        units = f"{self.unit}{'s' * (self.n_units != 1)}"
        text = (
            f"{unit_sentence(self.groups)} With {self.n_units} {units} the smallest p of a "
            f"two-sided exact Wilcoxon signed-rank test is {p}; "
        )
        if self.needed is None:
            return text + (
                f"nothing can be significant at {self.alpha:g}, however large the difference: a "
                f"lone difference among {self.comparisons} needs {self.units_alone} {self.unit}s."
            )
        text += (
            f"Benjamini-Hochberg at {self.alpha:g} over {self.comparisons} comparison"
            f"{'s' * (self.comparisons > 1)} asks {self.threshold_alone:.3g} of a lone difference, "
        )
        if self.needed == 1:
            return text + "so a single difference can be significant."
        return text + (
            f"so no single difference can be significant: at least {self.needed} must reach the "
            f"smallest p together, or the design needs {self.units_alone} {self.unit}s."
        )


def plan_design(
    groups: int, comparisons: int, alpha: float = 0.05, participants: int | None = None
) -> DesignPlan:
    """Work out the smallest p-value of a design and what multiple testing then asks.

    Parameters
    ----------
    groups
        Number of groups of participants. From `MIN_GROUPS` on they are the n units that are
        compared, below that the participants are, as in `evaluate`.
    comparisons
        Size m of the family of tests, e.g. 36 pairs of nine models, or 45 with each model's
        test against the noise ceiling.
    alpha
        The false discovery rate that is controlled.
    participants
        Number of participants in each group; needed where they are compared.

    Raises
    ------
    InputError
        If a number makes no sense, or `participants` is needed.

    Notes
    -----
    With n differences of one sign, none zero, the two-sided exact Wilcoxon signed-rank test gives
    p = 2 / 2^n (1 for n = 1). Benjamini and Hochberg (1995) reject the k smallest of m p-values if
    the k-th is at most alpha k / m, so k comparisons at the smallest p are significant together if
    k >= p m / alpha.
    """
    numbers = {"groups": groups, "comparisons": comparisons}
    if participants is not None:
        numbers["participants"] = participants
    for name, value in numbers.items():
        require_whole(name, value, 1)
    if not 0 < alpha < 1:
        raise InputError(f"alpha is {alpha}; give a rate between 0 and 1")
    unit = unit_of_tests(groups)
    if unit == "group":
        n_units = groups
    elif participants is None:
        raise InputError(
            f"{groups} group{'s' * (groups != 1)} cannot carry a test, which then runs across "
            "participants; give participants, the number in each group"
        )
    else:
        n_units = groups * participants
    if n_units > _MOST_UNITS:
        raise InputError(f"{n_units} {unit}s are more than the {_MOST_UNITS} that a plan takes")
    rate = Fraction(str(alpha))
    smallest = Fraction(2, 2**n_units)
    needed = math.ceil(smallest * comparisons / rate)
    alone = 1
    while Fraction(2, 2**alone) > rate / comparisons:
        alone += 1
    return DesignPlan(
        groups,
        comparisons,
        alpha,
        unit,
        n_units,
        float(smallest),
        float(rate / comparisons),
        needed if needed <= comparisons else None,
        alone,
    )
