"""What a design can show at best, before money is spent on it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from html import escape

from contstim.errors import InputError

#: From so many groups on, tests run across groups; the smallest two-sided p of six is 0.031.
MIN_GROUPS = 6


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


_MOST_UNITS = 10**6


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
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{name} is {value!r}; give a whole number of at least 1")
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
