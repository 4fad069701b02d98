"""Selection under constraints: brute force, agreement of solvers, and rejected inputs.

Tests `contstim.selection.column_generation`, `contstim.selection.constraint_rows` and
`contstim.selection.constraint_text`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from contstim.errors import InfeasibleError, InputError
from contstim.selection import (
    AtMost,
    Balance,
    Equal,
    Linear,
    SelectionConstraint,
    column_generation,
    fractional_ranks,
    select_natural_pairs,
)
from contstim.selection.assignment import AssignmentProblem, Quota
from contstim.selection.constraint_rows import CONSTRAINTS, ConstraintRows
from contstim.selection.constraint_text import parse_constraints
from contstim.text.languages import ENGLISH, get_language


def scores(n, models, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 1)) + rng.normal(size=(n, models))
    return pd.DataFrame(
        values, columns=[f"m{k}" for k in range(models)], index=[f"s{i}" for i in range(n)]
    )


def every_selection(frame, per_pair):
    """Yield (cost, sentences of quota 1, of quota 2) of each selection for two models."""
    r = fractional_ranks(frame)
    fit = r[(r >= 0.5).any(axis=1) & (r < 0.5).any(axis=1)]
    for first in combinations(fit.index[fit["m0"] >= 0.5], per_pair):
        for second in combinations(fit.index[fit["m1"] >= 0.5], per_pair):
            if not set(first) & set(second):
                cost = r.loc[list(first), "m1"].sum() + r.loc[list(second), "m0"].sum()
                yield cost, list(first), list(second)


# With this seed CBC's preprocessing loses the optimum of the tighter of the two problems.
@example(seed=1593, tolerance=0.6, groups=4)
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.6, 0.8]), st.sampled_from([4, 6]))
def test_optimum_under_constraints_equals_brute_force(seed, tolerance, groups):
    frame = scores(12, 2, seed)
    rng = np.random.default_rng(seed)
    feature = pd.Series(rng.normal(size=12), index=frame.index)
    group = pd.Series(rng.integers(0, groups, 12), index=frame.index)
    constraints = [
        Balance(feature, tolerance),
        AtMost(group, 2),
        Linear(feature, lower=-0.5, pair=("m1", "m0"), position="sentence_2"),
    ]
    allowed = [
        cost
        for cost, one, two in every_selection(frame, 2)
        if abs(feature[one].mean() - feature[two].mean()) <= tolerance
        and group[one + two].value_counts().max() <= 2
        # Sentence 2 of the pair named the other way round is sentence 1 here.
        and feature[one].sum() >= -0.5
    ]
    try:
        table = select_natural_pairs(frame, 2, constraints=constraints)
    except InfeasibleError:
        assert not allowed
        return
    assert table.attrs["objective"] == pytest.approx(min(allowed), abs=1e-9)
    assert table.attrs["status"] == "optimal"
    assert table.attrs["gap"] == 0
    assert table.attrs["relaxation"] <= min(allowed) + 1e-9
    assert table.attrs["objective_without_constraints"] <= min(allowed) + 1e-9


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_equal_values_constraint_equals_brute_force(seed):
    frame = scores(12, 2, seed)
    value = pd.Series(np.random.default_rng(seed).integers(0, 3, 12), index=frame.index)
    allowed = [
        cost
        for cost, one, two in every_selection(frame, 2)
        if sorted(value[one]) == sorted(value[two])
    ]
    try:
        table = select_natural_pairs(frame, 2, constraints=[Equal(value)])
    except InfeasibleError:
        assert not allowed
        return
    assert table.attrs["objective"] == pytest.approx(min(allowed), abs=1e-9)
    # The two of a pair are put together by it, too.
    assert value[table["sentence_1"]].tolist() == value[table["sentence_2"]].tolist()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_two_equal_values_constraints_equal_brute_force(seed):
    frame = scores(20, 2, seed)
    rng = np.random.default_rng(seed)
    values = [pd.Series(rng.integers(0, 2, 20), index=frame.index) for _ in range(2)]
    both = dict(zip(frame.index, zip(*values, strict=True), strict=True))
    allowed = [
        cost
        for cost, one, two in every_selection(frame, 3)
        if sorted(map(both.get, one)) == sorted(map(both.get, two))
    ]
    try:
        table = select_natural_pairs(frame, 3, constraints=[Equal(value) for value in values])
    except InfeasibleError:
        assert not allowed
        return
    assert table.attrs["objective"] == pytest.approx(min(allowed), abs=1e-9)
    one, two = table["sentence_1"].tolist(), table["sentence_2"].tolist()
    of_one = [both[sentence] for sentence in one]
    assert of_one == [both[sentence] for sentence in two]


def test_missing_values_of_a_constraint_are_reported():
    frame = scores(60, 2)
    tokens = pd.DataFrame({"m0": 5.0, "m1": 6.0}, index=frame.index)
    tokens.loc["s3":, "m1"] = np.nan
    (constraint,) = parse_constraints(["equal:tokens"], frame.index, tokens=tokens)
    assert constraint.feature["s2"] == "5/6"
    with pytest.raises(InputError) as caught:
        select_natural_pairs(frame, 2, constraints=[constraint])
    assert "has no value; give one or leave the sentence out" in str(caught.value)


def test_integer_programme_equals_the_assignment():
    frame = scores(400, 4)
    expected = select_natural_pairs(frame, 3)
    everywhere = Linear(pd.Series(0.0, index=frame.index), lower=0)
    table = select_natural_pairs(frame, 3, constraints=[everywhere])
    assert table.attrs["objective"] == pytest.approx(expected.attrs["objective"], abs=1e-12)
    assert table.attrs["relaxation"] == pytest.approx(expected.attrs["objective"], abs=1e-9)
    assert table.attrs["solver"] == "PuLP with HiGHS"
    assert table.attrs["status"] == "optimal"


def test_bound_covers_sentences_outside_the_integer_programme():
    """Groups forbid the inexpensive sentences, so those that are needed must be fetched."""
    frame = scores(500, 2)
    ranks = fractional_ranks(frame)
    group = pd.Series(["low" if low else None for low in ranks.min(axis=1) < 0.4], frame.index)
    table = select_natural_pairs(frame, 3, constraints=[AtMost(group, 1)])
    r = ranks[(ranks >= 0.5).any(axis=1) & (ranks < 0.5).any(axis=1)]
    best = min(
        sum(np.sort(r["m1"][(r["m0"] >= 0.5) & (group[r.index] != "low")])[: 3 - one])
        + sum(np.sort(r["m0"][(r["m1"] >= 0.5) & (group[r.index] != "low")])[: 3 - two])
        + (r["m1"][r["m0"] >= 0.5].min() if one else 0)
        + (r["m0"][r["m1"] >= 0.5].min() if two else 0)
        for one, two in ((0, 0), (0, 1), (1, 0))
    )
    assert table.attrs["objective"] == pytest.approx(best, abs=1e-9)


def test_lower_bounds_include_sentences_of_high_cost():
    frame = scores(500, 2)
    ranks = fractional_ranks(frame)
    middling = (ranks.min(axis=1) > 0.3).astype(float)
    table = select_natural_pairs(frame, 3, constraints=[Linear(middling, lower=4)])
    r = ranks[(ranks >= 0.5).any(axis=1) & (ranks < 0.5).any(axis=1)]
    costs = {}
    for reject, accept in (("m1", "m0"), ("m0", "m1")):
        own = r[r[accept] >= 0.5][reject]
        costly = np.sort(own[middling[own.index] == 1])
        inexpensive = np.sort(own[middling[own.index] == 0])
        costs[reject] = [costly[:k].sum() + inexpensive[: 3 - k].sum() for k in range(4)]
    best = min(costs["m1"][k] + costs["m0"][4 - k] for k in (1, 2, 3))
    assert table.attrs["objective"] == pytest.approx(best, abs=1e-9)
    assert table.attrs["status"] == "optimal"


# With seed 10 the first selection found is not the best.
@pytest.mark.parametrize("seed", [0, 2, 10])
def test_columns_are_added_until_optimality_is_proven(monkeypatch, seed):
    frame = scores(50, 2, seed)
    weights = pd.Series(np.random.default_rng(seed).integers(0, 9, 50), index=frame.index)
    constraints = [Linear(weights, lower=19, upper=19), Balance(weights, 0.5)]
    expected = select_natural_pairs(frame, 2, constraints=constraints)
    monkeypatch.setattr(column_generation._Relaxation, "compute_initial_threshold", lambda *_: 1.0)
    table = select_natural_pairs(frame, 2, constraints=constraints)
    assert table.attrs["objective"] == expected.attrs["objective"]
    allowed = [
        cost
        for cost, one, two in every_selection(frame, 2)
        if weights[one + two].sum() == 19 and abs(weights[one].mean() - weights[two].mean()) <= 0.5
    ]
    assert table.attrs["objective"] == pytest.approx(min(allowed), abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_relaxed_bound_is_valid_for_all_dual_prices(seed):
    frame = scores(30, 2, seed)
    doubled = np.rint(2 * frame.rank().to_numpy()).astype(np.int64)
    high = doubled >= 30
    quotas = (
        Quota(("m1", "m0"), "sentence_1", 0, 1, 2),
        Quota(("m1", "m0"), "sentence_2", 1, 0, 2),
    )
    problem = AssignmentProblem(doubled, high, np.ones_like(high), quotas)
    weights = pd.Series(np.arange(30.0), index=frame.index)
    rows = ConstraintRows(quotas, frame.index)
    Linear(weights, lower=40, upper=70).add_rows(rows)
    rng = np.random.default_rng(seed)
    least = min(
        sum(doubled[list(one), 0]) + sum(doubled[list(two), 1])
        for one in combinations(np.flatnonzero(high[:, 1]), 2)
        for two in combinations(np.flatnonzero(high[:, 0]), 2)
        if not set(one) & set(two) and 40 <= sum(one) + sum(two) <= 70
    )
    for _ in range(20):
        prices = column_generation._DualPrices(
            rng.normal(10, 10, 2),
            -rng.exponential(size=30),
            -rng.exponential(size=2) * 0.1,
        )
        assert column_generation._Relaxation(problem, rows).compute_bound(prices) <= least


def test_infeasible_constraints_are_reported():
    frame = scores(100, 2)
    weights = pd.Series(1.0, index=frame.index)
    with pytest.raises(InfeasibleError) as caught:
        select_natural_pairs(frame, 2, constraints=[Linear(weights, lower=5, name="size")])
    assert str(caught.value) == (
        "the constraints cannot be satisfied together; unmet: size: sum of weights between "
        "5 and inf, by 1; loosen a constraint or add sentences"
    )


def test_infeasible_group_limits_are_reported():
    frame = scores(100, 2)
    group = pd.Series("all", index=frame.index)
    with pytest.raises(InfeasibleError) as caught:
        select_natural_pairs(frame, 2, constraints=[AtMost(group, 3, name="sources")])
    assert str(caught.value) == (
        "the constraints cannot be satisfied together; unmet: sources: at most 3 of group "
        "'all', by 1; loosen a constraint or add sentences"
    )


def test_constraints_without_integer_solution_are_reported():
    frame = scores(40, 2)
    weights = pd.Series(2.0, index=frame.index)
    constraint = Linear(
        weights, lower=3, upper=3, pair=("m0", "m1"), position="sentence_1", name="odd"
    )
    other = Linear(-weights, lower=-3, upper=-3, position="sentence_2", name="odd too")
    with pytest.raises(InfeasibleError) as caught:
        select_natural_pairs(frame, 2, constraints=[constraint, other])
    assert "the constraints cannot be satisfied together; unmet: odd" in str(caught.value)
    half = pd.Series([2.0 if i % 2 else 0.0 for i in range(40)], index=frame.index)
    with pytest.raises(InfeasibleError) as caught:
        select_natural_pairs(frame, 2, constraints=[Linear(half, lower=3, upper=3, name="odd")])
    assert str(caught.value) == (
        "every constraint can be met in fractions of sentences, but not in whole ones: odd: sum of "
        "weights between 3 and 3; loosen one"
    )


def test_infeasibility_without_constraints_is_reported_first():
    frame = pd.DataFrame({"a": [1.0, 2, 3, 4], "b": [4.0, 3, 2, 1]})
    weights = pd.Series(1.0, index=frame.index)
    with pytest.raises(InfeasibleError, match="model pair a and b, sentence_2"):
        select_natural_pairs(frame, 3, constraints=[Linear(weights, lower=0)])


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (Balance(pd.Series({"s0": 1.0}), 0.1), "balance: sentence 's"),
        (Balance(pd.Series(dtype=float), -1.0), "balance: the tolerance is -1.0, below 0"),
        (AtMost(pd.Series(dtype=object), -1), "groups: the limit is -1, below 0"),
        (
            Linear(pd.Series(dtype=float), pair=("m0", "m7")),
            "linear: no pairs of m0 and m7 are selected",
        ),
        (
            Linear(pd.Series(dtype=float), lower=2.0, upper=1.0),
            "linear: lower 2 is not below upper 1",
        ),
        (
            Linear(pd.Series(dtype=float), position="sentence_3"),
            "unknown position 'sentence_3'; did you",
        ),
    ],
)
def test_invalid_constraints_are_rejected(constraint, message):
    with pytest.raises(InputError) as caught:
        select_natural_pairs(scores(60, 2), 2, constraints=[constraint])
    assert str(caught.value).startswith(message)


def test_selection_without_solution_in_max_variables_is_reported(monkeypatch):
    monkeypatch.setattr(column_generation, "MAX_VARIABLES", 3)
    weights = pd.Series(1.0, index=scores(60, 2).index)
    with pytest.raises(InfeasibleError, match="no selection found among the 3 most promising"):
        select_natural_pairs(scores(60, 2), 2, constraints=[Linear(weights, lower=0)])


def test_roles_and_pairs_of_a_linear_constraint():
    frame = scores(300, 3)
    weights = pd.Series(np.random.default_rng(5).normal(size=300), index=frame.index)
    for pair, position in [
        (("m0", "m1"), "sentence_1"),
        (("m0", "m1"), "sentence_2"),
        (None, "sentence_1"),
        (("m1", "m2"), None),
        (None, None),
    ]:
        constraint = Linear(weights, lower=2.5, pair=pair, position=position)
        table = select_natural_pairs(frame, 3, constraints=[constraint])
        if pair is not None:
            table = table[(table["model_1"] == pair[0]) & (table["model_2"] == pair[1])]
        positions = ["sentence_1", "sentence_2"] if position is None else [position]
        assert sum(weights[table[name]].sum() for name in positions) >= 2.5 - 1e-6


def test_parse_constraints_equals_python_objects():
    frame = scores(300, 3)
    frame.index = [f"{'very ' * (i % 5)}long sentence {i}" for i in range(300)]
    features = pd.DataFrame(
        {
            "weight": np.random.default_rng(5).normal(size=300),
            "source": [f"s{i % 40}" for i in range(300)],
        },
        index=frame.index,
    )
    words = pd.Series([len(label.split()) for label in frame.index], frame.index)
    texts = ["balance:words:0.4", "at-most:source:1", "linear:weight::3:sentence_1"]
    expected = select_natural_pairs(
        frame,
        3,
        constraints=[
            Balance(words, 0.4),
            AtMost(features["source"], 1),
            Linear(features["weight"], upper=3, position="sentence_1"),
        ],
    )
    # The table of features may have its rows in another order, and more of them.
    table = pd.concat([features.rename(index=lambda label: f"not {label}"), features[::-1]])
    made = parse_constraints(texts, frame.index, table)
    pd.testing.assert_frame_equal(select_natural_pairs(frame, 3, constraints=made), expected)
    assert [constraint.name for constraint in made] == texts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("balanced:words:1", "unknown constraint 'balanced'; did you mean 'balance'?"),
        ("balance:words", "constraint 'balance:words' is not of the form balance:COLUMN:TOLERANCE"),
        (
            "at-most:words:1.5",
            "constraint 'at-most:words:1.5' is not of the form at-most:COLUMN:LIMIT",
        ),
        ("balance::1", "constraint 'balance::1' is not of the form balance:COLUMN:TOLERANCE"),
        (
            "linear:words:1:2:sentence_1:x",
            "constraint 'linear:words:1:2:sentence_1:x' is not of the form "
            "linear:COLUMN:LOWER:UPPER:POSITION",
        ),
        (
            "balance:word:1",
            "constraint 'balance:word:1' names no column of the features; did you mean 'words'?",
        ),
    ],
)
def test_invalid_constraint_texts_are_rejected(text, message):
    with pytest.raises(InputError) as caught:
        parse_constraints([text], pd.Index(["a", "b"]))
    assert str(caught.value) == message


def test_word_counts_depend_on_the_language():
    labels = pd.Index(["L'homme dort dans le jardin.", "Il l'a vu à la maison !"])
    for language in (None, get_language("fr")):
        (made,) = parse_constraints(["balance:words:1"], labels, language=language)
        assert made.feature.tolist() == [6, 7]
    (made,) = parse_constraints(["balance:words:1"], labels, language=ENGLISH)
    assert made.feature.tolist() == [5, 7]


def test_suggestions_list_computed_columns_once():
    with pytest.raises(InputError) as caught:
        parse_constraints(["balance:words:1", "balance:word:1"], pd.Index(["a", "b"]))
    assert str(caught.value).endswith("no column of the features; did you mean 'words'?")


def test_balance_of_a_text_column_is_rejected():
    frame = scores(60, 2)
    table = pd.DataFrame({"source": "book"}, index=frame.index)
    made = parse_constraints(["balance:source:1"], frame.index, table)
    with pytest.raises(InputError) as caught:
        select_natural_pairs(frame, 2, constraints=made)
    assert str(caught.value) == "balance:source:1: 'book' is not a number; use a numeric column"


def test_parse_constraints_with_a_custom_class(monkeypatch):
    monkeypatch.setitem(CONSTRAINTS, "fewer", None)  # to be taken out at the end

    @dataclass(frozen=True, eq=False)
    class Shorter(SelectionConstraint):
        """Sentences 1 have fewer of something in all than sentences 2."""

        kind: ClassVar[str] = "fewer"
        options: ClassVar[dict[str, Callable[[str], Any]]] = {"by": float}
        feature: pd.Series
        by: float
        name: str = "fewer"

        def add_rows(self, rows):
            values = rows.feature_column(self.feature, self.name)
            signed = [
                values if quota.position == "sentence_1" else -values for quota in rows.quotas
            ]
            rows.add(signed, -np.inf, -self.by, [self.name])

    frame = scores(200, 2)
    weight = pd.DataFrame({"weight": np.random.default_rng(1).normal(size=200)}, frame.index)
    made = parse_constraints(["fewer:weight:4"], frame.index, weight)
    table = select_natural_pairs(frame, 3, constraints=made)
    one, two = (weight["weight"][table[f"sentence_{k}"]].sum() for k in (1, 2))
    assert one <= two - 4 + 1e-6


def test_constraints_are_satisfied_with_600_sentences():
    frame = scores(600, 4)
    rng = np.random.default_rng(0)
    feature = pd.Series(rng.normal(size=600), index=frame.index)
    group = pd.Series(rng.integers(0, 60, 600), index=frame.index)
    table = select_natural_pairs(frame, 4, constraints=[Balance(feature, 0.3), AtMost(group, 2)])
    used = pd.concat([table["sentence_1"], table["sentence_2"]])
    assert used.is_unique
    assert group[used].value_counts().max() <= 2
    for _, own in table.groupby(["model_1", "model_2"]):
        means = [feature[own[f"sentence_{k}"]].mean() for k in (1, 2)]
        assert abs(means[0] - means[1]) <= 0.3 + 1e-6
    attrs = table.attrs
    assert attrs["bound"] <= attrs["objective"] <= attrs["bound"] * 1.01
    assert attrs["gap"] == pytest.approx(attrs["objective"] - attrs["bound"])
    assert attrs["objective_without_constraints"] <= attrs["bound"]
