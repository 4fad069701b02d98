"""When a study may stop: the rule, fixed before it begins, and what it asks of a difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.special import ndtr

from contstim.adaptive.looks import (
    SPENDING,
    futile_limits,
    information,
    limits,
    limits_at,
    spent_by,
)
from contstim.adaptive.sequences import (
    START,
    asymptotic_ahead,
    asymptotic_sequence,
    betting_ahead,
    betting_sequence,
    mean_ahead,
    mean_sequence,
)
from contstim.arrays import FloatArray
from contstim.errors import InputError
from contstim.sampling import SampledMean
from contstim.settings import Count, Several, one_of, settings

#: What models are compared by.
COMPARED_BY = ("accuracy", "log-score")
#: Over what: trials as asked, or all pairs that can be drawn, by inverse-propensity weights.
ESTIMANDS = ("asked", "pool")
#: When there may be a verdict, and by what.
RULES = ("exact", "asymptotic", "looks")


@settings
class Stopping:
    """When a study may stop, fixed before it begins.

    Attributes
    ----------
    measure
        ``accuracy``: share of choices as the model prefers, ties counting half; ``log-score``: the
        mean log-probability of the answers, predicted from those before.
    over
        ``asked``: the trials that were asked, of the people that were asked; ``pool``: all pairs of
        the pool that can be drawn (not the anchors), by inverse-propensity weights.
    alpha
        How often a model may be called best, ever, that is not.
    margin
        Differences that are smaller do not matter, in units of the measure.
    participants
        The most there can be.
    constant
        Whether all participants answer comparable trials (a fixed set, random pairs, or `over` the
        pool), which makes exact intervals narrower; with trials that are chosen by answers it must
        be false.
    rule
        ``exact``: confidence sequences that hold for any answers and at any time. ``asymptotic``:
        those that suppose about normal means, from `start` participants on. ``looks``: the
        crossed test, people and items being samples, after the numbers of participants `looks`.
    start
        Of the asymptotic sequences: fewer participants decide nothing.
    looks
        Numbers of participants, ascending, the last being `participants`; empty unless the rule is
        ``looks``.
    spending
        At which looks the error is spent: ``obrien-fleming``, most of it late; ``pocock``, about
        alike at all.
    power
        With which probability looks find the difference that `participants` are meant to find; half
        of what is missing to 1 may be given up before the last.

    Examples
    --------
    >>> plan = Stopping(rule="looks", looks=(20, 40, 60), participants=60)
    >>> plan.rule, plan.looks, plan.spending
    ('looks', (20, 40, 60), 'obrien-fleming')
    """

    measure: Annotated[str, one_of(COMPARED_BY)] = "accuracy"
    over: Annotated[str, one_of(ESTIMANDS)] = "asked"
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    margin: Annotated[float, Field(gt=0, le=10)] = 0.05
    participants: Count = 100
    constant: bool = False
    rule: Annotated[str, one_of(RULES)] = "exact"
    start: Annotated[int, Field(ge=START)] = START
    looks: Several[Count] = ()
    spending: Annotated[str, one_of(SPENDING)] = "obrien-fleming"
    power: Annotated[float, Field(gt=0.5, lt=1)] = 0.8

    def __post_init__(self) -> None:
        if (self.rule == "looks") != bool(self.looks):
            advice = "give both or neither" if self.looks else "announce some, as looks = [10, 20]"
            raise InputError(
                f"stopping.rule is {self.rule!r} with {len(self.looks)} looks; {advice}"
            )
        if self.looks and (sorted(set(self.looks)), self.looks[-1]) != (
            list(self.looks),
            self.participants,
        ):
            raise InputError(
                f"stopping.looks are {', '.join(map(str, self.looks))} of {self.participants} "
                "participants; give numbers that rise to stopping.participants"
            )

    @property
    def sequences(
        self,
    ) -> tuple[Callable[..., tuple[FloatArray, FloatArray]], Callable[..., FloatArray]]:
        """The confidence sequence and its foresight."""
        if self.rule == "asymptotic":
            start = self.start
            return partial(asymptotic_sequence, start=start), partial(asymptotic_ahead, start=start)
        return (betting_sequence, betting_ahead) if self.constant else (mean_sequence, mean_ahead)


def level_of(stopping: Stopping, n_models: int) -> float:
    """Return how often a confidence sequence of two models may fail, both sides together."""
    return min(1.0, 2 * stopping.alpha / n_models)


def look_limit(stopping: Stopping, n_models: int, items: tuple[float, ...]) -> float:
    """Return how far from 0 a difference must be at the last of some looks, in standard errors.

    `items` has their share of the variance at each of them.
    """
    spent = spent_by(stopping.looks, level_of(stopping, n_models), stopping.spending)
    return limits_at(stopping.looks, tuple(spent.tolist()), items)[-1]


def ends_at(means: Sequence[SampledMean], stopping: Stopping, n_models: int) -> tuple[int, bool]:
    """Return at which look a study ends that goes by the difference of two models alone.

    Parameters
    ----------
    means
        The difference at each of the announced looks.
    stopping
        The rule.
    n_models
        How many are compared.

    Returns
    -------
    tuple
        The look's number, from 0, and whether the two are apart; else it is futile, or the last.
    """
    items: tuple[float, ...] = ()
    for number, mean in enumerate(means):
        items = (*items, share_of_items(mean))
        if mean.p() < 2 * ndtr(-look_limit(stopping, n_models, items)):
            return number, True
        if number + 1 < len(means) and is_futile(stopping, n_models, mean, number):
            return number, False
    return len(means) - 1, False


def is_futile(stopping: Stopping, n_models: int, mean: SampledMean, number: int) -> bool:
    """Return whether two models are too near to one another at a look that is not the last."""
    level, items = level_of(stopping, n_models), share_of_items(mean)
    near = _futile_at(stopping.looks, level, stopping.spending, stopping.power, items, number)
    return bool(mean.p() > 2 * ndtr(-near))


def share_of_items(mean: SampledMean) -> float:
    """Return the share of the variance that more participants leave, in whole per cent."""
    return float(np.clip(np.nan_to_num(mean.shares[1]), 0.0, 0.99).round(2))


@lru_cache(maxsize=1024)
def _futile_at(
    looks: tuple[int, ...], level: float, spending: str, power: float, items: float, number: int
) -> float:
    """Return how near to 0, in standard errors, an estimate is too near at a look.

    `items` is their share of the variance at that look, `number`.
    """
    rest = (1 - items) * looks[number] / looks[-1]
    shares = information(looks, items / (items + rest))
    upper = limits(shares, spent_by(looks, level, spending))
    lost = spent_by(looks, 1 - power, "obrien-fleming") / 2
    lost[-1] = 1 - power
    return float(futile_limits(shares, upper, lost)[0][number])
