"""Test policies of trial selection: information, propensities and blocks."""

import itertools

import numpy as np
import pytest

from contstim.adaptive.link import SIX_POINT, Link
from contstim.adaptive.policies import (
    POLICIES,
    Policy,
    PolicyOptions,
    PolicyState,
    choose_block,
    grid_positions,
)
from contstim.adaptive.posterior import ModelPosterior
from contstim.errors import InputError


def make_state(n=40, models=3, thresholds=(), seed=0, weights=None):
    rng = np.random.default_rng(seed)
    posterior = ModelPosterior(Link(thresholds=thresholds), models, max_answers=10)
    for _ in range(4):
        answer = int(rng.integers(posterior.quadrature.link.n_answers))
        posterior.add_answer("a", rng.uniform(-2, 2, models), answer)
    preferences = rng.uniform(-3, 3, (n, models))
    own = posterior.weights if weights is None else weights
    places = grid_positions(preferences, posterior.quadrature)
    return PolicyState(
        places, preferences, np.ones(n, dtype=bool), own, posterior.answer_curves("a")
    )


def joint_information(state, pairs):
    """Return the mutual information of answers and model by enumerating all answers."""
    probabilities = [
        state.answer_curves[np.arange(len(state.weights)), :, state.grid_positions[pair]]
        for pair in pairs
    ]
    total = 0.0
    for answers in itertools.product(range(state.answer_curves.shape[1]), repeat=len(pairs)):
        given = np.prod([c[:, y] for c, y in zip(probabilities, answers, strict=True)], axis=0)
        mixed = state.weights @ given
        total += (state.weights * given * np.log(given / mixed)).sum()
    return total


@pytest.mark.parametrize("thresholds", [(), SIX_POINT])
def test_information_equals_enumeration_of_answers(thresholds):
    state = make_state(thresholds=thresholds)
    brute = [joint_information(state, [pair]) for pair in range(40)]
    np.testing.assert_allclose(POLICIES["information"].pair_values(state), brute, atol=2e-6)


def test_blocks_maximise_joint_information_greedily():
    state = make_state(n=12)
    choosing = PolicyOptions(epsilon=0.0, temperature=1e-7, block_size=4)
    chosen, propensities = choose_block(choosing, state, np.random.default_rng(0))
    assert propensities == pytest.approx([1.0] * 4)
    for k in range(4):
        left = [pair for pair in range(12) if pair not in chosen[:k]]
        best = max(left, key=lambda pair: joint_information(state, [*chosen[:k], pair]))
        assert chosen[k] == best


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_propensities_equal_selection_frequencies(policy):
    state = make_state(n=6)
    choosing = PolicyOptions(
        policy=policy, epsilon=0.3, temperature=0.02, block_size=2, shortlist=4
    )
    found: dict[tuple[int, ...], list[float]] = {}
    rng = np.random.default_rng(4)
    n = 4000
    for _ in range(n):
        chosen, propensities = choose_block(choosing, state, rng)
        assert len(set(chosen)) == 2
        found.setdefault(tuple(chosen), []).append(float(np.prod(propensities)))
    total = 0.0
    for propensities in found.values():
        assert np.ptp(propensities) == 0
        total += propensities[0]
        expected = n * propensities[0]
        assert len(propensities) == pytest.approx(expected, abs=5 * np.sqrt(expected) + 3)
    assert total == pytest.approx(1, abs=0.02)


class _ThirdPairPolicy(Policy):
    criterion_text = "the third first"

    def pair_values(self, state):
        return -abs(np.arange(len(state.grid_positions)) - 2.0)


def test_custom_policies_can_be_registered(monkeypatch):
    monkeypatch.setitem(POLICIES, "third", _ThirdPairPolicy())
    choosing = PolicyOptions(policy="third", epsilon=0.0, temperature=0.01, block_size=1)
    chosen, _ = choose_block(choosing, make_state(), np.random.default_rng(0))
    assert chosen == [2]


def test_negative_values_with_repetition_penalty_and_shortlist(monkeypatch):
    monkeypatch.setitem(POLICIES, "third", _ThirdPairPolicy())
    words = [frozenset("ab")] * 40
    choosing = PolicyOptions(policy="third", epsilon=0, temperature=1e-3, block_size=4, shortlist=1)
    chosen, _ = choose_block(choosing, make_state(), np.random.default_rng(0), words)
    assert sorted(chosen[1:3]) == [1, 3]
    assert chosen[3] in (0, 4)


class _ExcludingPolicy(Policy):
    criterion_text = "but never the first five"

    def pair_values(self, state):
        return np.where(np.arange(len(state.grid_positions)) < 5, -np.inf, 0.0)


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_pairs_with_value_minus_infinity_are_never_chosen(monkeypatch, epsilon):
    monkeypatch.setitem(POLICIES, "never", _ExcludingPolicy())
    choosing = PolicyOptions(policy="never", epsilon=epsilon, block_size=2, shortlist=2)
    for seed in range(40):
        chosen, propensities = choose_block(choosing, make_state(n=8), np.random.default_rng(seed))
        assert min(chosen) >= 5
        assert epsilon / 3 <= propensities[0] <= 1
    chosen, _ = choose_block(choosing, make_state(n=6), np.random.default_rng(0))
    assert chosen == [5]
    assert choose_block(choosing, make_state(n=5), np.random.default_rng(0)) == ([], [])


def test_fixed_policy_ignores_temperature_and_words():
    choosing = PolicyOptions(
        policy="fixed", epsilon=0.5, temperature=100, block_size=6, shortlist=2
    )
    words = [frozenset("ab")] * 40
    chosen, propensities = choose_block(choosing, make_state(), np.random.default_rng(0), words)
    assert chosen == [0, 1, 2, 3, 4, 5]
    assert propensities == [1.0] * 6


def test_repetition_penalty_avoids_repeated_words():
    state = make_state(n=3, weights=np.array([0.5, 0.5, 0.0]))
    state = PolicyState(
        np.repeat(state.grid_positions[:1], 3, axis=0),
        state.preferences,
        state.available,
        state.weights,
        state.answer_curves,
    )
    words = [frozenset("ab"), frozenset("ab"), frozenset("cd")]
    for seed in range(10):
        rng = np.random.default_rng(seed)
        choosing = PolicyOptions(
            epsilon=0.0, temperature=1e-6, block_size=2, repetition_penalty=0.9
        )
        chosen, _ = choose_block(choosing, state, rng, words)
        assert 2 in chosen


def test_policies_choose_only_available_pairs():
    state = make_state(n=5)
    state.available[:3] = False
    for policy in POLICIES:
        chosen, propensities = choose_block(
            PolicyOptions(policy=policy, block_size=4), state, np.random.default_rng(0)
        )
        assert sorted(chosen) == [3, 4]
        assert propensities[1] == pytest.approx(1.0)


def test_only_information_policy_describes_joint_selection():
    joint = {
        name: "together" in POLICIES[name].describe_selection(PolicyOptions(name))
        for name in POLICIES
    }
    assert joint == {"information": True, "random": False, "fixed": False}


def test_unknown_policies_are_rejected():
    with pytest.raises(
        InputError, match=r"unknown policy 'informatio'; did you mean 'information'"
    ):
        PolicyOptions(policy="informatio")
