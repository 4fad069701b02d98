"""The planner against SciPy's exact test and Benjamini-Hochberg adjustment."""

import numpy as np
import pytest
from scipy.stats import false_discovery_control, wilcoxon

from contstim.errors import InputError
from contstim.selection import plan_design


@pytest.mark.parametrize("groups", [3, 6, 10, 13])
def test_smallest_p_is_that_of_the_exact_test(groups):
    plan = plan_design(groups, 36)
    p = wilcoxon(np.arange(1, groups + 1), method="exact").pvalue
    assert plan.smallest_p == pytest.approx(p, rel=1e-12)


@pytest.mark.parametrize(
    ("groups", "comparisons", "alpha"), [(10, 36, 0.05), (10, 45, 0.05), (7, 36, 0.05), (9, 3, 0.1)]
)
def test_numbers_needed_are_those_of_the_adjustment(groups, comparisons, alpha):
    plan = plan_design(groups, comparisons, alpha)

    def significant(k):
        p = np.array([plan.smallest_p] * k + [1.0] * (comparisons - k))
        return (false_discovery_control(p)[:k] <= alpha).all()

    assert plan.needed is not None
    assert significant(plan.needed)
    assert plan.needed == 1 or not significant(plan.needed - 1)
    assert 2 / 2**plan.groups_alone <= alpha / comparisons < 2 / 2 ** (plan.groups_alone - 1)


def test_published_design_in_words():
    assert str(plan_design(10, 36)) == (
        "With 10 groups the smallest p of a two-sided exact Wilcoxon signed-rank test is 0.00195; "
        "Benjamini-Hochberg at 0.05 over 36 comparisons asks 0.00139 of a lone difference, so no "
        "single difference can be significant: at least 2 must reach the smallest p together, or "
        "the design needs 11 groups."
    )


def test_other_designs_in_words():
    assert str(plan_design(30, 3, unit="participants")) == (
        "With 30 participants the smallest p of a two-sided exact Wilcoxon signed-rank test is "
        "1.86e-09; Benjamini-Hochberg at 0.05 over 3 comparisons asks 0.0167 of a lone difference, "
        "so a single difference can be significant."
    )
    assert str(plan_design(5, 36)) == (
        "With 5 groups the smallest p of a two-sided exact Wilcoxon signed-rank test is 0.0625; "
        "nothing can be significant at 0.05, however large the difference: a lone difference among "
        "36 needs 11 groups."
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 36), "groups is 0; give a whole number of at least 1"),
        ((10, 2.5), "comparisons is 2.5; give a whole number of at least 1"),
        ((10, 36, 0.0), "alpha is 0.0; give a rate between 0 and 1"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(InputError) as caught:
        plan_design(*arguments)
    assert str(caught.value) == message
