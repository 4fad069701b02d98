"""Selection for a set of models: brute force, bounds, and rejected inputs.

Tests `contstim.selection.pair_constraints`, `contstim.selection.set_programme`,
`contstim.selection.set_criteria` and `contstim.selection.set_candidates`.
"""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from contstim.errors import InfeasibleError, InputError
from contstim.response_model import log_bayes_factors
from contstim.selection import (
    AtMost,
    Balance,
    Equal,
    Recurring,
    ResponseModel,
    fractional_ranks,
    select_set,
)
from contstim.selection.highs import Solution, minimise
from contstim.selection.set_candidates import propose_even_pairs


def scores(n, models, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 1)) + 0.7 * rng.normal(size=(n, models))
    names = [f"m{k:02d}" for k in range(models)]
    return pd.DataFrame(values, columns=names, index=[f"s{i:05d}" for i in range(n)])


def separations(frame, sentences, margin):
    """For each two models count the pairs that they order oppositely, sentence by sentence."""
    ranks = fractional_ranks(frame)
    counts = dict.fromkeys(combinations(sorted(frame.columns), 2), 0)
    for one, two in sentences:
        difference = ranks.loc[one] - ranks.loc[two]
        for a, b in counts:
            apart = difference[a] * difference[b] < 0
            counts[a, b] += bool(apart and abs(difference[[a, b]]).min() > margin)
    return counts


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_optimum_equals_brute_force(data):
    size = data.draw(st.integers(4, 8))
    grid = st.lists(st.integers(0, 6), min_size=3, max_size=3)
    values = np.array(data.draw(st.lists(grid, min_size=size, max_size=size)), dtype=float)
    margin = data.draw(st.sampled_from([0.0, 0.25, 0.4]))
    ranks = rankdata(values, axis=0) / size
    pairs = list(combinations(range(size), 2))
    apart = {
        (i, j): [
            (ranks[i, a] - ranks[j, a]) * (ranks[i, b] - ranks[j, b]) < 0
            and min(abs(ranks[i, a] - ranks[j, a]), abs(ranks[i, b] - ranks[j, b])) > margin
            for a, b in combinations(range(3), 2)
        ]
        for i, j in pairs
    }
    best = max(
        np.sum([apart[one], apart[two]], axis=0).min()
        for one, two in combinations(pairs, 2)
        if not set(one) & set(two)
    )
    table = select_set(pd.DataFrame(values, columns=list("abc")), 2, rank_margin=margin)
    assert table.attrs["objective"] == best
    assert table.attrs["bound"] == best
    assert table.attrs["status"] == "optimal"


def test_bound_is_attained_with_many_sentences():
    attrs = select_set(scores(3000, 9), 72).attrs
    assert attrs["objective"] == attrs["bound"] == 40  # 20 of 36 of 72
    assert attrs["mean"] == 20
    assert attrs["status"] == "optimal"


def test_pairs_of_many_models_are_separated_near_the_bound():
    frame = scores(3000, 20)
    table = select_set(frame, 190, time_limit=1e-3)
    attrs = table.attrs
    above = frame.loc[table["sentence_1"]].to_numpy() > frame.loc[table["sentence_2"]].to_numpy()
    counts = [(above[:, i] != above[:, j]).sum() for i, j in combinations(range(20), 2)]
    assert attrs["bound"] == 100  # 100 of 190 of 190
    assert 98 <= attrs["objective"] == min(counts)
    assert attrs["solver"] == "one pair at a time"
    assert not pd.concat([table["sentence_1"], table["sentence_2"]]).duplicated().any()


