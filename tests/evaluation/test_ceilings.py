"""Test measures and ceilings of incomplete designs against their definitions.

Tests `contstim.evaluation.measures`, `contstim.evaluation.subset`,
`contstim.evaluation.measures.cosine`.
"""

import itertools
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata

from contstim.errors import UnknownNameError
from contstim.evaluation import align_choices, check_choices, score_table, signed_rank_cosine
from contstim.evaluation.inference.signed_rank import Resamples, resample_values
from contstim.evaluation.measures import MEASURES, compute_ceilings
from contstim.evaluation.measures.cosine import COSINE
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import TrialData


def make_data(study, scores):
    choices = align_choices(check_choices(study))
    wide = score_table(scores, [*choices["sentence_1"], *choices["sentence_2"]])
    return choices, TrialData.from_choices(choices, wide)


def whole_subset(data):
    return Subset(data, np.arange(len(data.rating)), np.arange(len(data.models)))


def get_ceilings(subset, measure, min_others=1):
    return compute_ceilings(subset, MEASURES[measure], min_others)


def make_trial_data(choices):
    """Return trials from ratings (N, P) of all participants on all pairs."""
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


def unit_ranks(x):
    """Return signed ranks divided by the norm of n untied ranks; zeros stay zero."""
    x = np.round(np.asarray(x, dtype=float), 12)
    used = x != 0
    ranks = np.zeros(len(x))
    if not used.any():
        return ranks
    ranks[used] = np.sign(x[used]) * rankdata(np.abs(x[used]))
    return ranks / np.sqrt(sum(k * k for k in range(1, used.sum() + 1)))


