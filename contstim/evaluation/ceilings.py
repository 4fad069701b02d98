"""Noise ceilings: how well people predict each other, and with it how well any model could.

The lower ceiling puts the other participants in the place of a model, the upper one all of them.
Both are of trials that enough others saw. `Measure.ceilings` has their values by definition, in
loops; the measures of contstim have the same faster. For intervals and tests each choice has a
number, a *cell*, as it has for a model. Cells of a ceiling need corrections that those of a model
do not, since a participant is judged and judges: the functions of this module. Each is written
again as a loop in `contstim.evaluation.plain`, and `check_measure` compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from contstim.arrays import BoolArray, FloatArray
from contstim.display import displayed
from contstim.errors import require_known
from contstim.evaluation.subset import Subset
from contstim.sampling import FEWEST

if TYPE_CHECKING:
    from contstim.evaluation.measures import Measure

#: How the upper bound of a noise ceiling is made.
UPPER_BOUNDS = ("published", "optimum")
#: Sums over participants that are equal but for the order of summation must tie.
DECIMALS = 12
# How far `distance_from_pair` goes.
_MOST_APART = 1.5


@displayed
@dataclass(frozen=True, eq=False)
class Ceiling:
    """One noise ceiling of N participants with R choices.

    Attributes
    ----------
    value
        Shape (N,), NaN for a participant for whom it is not defined.
    cells
        By choice, shape (R,), as `Measure.cells` has them, corrected; their mean is that of
        `value`. None where a measure has none, so that there is no interval and no test.
    top
        The highest that each participant's value could be, shape (N,): that of a perfect
        prediction, and for cosines less, since ratings tie.
    leverage
        By choice, as `Measure.leverage` has it, or None.
    """

    value: FloatArray
    cells: FloatArray | None
    top: FloatArray
    leverage: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Ceilings:
    """Both noise ceilings of a subset.

    Attributes
    ----------
    measure, upper_bound
        What they are of; one of `UPPER_BOUNDS`.
    matched
        The subset they rest on: the trials that enough others saw.
    lower, upper
        Of the participants of `matched`. Cosines are NaN for one who prefers neither sentence of
        any; such a person's zeros count in others' means.
    """

    measure: Measure
    upper_bound: str
    matched: Subset
    lower: Ceiling
    upper: Ceiling

    @classmethod
    def of(
        cls, subset: Subset, measure: Measure, min_others: int = 1, upper: str = "published"
    ) -> Ceilings:
        """Return the noise ceilings on the trials that at least `min_others` others saw."""
        require_known("upper bound", upper, measure.upper_bounds)
        enough = subset.seen > min_others
        matched = subset
        if not enough.all():
            matched = Subset(subset.data, subset.rows[enough], subset.models)
        return cls(measure, upper, matched, *measure.ceilings(matched, upper))

    def weighed(self, weight: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Return both if each choice counts as `weight` of them, shape (N of `matched`,)."""
        return self.measure.weighed_ceilings(self.matched, self.upper_bound, weight)

    @property
    def surveyed(self) -> bool:
        """Whether most choices are on pairs that enough people saw to tell how people differ.

        With two people each is judged by the other alone, and their agreement cannot be divided
        between them.
        """
        return self.matched.n_rows > 0 and bool(np.median(self.matched.seen) >= FEWEST)


def around_pair(subset: Subset, cells: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean of each cell's pair, and how far the cell is from it, both (R,).

    Participants weigh alike, a cell of one with n trials by 1 / n, as in the mean that cells are
    of; cells that are not defined take no part.
    """
    weight = np.where(np.isnan(cells), 0.0, 1 / subset.trials[subset.person])
    size = subset.at_pair(weight)
    mean = subset.at_pair(weight * np.nan_to_num(cells)) / np.where(size > 0, size, 1.0)
    return mean, cells - mean


def effect_on_others(
    subset: Subset, effect: FloatArray, there: BoolArray | None = None
) -> FloatArray:
    """Return what effects on others' ceilings add to cells, shape (R,).

    A participant's choices are part of what the others' lower ceilings are made of, and so move
    their mean by more than its own part: by the *effect* of a choice, the sum of what it changes
    in the others' cells at its pair. Cells are n times the derivative of the mean by the weight of
    a choice (infinitesimal jackknife), so that effect enters n times, with n the participant's
    trials. What all of a pair have in common is the pair's, and is in their cells already:

        n_p (effect - mean of the effects at the pair).

    The upper ceiling is made to be the greatest, so that to first order no choice moves it for
    others.

    Parameters
    ----------
    effect
        Of each choice on the others' agreement, shape (R,).
    there
        Cells of participants whose own ceiling is defined, shape (R,); by default all.

    Source
    ------
    Efron (1982), The jackknife, the bootstrap and other resampling plans, ch. 6.
    """
    seen = subset.seen
    if there is not None:
        effect = np.where(there, effect, 0.0)
        seen = subset.at_pair(there.astype(np.float64))
    mean = subset.at_pair(effect) / np.maximum(seen, 1.0)
    return np.asarray(subset.trials[subset.person] * (effect - mean))


def distance_from_pair(subset: Subset) -> FloatArray:
    """Return the factor by which the cells of a pair's people are too near to each other, (R,).

    Let two people agree by the sum of how typical each is. Of k people one is judged by k - 1
    others, who are the less typical, compared with the rest, the more that one is: a person who
    adds t to a mean of many seems to add t (k - 2) / (k - 1). Distances from the pair's mean are
    multiplied by

        min((k - 1) / (k - 2), 1.5), and by 1 where k is 2.

    The bound holds for three people alone, of whom each is judged by two, so that how well single
    people match counts too. It was chosen by simulation: `experiments/calibration` (`run.py
    errors`), where intervals of ceilings hold in 92.4 to 97.8 % of studies, and
    ``test_the_variance_of_a_ceiling_is_found_where_few_judge_each_other``.
    """
    k = np.maximum(subset.seen, 3.0)
    return np.where(subset.seen > 2, np.minimum((k - 1) / (k - 2), _MOST_APART), 1.0)
