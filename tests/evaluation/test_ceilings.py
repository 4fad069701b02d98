"""Measures and ceilings of incomplete designs against loops written from the definitions.

Tests `contstim.evaluation.ceilings`, `contstim.evaluation.subset`,
`contstim.evaluation.measures.accuracy` and `contstim.evaluation.measures.cosine`.
"""

import itertools
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata

from contstim.errors import UnknownNameError
from contstim.evaluation import align_choices, check_choices, score_table, signed_rank_cosine
from contstim.evaluation.ceilings import Ceilings
from contstim.evaluation.inference.bootstrap import Draws, resample
from contstim.evaluation.measures import MEASURES
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import TrialData
from contstim.sampling import STEP


def data_of(study, scores):
    choices = align_choices(check_choices(study))
    wide = score_table(scores, [*choices["sentence_1"], *choices["sentence_2"]])
    return choices, TrialData.of(choices, wide)


def everything(data):
    return Subset(data, np.arange(len(data.rating)), np.arange(len(data.models)))


def ceilings_of(subset, measure, min_others=1, upper="published"):
    return Ceilings.of(subset, MEASURES[measure], min_others, upper)


def unit_ranks(x):
    """Signed ranks over the norm that n untied ranks have; a vector of zeros stays so."""
    x = np.round(np.asarray(x, dtype=float), 12)
    used = x != 0
    ranks = np.zeros(len(x))
    if not used.any():
        return ranks
    ranks[used] = np.sign(x[used]) * rankdata(np.abs(x[used]))
    return ranks / np.sqrt(sum(k * k for k in range(1, used.sum() + 1)))


def plain_ceilings(data, measure, min_others):
    """Noise ceilings from their definitions, participant by participant: {i: (lower, upper)}.

    Golan et al. (2023), Methods: a participant is predicted by the others (lower bound) or by all
    (upper bound) who saw the same pair; trials that too few others saw take no part.
    """
    choices = list(zip(data.participant, data.pair, data.rating, strict=True))
    enough = {pair for pair, n in Counter(data.pair).items() if n > min_others}
    answers = {}  # of each participant: {pair: rating}
    for i, pair, rating in choices:
        if pair in enough:
            answers.setdefault(i, {})[pair] = rating
    vector = np.sign if measure == "accuracy" else unit_ranks
    vectors = {
        i: dict(zip(own, vector([*own.values()]), strict=True)) for i, own in answers.items()
    }
    ceilings = {}
    for i, own in vectors.items():
        mine = np.array([*own.values()])
        everyone = [[v[pair] for v in vectors.values() if pair in v] for pair in own]
        others = [[v[p] for j, v in vectors.items() if j != i and p in v] for p in own]
        if measure == "accuracy":
            bounds = [
                np.sign(np.round([np.sum(v) for v in votes], 9)) for votes in (others, everyone)
            ]
            ceilings[i] = tuple(0.5 + 0.5 * np.mean(mine * bound) for bound in bounds)
        elif mine.any():
            best = unit_ranks([np.mean(v) for v in others])
            mean = np.array([np.mean(v) for v in everyone])
            lower = best @ mine if best.any() else np.nan
            ceilings[i] = (lower, mean @ mine / np.linalg.norm(mean))
        else:
            ceilings[i] = (np.nan, np.nan)
    return ceilings


@pytest.mark.parametrize("share", [1.0, 0.6])
def test_measures_are_the_per_participant_definitions(make_study, share):
    _, data = data_of(*make_study(share=share, n_groups=2))
    subset = everything(data)
    accuracy, cosine = (
        MEASURES["accuracy"].values(subset),
        MEASURES["signed_rank_cosine"].values(subset),
    )
    for i in range(len(data.participants)):
        rows = data.participant == i
        for m in range(3):
            ratio = data.log_ratio[data.pair[rows], m]
            right = (ratio > 0) == (data.rating[rows] > 0)
            assert accuracy[i, m] == pytest.approx(right.mean())
            assert cosine[i, m] == pytest.approx(signed_rank_cosine(data.rating[rows], ratio))


