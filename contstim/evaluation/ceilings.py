"""Noise ceilings: bounds on the value of the best possible model.

The lower ceiling predicts a participant by the mean vote of the other participants, the upper
ceiling by the mean vote of all participants (Nili et al. 2014, doi 10.1371/journal.pcbi.1003553;
Golan et al. 2023, doi 10.1038/s42256-023-00718-1). See `Measure.ceiling_influence`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from contstim.arrays import FloatArray
from contstim.evaluation.inference.quasi_f import MIN_UNITS
from contstim.evaluation.subset import Subset

if TYPE_CHECKING:
    from contstim.evaluation.measures import Measure


@dataclass(frozen=True, eq=False)
class NoiseCeilings:
    """The lower and upper noise ceiling of each participant.

    A ceiling estimates the value of the best possible model for the participant.

    Attributes
    ----------
    matched
        The choices on pairs that enough other participants judged. The ceilings use no others.
    lower, upper
        Ceilings of the N participants of `matched`, shape (N,). NaN if a participant has no
        preference in any trial. This participant still contributes to the mean vote (the average
        preference of participants, see `Measure.votes`) that predicts the choices of the others.
    lower_influence, upper_influence
        Jackknife pseudo-value of each choice of `matched` for the mean of each ceiling, shape (R,).
        See `Measure.ceiling_influence`.
    """

    matched: Subset
    lower: FloatArray
    upper: FloatArray
    lower_influence: FloatArray
    upper_influence: FloatArray

    @property
    def has_test(self) -> bool:
        """Whether the median choice is on a pair that at least three participants judged.

        With two judges per pair, each is predicted by the other alone, and the variance between
        participants cannot be estimated.
        """
        return self.matched.n_rows > 0 and bool(np.median(self.matched.n_judges) >= MIN_UNITS)


def compute_ceilings(subset: Subset, measure: Measure, min_others: int = 1) -> NoiseCeilings:
    """Return the noise ceilings of the participants of a subset.

    Parameters
    ----------
    subset
        Choices of an analysis.
    measure
        Measure of the ceilings.
    min_others
        Minimum number of other participants who judged the pair of a trial. Other trials are
        excluded.

    Returns
    -------
    NoiseCeilings
        Ceilings of the participants with at least one remaining trial.
    """
    has_others = subset.n_judges > min_others
    matched = subset
    if not has_others.all():
        matched = Subset(subset.data, subset.rows[has_others], subset.models)
    lower, upper = measure.ceiling_influence(matched)
    values = matched.mean_by_participant(lower), matched.mean_by_participant(upper)
    # The standard error of the lower ceiling also depends on the votes that predict the others.
    return NoiseCeilings(matched, *values, lower + measure.influence_on_others(matched), upper)