@pytest.mark.parametrize(("models", "margin"), [(12, 0.0), (13, 0.103)])
def test_even_pairs_equal_a_full_search(models, margin):
    ranks = fractional_ranks(scores(200, models)).to_numpy()
    one, two = np.triu_indices(len(ranks), 1)
    differences = ranks[one] - ranks[two]
    above = (differences > 0).sum(axis=1)
    even = (above == models // 2) | (above == models - models // 2)
    least = np.abs(differences).min(axis=1)
    every = np.flatnonzero(even & (least > margin))
    found = np.sort(propose_even_pairs(ranks, len(every), margin), axis=1)
    assert sorted(map(tuple, found)) == sorted(zip(one[every], two[every], strict=True))
    few = propose_even_pairs(ranks, 1, margin)
    assert len(few) < len(every)
    smallest = np.abs(ranks[few[:, 0]] - ranks[few[:, 1]]).min(axis=1)
    np.testing.assert_allclose(smallest, np.sort(least[every])[::-1][: len(few)])


def test_relaxation_is_rounded_at_the_time_limit():
    frame = scores(2000, 6)
    table = select_set(frame, 60, time_limit=1e-3)
    counts = separations(frame, zip(table["sentence_1"], table["sentence_2"], strict=True), 0)
    assert len({*table["sentence_1"], *table["sentence_2"]}) == 120
    assert table.attrs["objective"] == min(counts.values()) >= 0.8 * table.attrs["bound"]


@pytest.mark.parametrize("criterion", ["separation", "log-bf"])
@pytest.mark.parametrize("held", ["nothing", "the worst"])
def test_time_limit_returns_the_best_of_three_selections(criterion, held, monkeypatch):
    def stopped(costs, *rows, integer=True, **options):
        if not np.any(integer):
            return minimise(costs, *rows, integer=integer, **options)
        worst = np.repeat([1.0, 0.0], [60, len(costs) - 60]) if held == "the worst" else None
        return Solution(worst, "unknown" if worst is None else "feasible", -np.inf)

    frame = scores(500, 5)
    best = select_set(frame, 60, criterion=criterion, time_limit=1).attrs
    monkeypatch.setattr("contstim.selection.set_programme.minimise", stopped)
    table = select_set(frame, 60, criterion=criterion)
    attrs = table.attrs
    assert 0.97 * best["objective"] <= attrs["objective"] <= attrs["bound"] == best["bound"]
    assert attrs["gap"] == attrs["bound"] - attrs["objective"]
    assert attrs["solver"] in ("the linear relaxation rounded", "one pair at a time")
    assert len({*table["sentence_1"], *table["sentence_2"]}) == 120


def test_identical_models_are_not_separated():
    frame = scores(500, 3)
    attrs = select_set(frame.assign(copy=frame["m00"]), 10).attrs
    assert attrs["objective"] == 0
    assert attrs["status"] == "feasible"


def test_ineligible_sentences_are_excluded():
    frame = scores(40, 4)
    frame.iloc[0, 0] = np.nan
    eligible = pd.Series(np.arange(40) < 21, index=frame.index)
    table = select_set(frame, 10, eligible=eligible)
    used = {*table["sentence_1"], *table["sentence_2"]}
    assert used == set(frame.index[1:21])
    assert table.attrs["candidates"] == 20
    with pytest.raises(InfeasibleError) as caught:
        select_set(frame, 11, eligible=eligible)
    assert str(caught.value) == (
        "11 pairs need 22 different sentences, 20 available; reduce n (--n) or add sentences"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n is 0; give a whole number of at least 1"),
        ({"n": 2.5}, "n is 2.5; give a whole number of at least 1"),
        ({"rank_margin": -0.1}, "rank_margin is -0.1; rank differences lie from 0 to below 1"),
        ({"time_limit": 0}, "time_limit is 0; give seconds above 0"),
        ({"time_limit": float("nan")}, "time_limit is nan; give seconds above 0"),
        (
            {"rank_margin": float("nan")},
            "rank_margin is nan; rank differences lie from 0 to below 1",
        ),
        ({"seed": -1}, "seed is -1; give a whole number of at least 0"),
    ],
)
def test_invalid_arguments_are_rejected(arguments, message):
    with pytest.raises(InputError) as caught:
        select_set(scores(60, 3), **{"n": 5, **arguments})
    assert str(caught.value) == message


def test_single_model_is_rejected():
    with pytest.raises(InputError) as caught:
        select_set(scores(60, 1), 5)
    assert str(caught.value) == (
        "there are scores of 1 model ('m00'), and a pair needs two; add a column for each further "
        "model"
    )


def brute_force(frame, n, worth, allowed):
    """Return the largest least sum of `worth` over n disjoint pairs that are `allowed`, or None."""
    pairs = list(combinations(frame.index, 2))
    best = None
    for chosen in combinations(pairs, n):
        if len({s for pair in chosen for s in pair}) == 2 * n and allowed(chosen):
            value = np.sum([worth[pair] for pair in chosen], axis=0).min()
            best = value if best is None else max(best, value)
    return best