def test_min_others_leaves_trials_out_and_says_so(make_study):
    _, data = data_of(*make_study(share=0.5, n_people=9, n_pairs=12))
    seen = np.bincount(data.pair)
    subset = everything(data)
    ceilings = ceilings_of(subset, "signed_rank_cosine", min_others=4)
    assert 0 < ceilings.matched.n_rows == (seen[data.pair] > 4).sum() < subset.n_rows
    assert np.isnan(ceilings_of(subset, "accuracy", min_others=50).lower.value).all()


def test_the_optimum_is_the_best_of_all_predictions(make_study):
    _, data = data_of(*make_study(n_people=5, n_pairs=4, noise=1.5, seed=4))
    best = ceilings_of(everything(data), "signed_rank_cosine", upper="optimum").upper.value.mean()
    ratings = data.rating.reshape(5, 4)
    found = -1.0
    for order in itertools.permutations([1, 2, 3, 4]):
        for signs in itertools.product([-1, 1], repeat=4):
            guess = np.array(order) * np.array(signs)
            found = max(found, np.mean([signed_rank_cosine(r, guess) for r in ratings]))
    assert best == pytest.approx(found)
    published = ceilings_of(everything(data), "signed_rank_cosine").upper.value.mean()
    assert published >= best - 1e-12


def test_the_accuracy_optimum_weighs_participants_alike():
    # p1 has one trial, p2 and p3 have two; for the mean over participants, p1's one choice
    # outweighs either of theirs on the pair, but not both.
    rows = [("p1", "A", -0.5), ("p2", "A", 0.5), ("p2", "B", 0.5), ("p3", "B", 0.5)]
    study = pd.DataFrame(rows, columns=["participant", "sentence_1", "rating"])
    study["sentence_2"] = study["sentence_1"] + "z"
    data = TrialData.of(align_choices(check_choices(study)))
    subset = Subset(data, np.arange(4), np.zeros(0, dtype=int))
    np.testing.assert_allclose(ceilings_of(subset, "accuracy", 1).upper.value, [0.5, 0.75, 1])
    np.testing.assert_allclose(
        ceilings_of(subset, "accuracy", 1, "optimum").upper.value, [1, 0.5, 1]
    )


def test_ties_count_one_half_and_are_counted():
    study = pd.DataFrame(
        {
            "participant": ["p", "p", "q", "q"],
            "sentence_1": ["A", "B", "A", "B"],
            "sentence_2": ["C", "D", "C", "D"],
            "rating": [2.5, 2.5, 0.0, -2.5],
        }
    )
    scores = pd.DataFrame({"sentence": list("ABCD"), "m": [-1.0, -1.0, -1.0, -0.5]})
    _, data = data_of(study, scores)
    subset = everything(data)
    np.testing.assert_allclose(MEASURES["accuracy"].values(subset)[:, 0], [0.75, 0.25])
    assert subset.tied_predictions().tolist() == [1]
    assert subset.tied_ratings() == 1
    with pytest.raises(UnknownNameError, match="unknown measure 'cosine'"):
        MEASURES["cosine"].values(subset)
    with pytest.raises(UnknownNameError, match="unknown upper bound"):
        ceilings_of(subset, "accuracy", 1, "best")


def with_ties(study, scores):
    """The study with ratings of other sizes and of zero, and a model without preferences."""
    other = {0.5: 5 / 6, -0.5: -5 / 6, 1.5: 5 / 3, -1.5: -5 / 3}
    study.loc[::5, "rating"] = 0.0
    return study.replace({"rating": other}), scores.assign(
        a=scores["a"].mask(scores.index < 6, -40)
    )


def with_slider(study, scores):
    """The study with a rating of its own size in each row: more sizes than `_MOST_SIZES`."""
    steps = np.linspace(0, 0.4, len(study))
    return study.assign(rating=study["rating"] - np.sign(study["rating"]) * steps), scores


