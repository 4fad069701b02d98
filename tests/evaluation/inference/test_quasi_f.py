"""Means over participants and items against mean squares, other libraries and simulation."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy.stats import norm, t, ttest_1samp, ttest_ind

from contstim.evaluation.inference.conditions import estimate_contrast
from contstim.evaluation.inference.estimate import MeanEstimate
from contstim.evaluation.inference.quasi_f import (
    ITEM_EFFECTS,
    CellMean,
    CrossedDesign,
    estimate_differences,
    estimate_from_squares,
    satterthwaite,
    sums_of_squares,
    variance_components,
)
from contstim.evaluation.measures.cosine import cosine_influence
from contstim.evaluation.ranks import SegmentRanks, signed_rank_cosine

SUCH, THESE = ITEM_EFFECTS


def crossed(n: int, k: int) -> CrossedDesign:
    return CrossedDesign(np.repeat(np.arange(n), k), np.tile(np.arange(k), n))


def drawn(
    design: CrossedDesign, rng: np.random.Generator, person: float, pair: float
) -> np.ndarray:
    people = person * rng.normal(size=design.participant.max() + 1)
    pairs = pair * rng.normal(size=design.item.max() + 1)
    return (
        people[design.participant] + pairs[design.item] + rng.normal(size=len(design.participant))
    )


def quasi_f(table):
    """Clark (1973) by mean squares: variance of the mean, degrees of freedom, mean squares."""
    n, k = table.shape
    rows, columns = table.mean(axis=1), table.mean(axis=0)
    left = table - rows[:, None] - columns + table.mean()
    squares = k * rows.var(ddof=1), n * columns.var(ddof=1), (left**2).sum() / ((n - 1) * (k - 1))
    people, items, rest = squares
    spread = people**2 / (n - 1) + items**2 / (k - 1) + rest**2 / ((n - 1) * (k - 1))
    total = max(people + items - rest, rest)
    return total / (n * k), total**2 / spread, squares


@pytest.mark.parametrize("effects", [(0.7, 0.9), (0.0, 0.0)])
def test_a_full_table_gives_the_quasi_f_of_mean_squares(effects):
    rng = np.random.default_rng(1)
    n, k = 7, 11
    design = crossed(n, k)
    floored = 0
    for _ in range(20):
        x = drawn(design, rng, *effects)
        variance, df, squares = quasi_f(x.reshape(n, k))
        floored += squares[0] + squares[1] < 2 * squares[2]
        result = design.estimate(x)
        assert result.value == pytest.approx(x.mean())
        assert result.stderr**2 == pytest.approx(variance)
        assert result.df == pytest.approx(df)
        assert result.p_value() == pytest.approx(2 * t.sf(abs(x.mean()) / np.sqrt(variance), df))
    assert bool(floored) == (effects == (0.0, 0.0))


def test_cluster_robust_variances_of_statsmodels_give_the_same():
    """Clusters by participant and by item, less the residual of the two-way analysis of variance.

    Two-way clustering (Cameron, Gelbach & Miller 2011) subtracts the variance without clusters
    instead, which contains effects of participants and items.
    """
    rng = np.random.default_rng(5)
    n, k = 12, 20
    design = crossed(n, k)
    x = drawn(design, rng, 0.7, 0.9)
    table = pd.DataFrame({"x": x, "person": design.participant, "item": design.item})
    fits = [
        smf.ols("x ~ 1", table).fit(cov_type="cluster", cov_kwds={"groups": table[kind]})
        for kind in ("person", "item")
    ]
    rest = smf.ols("x ~ C(person) + C(item)", table).fit().mse_resid / (n * k)
    by_person, by_item = (float(fit.cov_params().iloc[0, 0]) for fit in fits)
    result = design.estimate(x)
    assert result.stderr**2 == pytest.approx(by_person + by_item - rest, rel=1e-9)
    both = smf.ols("x ~ 1", table).fit(
        cov_type="cluster",
        cov_kwds={"groups": np.column_stack([design.participant, design.item])},
    )
    plain = smf.ols("x ~ 1", table).fit(cov_type="HC1")
    less = float(both.cov_params().iloc[0, 0])
    assert result.stderr**2 - less == pytest.approx(float(plain.cov_params().iloc[0, 0]) - rest)


def test_satterthwaite_of_two_samples_is_welchs():
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=9), 2 * rng.normal(size=14)
    parts = [(x.var(ddof=1) / len(x), len(x) - 1) for x in (a, b)]
    expected = ttest_ind(a, b, equal_var=False)
    variance, df = satterthwaite(parts)
    assert df == pytest.approx(expected.df)
    assert (a.mean() - b.mean()) / np.sqrt(variance) == pytest.approx(expected.statistic)


@pytest.mark.parametrize("shares", [(0.5, 0.2), (0.0, 0.3), (1.0, 0.0)])
def test_sizes_needed_give_the_power(shares):
    """By the normal distribution, with the shares of the variance at the larger size."""
    mean = MeanEstimate(1.4, 1.0, 20.0, shares, (20.0, 40.0))
    for kind, factor in enumerate(mean.required_growth()):
        fixed = shares[1 - kind]
        if not np.isfinite(factor):  # the variance that remains is already too large
            assert norm.sf(1.96 - 1.4 / np.sqrt(fixed)) < 0.8
            continue
        variance = (1 - fixed) / factor + fixed
        assert norm.sf(norm.isf(0.025) - 1.4 / np.sqrt(variance)) == pytest.approx(0.8)


def test_many_studies_at_once_are_as_one_by_one():
    rng = np.random.default_rng(11)
    design = CrossedDesign(np.repeat(np.arange(6), 8), np.tile(np.arange(8) // 2, 6))
    half = CrossedDesign(design.participant[::2], design.item[::2])
    cells = 0.3 + 0.2 * rng.normal(size=(2, 5, 48))
    both, some = np.arange(48), np.arange(0, 48, 2)
    first = CellMean(both, design, cells[0])
    for rows, other in ((both, design), (some, half)):
        second = CellMean(rows, other, cells[1][:, rows])
        many = estimate_differences(first, second, design)
        for study, difference in enumerate(many):
            sides = [(at, of, x[study]) for at, of, x in (first, second)]
            alone = difference_of(*sides, design)
            numbers = [
                (d.value, d.stderr, d.df, d.p_value(), *d.interval()) for d in (difference, alone)
            ]
            np.testing.assert_allclose(numbers[0], numbers[1], rtol=1e-12, atol=1e-15)


def test_these_sentences_are_tested_by_student_across_people() -> None:
    rng = np.random.default_rng(2)
    design = crossed(9, 5)
    x = drawn(design, rng, 1.0, 1.0) + 0.5
    expected = ttest_1samp(x.reshape(9, 5).mean(axis=1), 0.0)
    result = design.estimate(x, THESE)
    assert result.p_value() == pytest.approx(expected.pvalue)
    assert result.interval() == pytest.approx(tuple(expected.confidence_interval(0.95)))


@pytest.mark.parametrize("shape", ["full", "holes", "groups", "one each"])
def test_the_variance_is_unbiased_whatever_cells_are_missing(shape: str) -> None:
    rng = np.random.default_rng(3)
    design = crossed(8, 12)
    if shape == "holes":
        stays = rng.random(96) < np.repeat(np.linspace(0.3, 1, 8), 12)
        design = CrossedDesign(design.participant[stays], design.item[stays])
    if shape == "groups":  # pairs of their own for each of four groups of two
        stays = design.participant // 2 == design.item // 3
        design = CrossedDesign(design.participant[stays], design.item[stays])
    if shape == "one each":
        design = CrossedDesign(np.repeat(np.arange(8), 3), np.arange(24))
    variances, means = [], []
    for _ in range(4000):
        x = drawn(design, rng, 0.5, 0.7)
        deviations = design.deviations(x)
        q = [
            (np.bincount(design.participant, deviations) ** 2).sum(),
            (np.bincount(design.item, deviations) ** 2).sum(),
            deviations @ deviations,
        ]
        squared_weights, expectations = design.moments
        variances.append(squared_weights @ np.linalg.lstsq(expectations, np.array(q))[0])
        means.append(design.weight @ x)
    assert np.mean(variances) == pytest.approx(np.var(means), rel=0.08)


def plainly(design: CrossedDesign, x: np.ndarray) -> tuple[float, list[float], np.ndarray]:
    """Mean, sums of squares and their expectations by component, each written as its sum."""
    n_people = len(set(design.participant))
    weight = [1 / (n_people * sum(design.participant == p)) for p in design.participant]
    mean = sum(w * value for w, value in zip(weight, x, strict=True))
    blocks = sorted(set(zip(design.participant, design.item, strict=True)))
    cells = list(zip(design.participant, design.item, weight, x, strict=True))
    of_block = [sum(w for p, i, w, _ in cells if (p, i) == block) for block in blocks]
    total = [sum(w * (v - mean) for p, i, w, v in cells if (p, i) == block) for block in blocks]
    # What a component of variance 1 adds to a sum over some blocks, less the mean's own: each
    # block's effect counts by whether it is in the sum, less the weight of the sum.
    kinds = (lambda p, i: p, lambda p, i: i, lambda p, i: (p, i))
    q, moments = [], np.zeros((3, 3))
    for row, kind in enumerate(kinds):
        sums = {kind(*block): 0.0 for block in blocks}
        for block, part in zip(blocks, total, strict=True):
            sums[kind(*block)] += part
        q.append(sum(value**2 for value in sums.values()))
        for column, component in enumerate(kinds):
            for name in sums:
                inside = [w * (kind(*b) == name) for b, w in zip(blocks, of_block, strict=True)]
                share = sum(inside)
                effects = {component(*block): 0.0 for block in blocks}
                for block, w, here in zip(blocks, of_block, inside, strict=True):
                    effects[component(*block)] += here - share * w
                moments[row, column] += sum(value**2 for value in effects.values())
    return mean, q, moments


def test_items_are_what_is_sampled_and_their_pairs_are_added_up() -> None:
    rng = np.random.default_rng(11)
    stays = rng.random(6 * 15) < 0.7
    design = crossed(6, 15)
    design = CrossedDesign(design.participant[stays], design.item[stays] // 3)
    x = drawn(design, rng, 1.0, 1.0)
    mean, q, moments = plainly(design, x)
    found = design.estimate(x)
    assert found.value == pytest.approx(mean, abs=1e-13)
    # The coefficients that make the sums add up to what each component adds to the variance.
    variances = np.linalg.solve(moments, q)
    assert variances[:2].sum() > 0
    assert found.stderr**2 == pytest.approx(design.moments[0] @ variances, rel=1e-9)


def test_pairs_of_items_of_one_size_are_averaged() -> None:
    rng = np.random.default_rng(12)
    design = crossed(9, 20)
    x = drawn(design, rng, 0.5, 0.5)
    nested = CrossedDesign(design.participant, design.item // 4)
    averaged = crossed(9, 5).estimate(x.reshape(9, 5, 4).mean(axis=2).ravel())
    found = nested.estimate(x)
    for name in ("value", "stderr", "df"):
        assert getattr(found, name) == pytest.approx(getattr(averaged, name), rel=1e-12)
    assert found.shares == pytest.approx(averaged.shares, rel=1e-12)
    # A pair more of each, the same as the first, says nothing new.
    twice = CrossedDesign(np.repeat(design.participant, 2), np.repeat(design.item, 2))
    assert twice.estimate(np.repeat(x, 2)).stderr == pytest.approx(
        design.estimate(x).stderr, rel=1e-12
    )


def test_a_difference_over_different_pairs_of_one_item_has_their_covariance() -> None:
    rng = np.random.default_rng(13)
    whole = crossed(9, 20)
    item = whole.item % 10  # the first ten pairs are kin of the last
    first = whole.item < 10
    one = CrossedDesign(whole.participant[first], item[first])
    two = CrossedDesign(whole.participant[~first], item[~first])
    x = drawn(one, rng, 0.5, 0.5)
    sides = (np.flatnonzero(first), one, x), (np.flatnonzero(~first), two, x + 0.25)
    found = difference_of(*sides, CrossedDesign(whole.participant, item))
    assert found.value == pytest.approx(-0.25)
    assert found.stderr == pytest.approx(0.0, abs=1e-12)


def test_five_percent_of_null_studies_are_significant() -> None:
    rng = np.random.default_rng(4)
    design = crossed(10, 20)
    p, p_fixed = [], []
    for _ in range(2000):
        x = drawn(design, rng, 0.4, 0.8)
        p.append(design.estimate(x).p_value())
        p_fixed.append(design.estimate(x, THESE).p_value())
    assert 0.038 < np.mean(np.array(p) < 0.05) < 0.062
    assert np.mean(np.array(p_fixed) < 0.05) > 0.12  # wrong of sentences like these


def weighted_cosine(rating: np.ndarray, prediction: np.ndarray, weight: np.ndarray) -> float:
    """Cosine of signed ranks if trial i counts as weight[i] trials that tie (Golan et al. 2023)."""

    def ranks(x: np.ndarray) -> tuple[np.ndarray, float]:
        size = np.abs(x)
        out = np.zeros(len(x))
        for i in np.flatnonzero(x):
            below = weight[(size > 0) & (size < size[i])].sum()
            out[i] = np.sign(x[i]) * (below + (weight[size == size[i]].sum() + 1) / 2)
        n = weight[x != 0].sum()
        return out, n * (n + 1) * (2 * n + 1) / 6

    (first, norm_1), (second, norm_2) = ranks(rating), ranks(prediction)
    return float((weight * first) @ second / np.sqrt(norm_1 * norm_2))


def test_cells_of_the_cosine_are_its_derivatives_by_the_weight_of_each_choice() -> None:
    rng = np.random.default_rng(5)
    sizes = (9, 4, 13)
    person = np.repeat(np.arange(3), sizes)
    rating = rng.choice([-2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5], size=len(person))
    prediction = np.round(rng.normal(size=len(person)), 1)  # some ties, some zeros
    prediction[3] = 0.0
    cells = cosine_influence(SegmentRanks(rating, person, 3), SegmentRanks(prediction, person, 3))
    for one in range(3):
        rows = np.flatnonzero(person == one)
        n, whole = len(rows), signed_rank_cosine(rating[rows], prediction[rows])
        step = 1e-5 * np.eye(n)
        slopes = np.array(
            [
                weighted_cosine(rating[rows], prediction[rows], 1 + move)
                - weighted_cosine(rating[rows], prediction[rows], 1 - move)
                for move in step
            ]
        )
        slopes /= 2e-5
        expected = whole + n * (slopes - slopes.mean())
        np.testing.assert_allclose(cells[rows], expected, rtol=1e-6, atol=1e-8)
        assert cells[rows].mean() == pytest.approx(whole)


def test_a_person_without_direction_has_no_cells() -> None:
    rating = np.array([0.5, -0.5, 0.0, 0.0])
    person = np.array([0, 0, 1, 1])
    prediction = np.array([1.0, 2.0, 3.0, 4.0])
    cells = cosine_influence(SegmentRanks(rating, person, 2), SegmentRanks(prediction, person, 2))
    assert np.isfinite(cells[:2]).all()
    assert np.isnan(cells[2:]).all()


def test_interval_and_p_value_cannot_contradict() -> None:
    rng = np.random.default_rng(6)
    for _ in range(300):
        mean = MeanEstimate(rng.normal(), rng.uniform(0.1, 1), rng.uniform(1, 50))
        low, high = mean.interval()
        assert (mean.p_value() < 0.05) == (low > 0 or high < 0)
        low, high = mean.interval(0.90)
        margin = rng.uniform(0.1, 3)
        assert (mean.p_equivalence(margin) < 0.05) == (-margin < low and high < margin)


def test_a_bounded_interval_and_its_p_value_cannot_contradict() -> None:
    rng = np.random.default_rng(6)
    for _ in range(300):
        chance = rng.choice([0.0, 0.5])
        value = chance + (1 - chance) * rng.uniform(-0.3, 0.999)
        mean = MeanEstimate(value, rng.uniform(0.01, 0.4), rng.uniform(1, 50))
        low, high = mean.bounded_interval(chance)
        assert 2 * chance - 1 <= low < value < high <= 1
        assert (mean.p_chance(chance) < 0.05) == (low > chance or high < chance)
    # Half the log-odds: 0.9 of 1 with a standard error of 0.03 is 9 to 1, give or take a third.
    odds = MeanEstimate(0.9, 0.03, 1e9).fisher_z(0.5)
    assert 2 * odds.value == pytest.approx(np.log(9))
    assert 2 * odds.stderr == pytest.approx(0.03 / 0.09)


def test_perfect_and_sure_values_have_plain_intervals() -> None:
    assert MeanEstimate(1.0, 0.0, 20.0).bounded_interval(0.5) == (1.0, 1.0)
    assert MeanEstimate(0.5, 0.0, 20.0).p_chance(0.5) == 1.0
    assert MeanEstimate(0.7, 0.0, 20.0).p_chance(0.5) == 0.0


def test_an_interval_stays_within_what_is_possible() -> None:
    # People who contradict each other wholly, whose ties leave a lowest ceiling of -0.8.
    low, high = MeanEstimate(-0.8, 0.3, 3.0).bounded_interval(0.0, maximum=0.8)
    assert (low, high) == (-0.8, pytest.approx(-0.8 + 0.3 * t.ppf(0.975, 3)))
    low, high = MeanEstimate(0.8, 0.3, 3.0).bounded_interval(0.0, maximum=0.8)
    assert (low, high) == (pytest.approx(0.8 - 0.3 * t.ppf(0.975, 3)), 0.8)
    assert np.isnan(MeanEstimate(0.8, np.nan, np.nan).bounded_interval(0.0, maximum=0.8)).all()


def test_too_few_people_or_sentences_give_no_standard_error() -> None:
    rng = np.random.default_rng(7)
    few_pairs, few_people = crossed(20, 2), crossed(2, 20)
    three = crossed(3, 20)
    assert np.isnan(few_pairs.estimate(rng.normal(size=40)).stderr)
    assert np.isnan(three.estimate(rng.normal(size=60)).stderr)
    assert three.estimate(rng.normal(size=60), THESE).stderr > 0
    assert few_pairs.estimate(rng.normal(size=40), THESE).stderr > 0
    for population in ITEM_EFFECTS:
        assert np.isnan(few_people.estimate(rng.normal(size=40), population).p_value())


def test_enough_people_and_sentences_are_enough_whatever_rounding_makes_of_their_number() -> None:
    """Sums of squared weights are a little off 1/3 and 1/4."""
    rng = np.random.default_rng(8)
    for n, k, population in [(4, k, SUCH) for k in range(3, 90)] + [(3, 40, THESE), (9, 3, SUCH)]:
        assert crossed(n, k).estimate(rng.normal(size=n * k), population).stderr > 0
        assert crossed(k, n).estimate(rng.normal(size=n * k), SUCH).stderr > 0 or min(k, n) < 4


def test_rounding_makes_no_difference_of_cells_that_are_all_alike() -> None:
    for n in range(4, 30):  # of some of these the sum of weights is 1 less the last bit
        design = crossed(n, 7)
        mean = design.estimate(np.full(7 * n, 0.5))
        assert (mean.value, mean.stderr, mean.p_chance(0.5)) == (0.5, 0.0, 1.0)
        side = (np.arange(7 * n), design, np.full(7 * n, 0.7))
        apart = difference_of(side, side, design)
        assert (apart.value, apart.p_value()) == (0.0, 1.0)


def test_cells_that_are_all_alike_leave_no_doubt() -> None:
    design = crossed(5, 6)
    same = design.estimate(np.zeros(30))
    assert (same.stderr, same.p_value(), same.p_equivalence(0.01)) == (0.0, 1.0, 0.0)


def test_a_difference_over_different_pairs_adds_both_variances() -> None:
    rng = np.random.default_rng(8)
    whole = crossed(12, 40)
    first = whole.item < 20
    one = CrossedDesign(whole.participant[first], whole.item[first])
    two = CrossedDesign(whole.participant[~first], whole.item[~first] - 20)
    p, differences, squares = [], [], []
    for _ in range(1500):
        x = drawn(whole, rng, 0.3, 0.6)
        deviations = np.zeros(len(x))
        deviations[first] = one.deviations(x[first])
        deviations[~first] = -two.deviations(x[~first])
        value = float(one.weight @ x[first] - two.weight @ x[~first])
        q = sums_of_squares(deviations[None], whole.codes)[0]
        mean = estimate_from_squares(value, q, (one, two), "random")
        p.append(mean.p_value())
        differences.append(value)
        squares.append(mean.stderr**2)
    assert np.mean(squares) == pytest.approx(np.var(differences), rel=0.12)
    assert 0.035 < np.mean(np.array(p) < 0.05) < 0.065


def test_components_are_those_that_the_cells_were_drawn_with() -> None:
    rng = np.random.default_rng(12)
    design = crossed(40, 60)
    estimated = []
    for _ in range(60):
        deviations = design.deviations(drawn(design, rng, 0.5, 0.7))
        q = sums_of_squares(deviations[None], design.codes)[0]
        estimated.append(variance_components(q, [design.moments]) / design.moments[0])
    np.testing.assert_allclose(np.mean(estimated, axis=0), [0.25, 0.49, 1.0], rtol=0.06)


def two_conditions(
    n: int, k: int, shared: bool, rng: np.random.Generator
) -> tuple[list[CrossedDesign], list[np.ndarray], np.ndarray, np.ndarray, list[np.ndarray]]:
    """Designs and cells of n people in each of two conditions, and the codes of all cells."""
    designs = [crossed(n, k), crossed(n, k)]
    if not shared:
        designs[1] = CrossedDesign(designs[1].participant, designs[1].item + k)
    both = rng.normal(size=2 * k)
    cells = [
        drawn(crossed(n, k), rng, 0.7, 0.6) + both[design.item] + own
        for own, design in enumerate(designs)
    ]
    person = np.append(designs[0].participant, designs[1].participant + n)
    item = np.append(designs[0].item, designs[1].item)
    return designs, cells, person, item, [np.arange(n * k), np.arange(n * k, 2 * n * k)]


def test_conditions_with_the_same_sentences_have_the_variance_of_a_quasi_f_ratio() -> None:
    n, k = 9, 13
    designs, cells, person, item, places = two_conditions(n, k, True, np.random.default_rng(4))
    sides = [[side] for side in zip(places, designs, cells, strict=True)]
    result = contrast(*sides, person, item)
    table = np.stack([x.reshape(n, k) for x in cells])  # conditions, people, items
    people = table.mean(axis=2)
    ms_people = k * people.var(axis=1, ddof=1).mean()
    by_item = table.mean(axis=1)
    within = by_item - by_item.mean(axis=0) - by_item.mean(axis=1)[:, None] + table.mean()
    ms_items = n * (within**2).sum() / (k - 1)
    left = table - people[:, :, None] - by_item[:, None] + by_item.mean(axis=1)[:, None, None]
    ms_left = (left**2).sum() / (2 * (n - 1) * (k - 1))
    assert result.value == pytest.approx(table[0].mean() - table[1].mean())
    assert ms_people > ms_left < ms_items
    assert result.stderr**2 == pytest.approx(2 * (ms_people + ms_items - ms_left) / (n * k))
    assert min(2 * n - 2, k - 1) <= result.df <= 2 * n - 2 + k - 1
    these = contrast(*sides, person, item, THESE)
    expected = ttest_ind(people[0], people[1], equal_var=False)
    assert these.p_value() == pytest.approx(expected.pvalue)
    assert these.df == pytest.approx(expected.df)


def test_conditions_with_sentences_of_their_own_add_both_variances() -> None:
    designs, cells, person, item, places = two_conditions(8, 12, False, np.random.default_rng(5))
    sides = [[side] for side in zip(places, designs, cells, strict=True)]
    result = contrast(*sides, person, item)
    one, two = (design.estimate(x) for design, x in zip(designs, cells, strict=True))
    assert result.stderr**2 == pytest.approx(one.stderr**2 + two.stderr**2)
    few = [[(places[0][:36], crossed(3, 12), cells[0][:36])], sides[1]]
    none = contrast(*few, person, item)
    assert np.isnan(none.stderr)
    assert none.value == pytest.approx(cells[0][:36].mean() - cells[1].mean())


def latin_square(n: int, k: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Participant, item, condition and value of each cell: an item is in one condition each."""
    person, item = np.indices((n, k)).reshape(2, -1)
    condition = (person + item) % 2
    x = rng.normal(size=(n, 2))[person, condition] + rng.normal(size=(k, 2))[item, condition]
    return person, item, condition, x + rng.normal(size=n * k)