def preferred(frame, model, chosen):
    """Split the sentences of pairs into those that a model prefers and the others."""
    one, two = [], []
    for pair in chosen:
        high, low = sorted(pair, key=lambda s: -frame.loc[s, model])
        one.append(high)
        two.append(low)
    return one, two


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["separation", "log-bf"]))
def test_optimum_under_constraints_equals_brute_force(seed, criterion):
    frame = scores(7, 3, seed)
    rng = np.random.default_rng(seed)
    feature = pd.Series(rng.normal(size=7), index=frame.index)
    group = pd.Series(rng.integers(0, 4, 7), index=frame.index)
    texts = pd.Series([f"the w{k % 3} x{k}" for k in range(7)], index=frame.index)
    constraints = [Balance(feature, 0.7), AtMost(group, 2), Recurring(texts, 2)]
    people = ResponseModel()
    scaled = frame.sort_index(axis=1) / frame.std(ddof=0)
    worth = {}
    for one, two in combinations(frame.index, 2):
        difference = (scaled.loc[two] - scaled.loc[one]).to_numpy()
        signs = [a * b < 0 for a, b in combinations(difference, 2)]
        factors = log_bayes_factors(people.probabilities(difference))
        worth[one, two] = factors if criterion == "log-bf" else np.array(signs, dtype=float)

    def allowed(chosen):
        used = [s for pair in chosen for s in pair]
        words = pd.Series([texts[s].split()[1] for s in used])
        balanced = all(
            abs(feature[one].mean() - feature[two].mean()) <= 0.7
            for one, two in (preferred(frame, model, chosen) for model in frame)
        )
        groups = group[used].value_counts().max() <= 2
        return balanced and groups and words.value_counts().max() <= 2

    best = brute_force(frame, 2, worth, allowed)
    try:
        table = select_set(frame, 2, criterion=criterion, constraints=constraints)
    except InfeasibleError:
        assert best is None
        return
    assert table.attrs["objective"] == pytest.approx(best, rel=2e-3)
    assert table.attrs["bound"] >= best - 1e-9
    assert allowed(list(zip(table["sentence_1"], table["sentence_2"], strict=True)))


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10_000))
def test_pairs_of_equal_values_equal_brute_force(seed):
    frame = scores(7, 3, seed)
    rng = np.random.default_rng(seed)
    values = [pd.Series(rng.integers(0, 2, 7), index=frame.index) for _ in range(2)]
    worth = {
        (one, two): np.array([v > 0 for v in separations(frame, [(one, two)], 0.0).values()], float)
        for one, two in combinations(frame.index, 2)
    }

    def allowed(chosen):
        return all(value[one] == value[two] for one, two in chosen for value in values)

    best = brute_force(frame, 2, worth, allowed)
    try:
        table = select_set(frame, 2, constraints=[Equal(value) for value in values])
    except InfeasibleError:
        assert best is None
        return
    assert table.attrs["objective"] == best
    assert allowed(list(zip(table["sentence_1"], table["sentence_2"], strict=True)))


@pytest.mark.parametrize(
    ("models", "criterion"), [(4, "separation"), (4, "log-bf"), (11, "separation")]
)
def test_equal_values_are_paired_among_many_sentences(models, criterion):
    frame = scores(200, models)
    value = pd.Series(np.arange(200) % 5, index=frame.index)
    free = select_set(frame, 10, criterion=criterion, time_limit=1).attrs["objective"]
    table = select_set(frame, 10, criterion=criterion, time_limit=1, constraints=[Equal(value)])
    assert value[table["sentence_1"]].tolist() == value[table["sentence_2"]].tolist()
    assert table.attrs["objective"] > 0.7 * free


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(1, 2), st.sampled_from([0.3, 3.0]))
def test_log_bayes_factor_objective_is_within_its_bound(seed, models, uses, slope):
    frame = scores(200, models, seed) * np.random.default_rng(seed).uniform(1, 9, models)
    people = ResponseModel(slope=slope, item_sd=0.1)
    attrs = select_set(
        frame,
        20,
        criterion="log-bf",
        response_model=people,
        max_occurrences=uses,
        time_limit=2,
        seed=seed,
    ).attrs
    assert 0 <= attrs["objective"] <= attrs["bound"]
    least = min(row["log_bayes_factor"] for row in attrs["separations"])
    assert attrs["objective"] == pytest.approx(least)
    # Pairs as far apart as can be, found here by trying all, are within the bound as well.
    scaled = (frame / frame.std(ddof=0)).to_numpy()
    i, j = np.triu_indices(200, 1)
    total = log_bayes_factors(people.probabilities(scaled[i] - scaled[j])).mean(axis=1)
    best = np.argsort(-total)
    used = dict.fromkeys(range(200), 0)
    taken = []
    for place in best:
        if max(used[i[place]], used[j[place]]) < uses and len(taken) < 20:
            used[i[place]] += 1
            used[j[place]] += 1
            taken.append(place)
    each = log_bayes_factors(people.probabilities(scaled[i[taken]] - scaled[j[taken]]))
    assert each.sum(axis=0).min() <= attrs["bound"]