@pytest.mark.parametrize("measure", ["accuracy", "signed_rank_cosine"])
@pytest.mark.parametrize(("share", "min_others"), [(1.0, 1), (0.6, 1), (0.6, 4), (0.3, 2)])
@pytest.mark.parametrize("change", [lambda *tables: tables, with_ties, with_slider])
def test_ceilings_are_the_plain_ones(make_study, measure, share, min_others, change):
    study, scores = change(*make_study(n_people=9, n_pairs=10, n_groups=2, share=share, noise=2.0))
    choices = align_choices(check_choices(study, "slider"))
    wide = score_table(scores, [*choices["sentence_1"], *choices["sentence_2"]])
    data = TrialData.of(choices, wide)
    found = ceilings_of(everything(data), measure, min_others)
    expected = plain_ceilings(data, measure, min_others)
    assert found.matched.labels.tolist() == sorted(expected)
    both = np.column_stack([found.lower.value, found.upper.value])
    plain = np.reshape([expected[i] for i in sorted(expected)], (-1, 2))
    np.testing.assert_allclose(both, plain)


@pytest.mark.parametrize("share", [1.0, 0.7])
@pytest.mark.parametrize("change", [lambda *tables: tables, with_ties, with_slider])
def test_resamples_are_means_over_copied_people_and_trials(make_study, share, change):
    """Against the definitions, on trials copied as often as they are drawn."""
    study, scores = change(*make_study(n_people=9, n_pairs=8, n_groups=2, share=share))
    choices = align_choices(check_choices(study, "slider"))
    wide = score_table(scores, [*choices["sentence_1"], *choices["sentence_2"]])
    data = TrialData.of(choices, wide)
    rng = np.random.default_rng(1)
    people = rng.integers(0, 3, size=(12, 9)).astype(float)
    pairs = rng.integers(0, 4, size=(12, data.n_pairs)).astype(float)
    pairs[0, :] = 0
    for measure in ("accuracy", "signed_rank_cosine"):
        found = resample(everything(data), MEASURES[measure], Draws(people, pairs, 9))
        for b, m in itertools.product(range(12), range(3)):
            values = []
            for i in range(9):
                rows = np.flatnonzero(data.participant == i)
                rows = np.repeat(rows, pairs[b][data.pair[rows]].astype(int))
                x, y = data.rating[rows], data.log_ratio[data.pair[rows], m]
                if measure == "accuracy" and len(rows):
                    value = (0.5 + 0.5 * np.sign(x) * np.sign(y)).mean()
                elif x.any() and y.any():
                    value = signed_rank_cosine(x, y)
                else:
                    continue
                values += [value] * int(people[b, i])
            expected = np.mean(values) if values else np.nan
            np.testing.assert_allclose(found[b, m], expected)


@pytest.mark.parametrize("measure", ["accuracy", "signed_rank_cosine"])
@pytest.mark.parametrize("upper", ["published", "optimum"])
def test_cells_of_ceilings_have_the_ceilings_as_their_mean(make_study, measure, upper):
    _, data = data_of(*make_study(share=0.7, n_people=9, n_pairs=12, n_groups=2, noise=2.0))
    found = ceilings_of(everything(data), measure, 2, upper)
    matched = found.matched
    design = matched.design(np.ones(matched.n_rows, dtype=bool))
    for cells, mean in (
        (found.lower.cells, found.lower.value),
        (found.upper.cells, found.upper.value),
    ):
        assert design.mean(cells).value == pytest.approx(np.nanmean(mean))


