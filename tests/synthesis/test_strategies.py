"""Strategies on candidates with given scores, without models.

Tests `contstim.synthesis.edit`, `contstim.synthesis.word_search` and
`contstim.synthesis.surrogate`.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from planted_candidates import PlantedCandidates, exact, on_demand

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError, UnknownNameError
from contstim.models.base import ReplacementScores, ScoringCost
from contstim.synthesis import STRATEGIES, format_strategy, parse_strategy, strategy_options
from contstim.synthesis.candidates import ScoreCounter
from contstim.synthesis.edit import Edit
from contstim.synthesis.strategy import Strategy
from contstim.synthesis.surrogate import Surrogate, expected_improvement
from contstim.synthesis.word_search import SearchState

REJECT = np.array([-10.0, -30.0, -20.0, -50.0, -40.0])
ACCEPT = np.array([-5.0, -5.0, -5.0, -90.0, -5.0])


def _five_candidates(known: tuple[bool, bool], **more: Any) -> PlantedCandidates:
    def table(values: FloatArray, is_exact: bool) -> ReplacementScores:
        upper = values if is_exact else values + 4.0
        estimates = values if is_exact else values + 1.0
        return ReplacementScores(upper, estimates, is_exact, lambda i: values[i])

    return PlantedCandidates(table(REJECT, known[0]), table(ACCEPT, known[1]), **more)


def _state_without_improvement() -> SearchState:
    """Scores have brought next to nothing so far, so that everything is worth its cost."""
    return SearchState(score_cost=1.0)


KNOWN = [(True, True), (False, True), (True, False), (False, False)]
ALL = [Edit("all"), Edit(5)]


@pytest.mark.parametrize("known", KNOWN)
def test_exhaustive_proposes_the_best_feasible_candidate(known: tuple[bool, bool]) -> None:
    planted = _five_candidates(known)
    planted.search(Edit("all").search_word)
    assert planted.proposed == [4]  # candidate 3 is lower but not accepted


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("strategy", ALL)
def test_rejected_proposal_is_followed_by_the_next_best(
    strategy: Strategy, known: tuple[bool, bool]
) -> None:
    planted = _five_candidates(known, is_valid=lambda i: i == 2)
    planted.search(strategy.search_word)
    assert planted.proposed == [4, 1, 2]


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("strategy", ALL)
def test_candidates_without_improvement_are_not_proposed(
    strategy: Strategy, known: tuple[bool, bool]
) -> None:
    planted = _five_candidates(known, is_allowed=np.array([True, False, False, True, False]))
    planted.search(strategy.search_word)
    assert planted.proposed == []


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("strategy", ALL)
def test_candidates_excluded_by_bounds_are_not_scored(
    strategy: Strategy, known: tuple[bool, bool]
) -> None:
    planted = _five_candidates(known, is_valid=lambda i: False)
    planted.search(strategy.search_word)
    scored = planted.scored
    assert 3 not in scored["accept"] + scored["reject"]
    if known[0]:
        assert scored["reject"] == []
        assert 0 not in scored["accept"]  # known to be no improvement
    if known[1]:
        assert scored["accept"] == []


def test_candidates_near_a_bound_are_verified() -> None:
    def close(index: IntArray) -> FloatArray:
        return np.full(len(index), -6.0 - 1e-6)

    accept = ReplacementScores(np.zeros(5), np.zeros(5), False, close)
    planted = PlantedCandidates(exact(REJECT), accept)
    planted.search(Edit("all").search_word)
    assert planted.proposed == [3]


@pytest.mark.parametrize("budget", [1, 2, 3])
def test_edit_scores_the_most_promising_candidates(budget: int) -> None:
    planted = _five_candidates((False, True), is_valid=lambda i: False)
    planted.search(Edit(budget).search_word)
    assert planted.scored["reject"] == [4, 1, 2][:budget]
    assert planted.proposed == [4, 1, 2][:budget]


@pytest.mark.parametrize(("inputs", "first", "complete"), [(10**6, 1, True), (150, 0, False)])
def test_edit_omits_candidates_beyond_its_inputs(inputs: int, first: int, complete: bool) -> None:
    # Both are feasible, and candidate 1 promises a nat more; its score and its verification
    # would cost 200.
    scores = np.array([-40.0, -41.0])
    reject = on_demand(scores, estimate=scores, cost=np.array([1.0, 100.0]))
    planted, state = (
        PlantedCandidates(reject, exact([-5.0, -5.0]), current_reject=-20.0),
        SearchState(),
    )
    planted.search(lambda candidates: Edit(1, inputs=inputs).search_word(candidates, state))
    assert planted.scored["reject"] == [first]
    assert state.is_complete is complete


def test_edit_ends_the_search_when_inputs_are_spent() -> None:
    # A score by each model of one input, and a verification by both.
    planted = _five_candidates((False, False), counter=ScoreCounter(n_inputs=96.0))
    planted.search(Edit(8, inputs=100).search_word)
    assert planted.scored["accept"]
    planted, state = (
        _five_candidates((False, False), counter=ScoreCounter(n_inputs=96.5)),
        SearchState(),
    )
    planted.search(lambda candidates: Edit(8, inputs=100).search_word(candidates, state))
    assert (planted.proposed, planted.batches) == ([], [])
    assert not state.is_complete
    # Without a budget of candidates the inputs are no limit.
    planted = _five_candidates((False, False), counter=ScoreCounter(n_inputs=1e9))
    planted.search(Edit("all", inputs=100).search_word)
    assert planted.proposed == [4]


@pytest.mark.parametrize(("inputs", "inexpensive"), [(206, 6), (200, 0), (199, 39)])
def test_edit_reserves_inputs_for_verification(inputs: int, inexpensive: int) -> None:
    # Candidate 0 costs 100 and looks best; once it is found, 100 more are needed to keep it.
    estimate = np.array([-60.0, *np.linspace(-50.0, -45.0, 39)])
    cost = np.array([100.0, *[1.0] * 39])
    reject = on_demand([-41.0, *[-40.0] * 39], estimate=estimate, cost=cost)
    planted = PlantedCandidates(reject, exact([-5.0] * 40), current_reject=-20.0, decrease=1e-12)
    state = _state_without_improvement()
    planted.search(lambda c: Edit(64, first=64, inputs=inputs).search_word(c, state))
    assert planted.counter.n_inputs <= inputs
    assert len(planted.scored["reject"]) == inexpensive + (inputs >= 200)
    assert len(planted.proposed) == 1
    assert not state.is_complete


@pytest.mark.parametrize(("inputs", "n", "complete"), [(11, 10, True), (10, 9, False)])
def test_sufficient_inputs_give_a_complete_search(inputs: int, n: int, complete: bool) -> None:
    # Ten candidates, each better than the last, at 1 a score, and 1 to verify the best.
    values = -40.0 - np.arange(10.0)
    reject = on_demand(values, estimate=np.linspace(-50.0, -49.0, 10), cost=1.0)
    planted = PlantedCandidates(reject, exact([-5.0] * 10), current_reject=-20.0, decrease=1e-12)
    state = _state_without_improvement()
    planted.search(lambda c: Edit(64, first=64, inputs=inputs).search_word(c, state))
    assert planted.proposed == [n - 1]
    assert sorted(planted.scored["reject"]) == list(range(n))
    assert state.is_complete is complete
    assert planted.counter.n_inputs == inputs


@pytest.mark.parametrize(("inputs", "n"), [(500, 5), (499, 4), (300, 1), (299, 0)])
def test_edit_scores_no_more_than_inputs_allow(inputs: int, n: int) -> None:
    values = np.random.default_rng(0).normal(-30, 5, size=50)
    reject, accept = on_demand(values, cost=100.0), on_demand(values, cost=50.0)
    planted = PlantedCandidates(
        reject, accept, minimum=-20.0, current_reject=-20.0, current_accept=-20.0
    )
    # 50 for each, and for one of them 100 by the other model and 150 when it is kept.
    planted.search(Edit(64, inputs=inputs).search_word)
    assert (len(planted.scored["accept"]), planted.scored["reject"]) == (n, [])


@pytest.mark.parametrize("cost", [2.0, 9000.0])
def test_default_inputs_increase_with_sentence_cost(cost: float) -> None:
    # Nothing is feasible and nothing is known, so each position is looked at until the inputs are
    # counter: about 25,000, or 48 scores of the sentence by both models, whichever is more.
    stated = max(25_000.0, 48 * 2 * cost)
    n, state, counter = 2000, SearchState(), ScoreCounter()
    for seed in range(12):
        rng = np.random.default_rng(seed)
        reject = on_demand(rng.normal(-30, 5, size=n), cost=cost)
        accept = on_demand(rng.normal(-90, 5, size=n), cost=cost)
        planted = PlantedCandidates(
            reject, accept, current_accept=-6.0, current_index=0, counter=counter, round_number=30
        )
        planted.search(lambda candidates: Edit(10**6).search_word(candidates, state))
    assert stated - 4 * cost < counter.n_inputs <= stated
    assert not state.is_complete


@pytest.mark.parametrize(
    ("sizes", "first"), [((None, None), "accept"), ((1e6, None), "accept"), ((1e6, 1e9), "reject")]
)
def test_less_expensive_model_scores_first(
    sizes: tuple[float | None, float | None], first: str
) -> None:
    values = np.random.default_rng(0).normal(-30, 5, size=200)
    reject = on_demand(values, cost=9.0, multiply_adds=sizes[0])
    accept = on_demand(values, cost=0.5, multiply_adds=sizes[1])
    planted = PlantedCandidates(
        reject, accept, minimum=-30.0, current_reject=-30.0, current_accept=-30.0
    )
    planted.search(Edit(4).search_word)
    scored = planted.scored
    other = "reject" if first == "accept" else "accept"
    assert 0 < len(scored[other]) <= 4 < len(scored[first])
    # The other one scores what the first leaves in the running.
    assert set(scored[other]) <= set(scored[first])


def test_edit_scores_no_candidate_twice_within_budget() -> None:
    rng = np.random.default_rng(3)
    reject, accept = (on_demand(rng.normal(-30, 5, size=200)) for _ in range(2))
    accept = replace(accept, cost=ScoringCost(0.25))
    for budget in (1, 4, 16):
        for round_ in range(6):
            planted = PlantedCandidates(
                reject, accept, -24.0, -45.0, current_accept=-24.0, round_number=round_
            )
            planted.search(Edit(budget).search_word)
            scored = planted.scored
            assert len(scored["reject"]) <= min(budget, 4 * 2**round_)
            assert len(scored["accept"]) <= 4 * min(budget, 4 * 2**round_)
            assert all(len(set(index)) == len(index) for index in scored.values())


def test_expected_improvement_equals_simulation() -> None:
    mean, deviation = np.array([-3.0, 0.0, 4.0, 2.0]), np.array([1.0, 2.0, 3.0, 0.0])
    draws = mean + deviation * np.random.default_rng(0).normal(size=(400_000, 4))
    expected = np.maximum(1.0 - draws, 0.0).mean(axis=0)
    np.testing.assert_allclose(expected_improvement(1.0, mean, deviation), expected, atol=0.02)


def test_surrogate_learns_the_linear_error_of_estimates() -> None:
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


def test_surrogate_distinguishes_numbers_of_tokens() -> None:
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
    ("text", "message"),
    [
        ("edit?first=0", "first is 0; give at least 1"),
        ("edit?inputs=0", "inputs is 0; give at least 1"),
        (
            "beam?candidates=3",
            "candidates=3 is an option of the strategy 'edit', not of 'beam'; leave it out",
        ),
        (
            "edit?n_restarts=3",
            "n_restarts=3 is an option of the strategy 'beam', not of 'edit'; leave it out",
        ),
        (
            "edit?first=3&first=4",
            "the strategy 'edit?first=3&first=4' has first twice; give it once",
        ),
        (
            "sample?marks=a",
            "marks='a' contains a mark that ends no sentence; give some of .?!",
        ),
        ("beem", "unknown strategy 'beem'; did you mean 'beam'?"),
        ("edit?frist=7", "unknown option of a strategy 'frist'; did you mean 'first'?"),
    ],
)
def test_invalid_strategies_are_rejected(text: str, message: str) -> None:
    with pytest.raises((InputError, UnknownNameError)) as error:
        parse_strategy(text)
    assert str(error.value) == message


@pytest.mark.parametrize("value", ["0", "some", "1.5"])
def test_option_candidates_is_a_number_or_all(value: str) -> None:
    with pytest.raises(InputError, match="candidates"):
        parse_strategy(f"edit?candidates={value}")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("edit?candidates=64", "edit"),
        ("edit?inputs=900&candidates=all", "edit?candidates=all&inputs=900"),
        ("beam?width=8&refine=yes", "beam?width=8&refine=yes"),
        ("sample?lengths=8&guidance=6", "sample?guidance=6&lengths=8"),
        ("sample?writer=hf:gpt2", "sample?writer=hf:gpt2"),
    ],
)
def test_strategy_round_trips_as_text(text: str, canonical: str) -> None:
    strategy = parse_strategy(text)
    assert format_strategy(strategy) == canonical
    assert parse_strategy(canonical) == strategy


def test_strategy_options_have_the_class_defaults() -> None:
    assert {*STRATEGIES} >= {"edit", "beam", "sample"}
    for name, kind in STRATEGIES.items():
        declared = {option: field.default for option, field in strategy_options(name).items()}
        assert parse_strategy(name, **declared) == kind() == parse_strategy(name)
