"""Weights: the exact search along lines against brute force."""

import numpy as np
import pytest

from contstim.rescoring import TranscriptMeasure
from contstim.rescoring.rescore import HypothesisArrays, best_step, tune


class Errors(TranscriptMeasure):
    """Errors per word, of statistics (errors, words)."""

    name = "errors"
    columns = ("errors", "words")
    sign = 1.0

    def statistics(self, reference, hypotheses):
        raise AssertionError("the candidates here bring their statistics along")

    def value(self, sums):
        return sums[:, 0] / sums[:, 1]

    def best(self, statistics):
        return int(statistics[:, 0].argmin())


def random_candidates(seed: int, n_features: int, n: int = 25, most: int = 7) -> HypothesisArrays:
    """Lists of different lengths, with ties among scores."""
    rng = np.random.default_rng(seed)
    there = np.arange(most) < rng.integers(1, most + 1, size=n)[:, None]
    base = np.where(there, rng.integers(-9, 9, size=(n, most)), 0).astype(float)
    features = rng.integers(-6, 6, size=(n, most, n_features)).astype(float)
    features[~there] = 0.0
    errors = rng.integers(0, 5, size=(n, most))
    words = np.repeat(rng.integers(3, 9, size=n)[:, None], most, axis=1)
    statistics = np.stack([errors, words], axis=2).astype(float)
    statistics[~there] = 0.0
    return HypothesisArrays(base, features, there, statistics)


def brute_force(candidates: HypothesisArrays, direction: np.ndarray) -> float:
    """Least loss on a line through 0: between any two crossings of any two hypotheses."""
    slopes = candidates.features @ direction
    crossings = {-50.0, 50.0}
    for base, slope, there in zip(candidates.base, slopes, candidates.there, strict=True):
        for i in np.flatnonzero(there):
            for j in np.flatnonzero(there):
                if slope[i] != slope[j]:
                    crossings.add((base[i] - base[j]) / (slope[j] - slope[i]))
    ends = np.array(sorted(crossings))
    middles = (ends[:-1] + ends[1:]) / 2
    return min(candidates.loss(step * direction, Errors()) for step in middles)


@pytest.mark.parametrize("seed", range(12))
def test_one_weight_is_the_global_minimum(seed: int) -> None:
    candidates = random_candidates(seed, 1)
    weights = tune(candidates, Errors())
    assert candidates.loss(weights, Errors()) == brute_force(candidates, np.ones(1))


@pytest.mark.parametrize("seed", range(6))
def test_a_line_is_searched_exactly(seed: int) -> None:
    candidates = random_candidates(seed, 3)
    direction = np.random.default_rng(seed).standard_normal(3)
    step, loss = best_step(candidates, np.zeros(3), direction, Errors())
    assert loss == candidates.loss(step * direction, Errors())
    assert loss == brute_force(candidates, direction)


def test_several_weights_are_no_worse_than_one_and_repeatable() -> None:
    candidates = random_candidates(3, 2, n=40)
    weights = tune(candidates, Errors(), seed=5)
    loss = candidates.loss(weights, Errors())
    assert loss <= candidates.loss(np.zeros(2), Errors())
    assert loss <= brute_force(candidates, np.array([1.0, 0.0]))
    assert loss <= brute_force(candidates, np.array([0.0, 1.0]))
    np.testing.assert_array_equal(weights, tune(candidates, Errors(), seed=5))


def test_a_score_that_cannot_help_gets_no_weight() -> None:
    base = np.array([[0.0, -1.0], [0.0, -1.0]])
    statistics = np.array([[[0.0, 3.0], [1.0, 3.0]]] * 2)
    features = np.array([[[0.0], [1.0]]] * 2)
    candidates = HypothesisArrays(base, features, np.ones((2, 2), dtype=bool), statistics)
    assert tune(candidates, Errors()).tolist() == [0.0]


def test_the_middle_of_the_widest_interval() -> None:
    # Right beyond a step of 2 in the first utterance and below 6 in the second.
    base = np.array([[0.0, -2.0], [0.0, -6.0]])
    features = np.array([[[0.0], [1.0]]] * 2)
    statistics = np.array([[[1.0, 3.0], [0.0, 3.0]], [[0.0, 3.0], [1.0, 3.0]]])
    candidates = HypothesisArrays(base, features, np.ones((2, 2), dtype=bool), statistics)
    assert best_step(candidates, np.zeros(1), np.ones(1), Errors()) == (4.0, 0.0)
