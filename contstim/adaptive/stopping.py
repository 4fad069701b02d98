"""Stopping rules of sequential studies, the table ``[stopping]`` of a study plan."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from contstim.adaptive.group_sequential import SPENDING, alpha_spent, interim_boundaries
from contstim.errors import InputError
from contstim.evaluation.inference.estimate import MeanEstimate
from contstim.settings import PositiveInt, TupleFromList, settings, validate_choice

#: Minimum number of participants for the confidence sequence, which is asymptotic.
MIN_START = 10


@settings
class Stopping:
    """Prespecified rule for stopping the data collection of a study that compares models.

    Models are compared by accuracy: the proportion of choices of the sentence that the model
    prefers, where ties count one half.

    Parameters
    ----------
    alpha
        Maximum probability of calling a model the best although another model is as good.
    margin
        Largest difference in accuracy between equivalent models.
    participants
        Maximum number of participants.
    analyses
        Numbers of participants at the prespecified interim analyses, ascending; the last is
        `participants`. They use the quasi-F test of `evaluate`, with participants and items random.
        If empty, a confidence sequence over participants is used, which is valid after every
        participant.
    spending
        Alpha-spending function of the interim analyses: ``obrien-fleming`` spends most of the error
        at the last analyses, ``pocock`` nearly equal parts.
    start
        Minimum number of participants for the confidence sequence, which is narrowest near it.

    Examples
    --------
    >>> Stopping(analyses=(20, 40, 60), participants=60).spending
    'obrien-fleming'
    """

    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    margin: Annotated[float, Field(gt=0, le=10)] = 0.05
    participants: PositiveInt = 100
    analyses: TupleFromList[PositiveInt] = ()
    spending: Annotated[str, validate_choice(SPENDING)] = "obrien-fleming"
    start: Annotated[int, Field(ge=MIN_START)] = MIN_START

    def __post_init__(self) -> None:
        is_ascending = list(self.analyses) == sorted(set(self.analyses))
        # The last interim analysis takes place when all participants have finished.
        if self.analyses and not (is_ascending and self.analyses[-1] == self.participants):
            raise InputError(
                f"stopping.analyses are {', '.join(map(str, self.analyses))} of "
                f"{self.participants} participants; give ascending numbers that end with "
                "stopping.participants"
            )


def pairwise_alpha(stopping: Stopping, n_models: int) -> float:
    """Return the two-sided error rate of each comparison of two models, 2 alpha / M for M models.

    The rate is at most 1, and alpha is the type-I error rate of the stopping rule. With this rate,
    the probability of calling a wrong model the best is at most alpha (Bonferroni).
    """
    return min(1.0, 2 * stopping.alpha / n_models)


def stopping_boundary(
    stopping: Stopping, n_models: int, item_variance_shares: tuple[float, ...]
) -> float:
    """Return the stopping boundary of the latest interim analysis.

    Two models differ significantly if the absolute t statistic of their difference exceeds the
    boundary.

    Parameters
    ----------
    stopping
        Stopping rule with prespecified analyses.
    n_models
        Number of compared models.
    item_variance_shares
        Fraction of the variance of the difference that is due to items, at each analysis so far.

    Returns
    -------
    float
        Boundary of the absolute t statistic.
    """
    alpha = pairwise_alpha(stopping, n_models)
    cumulative_alpha = tuple(alpha_spent(stopping.analyses, alpha, stopping.spending).tolist())
    return interim_boundaries(stopping.analyses, cumulative_alpha, item_variance_shares)[-1]


def item_variance_share(estimate: MeanEstimate) -> float:
    """Return the share of the variance of an estimate that is due to items, from 0 to 0.99.

    The share is rounded to 0.01, so that boundaries can be cached. A missing share is replaced by
    0.
    """
    return float(np.clip(np.nan_to_num(estimate.item_share), 0.0, 0.99).round(2))