@pytest.mark.parametrize("measure", ["accuracy", "signed_rank_cosine"])
def test_the_mean_stays_where_others_tie_and_leave_somebody_without_a_ceiling(measure):
    # The first two contradict each other, which leaves the third nobody's mean to be judged by.
    ratings = {"p": (2.5, -1.5), "q": (-2.5, 1.5), "r": (0.5, 1.5)}
    rows = [
        (who, f"a {k}", f"b {k}", rating)
        for who, given in ratings.items()
        for k, rating in enumerate(given)
    ]
    names = ["participant", "sentence_1", "sentence_2", "rating"]
    choices = align_choices(check_choices(pd.DataFrame(rows, columns=names)))
    subset = everything(TrialData.of(choices))
    ceilings = ceilings_of(subset, measure)
    assert np.isnan(ceilings.lower.value).tolist() == [False, False, measure != "accuracy"]
    cells = ceilings.lower.cells
    there = ~np.isnan(cells)
    mean = subset.design(there).weight @ cells[there]
    assert mean == pytest.approx(np.nanmean(ceilings.lower.value))


def study_of(choices):
    """Ratings (N, P) of everybody on every pair, as trials."""
    n, p = choices.shape
    return TrialData(
        pd.Index(range(n)),
        pd.Index(["all"]),
        np.zeros(n, dtype=np.int64),
        np.repeat(np.arange(n), p),
        np.tile(np.arange(p), n),
        choices.ravel(),
        pd.DataFrame({"item": range(p)}),
        (),
        np.zeros((p, 0)),
    )


def test_a_participants_weight_moves_the_ceilings_of_others():
    rng = np.random.default_rng(1)
    n, p = 8, 15
    choices = np.digitize(rng.normal(size=p) + rng.normal(size=(n, p)), [-2, -1, 0, 1, 2]) - 2.5
    subset = everything(study_of(choices))
    vectors = np.array([unit_ranks(row) for row in choices])

    def others_sum(one, weight):
        """Sum of the cosines of everybody but `one`, whose vector counts so often."""
        weights = np.ones(n)
        weights[one] = weight
        total = 0.0
        for i in np.delete(np.arange(n), one):
            rest = np.delete(np.arange(n), i)
            mean = weights[rest] @ vectors[rest] / weights[rest].sum()
            total += mean @ vectors[i] / np.linalg.norm(mean)
        return total

    moved = [(others_sum(i, 1 + 1e-5) - others_sum(i, 1 - 1e-5)) / 2e-5 for i in range(n)]
    mean = (vectors.sum(axis=0) - vectors).ravel() / (n - 1)
    effect = ceilings_of(subset, "signed_rank_cosine").lower.cells
    effect = effect - MEASURES["signed_rank_cosine"].cells(subset, np.round(mean, 12))
    effect = effect.reshape(n, p)
    np.testing.assert_allclose(effect.mean(axis=1), moved - np.mean(moved), atol=1e-7)
    np.testing.assert_allclose(effect.sum(axis=0), 0, atol=1e-9)  # none of the pair


@pytest.mark.parametrize("measure", ["accuracy", "signed_rank_cosine"])
def test_the_standard_error_of_a_ceiling_counts_the_people_it_is_made_of(measure):
    """Ten people who agree little: their choices are others' ceiling as well as judged by it."""
    rng = np.random.default_rng(2)
    values, errors = [], []
    for _ in range(400):
        gain = np.exp(0.7 * rng.normal(size=(10, 1)))
        felt = gain * rng.normal(size=60) + 1.5 * rng.normal(size=(10, 60))
        subset = everything(study_of(np.digitize(felt, [-2, -1, 0, 1, 2]) - 2.5))
        found = ceilings_of(subset, measure)
        mean = subset.design(np.ones(600, dtype=bool)).mean(found.lower.cells)
        values.append(mean.value)
        errors.append(mean.stderr**2)
    assert np.mean(errors) == pytest.approx(np.var(values), rel=0.15)


