"""What a design can show at best, before money is spent on it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from contstim.errors import InputError

__all__ = ["DesignPlan", "plan_design"]


@dataclass(frozen=True)
class DesignPlan:
    """The statistical floor of a design; printed, it is one plain sentence or two.

    Attributes
    ----------
    groups, comparisons, alpha
        As asked.
    smallest_p
        The smallest p-value the test can give, whatever the data.
    threshold_alone
        What Benjamini-Hochberg asks of the smallest p-value if nothing else is significant.
    needed
        How many comparisons must reach `smallest_p` together for any to be significant; None if
        not even all of them would suffice.
    groups_alone
        From how many groups on a lone comparison can be significant.
    unit
        What is counted, for the sentence: ``groups`` or ``participants``.
    """

    groups: int
    comparisons: int
    alpha: float
    smallest_p: float
    threshold_alone: float
    needed: int | None
    groups_alone: int
    unit: str = "groups"

    def __str__(self) -> str:
        # A thousand units take the smallest p below what a float can hold.
        p = f"{self.smallest_p:.3g}" if self.smallest_p > 0 else "below 1e-300"
        text = (
            f"With {self.groups} {self.unit} the smallest p of a two-sided exact Wilcoxon "
            f"signed-rank test is {p}; "
        )
        if self.needed is None:
            return text + (
                f"nothing can be significant at {self.alpha:g}, however large the difference: a "
                f"lone difference among {self.comparisons} needs {self.groups_alone} {self.unit}."
            )
        text += (
            f"Benjamini-Hochberg at {self.alpha:g} over {self.comparisons} comparison"
            f"{'s' * (self.comparisons > 1)} asks {self.threshold_alone:.3g} of a lone difference, "
        )
        if self.needed == 1:
            return text + "so a single difference can be significant."
        return text + (
            f"so no single difference can be significant: at least {self.needed} must reach the "
            f"smallest p together, or the design needs {self.groups_alone} {self.unit}."
        )


def plan_design(
    groups: int, comparisons: int, alpha: float = 0.05, unit: str = "groups"
) -> DesignPlan:
    """Work out the smallest p-value of a design and what multiple testing then asks.

    Parameters
    ----------
    groups
        Number n of independent units that are compared: participant groups, or participants.
    comparisons
        Size m of the family of tests, e.g. 36 pairs of nine models, or 45 with each model's
        test against the noise ceiling.
    alpha
        The false discovery rate that is controlled.
    unit
        What the units are called.

    Raises
    ------
    InputError
        If a number makes no sense.

    Notes
    -----
    With n differences of one sign, none zero, the two-sided exact Wilcoxon signed-rank test gives
    p = 2 / 2^n (1 for n = 1). Benjamini and Hochberg (1995) reject the k smallest of m p-values if
    the k-th is at most alpha k / m, so k comparisons at the smallest p are significant together if
    k >= p m / alpha.
    """
    for name, value in (("groups", groups), ("comparisons", comparisons)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{name} is {value!r}; give a whole number of at least 1")
    if not 0 < alpha < 1:
        raise InputError(f"alpha is {alpha}; give a rate between 0 and 1")
    rate = Fraction(str(alpha))
    smallest = Fraction(2, 2**groups)
    needed = math.ceil(smallest * comparisons / rate)
    alone = 1
    while Fraction(2, 2**alone) > rate / comparisons:
        alone += 1
    return DesignPlan(
        groups,
        comparisons,
        alpha,
        float(smallest),
        float(rate / comparisons),
        needed if needed <= comparisons else None,
        alone,
        unit,
    )
