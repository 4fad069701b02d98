"""When a study may stop, fixed before it begins."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from contstim.errors import InputError
from contstim.evaluation.group_sequential import SPENDING, alpha_spent, interim_boundaries
from contstim.evaluation.inference.estimate import MeanEstimate
from contstim.settings import Count, Several, one_of, settings

#: Minimum number of participants for the confidence sequence, which is asymptotic.
MIN_START = 10


@settings
class Stopping:
    """When a study may stop, fixed before it begins.

    Models are compared by accuracy: the share of choices of the sentence that the model prefers,
    ties counting one half.

    Parameters
    ----------
    alpha
        Probability that a model is ever called best although it is not.
    margin
        Models that differ by less are equivalent.
    participants
        Maximum number of participants.
    analyses
        Numbers of participants of the prespecified interim analyses, ascending; the last is
        `participants`. They use the crossed test of `evaluate`: participants and items are random.
        Without any, a confidence sequence over participants is used, which may be looked at after
        every participant.
    spending
        How the error is spent over the analyses: ``obrien-fleming``, mostly late; ``pocock``,
        about equally.
    start
        Minimum number of participants for the confidence sequence, which is narrowest about there.

    Examples
    --------
    >>> Stopping(analyses=(20, 40, 60), participants=60).spending
    'obrien-fleming'
    """

    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    margin: Annotated[float, Field(gt=0, le=10)] = 0.05
    participants: Count = 100
    analyses: Several[Count] = ()
    spending: Annotated[str, one_of(SPENDING)] = "obrien-fleming"
    start: Annotated[int, Field(ge=MIN_START)] = MIN_START

    def __post_init__(self) -> None:
        if self.analyses and (sorted(set(self.analyses)), self.analyses[-1]) != (
            list(self.analyses),
            self.participants,
        ):
            raise InputError(
                f"stopping.analyses are {', '.join(map(str, self.analyses))} of "
                f"{self.participants} participants; give ascending numbers that end with "
                "stopping.participants"
            )


def pairwise_level(stopping: Stopping, n_models: int) -> float:
    """Return the two-sided error rate of the comparison of two models out of `n_models`."""
    return min(1.0, 2 * stopping.alpha / n_models)


def stopping_boundary(
    stopping: Stopping, n_models: int, item_variance_shares: tuple[float, ...]
) -> float:
    """Return the boundary at the last of some analyses, in standard errors.

    `item_variance_shares` holds the share of the variance due to items at each of them.
    """
    spent = alpha_spent(stopping.analyses, pairwise_level(stopping, n_models), stopping.spending)
    return interim_boundaries(stopping.analyses, tuple(spent.tolist()), item_variance_shares)[-1]


def item_variance_share(mean: MeanEstimate) -> float:
    """Return the share of the variance that more participants do not reduce, rounded to 0.01."""
    return float(np.clip(np.nan_to_num(mean.variance_shares[1]), 0.0, 0.99).round(2))
