"""Test differences between conditions against mean squares, t tests and simulation."""

import numpy as np
import pytest
from crossed_designs import crossed, draw_cells
from scipy.stats import ttest_1samp, ttest_ind

from contstim.evaluation.inference.conditions import estimate_contrast
from contstim.evaluation.inference.estimate import MeanEstimate
from contstim.evaluation.inference.quasi_f import (
    ITEM_EFFECTS,
    CrossedDesign,
    SampleMean,
)

RANDOM, FIXED = ITEM_EFFECTS


def two_conditions(
    n: int, k: int, shared: bool, rng: np.random.Generator
) -> tuple[list[CrossedDesign], list[np.ndarray], np.ndarray, np.ndarray, list[np.ndarray]]:
    """Return designs, cells and codes of n participants in each of two conditions."""
    designs = [crossed(n, k), crossed(n, k)]
    if not shared:
        designs[1] = CrossedDesign(designs[1].participant, designs[1].item + k)
    both = rng.normal(size=2 * k)
    cells = [
        draw_cells(crossed(n, k), rng, 0.7, 0.6) + both[design.item] + own
        for own, design in enumerate(designs)
    ]
    person = np.append(designs[0].participant, designs[1].participant + n)
    item = np.append(designs[0].item, designs[1].item)
    return designs, cells, person, item, [np.arange(n * k), np.arange(n * k, 2 * n * k)]


def test_conditions_between_participants_with_shared_items() -> None:
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
    these = contrast(*sides, person, item, FIXED)
    expected = ttest_ind(people[0], people[1], equal_var=False)
    assert these.p_value() == pytest.approx(expected.pvalue)
    assert these.df == pytest.approx(expected.df)


def test_conditions_without_shared_units_add_variances() -> None:
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
    """Return participant, item, condition and value of each cell of a Latin square."""
    person, item = np.indices((n, k)).reshape(2, -1)
    condition = (person + item) % 2
    x = rng.normal(size=(n, 2))[person, condition] + rng.normal(size=(k, 2))[item, condition]
    return person, item, condition, x + rng.normal(size=n * k)


def contrast(first, second, person, item, item_effects="random"):
    """Return the contrast of two conditions, each a list of rows, design and cells."""
    conditions = [[SampleMean(*mean) for mean in means] for means in (first, second)]
    return estimate_contrast(*conditions, CrossedDesign(person, item), item_effects)


def contrast_conditions(
    person: np.ndarray, item: np.ndarray, condition: np.ndarray, x: np.ndarray
) -> MeanEstimate:
    where = [np.flatnonzero(condition == level) for level in (0, 1)]
    sides = [[(rows, CrossedDesign(person[rows], item[rows]), x[rows])] for rows in where]
    return contrast(*sides, person, item)


def test_latin_square_has_the_variance_within_lists() -> None:
    n, k = 8, 10
    person, item, condition, x = latin_square(n, k, np.random.default_rng(3))
    result = contrast_conditions(person, item, condition, x)
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
    other = contrast_conditions(person, item, condition, x + common)
    assert [other.value, other.stderr, other.df, *other.interval()] == pytest.approx(
        [result.value, result.stderr, result.df, *result.interval()]
    )
    alike = contrast_conditions(person, item, condition, common)
    assert alike.stderr == pytest.approx(0, abs=1e-12)


def test_latin_square_with_missing_choices():
    rng = np.random.default_rng(5)
    n, k = 20, 24
    person, item, condition, _ = latin_square(n, k, rng)
    kept = rng.random(n * k) < 0.93
    person, item, condition = person[kept], item[kept], condition[kept]
    values, squares = [], []
    for _ in range(400):
        x = 6 * rng.normal(size=k)[item] + rng.normal(size=(n, 2))[person, condition]
        x += rng.normal(size=(k, 2))[item, condition] + rng.normal(size=len(item))
        result = contrast_conditions(person, item, condition, x)
        values.append(result.value)
        squares.append(result.stderr**2)
    assert np.mean(squares) == pytest.approx(np.var(values), rel=0.2)