def shares_of_variance(n, items, measure, bound, studies=500, p=30):
    """Estimated over true variance of a ceiling of `n` people who judge 30 pairs each."""
    rng = np.random.default_rng(3)
    values, errors = [], []
    for _ in range(studies):
        gain = np.exp(0.5 * rng.normal(size=(n, 1)))
        felt = gain * rng.normal(size=p) + items * rng.normal(size=p) + rng.normal(size=(n, p))
        subset = everything(study_of(np.digitize(felt, [-2, -1, 0, 1, 2]) - 2.5))
        cells = getattr(ceilings_of(subset, measure), bound).cells
        mean = subset.design(np.ones(n * p, dtype=bool)).mean(cells)
        values.append(mean.value)
        errors.append(mean.stderr**2)
    return np.mean(errors) / np.var(values)


@pytest.mark.parametrize(
    ("n", "items", "measure", "bound"),
    [
        (4, 0.5, "signed_rank_cosine", "upper"),  # 0.7 if people are as near as they seem
        (10, 4.0, "signed_rank_cosine", "upper"),  # 1.7 if tied ratings had vectors of norm 1
        (4, 0.5, "accuracy", "lower"),
        (3, 0.5, "accuracy", "lower"),
        (6, 0.5, "accuracy", "upper"),
    ],
)
def test_the_variance_of_a_ceiling_is_found_where_few_judge_each_other(
    n, items, measure, bound, monkeypatch
):
    monkeypatch.setattr("contstim.sampling.FEWEST_PEOPLE", 3)  # three a pair, as in groups
    assert 0.84 < shares_of_variance(n, items, measure, bound) < 1.25


def test_the_upper_bound_of_three_is_halfway_from_their_lower_one_to_one():
    rng = np.random.default_rng(4)
    subset = everything(study_of(rng.choice([-1.0, 1.0], size=(3, 12))))
    found = ceilings_of(subset, "accuracy")
    np.testing.assert_allclose(found.upper.value.mean(), (1 + found.lower.value.mean()) / 2)
    deviations = [cells - cells.mean() for cells in (found.lower.cells, found.upper.cells)]
    np.testing.assert_allclose(deviations[1], deviations[0] / 2)


def test_cells_of_the_upper_cosine_are_its_derivatives_by_the_weight_of_each_choice():
    """Of one person against a vector that stays: brute force over choices that count 1 +- h."""
    rng = np.random.default_rng(5)
    ratings = rng.choice([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], size=(6, 9))
    subset = everything(study_of(ratings))
    found = ceilings_of(subset, "signed_rank_cosine")
    mean = np.mean([unit_ranks(row) for row in ratings], axis=0)

    def weighted(weight):
        size = np.abs(ratings[0])
        below = ((size[:, None] > size) * weight).sum(axis=1)
        tied = ((size[:, None] == size) * weight).sum(axis=1)
        ranks = np.sign(ratings[0]) * (below + (tied + 1) / 2)
        n = weight.sum()
        norm = np.sqrt(n * (n + 1) * (2 * n + 1) / 6 * (weight @ mean**2))
        return (weight * ranks) @ mean / norm

    step = 1e-5 * np.eye(9)
    slope = np.array([(weighted(1 + h) - weighted(1 - h)) / 2e-5 for h in step])
    cells = found.upper.cells.reshape(6, 9)
    mean_of_pair = cells.mean(axis=0)
    own = mean_of_pair + (cells[0] - mean_of_pair) * 4 / 5  # six people: apart by 5 / 4
    np.testing.assert_allclose(own - own.mean(), 9 * (slope - slope.mean()), atol=1e-6)
    assert found.upper.value[0] == pytest.approx(weighted(np.ones(9)))