def difference_of(first, second, whole):
    """Return the difference of two means in one study."""
    means = [CellMean(rows, design, cells[None]) for rows, design, cells in (first, second)]
    return estimate_differences(*means, whole)[0]


def contrast(first, second, person, item, item_effects="random"):
    """Return the contrast of two conditions, each a list of rows, design and cells."""
    conditions = [[CellMean(*mean) for mean in means] for means in (first, second)]
    return estimate_contrast(*conditions, CrossedDesign(person, item), item_effects)


def contrast_in(
    person: np.ndarray, item: np.ndarray, condition: np.ndarray, x: np.ndarray
) -> MeanEstimate:
    where = [np.flatnonzero(condition == level) for level in (0, 1)]
    sides = [[(rows, CrossedDesign(person[rows], item[rows]), x[rows])] for rows in where]
    return contrast(*sides, person, item)


def test_a_latin_square_has_the_variance_within_lists() -> None:
    n, k = 8, 10
    person, item, condition, x = latin_square(n, k, np.random.default_rng(3))
    result = contrast_in(person, item, condition, x)
    signed = (1 - 2 * condition.reshape(n, k)) * x.reshape(n, k)
    of_people, of_items = signed.mean(axis=1) * 2, signed.mean(axis=0) * 2
    within = [
        sum(((half - half.mean()) ** 2).sum() for half in (d[::2], d[1::2])) / (len(d) - 2)
        for d in (of_people, of_items)
    ]
    cells = np.arange(n * k)
    columns = np.zeros((n * k, 2 * n + 2 * k))
    columns[cells, 2 * person + condition] = columns[cells, 2 * (n + item) + condition] = 1
    left = x - columns @ np.linalg.lstsq(columns, x, rcond=None)[0]
    ms_left = left @ left / (n * k - np.linalg.matrix_rank(columns))
    expected = within[0] / n + within[1] / k - 4 * ms_left / (n * k)
    assert result.value == pytest.approx(of_people.mean())
    assert result.stderr**2 == pytest.approx(expected)
    assert n - 2 - 1e-9 <= result.df <= n + k - 4
    # What people and items have in common in both conditions is neither here nor there.
    rng = np.random.default_rng(4)
    common = 5 * rng.normal(size=n)[person] + 5 * rng.normal(size=k)[item]
    other = contrast_in(person, item, condition, x + common)
    assert [other.value, other.stderr, other.df, *other.interval()] == pytest.approx(
        [result.value, result.stderr, result.df, *result.interval()]
    )
    alike = contrast_in(person, item, condition, common)
    assert alike.stderr == pytest.approx(0, abs=1e-12)


