"""Noise ceilings: how well participants predict each other, which bounds what a model can reach.

The *lower* ceiling puts the mean vote of the other participants in the place of predictions, the
*upper* ceiling the mean vote of all participants (Nili et al. 2014, doi
10.1371/journal.pcbi.1003553; Golan et al. 2023, doi 10.1038/s42256-023-00718-1). Both use only the
trials that enough other participants saw. `Measure.ceilings` defines them for each measure.
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
class NoiseCeilings:
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
    def of(cls, subset: Subset, measure: Measure, min_others: int = 1) -> NoiseCeilings:
        """Return the noise ceilings on the trials that at least `min_others` others saw."""
        enough = subset.n_judges > min_others
        matched = subset
        if not enough.all():
            matched = Subset(subset.data, subset.rows[enough], subset.models)
        return cls(measure, matched, *measure.ceilings(matched))

    @property
    def has_test(self) -> bool:
        """Whether most choices are on pairs that at least three participants saw.

        With two participants each is predicted by the other alone, and the variance between
        participants cannot be estimated.
        """
        return self.matched.n_rows > 0 and bool(np.median(self.matched.n_judges) >= MIN_UNITS)