def ceilings_by_definition(data, measure, min_others):
    """Return the noise ceilings of each participant by their definitions: {i: (lower, upper)}.

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
def test_measures_equal_their_per_participant_definitions(make_study, share):
    _, data = make_data(*make_study(share=share, n_groups=2))
    subset = whole_subset(data)
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


def test_min_others_excludes_trials_seen_by_few(make_study):
    _, data = make_data(*make_study(share=0.5, n_people=9, n_pairs=12))
    seen = np.bincount(data.pair)
    subset = whole_subset(data)
    ceilings = get_ceilings(subset, "signed_rank_cosine", min_others=4)
    assert 0 < ceilings.subset.n_rows == (seen[data.pair] > 4).sum() < subset.n_rows
    assert np.isnan(get_ceilings(subset, "accuracy", min_others=50).lower).all()


def test_ties_count_one_half():
    study = pd.DataFrame(
        {
            "participant": ["p", "p", "q", "q"],
            "sentence_1": ["A", "B", "A", "B"],
            "sentence_2": ["C", "D", "C", "D"],
            "rating": [2.5, 2.5, 0.0, -2.5],
        }
    )
    scores = pd.DataFrame({"sentence": list("ABCD"), "m": [-1.0, -1.0, -1.0, -0.5]})
    _, data = make_data(study, scores)
    subset = whole_subset(data)
    np.testing.assert_allclose(MEASURES["accuracy"].values(subset)[:, 0], [0.75, 0.25])
    assert subset.count_tied_predictions().tolist() == [1]
    assert subset.count_tied_ratings() == 1
    with pytest.raises(UnknownNameError, match="unknown measure 'cosine'"):
        MEASURES["cosine"].values(subset)


def with_ties(study, scores):
    """Return the study with neutral and other ratings, and a model with ties."""
    other = {0.5: 5 / 6, -0.5: -5 / 6, 1.5: 5 / 3, -1.5: -5 / 3}
    study.loc[::5, "rating"] = 0.0
    return study.replace({"rating": other}), scores.assign(
        a=scores["a"].mask(scores.index < 6, -40)
    )


def with_slider(study, scores):
    """Return the study with a different rating in each row."""
    steps = np.linspace(0, 0.4, len(study))
    return study.assign(rating=study["rating"] - np.sign(study["rating"]) * steps), scores


@pytest.mark.parametrize("measure", ["accuracy", "signed_rank_cosine"])
@pytest.mark.parametrize(("share", "min_others"), [(1.0, 1), (0.6, 1), (0.6, 4), (0.3, 2)])
@pytest.mark.parametrize("change", [lambda *tables: tables, with_ties, with_slider])
def test_ceilings_equal_their_definitions(make_study, measure, share, min_others, change):
    study, scores = change(*make_study(n_people=9, n_pairs=10, n_groups=2, share=share, noise=2.0))
    choices = align_choices(check_choices(study, "slider"))
    wide = score_table(scores, [*choices["sentence_1"], *choices["sentence_2"]])
    data = TrialData.from_choices(choices, wide)
    found = get_ceilings(whole_subset(data), measure, min_others)
    expected = ceilings_by_definition(data, measure, min_others)
    assert found.subset.participants.tolist() == sorted(expected)
    both = np.column_stack([found.lower, found.upper])
    plain = np.reshape([expected[i] for i in sorted(expected)], (-1, 2))
    np.testing.assert_allclose(both, plain)


@pytest.mark.parametrize("share", [1.0, 0.7])
@pytest.mark.parametrize("change", [lambda *tables: tables, with_ties, with_slider])
def test_resampled_values_equal_means_over_copied_trials(make_study, share, change):
    """The expected values use trials copied as often as they are drawn."""
    study, scores = change(*make_study(n_people=9, n_pairs=8, n_groups=2, share=share))
    choices = align_choices(check_choices(study, "slider"))
    wide = score_table(scores, [*choices["sentence_1"], *choices["sentence_2"]])
    data = TrialData.from_choices(choices, wide)
    rng = np.random.default_rng(1)
    people = rng.integers(0, 3, size=(12, 9))
    pairs = rng.integers(0, 4, size=(12, data.n_pairs))
    pairs[0, :] = 0
    for measure in ("accuracy", "signed_rank_cosine"):
        found = resample_values(whole_subset(data), MEASURES[measure], Resamples(people, pairs, 9))
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
def test_mean_ceiling_influence_equals_the_ceiling(make_study, measure):
    _, data = make_data(*make_study(share=0.7, n_people=9, n_pairs=12, n_groups=2, noise=2.0))
    found = get_ceilings(whole_subset(data), measure, 2)
    matched = found.subset
    design = matched.design(np.ones(matched.n_rows, dtype=bool))
    influences = found.lower_influence, found.upper_influence
    for cells, values in zip(influences, (found.lower, found.upper), strict=True):
        assert design.estimate(cells).value == pytest.approx(np.nanmean(values))


def weighted_votes(ratings, items):
    """Return normalised signed ranks of ratings (N, P), with pair i counted items[i] times."""
    size, votes = np.abs(ratings), np.zeros(ratings.shape)
    for p, i in zip(*np.nonzero(ratings), strict=True):
        below = items[(size[p] > 0) & (size[p] < size[p, i])].sum()
        votes[p, i] = below + (items[size[p] == size[p, i]].sum() + 1) / 2
    n = (items * (ratings != 0)).sum(axis=1)[:, None]
    return votes * np.sign(ratings) / np.sqrt(n * (n + 1) * (2 * n + 1) / 6)


def numerical_gradient(function, n):
    """Return the derivatives of a function of n weights where all weights are 1."""
    steps = 1e-5 * np.eye(n)
    return np.array([(function(1 + step) - function(1 - step)) / 2e-5 for step in steps])


def test_influence_on_cosine_ceilings_is_their_derivative():
    rng = np.random.default_rng(3)
    felt = rng.normal(size=9) + rng.normal(size=(6, 9))
    ratings = np.digitize(felt, [-2, -1, -0.2, 0.2, 1, 2]) / 2 - 1.5
    found = get_ceilings(whole_subset(make_trial_data(ratings)), "signed_rank_cosine")
    lower, upper = (x.reshape(6, 9) for x in (found.lower_influence, found.upper_influence))
    largest, largest_upper = COSINE.maximum_influence(found.subset)

    def of_all(items):
        votes = weighted_votes(ratings, items)
        mean = votes.mean(axis=0)
        return votes @ (items * mean) / np.sqrt(items @ mean**2)

    def of_others(people):
        votes = weighted_votes(ratings, np.ones(9))
        means = (people @ votes - people[:, None] * votes) / (people.sum() - people)[:, None]
        values = (votes * means).sum(axis=1) / np.linalg.norm(means, axis=1)
        return people @ values / people.sum(), values

    def of_themselves(items):
        return (weighted_votes(ratings, items) ** 2 @ items)[0]

    np.testing.assert_allclose(upper.mean(axis=1), of_all(np.ones(9)))
    slope = 9 * numerical_gradient(lambda w: of_all(w).mean(), 9)
    np.testing.assert_allclose(upper.mean(axis=0) - upper.mean(), slope - slope.mean(), atol=1e-6)
    mean, values = of_others(np.ones(6))
    effect = 6 * numerical_gradient(lambda w: of_others(w)[0], 6) - (values - mean)
    np.testing.assert_allclose(lower.mean(axis=1) - found.lower, effect, atol=1e-6)
    value, slope = of_themselves(np.ones(9)), 9 * numerical_gradient(of_themselves, 9)
    np.testing.assert_allclose(largest[:9], value + slope - slope.mean(), atol=1e-6)
    root = 9 * numerical_gradient(lambda w: np.sqrt(of_themselves(w)), 9)
    np.testing.assert_allclose(largest_upper[:9], value**0.5 + root - root.mean(), atol=1e-6)


@pytest.mark.parametrize("measure", ["accuracy", "signed_rank_cosine"])
def test_ceiling_standard_error_matches_the_simulated_sd(measure):
    """Twelve participants judge 40 pairs with item effects as large as the noise."""
    rng = np.random.default_rng(2)
    values, squares = [], []
    for _ in range(300):
        gain = np.exp(0.5 * rng.normal(size=(12, 1)))
        felt = gain * rng.normal(size=40) + rng.normal(size=40) + rng.normal(size=(12, 40))
        found = get_ceilings(
            whole_subset(make_trial_data(np.digitize(felt, [-2, -1, 0, 1, 2]) - 2.5)), measure
        )
        design = found.subset.design(np.ones(480, dtype=bool))
        influences = found.lower_influence, found.upper_influence
        means = [design.estimate(cells) for cells in influences]
        values.append([mean.value for mean in means])
        squares.append([mean.stderr**2 for mean in means])
    ratio = np.mean(squares, axis=0) / np.var(values, axis=0)
    assert (ratio > 0.85).all()
    assert (ratio < 1.4).all()


@pytest.mark.parametrize("measure", ["accuracy", "signed_rank_cosine"])
def test_mean_ceiling_skips_participants_without_a_ceiling(measure):
    # The first two contradict each other, which leaves the third nobody's mean to be judged by.
    ratings = {"p": (2.5, -1.5), "q": (-2.5, 1.5), "r": (0.5, 1.5)}
    rows = [
        (who, f"a {k}", f"b {k}", rating)
        for who, given in ratings.items()
        for k, rating in enumerate(given)
    ]
    names = ["participant", "sentence_1", "sentence_2", "rating"]
    choices = align_choices(check_choices(pd.DataFrame(rows, columns=names)))
    subset = whole_subset(TrialData.from_choices(choices))
    ceilings = get_ceilings(subset, measure)
    assert np.isnan(ceilings.lower).tolist() == [False, False, measure != "accuracy"]
    cells = ceilings.lower_influence
    there = ~np.isnan(cells)
    mean = subset.design(there).weight @ cells[there]
    assert mean == pytest.approx(np.nanmean(ceilings.lower))
