"""The planner against SciPy's exact test and Benjamini-Hochberg adjustment."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import false_discovery_control, wilcoxon

from contstim.errors import InputError
from contstim.evaluation import evaluate
from contstim.evaluation.wording import methods_sentences
from contstim.selection import plan_design


@pytest.mark.parametrize("groups", [1, 3, 5, 6, 10, 13])
def test_smallest_p_is_that_of_the_exact_test(groups):
    plan = plan_design(groups, 36, participants=3)
    n_units = groups if groups >= 6 else 3 * groups
    p = wilcoxon(np.arange(1, n_units + 1), method="exact").pvalue
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
    assert 2 / 2**plan.units_alone <= alpha / comparisons < 2 / 2 ** (plan.units_alone - 1)


@pytest.mark.parametrize("groups", [1, 5, 6, 7])
def test_units_are_those_of_the_analysis(groups):
    """What the plan says is what `evaluate` does with such a design."""
    rng = np.random.default_rng(0)
    rows = [
        (f"s{g}-{i}", f"g{g}", f"A {p}", f"B {p}", rng.choice([-0.5, 0.5]))
        for g in range(groups)
        for i in range(3)
        for p in range(6)
    ]
    names = ["participant", "group", "sentence_1", "sentence_2", "rating"]
    sentences = [f"{side} {p}" for p in range(6) for side in "AB"]
    scores = pd.DataFrame(rng.normal(size=(12, 2)), sentences, columns=["a", "b"])
    choices = pd.DataFrame(rows, columns=names)
    result = evaluate(choices, scores, inference="signed-rank", n_bootstrap=0)
    row = result.comparisons.iloc[0]
    plan = plan_design(groups, 1, participants=3)
    assert (plan.unit, plan.n_units) == (row["unit"], row["n_units"])
    assert plan.smallest_p == row["p_smallest"]
    rule = str(plan).split(". ")[0] + "."
    assert rule.startswith(
        "Signed-rank tests run across groups from 6 groups on and across participants below"
    )
    assert any(rule in paragraph for paragraph in methods_sentences(result))


def test_published_design_in_words():
    assert str(plan_design(10, 36)) == (
        "Signed-rank tests run across groups from 6 groups on and across participants below: "
        "with 10 groups, "
        "across groups. With 10 groups the smallest p of a two-sided exact Wilcoxon signed-rank "
        "test is 0.00195; "
        "Benjamini-Hochberg at 0.05 over 36 comparisons asks 0.00139 of a lone difference, so no "
        "single difference can be significant: at least 2 must reach the smallest p together, or "
        "the design needs 11 groups."
    )


def test_other_designs_in_words():
    assert str(plan_design(1, 3, participants=30)) == (
        "Signed-rank tests run across groups from 6 groups on and across participants below: "
        "with 1 group, "
        "across participants. With 30 participants the smallest p of a two-sided exact Wilcoxon "
        "signed-rank test is 1.86e-09; Benjamini-Hochberg at 0.05 over 3 comparisons asks 0.0167 "
        "of a lone difference, so a single difference can be significant."
    )
    assert str(plan_design(5, 36, participants=1)) == (
        "Signed-rank tests run across groups from 6 groups on and across participants below: "
        "with 5 groups, "
        "across participants. With 5 participants the smallest p of a two-sided exact Wilcoxon "
        "signed-rank test is 0.0625; nothing can be significant at 0.05, however large the "
        "difference: a lone difference among 36 needs 11 participants."
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 36), "groups is 0; give a whole number of at least 1"),
        ((10, 2.5), "comparisons is 2.5; give a whole number of at least 1"),
        ((10, 36, 0.0), "alpha is 0.0; give a rate between 0 and 1"),
        ((10, 36, 0.05, 0), "participants is 0; give a whole number of at least 1"),
        (
            (5, 36),
            "5 groups cannot carry a test, which then runs across participants; give participants, "
            "the number in each group",
        ),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(InputError) as caught:
        plan_design(*arguments)
    assert str(caught.value) == message
