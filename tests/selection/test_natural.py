"""Natural pairs: brute force, constraints, invariance, and rejected inputs.

Tests `contstim.selection.assignment`.
"""

from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from contstim.errors import InfeasibleError, InputError, UnknownNameError
from contstim.selection import fractional_ranks, select_natural_pairs


def scores(n, models, seed=0, ties=False):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 1))
    values = common + rng.normal(size=(n, models))
    if ties:
        values = np.round(values)
    names = [f"m{k}" for k in range(models)]
    return pd.DataFrame(values, columns=names, index=[f"s{i:05d}" for i in range(n)])


def naive_ranks(values):
    """Average-tie fractional ranks, by counting."""
    n = len(values)
    return np.array([[(c < x).sum() + ((c == x).sum() + 1) / 2 for x in c] for c in values.T]).T / n


def brute_force(values, per_pair, threshold=0.5):
    """Least total over all choices of disjoint sets for all quotas; None if there is none."""
    r = naive_ranks(values)
    pruned = [(row < threshold).any() and (row >= threshold).any() for row in r]
    quotas = list(permutations(range(values.shape[1]), 2))  # (rejects, accepts)

    def best(k, used):
        if k == len(quotas):
            return 0.0
        reject, accept = quotas[k]
        fit = [
            s for s in range(len(r)) if pruned[s] and s not in used and r[s, accept] >= threshold
        ]
        totals = [
            r[list(group), reject].sum() + rest
            for group in combinations(fit, per_pair)
            if (rest := best(k + 1, used | set(group))) is not None
        ]
        return min(totals, default=None)

    return best(0, frozenset())


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_optimum_equals_brute_force(data):
    models, per_pair, n = data.draw(st.sampled_from([(2, 1, 6), (2, 2, 9), (3, 1, 9)]))
    grid = st.lists(st.integers(0, 4), min_size=models, max_size=models)
    values = np.array(data.draw(st.lists(grid, min_size=n, max_size=n)), dtype=float)
    frame = pd.DataFrame(values, columns=[f"m{k}" for k in range(models)])
    expected = brute_force(values, per_pair)
    if expected is None:
        with pytest.raises(InfeasibleError):
            select_natural_pairs(frame, per_pair)
    else:
        found = select_natural_pairs(frame, per_pair)
        assert found.attrs["objective"] == pytest.approx(expected, abs=1e-12)
        assert found.attrs["bound"] == found.attrs["objective"]
        assert found.attrs["gap"] == 0


def test_optimum_with_roles_competing_for_sentences():
    """Models that agree in pairs compete for the same few sentences: short lists must grow."""
    frame = scores(800, 2)
    frame = pd.concat([frame, frame.add_suffix("x"), frame.add_suffix("y")], axis=1)
    wanted = {(a, b): 8 for a in ("m0", "m0x", "m0y") for b in ("m1", "m1x", "m1y")}
    table = select_natural_pairs(frame, wanted)
    r = fractional_ranks(frame)[["m0", "m1"]].to_numpy()
    places = [np.where(r[:, b] >= 0.5, r[:, a], np.inf) for a, b in ((0, 1), (1, 0))]
    costs = np.repeat(np.array(places), 72, axis=0)
    assert table.attrs["objective"] == pytest.approx(costs[linear_sum_assignment(costs)].sum())


def test_selection_is_invariant_to_order_and_labels():
    frame = scores(500, 3)
    order = np.random.default_rng(2).permutation(len(frame))
    other = frame.iloc[order].set_axis(range(len(frame)))
    first, second = select_natural_pairs(frame, 5), select_natural_pairs(other, 5)
    back = frame.index[order]
    assert list(back[second["sentence_1"]]) == list(first["sentence_1"])
    assert list(back[second["sentence_2"]]) == list(first["sentence_2"])