def test_random_assignment_to_conditions_is_conservative():
    rng = np.random.default_rng(5)
    n, k = 12, 16
    person, item, _, _ = latin_square(n, k, rng)
    condition = np.concatenate([rng.permutation(np.arange(k) % 2) for _ in range(n)])
    p = [
        contrast_conditions(
            person, item, condition, 3 * rng.normal(size=k)[item] + rng.normal(size=n * k)
        ).p_value()
        for _ in range(400)
    ]
    assert np.mean(np.array(p) < 0.05) < 0.065


def test_latin_square_with_unequal_item_weights() -> None:
    rng = np.random.default_rng(6)
    n, k = 9, 8
    person, item, condition, _ = latin_square(n, k, rng)
    values, said = [], []
    for _ in range(200):
        result = contrast_conditions(person, item, condition, rng.normal(size=k)[item])
        values.append(result.value)
        said.append(result.stderr**2)
    assert np.mean(said) == pytest.approx(np.var(values), rel=0.25)


@pytest.mark.parametrize("linked", [0, 1, 2])
def test_few_items_in_both_conditions(linked: int) -> None:
    rng = np.random.default_rng(7)
    n, k = 16, 24
    person, item = np.indices((n, k)).reshape(2, -1)
    condition = np.where(item < linked, (person + item) % 2, item >= k // 2)
    values, said, df = [], [], []
    for _ in range(200):
        x = rng.normal(size=k)[item] + rng.normal(size=n * k)
        result = contrast_conditions(person, item, condition, x)
        values.append(result.value)
        said.append(result.stderr**2)
        df.append(result.df)
    assert np.mean(said) == pytest.approx(np.var(values), rel=0.25)
    assert min(df) > 5


def test_saturated_latin_square_has_no_standard_error() -> None:
    """Each participant judges two items, one in each condition."""
    rng = np.random.default_rng(8)
    n = 12
    person = np.repeat(np.arange(n), 2)
    condition = np.tile([0, 1], n)
    item = (person + condition) % n
    p = [
        contrast_conditions(person, item, condition, rng.normal(size=2 * n)).p_value()
        for _ in range(200)
    ]
    assert np.mean(np.array(p) < 0.05) < 0.1


@pytest.mark.parametrize("common", [0, 12])
def test_latin_square_with_different_items_per_model(common: int) -> None:
    """Each of two models has values for a part of the items only."""
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


def test_interaction_is_the_contrast_of_differences() -> None:
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
def test_variance_of_a_contrast_is_unbiased(shared: bool) -> None:
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
    """Return cells of n participants at both levels of a factor, between or within items."""
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


def test_conditions_within_participants_between_items() -> None:
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
    these = contrast(*sides, person, item, FIXED)
    assert these.p_value() == pytest.approx(ttest_1samp(people[0] - people[1], 0).pvalue)


@pytest.mark.parametrize("versions", [True, False])
def test_interaction_within_participants(versions: bool) -> None:
    rng = np.random.default_rng(9)
    sides, person, item = two_levels(8, 6, versions, rng)
    others = [[(w, d, x + rng.normal(size=len(x)))] for ((w, d, x),) in sides]
    both = contrast(*(a + b for a, b in zip(sides, others, strict=True)), person, item)
    less = [[(w, d, x - y)] for ((w, d, x),), ((_, _, y),) in zip(sides, others, strict=True)]
    apart = contrast(*less, person, item)
    assert (both.value, both.stderr, both.df) == pytest.approx(
        (apart.value, apart.stderr, apart.df)
    )


def test_variance_is_unbiased_with_partly_shared_units() -> None:
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
def test_variance_within_participants_is_unbiased(versions: bool) -> None:
    rng = np.random.default_rng(10)
    results = []
    for _ in range(1500):
        sides, person, item = two_levels(8, 7, versions, rng)
        results.append(contrast(*sides, person, item))
    values = np.array([result.value for result in results])
    squares = np.array([result.stderr**2 for result in results])
    assert squares.mean() / values.var() == pytest.approx(1, abs=0.15)
    assert np.mean([result.p_value() < 0.05 for result in results]) == pytest.approx(0.05, abs=0.02)
