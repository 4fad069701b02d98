"""Strategies on candidates written out by hand, without models.

Tests `contstim.synthesis.bounded`, `contstim.synthesis.exhaustive`, `contstim.synthesis.options`
and `contstim.synthesis.surrogate`.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from planted import Planted, at_once, on_demand

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError, UnknownNameError
from contstim.models.base import Hints, Replacements
from contstim.synthesis import STRATEGIES, options_of, strategy_called
from contstim.synthesis.bounded import Bounded, Memory
from contstim.synthesis.candidates import Spent
from contstim.synthesis.exhaustive import Exhaustive
from contstim.synthesis.options import OWN_STRATEGIES
from contstim.synthesis.surrogate import Surrogate, expected_improvement
from contstim.synthesis.sweeps import Strategy

REJECT = np.array([-10.0, -30.0, -20.0, -50.0, -40.0])
ACCEPT = np.array([-5.0, -5.0, -5.0, -90.0, -5.0])


def _five(known: tuple[bool, bool], **more: Any) -> Planted:
    def table(values: FloatArray, exact: bool) -> Replacements:
        upper = values if exact else values + 4.0
        return Replacements(upper, values + (0.0 if exact else 1.0), exact, lambda i: values[i])

    return Planted(table(REJECT, known[0]), table(ACCEPT, known[1]), **more)


def _nothing_brought_yet() -> Memory:
    """Scores have brought next to nothing so far, so that everything is worth its cost."""
    return Memory(n_scores=1.0)


KNOWN = [(True, True), (False, True), (True, False), (False, False)]
ALL = [Exhaustive(), Bounded(5), Bounded(None)]


@pytest.mark.parametrize("known", KNOWN)
def test_exhaustive_proposes_the_best_feasible_candidate(known: tuple[bool, bool]) -> None:
    planted = _five(known)
    planted.play(Exhaustive().look)
    assert planted.proposed == [4]  # candidate 3 is lower but not accepted


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("strategy", [Exhaustive(), Bounded(5), Bounded(None)])
def test_a_proposal_that_is_not_taken_is_followed_by_the_next_best(
    strategy: Strategy, known: tuple[bool, bool]
) -> None:
    planted = _five(known, holds=lambda i: i == 2)
    planted.play(strategy.look)
    assert planted.proposed == [4, 1, 2]


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("strategy", ALL)
def test_nothing_is_proposed_that_is_no_improvement(
    strategy: Strategy, known: tuple[bool, bool]
) -> None:
    planted = _five(known, allowed=np.array([True, False, False, True, False]))
    planted.play(strategy.look)
    assert planted.proposed == []


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("strategy", ALL)
def test_a_candidate_whose_bound_breaks_the_constraint_is_never_scored(
    strategy: Strategy, known: tuple[bool, bool]
) -> None:
    planted = _five(known, holds=lambda i: False)
    planted.play(strategy.look)
    asked = planted.asked
    assert 3 not in asked["accept"] + asked["reject"]
    if known[0]:
        assert asked["reject"] == []
        assert 0 not in asked["accept"]  # known to be no improvement
    if known[1]:
        assert asked["accept"] == []


def test_candidates_within_rounding_of_a_bound_are_left_to_verification() -> None:
    def close(index: IntArray) -> FloatArray:
        return np.full(len(index), -6.0 - 1e-6)

    accept = Replacements(np.zeros(5), np.zeros(5), False, close)
    planted = Planted(at_once(REJECT), accept)
    planted.play(Exhaustive().look)
    assert planted.proposed == [3]


@pytest.mark.parametrize("budget", [1, 2, 3])
def test_bounded_spends_its_budget_on_the_most_promising(budget: int) -> None:
    planted = _five((False, True), holds=lambda i: False)
    planted.play(Bounded(budget).look)
    assert planted.asked["reject"] == [4, 1, 2][:budget]
    assert planted.proposed == [4, 1, 2][:budget]


def test_bounded_asks_for_nothing_that_cannot_improve_on_what_it_knows() -> None:
    # The rejecting model's scores are known, so a candidate is of use only if it is lower than
    # the best one known to be feasible; without a budget all of those are looked at.
    reject = np.random.default_rng(7).uniform(-60.0, -16.0, size=400)
    accept = np.full(400, -90.0)
    accept[np.argsort(reject)[[40, 150, 300]]] = -5.0
    planted = Planted(at_once(reject), on_demand(accept))
    planted.play(Bounded(None).look)
    best = 0.0
    for name, batch in planted.batches:
        assert name == "accept"
        assert (reject[batch] < best).all()
        best = min([best, *(reject[i] for i in batch if accept[i] >= -6.0)])
    assert len(planted.batches) > 1
    feasible = np.flatnonzero(accept >= -6.0)
    assert planted.proposed == [feasible[reject[feasible].argmin()]]
    assert set(np.flatnonzero(reject <= best)) <= set(planted.asked["accept"])
    assert len(planted.asked["accept"]) < 400


@pytest.mark.parametrize(("inputs", "first", "complete"), [(10**6, 1, True), (150, 0, False)])
def test_bounded_leaves_out_candidates_whose_scores_it_could_not_pay(
    inputs: int, first: int, complete: bool
) -> None:
    # Both are feasible, and candidate 1 promises a nat more; its score and its verification
    # would cost 200.
    scores = np.array([-40.0, -41.0])
    reject = on_demand(scores, estimate=scores, cost=np.array([1.0, 100.0]))
    planted, memory = Planted(reject, at_once([-5.0, -5.0]), below=-20.0), Memory()
    planted.play(lambda candidates: Bounded(1, inputs=inputs).look(candidates, memory))
    assert planted.asked["reject"] == [first]
    assert memory.complete is complete


def test_bounded_ends_the_search_when_its_inputs_are_spent() -> None:
    # A score by each model of one input, and a verification by both.
    planted = _five((False, False), spent=Spent(cost=96.0))
    planted.play(Bounded(8, inputs=100).look)
    assert planted.asked["accept"]
    planted, memory = _five((False, False), spent=Spent(cost=96.5)), Memory()
    planted.play(lambda candidates: Bounded(8, inputs=100).look(candidates, memory))
    assert (planted.proposed, planted.batches) == ([], [])
    assert not memory.complete
    # Without a budget everything is looked at.
    planted, memory = _five((False, False), spent=Spent(cost=1e9)), Memory()
    planted.play(lambda candidates: Bounded(None, inputs=100).look(candidates, memory))
    assert planted.proposed == [4]
    assert memory.complete


@pytest.mark.parametrize(("inputs", "inexpensive"), [(206, 6), (200, 0), (199, 39)])
def test_what_verifies_the_best_word_is_kept_back(inputs: int, inexpensive: int) -> None:
    # Candidate 0 costs 100 and looks best; once it is found, 100 more are needed to keep it.
    estimate = np.array([-60.0, *np.linspace(-50.0, -45.0, 39)])
    cost = np.array([100.0, *[1.0] * 39])
    reject = on_demand([-41.0, *[-40.0] * 39], estimate=estimate, cost=cost)
    planted = Planted(reject, at_once([-5.0] * 40), below=-20.0, brought=1e-12)
    memory = _nothing_brought_yet()
    planted.play(lambda c: Bounded(64, first=64, inputs=inputs).look(c, memory))
    assert planted.spent.cost <= inputs
    assert len(planted.asked["reject"]) == inexpensive + (inputs >= 200)
    assert len(planted.proposed) == 1
    assert not memory.complete


@pytest.mark.parametrize(("inputs", "n", "complete"), [(11, 10, True), (10, 9, False)])
def test_inputs_that_just_suffice_are_no_limit(inputs: int, n: int, complete: bool) -> None:
    # Ten candidates, each better than the last, at 1 a score, and 1 to verify the best.
    values = -40.0 - np.arange(10.0)
    reject = on_demand(values, estimate=np.linspace(-50.0, -49.0, 10), cost=1.0)
    planted = Planted(reject, at_once([-5.0] * 10), below=-20.0, brought=1e-12)
    memory = _nothing_brought_yet()
    planted.play(lambda c: Bounded(64, first=64, inputs=inputs).look(c, memory))
    assert planted.proposed == [n - 1]
    assert sorted(planted.asked["reject"]) == list(range(n))
    assert memory.complete is complete
    assert planted.spent.cost == inputs


@pytest.mark.parametrize(("inputs", "n"), [(500, 5), (499, 4), (300, 1), (299, 0)])
def test_bounded_asks_for_no_more_than_it_can_pay(inputs: int, n: int) -> None:
    values = np.random.default_rng(0).normal(-30, 5, size=50)
    reject, accept = on_demand(values, cost=100.0), on_demand(values, cost=50.0)
    planted = Planted(reject, accept, minimum=-20.0, below=-20.0, accepted=-20.0)
    # 50 for each, and for one of them 100 by the other model and 150 when it is kept.
    planted.play(Bounded(64, inputs=inputs).look)
    assert (len(planted.asked["accept"]), planted.asked["reject"]) == (n, [])


@pytest.mark.parametrize("cost", [2.0, 9000.0])
def test_the_default_inputs_grow_with_what_the_sentence_costs(cost: float) -> None:
    # Nothing is feasible and nothing is known, so each position is looked at until the inputs are
    # spent: about 25,000, or 48 scores of the sentence by both models, whichever is more.
    stated = max(25_000.0, 48 * 2 * cost)
    n, memory, spent = 2000, Memory(), Spent()
    for seed in range(12):
        rng = np.random.default_rng(seed)
        reject = on_demand(rng.normal(-30, 5, size=n), cost=cost)
        accept = on_demand(rng.normal(-90, 5, size=n), cost=cost)
        planted = Planted(reject, accept, accepted=-6.0, present=0, spent=spent, round=30)
        planted.play(lambda candidates: Bounded(10**6).look(candidates, memory))
    assert stated - 4 * cost < spent.cost <= stated
    assert not memory.complete


@pytest.mark.parametrize(
    ("sizes", "first"), [((None, None), "accept"), ((1e6, None), "accept"), ((1e6, 1e9), "reject")]
)
def test_the_model_whose_scores_cost_less_scores_first(
    sizes: tuple[float | None, float | None], first: str
) -> None:
    values = np.random.default_rng(0).normal(-30, 5, size=200)
    reject = on_demand(values, cost=9.0, multiply_adds=sizes[0])
    accept = on_demand(values, cost=0.5, multiply_adds=sizes[1])
    planted = Planted(reject, accept, minimum=-30.0, below=-30.0, accepted=-30.0)
    planted.play(Bounded(4).look)
    asked = planted.asked
    other = "reject" if first == "accept" else "accept"
    assert 0 < len(asked[other]) <= 4 < len(asked[first])
    # The other one scores what the first leaves in the running.
    assert set(asked[other]) <= set(asked[first])


def test_bounded_asks_for_nothing_twice_and_keeps_to_its_budget() -> None:
    rng = np.random.default_rng(3)
    reject, accept = (on_demand(rng.normal(-30, 5, size=200)) for _ in range(2))
    accept = replace(accept, hints=Hints(0.25))
    for budget in (1, 4, 16):
        for round_ in range(6):
            planted = Planted(reject, accept, -24.0, -45.0, accepted=-24.0, round=round_)
            planted.play(Bounded(budget).look)
            asked = planted.asked
            assert len(asked["reject"]) <= min(budget, 4 * 2**round_)
            assert len(asked["accept"]) <= 4 * min(budget, 4 * 2**round_)
            assert all(len(set(index)) == len(index) for index in asked.values())


def test_expected_improvement_is_the_integral() -> None:
    mean, deviation = np.array([-3.0, 0.0, 4.0, 2.0]), np.array([1.0, 2.0, 3.0, 0.0])
    draws = mean + deviation * np.random.default_rng(0).normal(size=(400_000, 4))
    expected = np.maximum(1.0 - draws, 0.0).mean(axis=0)
    np.testing.assert_allclose(expected_improvement(1.0, mean, deviation), expected, atol=0.02)


def test_a_surrogate_finds_the_line_by_which_estimates_err() -> None:
    rng = np.random.default_rng(5)
    estimate = rng.uniform(-60.0, -20.0, size=300)
    table = on_demand([0.0] * 300, estimate=estimate, upper=estimate + 10.0)
    exact = estimate - 4.0 - 0.3 * (estimate + 40.0) + rng.normal(0.0, 0.5, size=300)
    surrogate = Surrogate()
    for part in np.split(np.arange(240), 4):
        surrogate.posterior(table, -40.0).learn(part, exact[part])
    posterior = surrogate.posterior(table, -40.0)
    # Before anything is known of this position, it may differ from the others.
    _, before = posterior.predict(np.arange(240, 300))
    posterior.learn(np.arange(60), exact[:60], keep=False)
    mean, deviation = posterior.predict(np.arange(240, 300))
    assert before.mean() > 1.1 * deviation.mean()
    error = exact[240:] - mean
    assert np.abs(error.mean()) < 0.3
    assert 0.6 < np.sqrt((error**2).mean()) / deviation.mean() < 1.4


def test_a_surrogate_tells_words_of_several_tokens_from_short_ones() -> None:
    # Estimates of longer words are 20 nats too high and scatter; those of short words are right.
    rng = np.random.default_rng(4)
    n_tokens = np.repeat(np.array([1, 2], dtype=np.int64), 60)
    estimate = rng.normal(-40, 5, size=120)
    exact = estimate - np.where(n_tokens == 2, 20 + rng.normal(0, 6, size=120), 0.0)
    table = on_demand(exact, upper=estimate + 35, estimate=estimate, n_tokens=n_tokens)
    posterior = Surrogate().posterior(table, -40.0)
    seen = np.r_[np.arange(40), np.arange(60, 100)]
    posterior.learn(seen, exact[seen])
    mean, deviation = posterior.predict(np.r_[np.arange(40, 60), np.arange(100, 120)])
    np.testing.assert_allclose(mean[:20], estimate[40:60], atol=0.7)
    np.testing.assert_allclose(mean[20:], estimate[100:] - 20, atol=5)
    assert deviation[:20].mean() < 1.1
    assert 4 < deviation[20:].mean() < 9


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Bounded(0), "budget is 0; give at least 1"),
        (lambda: Bounded(first=0), "first is 0; give at least 1"),
        (lambda: Bounded(inputs=0), "inputs is 0; give at least 1"),
        (
            lambda: strategy_called("exhaustive", budget=3),
            "budget=3 goes with the strategy 'beam' or 'bounded' or 'leftward' or 'infill', not "
            "'exhaustive'; leave it out",
        ),
        (
            lambda: strategy_called("bounded", walks=3),
            "walks=3 goes with the strategy 'leftward', not 'bounded'; leave it out",
        ),
    ],
)
def test_bad_options(call: Callable[[], Strategy], message: str) -> None:
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == message


def test_options_are_those_of_the_strategy_itself() -> None:
    for name, (_, own) in OWN_STRATEGIES.items():
        assert issubclass(STRATEGIES[name], own) or not fields(own)
        assert [item.name for item in fields(own)] == [i.name for i in fields(STRATEGIES[name])]


def test_strategies_by_name() -> None:
    with pytest.raises(UnknownNameError, match="unknown strategy 'beem'; did you mean 'beam'"):
        strategy_called("beem")
    with pytest.raises(UnknownNameError, match="'bugdet'; did you mean 'budget'"):
        strategy_called("bounded", bugdet=7)
    assert strategy_called("bounded", budget=7, first=None) == Bounded(7)
    assert strategy_called("bounded", inputs=900) == Bounded(inputs=900)
    for name, kind in STRATEGIES.items():
        # An option's default is the field's.
        declared = {option: field.default for option, field in options_of(name).items()}
        assert strategy_called(name, **declared) == kind()