def test_missing_and_infinite_scores_are_excluded_and_reported():
    frame = scores(300, 3)
    best = select_natural_pairs(frame, 4)["sentence_1"].iloc[:3]
    frame.loc[best.iloc[0], "m0"] = np.nan
    frame.loc[best.iloc[1], "m1"] = np.inf
    frame.loc[best.iloc[2], "m2"] = -np.inf
    table = select_natural_pairs(frame, 4)
    used = set(table["sentence_1"]) | set(table["sentence_2"])
    assert not used & set(best)
    assert table.attrs["excluded"]["missing score"] == 2
    assert table.attrs["excluded"]["infinite score"] == 1
    assert table.attrs["ranked"] == 298
    # Minus infinity is a score like others when ranks are taken: the lowest.
    ranks = fractional_ranks(frame)
    assert ranks.loc[best.iloc[2], "m2"] == 1 / 298
    assert ranks.loc[best.iloc[0]].isna().all()
    assert ranks.max().eq(1.0).all()


def test_excluded_and_candidate_counts_sum_to_all_sentences():
    frame = scores(300, 3)
    frame.iloc[5, 0] = np.nan
    eligible = pd.Series(np.arange(300) % 3 > 0, index=frame.index)
    attrs = select_natural_pairs(frame, 2, eligible=eligible).attrs
    assert sum(attrs["excluded"].values()) + attrs["candidates"] == 300
    assert attrs["excluded"]["not eligible"] == 100


def test_per_pair_accepts_a_mapping_of_pairs():
    frame = scores(300, 4)
    table = select_natural_pairs(frame, {("m3", "m1"): 2, ("m0", "m2"): 5})
    assert table.groupby(["model_1", "model_2"]).size().to_dict() == {
        ("m3", "m1"): 2,
        ("m0", "m2"): 5,
    }


def test_pairs_are_sorted_by_ranks():
    table = select_natural_pairs(scores(300, 3), 5)
    for _, own in table.groupby(["model_1", "model_2"]):
        assert own["rank_1"].is_monotonic_increasing
        assert own["rank_2"].is_monotonic_increasing


def test_too_few_sentences_for_a_role_are_reported():
    frame = pd.DataFrame({"a": [1.0, 2, 3, 4], "b": [1.0, 2, 4, 3], "c": [4.0, 3, 2, 1]})
    with pytest.raises(InfeasibleError) as caught:
        select_natural_pairs(frame, {("a", "c"): 3})
    assert str(caught.value) == (
        "model pair a and c, sentence_2 (accepted by c, rejected by a): 3 sentences needed, 1 "
        "available; reduce per_pair (--per-pair) or add sentences"
    )


def test_too_few_sentences_shared_by_roles_are_reported():
    # m0 and m1 agree, m2 is their reverse: two quotas draw on the same two sentences.
    low_high = [1.0, 2, 3, 4, 5, 6]
    frame = pd.DataFrame({"a": low_high, "b": low_high, "c": low_high[::-1]})
    with pytest.raises(InfeasibleError) as caught:
        select_natural_pairs(frame, {("a", "c"): 2, ("b", "c"): 2})
    assert str(caught.value) == (
        "4 different sentences needed, 2 available, for model pair a and c, sentence_2 (accepted "
        "by c, rejected by a); model pair b and c, sentence_2 (accepted by c, rejected by b); "
        "reduce per_pair (--per-pair) or add sentences"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"per_pair": 0}, "per_pair is 0 for m0 and m1; give a whole number >= 1"),
        ({"per_pair": {}}, "per_pair names no model pair; name at least one"),
        ({"per_pair": {("m0", "m0"): 1}}, "model 'm0' cannot be paired with itself"),
        (
            {"per_pair": {("m0", "m1"): 1, ("m1", "m0"): 1}},
            "the pair of 'm0' and 'm1' is named in both orders; name it once",
        ),
        ({"accept_from": 1.5}, "accept_from is 1.5; fractional ranks lie above 0 and up to 1"),
        ({"time_limit": -1}, "time_limit is -1; give seconds above 0, or None"),
        (
            {"eligible": pd.Series([True], index=["s00000"])},
            "eligible has no value for sentence",
        ),
    ],
)
def test_invalid_arguments_are_rejected(arguments, message):
    with pytest.raises(InputError) as caught:
        select_natural_pairs(scores(60, 2), **{"per_pair": 2, **arguments})
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_unknown_models_get_a_suggestion():
    with pytest.raises(UnknownNameError) as caught:
        select_natural_pairs(scores(60, 2), {("m0", "m11"): 1})
    assert str(caught.value) == "unknown model 'm11'; did you mean 'm1'?"