def test_missing_choices_of_a_latin_square_add_the_variance_of_items():
    rng = np.random.default_rng(5)
    n, k = 20, 24
    person, item, condition, _ = latin_square(n, k, rng)
    kept = rng.random(n * k) < 0.93
    person, item, condition = person[kept], item[kept], condition[kept]
    values, squares = [], []
    for _ in range(400):
        x = 6 * rng.normal(size=k)[item] + rng.normal(size=(n, 2))[person, condition]
        x += rng.normal(size=(k, 2))[item, condition] + rng.normal(size=len(item))
        result = contrast_in(person, item, condition, x)
        values.append(result.value)
        squares.append(result.stderr**2)
    assert np.mean(squares) == pytest.approx(np.var(values), rel=0.2)


def test_a_random_assignment_to_conditions_is_conservative():
    rng = np.random.default_rng(5)
    n, k = 12, 16
    person, item, _, _ = latin_square(n, k, rng)
    condition = np.concatenate([rng.permutation(np.arange(k) % 2) for _ in range(n)])
    p = [
        contrast_in(
            person, item, condition, 3 * rng.normal(size=k)[item] + rng.normal(size=n * k)
        ).p_value()
        for _ in range(400)
    ]
    assert np.mean(np.array(p) < 0.05) < 0.065


