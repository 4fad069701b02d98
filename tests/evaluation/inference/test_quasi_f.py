"""Test means over participants and items against mean squares, libraries and simulation."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from crossed_designs import crossed, draw_cells
from scipy.stats import t, ttest_1samp, ttest_ind

from contstim.evaluation.inference.quasi_f import (
    ITEM_EFFECTS,
    Contrast,
    CrossedDesign,
    SampleMean,
    Term,
    satterthwaite,
    sums_of_squares,
)
from contstim.evaluation.ranks import SegmentRanks, cosine_influence, signed_rank_cosine

RANDOM, FIXED = ITEM_EFFECTS


def estimate_difference(first, second, whole):
    """Return the difference of two means."""
    return Contrast.from_means([SampleMean(*mean) for mean in (first, second)], whole).estimate()


def quasi_f(table):
    """Return variance of the mean, degrees of freedom and mean squares (Clark 1973)."""
    n, k = table.shape
    rows, columns = table.mean(axis=1), table.mean(axis=0)
    left = table - rows[:, None] - columns + table.mean()
    squares = k * rows.var(ddof=1), n * columns.var(ddof=1), (left**2).sum() / ((n - 1) * (k - 1))
    people, items, rest = squares
    spread = people**2 / (n - 1) + items**2 / (k - 1) + rest**2 / ((n - 1) * (k - 1))
    total = max(people + items - rest, rest)
    return total / (n * k), total**2 / spread, squares


@pytest.mark.parametrize("effects", [(0.7, 0.9), (0.0, 0.0)])
def test_complete_tables_give_quasi_f_of_mean_squares(effects):
    rng = np.random.default_rng(1)
    n, k = 7, 11
    design = crossed(n, k)
    floored = 0
    for _ in range(20):
        x = draw_cells(design, rng, *effects)
        variance, df, squares = quasi_f(x.reshape(n, k))
        floored += squares[0] + squares[1] < 2 * squares[2]
        result = design.estimate(x)
        assert result.value == pytest.approx(x.mean())
        assert result.stderr**2 == pytest.approx(variance)
        assert result.df == pytest.approx(df)
        assert result.p_value() == pytest.approx(2 * t.sf(abs(x.mean()) / np.sqrt(variance), df))
    assert bool(floored) == (effects == (0.0, 0.0))


def test_standard_error_equals_statsmodels():
    """Clusters by participant and by item, less the residual of the two-way analysis of variance.

    Two-way clustering (Cameron, Gelbach & Miller 2011) subtracts the variance without clusters
    instead, which contains effects of participants and items.
    """
    rng = np.random.default_rng(5)
    n, k = 12, 20
    design = crossed(n, k)
    x = draw_cells(design, rng, 0.7, 0.9)
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


def test_satterthwaite_equals_welch_for_two_samples():
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=9), 2 * rng.normal(size=14)
    parts = [Term(x.var(ddof=1) / len(x), len(x) - 1) for x in (a, b)]
    expected = ttest_ind(a, b, equal_var=False)
    variance, df = satterthwaite(parts)
    assert df == pytest.approx(expected.df)
    assert (a.mean() - b.mean()) / np.sqrt(variance) == pytest.approx(expected.statistic)


def test_fixed_items_give_the_t_test_over_participants() -> None:
    rng = np.random.default_rng(2)
    design = crossed(9, 5)
    x = draw_cells(design, rng, 1.0, 1.0) + 0.5
    expected = ttest_1samp(x.reshape(9, 5).mean(axis=1), 0.0)
    result = design.estimate(x, FIXED)
    assert result.p_value() == pytest.approx(expected.pvalue)
    assert result.interval() == pytest.approx(tuple(expected.confidence_interval(0.95)))
    equal = design.estimate(np.tile([0.0, 1.0, 2.0, 1.0, 1.0], 9), FIXED)
    assert (equal.value, equal.stderr) == (1.0, 0.0)


@pytest.mark.parametrize("shape", ["full", "holes", "groups", "one each"])
def test_variance_is_unbiased_in_incomplete_tables(shape: str) -> None:
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
        x = draw_cells(design, rng, 0.5, 0.7)
        deviations = design.deviations(x)
        q = [
            (np.bincount(design.participant, deviations) ** 2).sum(),
            (np.bincount(design.item, deviations) ** 2).sum(),
            deviations @ deviations,
        ]
        components = np.linalg.lstsq(design.expected_squares, np.array(q))[0]
        variances.append(design.squared_weights @ components)
        means.append(design.weight @ x)
    assert np.mean(variances) == pytest.approx(np.var(means), rel=0.08)


def sums_by_definition(
    design: CrossedDesign, x: np.ndarray
) -> tuple[float, list[float], np.ndarray]:
    """Return the mean, the sums of squares and their expectations by component."""
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


def test_pairs_of_an_item_are_summed() -> None:
    rng = np.random.default_rng(11)
    stays = rng.random(6 * 15) < 0.7
    design = crossed(6, 15)
    design = CrossedDesign(design.participant[stays], design.item[stays] // 3)
    x = draw_cells(design, rng, 1.0, 1.0)
    mean, q, moments = sums_by_definition(design, x)
    found = design.estimate(x)
    assert found.value == pytest.approx(mean, abs=1e-13)
    # The coefficients that make the sums add up to what each component adds to the variance.
    variances = np.linalg.solve(moments, q)
    assert variances[:2].sum() > 0
    assert found.stderr**2 == pytest.approx(design.squared_weights @ variances, rel=1e-9)


def test_items_of_equal_size_are_averaged() -> None:
    rng = np.random.default_rng(12)
    design = crossed(9, 20)
    x = draw_cells(design, rng, 0.5, 0.5)
    nested = CrossedDesign(design.participant, design.item // 4)
    averaged = crossed(9, 5).estimate(x.reshape(9, 5, 4).mean(axis=2).ravel())
    found = nested.estimate(x)
    for name in ("value", "stderr", "df", "item_share"):
        assert getattr(found, name) == pytest.approx(getattr(averaged, name), rel=1e-12)
    # A pair more of each, the same as the first, says nothing new.
    twice = CrossedDesign(np.repeat(design.participant, 2), np.repeat(design.item, 2))
    assert twice.estimate(np.repeat(x, 2)).stderr == pytest.approx(
        design.estimate(x).stderr, rel=1e-12
    )


def test_difference_over_different_pairs_of_an_item() -> None:
    rng = np.random.default_rng(13)
    whole = crossed(9, 20)
    item = whole.item % 10  # the first ten pairs are kin of the last
    first = whole.item < 10
    one = CrossedDesign(whole.participant[first], item[first])
    two = CrossedDesign(whole.participant[~first], item[~first])
    x = draw_cells(one, rng, 0.5, 0.5)
    sides = (np.flatnonzero(first), one, x), (np.flatnonzero(~first), two, x + 0.25)
    found = estimate_difference(*sides, CrossedDesign(whole.participant, item))
    assert found.value == pytest.approx(-0.25)
    assert found.stderr == pytest.approx(0.0, abs=1e-12)


def test_type_i_error_of_random_and_fixed_items() -> None:
    rng = np.random.default_rng(4)
    design = crossed(10, 20)
    p, p_fixed = [], []
    for _ in range(2000):
        x = draw_cells(design, rng, 0.4, 0.8)
        p.append(design.estimate(x).p_value())
        p_fixed.append(design.estimate(x, FIXED).p_value())
    assert 0.038 < np.mean(np.array(p) < 0.05) < 0.062
    assert np.mean(np.array(p_fixed) < 0.05) > 0.12  # wrong of sentences like these


def weighted_cosine(rating: np.ndarray, prediction: np.ndarray, weight: np.ndarray) -> float:
    """Return the cosine of signed ranks with trial i repeated weight[i] times."""

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


def test_cosine_influence_equals_the_derivative() -> None:
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


def test_participants_without_preference_have_no_influence() -> None:
    rating = np.array([0.5, -0.5, 0.0, 0.0])
    person = np.array([0, 0, 1, 1])
    prediction = np.array([1.0, 2.0, 3.0, 4.0])
    cells = cosine_influence(SegmentRanks(rating, person, 2), SegmentRanks(prediction, person, 2))
    assert np.isfinite(cells[:2]).all()
    assert np.isnan(cells[2:]).all()


def test_too_few_units_give_no_standard_error() -> None:
    rng = np.random.default_rng(7)
    few_pairs, few_people = crossed(20, 2), crossed(2, 20)
    three = crossed(3, 20)
    assert np.isnan(few_pairs.estimate(rng.normal(size=40)).stderr)
    assert np.isnan(three.estimate(rng.normal(size=60)).stderr)
    assert three.estimate(rng.normal(size=60), FIXED).stderr > 0
    assert few_pairs.estimate(rng.normal(size=40), FIXED).stderr > 0
    for population in ITEM_EFFECTS:
        assert np.isnan(few_people.estimate(rng.normal(size=40), population).p_value())


def test_minimum_number_of_units_despite_rounding() -> None:
    """Sums of squared weights are a little off 1/3 and 1/4."""
    rng = np.random.default_rng(8)
    for n, k, population in [(4, k, RANDOM) for k in range(3, 90)] + [
        (3, 40, FIXED),
        (9, 3, RANDOM),
    ]:
        assert crossed(n, k).estimate(rng.normal(size=n * k), population).stderr > 0
        assert crossed(k, n).estimate(rng.normal(size=n * k), RANDOM).stderr > 0 or min(k, n) < 4


def test_equal_cells_have_no_rounding_error() -> None:
    for n in range(4, 30):  # of some of these the sum of weights is 1 less the last bit
        design = crossed(n, 7)
        mean = design.estimate(np.full(7 * n, 0.5))
        assert (mean.value, mean.stderr, mean.p_chance(0.5)) == (0.5, 0.0, 1.0)
        side = (np.arange(7 * n), design, np.full(7 * n, 0.7))
        apart = estimate_difference(side, side, design)
        assert (apart.value, apart.p_value()) == (0.0, 1.0)


def test_equal_cells_have_a_standard_error_of_zero() -> None:
    design = crossed(5, 6)
    same = design.estimate(np.zeros(30))
    assert (same.stderr, same.p_value(), same.p_equivalence(0.01)) == (0.0, 1.0, 0.0)


def test_difference_over_different_items_adds_variances() -> None:
    rng = np.random.default_rng(8)
    whole = crossed(12, 40)
    first = whole.item < 20
    one = CrossedDesign(whole.participant[first], whole.item[first])
    two = CrossedDesign(whole.participant[~first], whole.item[~first] - 20)
    p, differences, squares = [], [], []
    for _ in range(1500):
        x = draw_cells(whole, rng, 0.3, 0.6)
        sides = [(np.flatnonzero(at), of, x[at]) for at, of in ((first, one), (~first, two))]
        mean = estimate_difference(*sides, whole)
        p.append(mean.p_value())
        differences.append(float(one.weight @ x[first] - two.weight @ x[~first]))
        squares.append(mean.stderr**2)
    assert np.mean(squares) == pytest.approx(np.var(differences), rel=0.12)
    assert 0.035 < np.mean(np.array(p) < 0.05) < 0.065


def test_variance_components_recover_simulated_values() -> None:
    rng = np.random.default_rng(12)
    design = crossed(40, 60)
    estimated = []
    for _ in range(60):
        deviations = design.deviations(draw_cells(design, rng, 0.5, 0.7))
        components = design.component_coefficients @ sums_of_squares(deviations, design.codes)
        estimated.append(components / design.squared_weights)
    np.testing.assert_allclose(np.mean(estimated, axis=0), [0.25, 0.49, 1.0], rtol=0.06)