def test_invalid_score_tables_are_rejected():
    frame = scores(10, 2)
    with pytest.raises(InputError, match="there are scores of 1 model"):
        select_natural_pairs(frame[["m0"]])
    with pytest.raises(InputError, match="sentence 's00001' occurs twice in log_probs"):
        select_natural_pairs(frame.rename(index={"s00000": "s00001"}))
    with pytest.raises(InputError, match="column 'm0' of log_probs contains"):
        select_natural_pairs(frame.astype({"m0": str}))
    with pytest.raises(InputError, match="got list"):
        select_natural_pairs([[1.0, 2.0]])


def test_candidate_lists_grow_until_the_assignment_is_optimal():
    """Twenty candidates per quota fill all places, but not at the lowest cost."""
    rng = np.random.default_rng(1)
    base = rng.normal(size=(900, 1)) + 0.9 * rng.normal(size=(900, 2))
    values = np.hstack([base[:, [k]] + 0.05 * rng.normal(size=(900, 3)) for k in (0, 1)])
    frame = pd.DataFrame(values, columns=list("abcxyz"))
    table = select_natural_pairs(frame, {(one, two): 8 for one in "abc" for two in "xyz"})
    ranks = fractional_ranks(frame)
    ranks = ranks[(ranks >= 0.5).any(axis=1) & (ranks < 0.5).any(axis=1)]
    places = [
        np.where(ranks[accept] >= 0.5, ranks[reject], np.inf)
        for one in "abc"
        for two in "xyz"
        for reject, accept in ((one, two), (two, one))
    ]
    costs = np.repeat(np.array(places), 8, axis=0)
    least = costs[linear_sum_assignment(costs)].sum()
    assert table.attrs["objective"] == pytest.approx(least, abs=1e-9)
    assert table.attrs["gap"] == 0


@pytest.mark.parametrize(("models", "ties"), [(3, False), (5, True), (9, False)])
def test_selection_equals_the_unpruned_assignment(models, ties):
    frame = scores(1500, models, ties=ties)
    table = select_natural_pairs(frame, 6)
    ranks = fractional_ranks(frame)
    assert list(table.columns) == [
        "model_1", "model_2", "sentence_1", "sentence_2", "rank_1", "rank_2"
    ]  # fmt: skip
    counts = table.groupby(["model_1", "model_2"]).size()
    assert counts.to_dict() == dict.fromkeys(combinations(frame.columns, 2), 6)
    used = pd.concat([table["sentence_1"], table["sentence_2"]])
    assert used.is_unique
    for row in table.itertuples():
        assert ranks.loc[row.sentence_1, row.model_1] >= 0.5
        assert ranks.loc[row.sentence_2, row.model_2] >= 0.5
        assert row.rank_1 == ranks.loc[row.sentence_1, row.model_2]
        assert row.rank_2 == ranks.loc[row.sentence_2, row.model_1]
    total = (table["rank_1"] + table["rank_2"]).sum()
    assert table.attrs["objective"] == pytest.approx(total, abs=1e-9)
    r = ranks.to_numpy()
    r = r[(r >= 0.5).any(axis=1) & (r < 0.5).any(axis=1)]
    places = [np.where(r[:, b] >= 0.5, r[:, a], np.inf) for a, b in permutations(range(models), 2)]
    costs = np.repeat(np.array(places), 6, axis=0)
    assert table.attrs["objective"] == pytest.approx(costs[linear_sum_assignment(costs)].sum())
    assert table.attrs["solver"] == "scipy linear_sum_assignment"
    assert table.attrs["status"] == "optimal"