def test_items_that_weigh_unlike_add_their_variance_where_nothing_else_varies() -> None:
    rng = np.random.default_rng(6)
    n, k = 9, 8
    person, item, condition, _ = latin_square(n, k, rng)
    values, said = [], []
    for _ in range(200):
        result = contrast_in(person, item, condition, rng.normal(size=k)[item])
        values.append(result.value)
        said.append(result.stderr**2)
    assert np.mean(said) == pytest.approx(np.var(values), rel=0.25)


@pytest.mark.parametrize("linked", [0, 1, 2])
def test_a_few_items_in_both_conditions_are_as_items_of_their_own(linked: int) -> None:
    rng = np.random.default_rng(7)
    n, k = 16, 24
    person, item = np.indices((n, k)).reshape(2, -1)
    condition = np.where(item < linked, (person + item) % 2, item >= k // 2)
    values, said, df = [], [], []
    for _ in range(200):
        x = rng.normal(size=k)[item] + rng.normal(size=n * k)
        result = contrast_in(person, item, condition, x)
        values.append(result.value)
        said.append(result.stderr**2)
        df.append(result.df)
    assert np.mean(said) == pytest.approx(np.var(values), rel=0.25)
    assert min(df) > 5


def test_what_effects_fit_wholly_tells_nothing_of_its_error() -> None:
    """Each person judges two items, one in each condition: no place is left to vary."""
    rng = np.random.default_rng(8)
    n = 12
    person = np.repeat(np.arange(n), 2)
    condition = np.tile([0, 1], n)
    item = (person + condition) % n
    p = [contrast_in(person, item, condition, rng.normal(size=2 * n)).p_value() for _ in range(200)]
    assert np.mean(np.array(p) < 0.05) < 0.1


@pytest.mark.parametrize("common", [0, 12])
def test_models_with_cells_of_their_own_in_a_latin_square(common: int) -> None:
    """Two models, each with numbers for a part of the items alone."""
    rng = np.random.default_rng(9)
    n, k = 20, 36
    person, item = np.indices((n, k)).reshape(2, -1)
    condition = (person + item) % 2
    of_model = item < (k + common) // 2, item >= (k - common) // 2
    p = []
    for _ in range(300):
        x = rng.normal(size=(2, n * k))
        sides = [
            [
                (rows, CrossedDesign(person[rows], item[rows]), x[m][rows])
                for m in (0, 1)
                for rows in [np.flatnonzero(of_model[m] & (condition == level))]
            ]
            for level in (0, 1)
        ]
        p.append(contrast(*sides, person, item).p_value())
    assert np.mean(np.array(p) < 0.05) < 0.1


def test_an_interaction_is_the_contrast_the_differences() -> None:
    rng = np.random.default_rng(6)
    designs, cells, person, item, places = two_conditions(7, 10, True, rng)
    others = [x + rng.normal(size=len(x)) for x in cells]
    pairs = [
        [(where, design, x), (where, design, y)]
        for where, design, x, y in zip(places, designs, cells, others, strict=True)
    ]
    of_both = contrast(*pairs, person, item)
    alone = [
        [(where, design, x - y)]
        for where, design, x, y in zip(places, designs, cells, others, strict=True)
    ]
    of_one = contrast(*alone, person, item)
    assert of_both.value == pytest.approx(of_one.value)
    assert of_both.stderr == pytest.approx(of_one.stderr)


@pytest.mark.parametrize("shared", [True, False])
def test_the_variance_of_a_contrast_is_unbiased(shared: bool) -> None:
    rng = np.random.default_rng(7)
    results = []
    for _ in range(1500):
        designs, cells, person, item, places = two_conditions(8, 9, shared, rng)
        sides = [[side] for side in zip(places, designs, cells, strict=True)]
        results.append(contrast(*sides, person, item))
    values = np.array([result.value for result in results])
    squares = np.array([result.stderr**2 for result in results])
    assert squares.mean() / values.var() == pytest.approx(1, abs=0.12)
    assert np.mean([result.p_value(-1.0) < 0.05 for result in results]) == pytest.approx(
        0.05, abs=0.02
    )


def two_levels(
    n: int, k: int, versions: bool, rng: np.random.Generator
) -> tuple[list[list[tuple[np.ndarray, CrossedDesign, np.ndarray]]], np.ndarray, np.ndarray]:
    """Cells of n people at both levels of a factor of 2 k items, in versions or in levels."""
    person, item = np.indices((n, 2 * k)).reshape(2, -1)
    second = (person + item) % 2 if versions else (item >= k).astype(int)
    order = np.argsort(second, kind="stable")
    person, item, second = person[order], item[order], second[order]
    x = 0.7 * rng.normal(size=n)[person] + 0.5 * rng.normal(size=(n, 2))[person, second]
    x += 0.6 * rng.normal(size=2 * k)[item] + 0.5 * rng.normal(size=(2 * k, 2))[item, second]
    x += rng.normal(size=len(x))
    places = [np.flatnonzero(second == level) for level in (0, 1)]
    sides = [[(where, CrossedDesign(person[where], item[where]), x[where])] for where in places]
    return sides, person, item


def test_within_people_items_of_one_level_have_the_variance_of_a_quasi_f_ratio() -> None:
    n, k = 9, 13
    sides, person, item = two_levels(n, k, False, np.random.default_rng(8))
    result = contrast(*sides, person, item)
    table = np.stack([side[0][2].reshape(n, k) for side in sides])  # levels, people, items
    people = table.mean(axis=2)
    ms_people = k * (people[0] - people[1]).var(ddof=1) / 2
    ms_items = n * table.mean(axis=1).var(axis=1, ddof=1).mean()
    centred = table - table.mean(axis=1, keepdims=True)
    left = centred - centred.mean(axis=2, keepdims=True)
    ms_left = (left**2).sum() / (2 * (n - 1) * (k - 1))
    assert result.value == pytest.approx(table[0].mean() - table[1].mean())
    assert ms_people > ms_left < ms_items
    expected = 2 * (ms_people + ms_items - ms_left) / (n * k)
    assert result.stderr**2 == pytest.approx(expected, rel=0.03)
    these = contrast(*sides, person, item, THESE)
    assert these.p_value() == pytest.approx(ttest_1samp(people[0] - people[1], 0).pvalue)


@pytest.mark.parametrize("versions", [True, False])
def test_within_people_an_interaction_is_the_difference_of_the_differences(versions: bool) -> None:
    rng = np.random.default_rng(9)
    sides, person, item = two_levels(8, 6, versions, rng)
    others = [[(w, d, x + rng.normal(size=len(x)))] for ((w, d, x),) in sides]
    both = contrast(*(a + b for a, b in zip(sides, others, strict=True)), person, item)
    less = [[(w, d, x - y)] for ((w, d, x),), ((_, _, y),) in zip(sides, others, strict=True)]
    apart = contrast(*less, person, item)
    assert (both.value, both.stderr, both.df) == pytest.approx(
        (apart.value, apart.stderr, apart.df)
    )


def test_the_variance_is_unbiased_where_conditions_share_some_people_or_items() -> None:
    rng = np.random.default_rng(13)
    n, k = 14, 20
    for nested in (True, False):
        second = np.arange(n)[:, None] >= n // 2 if nested else rng.random((n, k)) < 0.5
        person, item = np.nonzero((rng.random((n, k)) < 0.7) & (second | (np.arange(k) < 13)))
        level = np.broadcast_to(second, (n, k))[person, item].astype(int)
        places = [np.flatnonzero(level == own) for own in (0, 1)]
        designs = [CrossedDesign(person[where], item[where]) for where in places]
        values, squares = [], []
        for _ in range(1200):
            x = rng.normal(size=(n, 2))[person, level] + rng.normal(size=(k, 2))[item, level]
            x += 0.5 * rng.normal(size=n)[person] + rng.normal(size=len(item))
            sides = [[(w, d, x[w])] for w, d in zip(places, designs, strict=True)]
            result = contrast(*sides, person, item)
            values.append(result.value)
            squares.append(result.stderr**2)
        assert np.mean(squares) / np.var(values) == pytest.approx(1, abs=0.12)


@pytest.mark.parametrize("versions", [True, False])
def test_the_variance_within_people_is_unbiased(versions: bool) -> None:
    rng = np.random.default_rng(10)
    results = []
    for _ in range(1500):
        sides, person, item = two_levels(8, 7, versions, rng)
        results.append(contrast(*sides, person, item))
    values = np.array([result.value for result in results])
    squares = np.array([result.stderr**2 for result in results])
    assert squares.mean() / values.var() == pytest.approx(1, abs=0.15)
    assert np.mean([result.p_value() < 0.05 for result in results]) == pytest.approx(0.05, abs=0.02)
