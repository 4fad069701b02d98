"""Noise ceilings: how well participants predict each other, which bounds what a model can reach.

The *lower* ceiling puts the mean vote of the other participants in the place of predictions, the
*upper* ceiling the mean vote of all participants (Nili et al. 2014, doi
10.1371/journal.pcbi.1003553; Golan et al. 2023, doi 10.1038/s42256-023-00718-1). Both use only the
trials that enough other participants saw. `Measure.ceilings` defines them for each measure.

For confidence intervals, a ceiling is treated like a model that makes these predictions. A mean
vote is nearly the best prediction of the votes that it is made of, so that to first order the
agreement of the others does not change with one participant's vote (envelope theorem).
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

#: Decimals that mean votes are rounded to, so that means of the same votes in another order tie.
DECIMALS = 12


@dataclass(frozen=True, eq=False)
class Ceilings:
    """Both noise ceilings of a subset.

    Attributes
    ----------
    measure
        The measure.
    matched
        The trials that enough other participants saw.
    lower, upper
        Ceilings of the participants of `matched`, shape (N,). NaN if a participant has no
        preference in any trial; their votes still count in the means of others.
    """

    measure: Measure
    matched: Subset
    lower: FloatArray
    upper: FloatArray

    @classmethod
    def of(cls, subset: Subset, measure: Measure, min_others: int = 1) -> Ceilings:
        """Return the noise ceilings on the trials that at least `min_others` others saw."""
        enough = subset.seen > min_others
        matched = subset
        if not enough.all():
            matched = Subset(subset.data, subset.rows[enough], subset.models)
        return cls(measure, matched, *measure.ceilings(matched))

    def trial_influence(self) -> tuple[FloatArray, FloatArray]:
        """Return what each choice contributes to the lower and to the upper ceiling, both (R,).

        The influence of `Measure.trial_influence` for the mean votes as predictions, moved to the
        participant's ceiling.
        """
        person, n = self.matched.person, self.matched.n_people
        influence = []
        for value, votes in zip(
            (self.lower, self.upper), self.measure.mean_votes(self.matched), strict=True
        ):
            raw = self.measure.trial_influence(self.matched, votes)
            count = np.bincount(person, ~np.isnan(raw), n)
            with np.errstate(invalid="ignore", divide="ignore"):
                mean = np.bincount(person, np.nan_to_num(raw), n) / count
            influence.append(raw + (value - mean)[person])
        return influence[0], influence[1]

    @property
    def has_test(self) -> bool:
        """Whether most choices are on pairs that at least three participants saw.

        With two participants each is predicted by the other alone, and the variance between
        participants cannot be estimated.
        """
        return self.matched.n_rows > 0 and bool(np.median(self.matched.seen) >= MIN_UNITS)