@pytest.mark.parametrize("upper", ["published", "optimum"])
def test_a_choice_of_weight_two_counts_as_two_choices_that_tie(upper):
    """Weights of pairs against pairs that were written down so often."""
    rng = np.random.default_rng(6)
    ratings = rng.choice([-2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5], size=(5, 6))
    times = np.array([1, 3, 2, 1, 1, 2])
    found = ceilings_of(everything(study_of(ratings)), "signed_rank_cosine", upper=upper)
    weighed = found.weighed(np.tile(times.astype(float), 5))
    # Each person's ranks among as many copies; the others' mean vector has them alike.
    own = np.array([unit_ranks(row) for row in np.repeat(ratings, times, axis=1)])
    everyone = own.mean(axis=0)
    for i in range(5):
        others = np.delete(own, i, axis=0).mean(axis=0)
        assert weighed[0][i] == pytest.approx(unit_ranks(others) @ own[i])
        best = unit_ranks(everyone) if upper == "optimum" else everyone / np.linalg.norm(everyone)
        assert weighed[1][i] == pytest.approx(best @ own[i])
    plain = found.weighed(np.ones(30))
    np.testing.assert_allclose(plain, [found.lower.value, found.upper.value])


@pytest.mark.parametrize("upper", ["published", "optimum"])
def test_a_choice_counts_in_a_cosine_by_the_product_of_its_ranks(upper):
    rng = np.random.default_rng(16)
    ratings = rng.choice([-2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5], size=(5, 8))
    subset, measure = everything(study_of(ratings)), MEASURES["signed_rank_cosine"]
    both = ceilings_of(subset, measure.name, upper=upper)
    ratio = rng.normal(size=8)
    counts = measure.leverage(subset, np.tile(ratio, 5)), both.lower.leverage, both.upper.leverage
    shares = [(x := np.reshape(c, (5, 8))) / x.sum(axis=1, keepdims=True) for c in counts]
    own = np.array([unit_ranks(row) for row in ratings])
    everyone = own.mean(axis=0)
    for i in range(5):
        others = np.delete(own, i, axis=0).mean(axis=0)
        best = unit_ranks(everyone) if upper == "optimum" else everyone
        for share, against in zip(
            shares, (unit_ranks(ratio), unit_ranks(others), best), strict=True
        ):
            product = np.abs(own[i] * against)
            np.testing.assert_allclose(share[i], product / product.sum(), atol=1e-12)
    assert MEASURES["accuracy"].leverage(subset, np.tile(ratio, 5)) is None
    assert ceilings_of(subset, "accuracy").lower.leverage is None


def test_no_ceiling_is_higher_than_tied_ratings_allow():
    """People who all say the same reach the top of both cosines; others stay below."""
    rng = np.random.default_rng(7)
    row = rng.choice([-2.5, -1.5, 0.5, 2.5], size=12)
    for upper in ("published", "optimum"):
        alike = ceilings_of(
            everything(study_of(np.tile(row, (4, 1)))), "signed_rank_cosine", 1, upper
        )
        np.testing.assert_allclose(
            [alike.lower.top, alike.upper.top], [alike.lower.value, alike.upper.value]
        )
        assert alike.lower.value.max() < 0.99
        noise = study_of(rng.choice([-2.5, -1.5, 0.5, 2.5], size=(4, 12)))
        apart = ceilings_of(everything(noise), "signed_rank_cosine", 1, upper)
        assert (apart.lower.value < apart.lower.top).all()
        assert (apart.upper.value < apart.upper.top).all()


def test_weights_along_the_lean_raise_a_ceiling_by_its_standard_error():
    """As far as pairs make the standard error (here nearly all of it); ranks move by steps."""
    rng = np.random.default_rng(8)
    felt = 2 * rng.normal(size=60) + rng.normal(size=(40, 60))
    subset = everything(study_of(np.digitize(felt, [-2, -1, 0, 1, 2]) - 2.5))
    found = ceilings_of(subset, "signed_rank_cosine")
    design = subset.design(np.ones(subset.n_rows, dtype=bool))
    for which, cells in enumerate((found.lower.cells, found.upper.cells)):
        mean = design.mean(cells)
        lean = STEP * design.lean(cells, mean.stderr)
        more, less = (found.weighed(1 + step)[which].mean() for step in (lean, -lean))
        assert (more - less) / (2 * STEP) == pytest.approx(mean.stderr, rel=0.05)