def test_rank_difference_must_exceed_the_margin():
    frame = pd.DataFrame({"a": range(10), "b": [*range(6), 7, 6, 8, 9]}, dtype=float)
    pair = pd.DataFrame({"sentence_1": [6], "sentence_2": [7]})  # 0.7 and 0.8, 0.8 and 0.7
    none = pd.Series(False, index=frame.index)
    table = select_set(frame, 1, rank_margin=0.1, eligible=none, pairs=pair)
    assert table.attrs["objective"] == 0
    assert select_set(frame, 1, rank_margin=0.09, eligible=none, pairs=pair).attrs["objective"] == 1


@pytest.mark.parametrize("kind", ["at most", "recurring"])
def test_sentences_in_two_pairs_count_twice(kind):
    frame = scores(6, 2)
    groups = pd.Series([*"abcdef"], index=frame.index)
    one = AtMost(groups, 1) if kind == "at most" else Recurring(groups, 1, repeatable=())
    table = select_set(frame, 3, constraints=[one], max_occurrences=2)
    assert pd.concat([table["sentence_1"], table["sentence_2"]]).is_unique


def test_selection_without_candidates_is_rejected():
    frame = scores(4, 2)
    frame.iloc[1] = np.nan
    none = pd.Series(False, index=frame.index)
    pairs = pd.DataFrame({"sentence_1": frame.index[:1], "sentence_2": frame.index[1:2]})
    one = AtMost(pd.Series("all", index=frame.index), 1)
    for values, constraints in ((frame, ()), (frame, [one]), (frame * np.nan, ())):
        with pytest.raises(InfeasibleError) as caught:
            select_set(values, 1, eligible=none, pairs=pairs, constraints=constraints)
        assert str(caught.value) == "no pair of sentences can be selected; give more sentences"
    frame.iloc[2:] = np.nan  # two sentences, each other's only partner, are not both finite
    with pytest.raises(InfeasibleError, match="^no pair of sentences can be selected"):
        select_set(frame, 1, eligible=~none, pairs=pairs, constraints=[one])


def test_constraints_are_satisfied_with_3000_sentences():
    frame = scores(3000, 6)
    rng = np.random.default_rng(0)
    words = pd.Series(rng.integers(4, 12, 3000).astype(float), index=frame.index)
    words += frame.mean(axis=1).rank() / 1000  # what models prefer is longer
    group = pd.Series(rng.integers(0, 100, 3000), index=frame.index)
    free = select_set(frame, 40)
    table = select_set(frame, 40, constraints=[Balance(words, 0.1), AtMost(group, 1)])
    assert group[[*table["sentence_1"], *table["sentence_2"]]].is_unique
    ranks = fractional_ranks(frame)
    for model in frame:
        one, two = preferred(
            ranks, model, zip(table["sentence_1"], table["sentence_2"], strict=True)
        )
        assert abs(words[one].mean() - words[two].mean()) <= 0.1 + 1e-6
    assert table.attrs["objective"] >= 0.9 * free.attrs["objective"]
    assert free.attrs["objective"] == table.attrs["bound"]


def test_infeasible_constraints_are_reported_with_shortfall():
    frame = scores(300, 3)
    group = pd.Series("all", index=frame.index)
    with pytest.raises(InfeasibleError) as caught:
        select_set(frame, 10, constraints=[AtMost(group, 15, name="sources")])
    assert str(caught.value) == (
        "the constraints cannot be satisfied together; unmet: sources: at most 15 of group "
        "'all', by 5; loosen a constraint or add sentences"
    )
    few = scores(40, 2).rank()
    # Paired with its neighbour in rank each time, the means differ by 1, and so by 0.5 too much.
    with pytest.raises(InfeasibleError) as caught:
        select_set(
            few[["m00", "m00"]].set_axis(["a", "b"], axis=1),
            20,
            constraints=[Balance(few["m00"], 0.5, name="length")],
        )
    assert str(caught.value) == (
        "the 780 candidate pairs cannot satisfy all constraints; unmet: length: means "
        "within 0.5 for sentences that a prefers and the others, by 0.5; length: means within 0.5 "
        "for sentences that b prefers and the others, by 0.5; ask for fewer pairs, loosen a "
        "constraint or add sentences"
    )


def test_options_of_other_criteria_are_rejected():
    frame = scores(60, 3)
    with pytest.raises(InputError) as caught:
        select_set(frame, 5, criterion="log-bf", rank_margin=0.1)
    assert str(caught.value) == (
        "rank_margin is 0.1, but the criterion 'log-bf' has none; leave it out"
    )
    with pytest.raises(InputError, match="unknown criterion 'bf'"):
        select_set(frame, 5, criterion="bf")
