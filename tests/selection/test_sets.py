"""Selection for a set of models: the optimum by brute force, the bound, promises, refusals."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from contstim.cli import main
from contstim.errors import InfeasibleError, InputError
from contstim.selection import fractional_ranks, select_set


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
    table = select_set(pd.DataFrame(values, columns=list("abc")), 2, margin=margin)
    assert table.attrs["objective"] == best
    assert table.attrs["bound"] == best
    assert table.attrs["status"] == "optimal"


@pytest.mark.parametrize(
    ("sentences", "models", "n", "margin"),
    [(2000, 5, 30, 0.0), (2000, 9, 72, 0.1), (400, 4, 180, 0.0), (3000, 13, 30, 0.0)],
)
def test_every_promise_holds(sentences, models, n, margin):
    frame = scores(sentences, models)
    table = select_set(frame, n, margin=margin, time_limit=10)
    used = pd.concat([table["sentence_1"], table["sentence_2"]])
    assert len(table) == n
    assert used.is_unique
    counts = separations(frame, zip(table["sentence_1"], table["sentence_2"], strict=True), margin)
    attrs = table.attrs
    told = {(one["model_1"], one["model_2"]): one["separated"] for one in attrs["separations"]}
    assert told == counts
    assert attrs["objective"] == min(counts.values()) <= attrs["bound"]
    assert attrs["gap"] == attrs["bound"] - attrs["objective"]
    assert attrs["mean"] == pytest.approx(sum(counts.values()) / n)
    even = models // 2 * (models - models // 2)
    assert attrs["bound"] == int(n * even / len(counts))
    ranks = fractional_ranks(frame)
    for row in table.itertuples():
        difference = ranks.loc[row.sentence_1] - ranks.loc[row.sentence_2]
        assert row.prefer_1.split() == sorted(difference.index[difference > 0])
        assert row.prefer_2.split() == sorted(difference.index[difference < 0])
        assert row.least_difference == pytest.approx(difference.abs().min())
    drawn = used.sample(frac=1, random_state=0).to_numpy().reshape(-1, 2)
    assert min(separations(frame, drawn, margin).values()) < attrs["objective"]


def test_the_bound_is_reached_where_sentences_abound():
    attrs = select_set(scores(3000, 9), 72).attrs
    assert attrs["objective"] == attrs["bound"] == 40  # 20 of 36 of 72
    assert attrs["mean"] == 20
    assert attrs["status"] == "optimal"


def test_without_time_the_relaxation_is_rounded():
    frame = scores(2000, 6)
    table = select_set(frame, 60, time_limit=1e-3)
    counts = separations(frame, zip(table["sentence_1"], table["sentence_2"], strict=True), 0)
    assert len({*table["sentence_1"], *table["sentence_2"]}) == 120
    assert table.attrs["objective"] == min(counts.values()) >= 0.8 * table.attrs["bound"]


def test_models_that_agree_are_never_separated():
    frame = scores(500, 3)
    attrs = select_set(frame.assign(copy=frame["m00"]), 10).attrs
    assert attrs["objective"] == 0
    assert attrs["status"] == "feasible"


def test_few_sentences_are_all_used_and_the_rest_left_out():
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
        "11 pairs want 22 different sentences, 20 possible; ask for fewer pairs or add sentences"
    )


def test_result_does_not_depend_on_the_order_of_rows():
    frame = scores(800, 5)
    expected = select_set(frame, 20)
    order = np.random.default_rng(1).permutation(len(frame))
    pd.testing.assert_frame_equal(select_set(frame.iloc[order], 20), expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n is 0; give the number of sentence pairs, at least 1"),
        ({"n": 2.5}, "n is 2.5; give a whole number"),
        ({"margin": -0.1}, "margin is -0.1; rank differences lie from 0 to below 1"),
        ({"margin": float("nan")}, "margin is nan; rank differences lie from 0 to below 1"),
        ({"seed": -1}, "seed is -1; give a whole number"),
    ],
)
def test_arguments_that_make_no_sense(arguments, message):
    with pytest.raises(InputError) as caught:
        select_set(scores(60, 3), **{"n": 5, **arguments})
    assert str(caught.value) == message


def test_a_set_of_one_model():
    with pytest.raises(InputError) as caught:
        select_set(scores(60, 1), 5)
    assert str(caught.value) == "log_probs has 1 model(s); a pair needs two"


def test_the_command(tmp_path, capsys):
    frame = scores(300, 4)
    frame.index = [f"{'A' if i % 2 else 'Very very'} long sentence, {i}." for i in range(300)]
    file, out = tmp_path / "scores.csv", tmp_path / "pairs.csv"
    frame.to_csv(file, index_label="sentence")
    argv = ["select", "set", str(file), "--n", "12", "--margin", "0.05", "--out", str(out)]
    assert main(argv) == 0
    err = capsys.readouterr().err
    assert "a pair separates " in err
    assert "12 rows, optimal: objective 8, bound 8, gap 0 (scipy milp (HiGHS))" in err
    expected = select_set(frame, 12, margin=0.05)
    pd.testing.assert_frame_equal(pd.read_csv(out), expected, check_exact=False)
    assert main([*argv, "--distinct", "--repeatable", str(tmp_path / "missing.txt")]) == 2
    capsys.readouterr()
    assert main([*argv[:4], "100", "--distinct"]) == 2
    assert capsys.readouterr().err == (
        "contstim: 100 pairs want 200 different sentences, 150 possible; ask for fewer pairs or "
        "add sentences\n"
    )
