"""The response model, compared with quadrature, simulation and enumeration."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from contstim.errors import InputError
from contstim.response_model import (
    ResponseModel,
    log_bayes_factors,
    log_prob_std,
    sentence_evidence_bounds,
)


@pytest.mark.parametrize(
    "people", [ResponseModel(), ResponseModel(2.0, 0.0, 0.0, 0.0, 0.1), ResponseModel(item_sd=4.0)]
)
@pytest.mark.parametrize("g", [-5.0, 0.4])
def test_probabilities_equal_quadrature_over_random_effects(people, g):
    cut = np.clip(g, -people.max_preference, people.max_preference)
    spread = np.hypot(people.side_sd, people.item_sd)

    def given_slope(z):
        logit = people.slope * np.exp(people.slope_sd * z) * cut
        if spread == 0:
            return expit(logit)
        inner = quad(lambda e: norm.pdf(e) * expit(logit + spread * e), -9, 9, epsabs=1e-8)
        return inner[0]

    mean = quad(lambda z: norm.pdf(z) * given_slope(z), -8, 8, epsabs=1e-7)[0]
    expected = people.lapse / 2 + (1 - people.lapse) * mean
    # The table's steps show at 0.
    assert people.probabilities(np.array(g)) == pytest.approx(expected, abs=2e-5)


def test_probabilities_equal_simulated_proportions():
    people = ResponseModel()
    rng = np.random.default_rng(0)
    n = 400_000
    slope = people.slope * np.exp(people.slope_sd * rng.normal(size=n))
    logit = slope * 1.5 + people.side_sd * rng.normal(size=n) + people.item_sd * rng.normal(size=n)
    answers = rng.random(n) < people.lapse / 2 + (1 - people.lapse) * expit(logit)
    assert answers.mean() == pytest.approx(people.probabilities(np.array(1.5)), abs=3e-3)


@given(st.lists(st.floats(0.001, 0.999), min_size=2, max_size=5))
def test_log_bayes_factors_equal_enumeration_of_both_answers(given_chances):
    p = np.array(given_chances)
    expected = []
    for i, j in combinations(range(len(p)), 2):
        both = []
        for right, wrong in ((p[i], p[j]), (p[j], p[i])):
            answers = [(right, wrong), (1 - right, 1 - wrong)]
            both.append(sum(chance * np.log(chance / other) for chance, other in answers))
        expected.append(np.mean(both))
    assert log_bayes_factors(p) == pytest.approx(expected, abs=1e-12)
    weights = np.arange(1.0, 1 + len(expected))
    matrix = np.zeros((len(p), len(p)))
    matrix[np.triu_indices(len(p), 1)] = weights
    total = log_bayes_factors(p, matrix + matrix.T)
    assert total == pytest.approx(weights @ expected, abs=1e-10)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.1, 5), st.floats(0, 1), st.floats(0, 5), st.floats(0, 0.2), st.randoms())
def test_log_bayes_factors_are_within_evidence_bounds(slope, slope_sd, item_sd, lapse, random):
    people = ResponseModel(slope, slope_sd, 0.0, item_sd, lapse)
    g = np.array([random.uniform(-people.max_preference, people.max_preference) for _ in range(60)])
    worth = log_bayes_factors(people.probabilities(g))
    apart = np.array([abs(a - b) for a, b in combinations(g, 2)])
    for share in (0.0, 0.2, 0.5, 0.9):
        halves = [sentence_evidence_bounds(people, part * apart) for part in (share, 1 - share)]
        assert (worth <= sum(halves) * (1 + 1e-9) + 1e-15).all()


def test_evidence_bounds_are_tight_for_extreme_models():
    people = ResponseModel()
    ends = people.probabilities(np.array([-people.max_preference, people.max_preference]))
    half = sentence_evidence_bounds(people, np.array(people.max_preference))
    assert 2 * half == pytest.approx(log_bayes_factors(ends)[0], rel=0.02)


def test_probability_is_one_half_for_equal_scores():
    chosen = ResponseModel().probabilities(np.array([np.nan, np.inf, 9.0, 0.0]))
    assert np.isnan(chosen[0])
    assert chosen[1] == chosen[2]
    assert chosen[3] == 0.5


def test_log_prob_std_ignores_infinite_scores():
    values = np.array([[1.0, 5.0], [3.0, -np.inf], [5.0, 9.0]])
    assert log_prob_std(values, "ab") == pytest.approx([np.sqrt(8 / 3), 2.0])
    with pytest.raises(InputError) as caught:
        log_prob_std(np.array([[1.0, 2.0], [2.0, 2.0]]), "ab")
    assert str(caught.value) == (
        "model 'b' gives all sentences the same score, so it cannot be compared; leave it out"
    )
