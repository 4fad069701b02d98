"""Strategies on boards written out by hand, without models."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError, UnknownNameError
from contstim.models.base import Hints, Replacements
from contstim.search.belief import Belief, expected_gain
from contstim.search.board import ROLES
from contstim.search.paper import regression_line
from contstim.search.strategies import (
    Ask,
    Board,
    Bounded,
    Paper,
    Pick,
    exhaustive,
    first_improvement,
    strategy,
)

REJECT = np.array([-10.0, -30.0, -20.0, -50.0, -40.0])
ACCEPT = np.array([-5.0, -5.0, -5.0, -90.0, -5.0])
MINIMUM, BELOW = -6.0, -15.0


def _board(exact_reject: bool, exact_accept: bool, allowed: FloatArray | None = None) -> Board:
    def table(values: FloatArray, exact: bool) -> Replacements:
        upper = values if exact else values + 4.0
        return Replacements(upper, values + (0.0 if exact else 1.0), exact, lambda i: values[i])

    return Board(
        table(REJECT, exact_reject),
        table(ACCEPT, exact_accept),
        np.ones(5, dtype=np.bool_) if allowed is None else allowed,
        MINIMUM,
        BELOW,
        np.random.default_rng(0),
    )


def _play(strategy, board: Board, holds=lambda i: True) -> tuple[list[int], dict[str, list[int]]]:
    """Run a word search; return the picks and what was asked of each model, in order."""
    asked: dict[str, list[int]] = {"reject": [], "accept": []}
    picks: list[int] = []
    turn = strategy(board)
    request = next(turn, None)
    while request is not None:
        answer: FloatArray | bool
        if isinstance(request, Ask):
            asked[request.role] += request.index.tolist()
            board.memory.cost += float(board.prices(request.role)[request.index].sum())
            answer = getattr(board, request.role).score(request.index)
        else:
            assert isinstance(request, Pick)
            picks.append(request.index)
            answer = holds(request.index)
            board.memory.cost += sum(float(board.prices(r)[request.index]) for r in ROLES)
            if answer:
                break
        try:
            request = turn.send(answer)
        except StopIteration:
            break
    return picks, asked


KNOWN = [(True, True), (False, True), (True, False), (False, False)]


@pytest.mark.parametrize("known", KNOWN)
def test_exhaustive_picks_the_best_feasible_candidate(known: tuple[bool, bool]) -> None:
    picks, _ = _play(exhaustive, _board(*known))
    assert picks == [4]  # candidate 3 is lower but not accepted


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("strategy", [exhaustive, Bounded(5), Bounded(None)])
def test_a_pick_that_does_not_hold_is_followed_by_the_next_best(strategy, known) -> None:
    picks, _ = _play(strategy, _board(*known), holds=lambda i: i == 2)
    assert picks == [4, 1, 2]


@pytest.mark.parametrize("known", KNOWN)
def test_nothing_is_picked_that_is_no_improvement(known: tuple[bool, bool]) -> None:
    allowed = np.array([True, False, False, True, False])
    for search in (exhaustive, first_improvement, Bounded(5), Bounded(None), Paper()):
        assert _play(search, _board(*known, allowed))[0] == []


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("strategy", [exhaustive, first_improvement, Bounded(5), Bounded(None)])
def test_a_candidate_whose_bound_breaks_the_constraint_is_never_scored(strategy, known) -> None:
    _, asked = _play(strategy, _board(*known), holds=lambda i: False)
    assert 3 not in asked["accept"] + asked["reject"]
    if known[0]:
        assert asked["reject"] == []
        assert 0 not in asked["accept"]  # known to be no improvement
    if known[1]:
        assert asked["accept"] == []


def test_first_improvement_takes_whatever_comes_first() -> None:
    picks = set()
    for seed in range(20):
        board = _board(True, True)
        board = Board(
            board.reject, board.accept, board.allowed, MINIMUM, BELOW, np.random.default_rng(seed)
        )
        picks.add(_play(first_improvement, board)[0][0])
    assert picks == {1, 2, 4}


@pytest.mark.parametrize("budget", [1, 2, 3])
def test_bounded_spends_its_budget_on_the_most_promising(budget: int) -> None:
    picks, asked = _play(Bounded(budget), _board(False, True), holds=lambda i: False)
    assert asked["reject"] == [4, 1, 2][:budget]
    assert picks == [4, 1, 2][:budget]


def test_candidates_within_rounding_of_a_bound_are_left_to_verification() -> None:
    def close(i: IntArray) -> FloatArray:
        return np.full(len(i), MINIMUM - 1e-6)

    board = Board(
        Replacements(REJECT, REJECT, True, lambda i: REJECT[i]),
        Replacements(np.zeros(5), np.zeros(5), False, close),
        np.ones(5, dtype=np.bool_),
        MINIMUM,
        BELOW,
        np.random.default_rng(0),
    )
    assert _play(exhaustive, board)[0] == [3]


def _table(values: list[float], **more: Any) -> Replacements:
    """A table of scores known on demand; `upper` and `estimate` say nothing unless given."""
    scores = np.array(values)
    nothing = np.zeros(len(scores))
    fields: dict[str, Any] = {"upper": nothing, "estimate": nothing, "exact": False}
    own = {name: more.pop(name) for name in ("upper", "estimate") if name in more}
    hints = Hints(**more)
    return Replacements(**{**fields, **own}, score=lambda i: scores[i], hints=hints)


def _known(values: list[float]) -> Replacements:
    scores = np.array(values)
    return Replacements(scores, scores, True, lambda i: scores[i])


def _hand_worked(failed: float) -> Board:
    completion = np.array([-1.0, -2.0, -3.0, -4.0, -5.0, -6.0])
    reject = _table([-10.0, -12.0, -11.0, -14.0, failed, -20.0], completion=lambda: completion)
    accept = _known([-5.0, -5.0, -5.0, -5.0, -5.0, -9.0])
    everything = np.ones(6, dtype=np.bool_)
    rng = np.random.default_rng(0)
    return Board(reject, accept, everything, -6.0, -12.0, rng, present=1, accepted=-5.0)


def test_the_published_regression_on_a_hand_worked_case() -> None:
    # The ends and the present word lie on score = 2 x - 8, which predicts -18 for candidate 4.
    picks, asked = _play(Paper(), _hand_worked(-13.0))
    assert (picks, asked) == ([4], {"reject": [0, 5, 4], "accept": []})
    # At -11.5 it lowers nothing; the line through four points, -8.38 + 1.43 x, predicts -14.1 for
    # candidate 3 and -12.7 for candidate 2.
    picks, asked = _play(Paper(), _hand_worked(-11.5))
    assert (picks, asked) == ([3], {"reject": [0, 5, 4, 3], "accept": []})


def test_the_regression_line_is_that_of_least_squares() -> None:
    x, y = np.random.default_rng(1).normal(size=(2, 9))
    slope, intercept = np.polyfit(x, y, 1)
    assert regression_line(x, y) == pytest.approx((intercept, slope))
    assert regression_line(np.ones(4), np.array([1.0, 2.0, 3.0, 4.0])) == (2.5, 0.0)


def test_the_published_search_ends_after_five_scores_that_lower_nothing() -> None:
    n = 30
    completion = -np.arange(n, dtype=np.float64)
    reject = _table([-1.0] * n, completion=lambda: completion)
    everything = np.ones(n, dtype=np.bool_)
    board = Board(reject, _known([0.0] * n), everything, -6.0, -12.0, np.random.default_rng(0))
    picks, asked = _play(Paper(), board)
    assert picks == []
    assert len(asked["reject"]) == 2 + 5
    assert len(_play(Paper(failures=3), board)[1]["reject"]) == 2 + 3


@pytest.mark.parametrize(
    ("likely", "passing"),
    [
        (np.linspace(-1.0, -20.0, 20), range(10)),  # ten at -10 or above
        (np.linspace(-9.0, -28.0, 20), range(12)),  # two; at -15 seven, at -20 twelve
        (np.full(20, -90.0), range(20)),
    ],
)
def test_the_candidate_threshold_falls_until_ten_pass(likely: FloatArray, passing: range) -> None:
    everything = np.ones(20, dtype=np.bool_)
    reject, accept = _known([-20.0] * 20), _table([-9.0] * 20)

    def conditional(name: str) -> FloatArray | None:
        return likely if name == "accept" else None

    board = Board(
        reject, accept, everything, -6.0, 0.0, np.random.default_rng(0), conditional=conditional
    )
    assert _play(Paper(), board)[1] == {"reject": [], "accept": list(passing)}


def test_with_known_scores_alone_the_published_search_takes_the_best() -> None:
    assert _play(Paper(), _board(True, True))[0] == [4]


def test_bounded_ends_when_no_candidate_left_can_improve() -> None:
    # Candidate 1 is feasible, so of those that the rejecting model finds more probable none is
    # asked for, and candidate 3 is asked for, which might have been better.
    reject = _known([-20.0, -30.0, -25.0, -50.0, -28.0])
    accept = _table([-5.0, -5.0, -5.0, -90.0, -5.0], estimate=np.array([-9.0, -1, -9, -20, -9]))
    board = Board(reject, accept, np.ones(5, np.bool_), -6.0, -15.0, np.random.default_rng(0))
    board = replace(board, accepted=-5.0)
    picks, asked = _play(Bounded(None), board)
    assert picks == [1]
    assert set(asked["accept"]) <= {1, 3, *asked["accept"][:5]}
    assert 3 in asked["accept"]


@pytest.mark.parametrize(("inputs", "first", "limited"), [(10**6, 1, False), (150, 0, True)])
def test_bounded_leaves_out_candidates_whose_scores_it_could_not_pay(
    inputs: int, first: int, limited: bool
) -> None:
    # Both are feasible, and candidate 1 promises a nat more; its score and its verification
    # would cost 200.
    reject = _table([-40.0, -41.0], estimate=np.array([-40.0, -41.0]), cost=np.array([1.0, 100.0]))
    everything = np.ones(2, np.bool_)
    board = Board(reject, _known([-5.0, -5.0]), everything, -6.0, -20.0, np.random.default_rng(0))
    board = replace(board, accepted=-5.0)
    _, asked = _play(Bounded(1, inputs=inputs), board)
    assert asked["reject"] == [first]
    assert board.memory.limited is limited


def test_bounded_ends_the_search_when_its_inputs_are_spent() -> None:
    # A score by each model of one input, and a verification by both.
    board = _board(False, False)
    board.memory.cost = 96.0
    assert _play(Bounded(8, inputs=100), board)[1]["accept"]
    board = _board(False, False)
    board.memory.cost = 96.5
    assert _play(Bounded(8, inputs=100), board) == ([], {"reject": [], "accept": []})
    assert board.memory.limited
    # Without a budget everything is looked at.
    board = _board(False, False)
    board.memory.cost = 1e9
    assert _play(Bounded(None, inputs=100), board)[0] == [4]
    assert not board.memory.limited
    with pytest.raises(InputError, match="inputs is 0"):
        Bounded(inputs=0)


@pytest.mark.parametrize(("inputs", "cheap"), [(206, 6), (200, 0), (199, 39)])
def test_what_verifies_the_best_word_is_kept_back(inputs: int, cheap: int) -> None:
    # Candidate 0 costs 100 and looks best; once it is found, 100 more are needed to keep it.
    estimate = np.array([-60.0, *np.linspace(-50.0, -45.0, 39)])
    price = np.array([100.0, *[1.0] * 39])
    reject = _table([-41.0, *[-40.0] * 39], estimate=estimate, cost=price)
    accept = _known([-5.0] * 40)
    board = Board(reject, accept, np.ones(40, np.bool_), -6.0, -20.0, np.random.default_rng(0))
    board = replace(board, accepted=-5.0)
    # Scores have brought next to nothing so far, so that everything is worth while.
    board.memory.gain, board.memory.n_scores = 1e-12, 1.0
    picks, asked = _play(Bounded(64, first=64, inputs=inputs), board)
    assert board.memory.cost <= inputs
    assert len(asked["reject"]) == cheap + (inputs >= 200)
    assert len(picks) == 1
    assert board.memory.limited


@pytest.mark.parametrize(("inputs", "n", "limited"), [(11, 10, False), (10, 9, True)])
def test_inputs_that_just_suffice_are_no_limit(inputs: int, n: int, limited: bool) -> None:
    # Ten candidates, each better than the last, at 1 a score, and 1 to verify the best.
    values = list(-40.0 - np.arange(10.0))
    reject = _table(values, estimate=np.linspace(-50.0, -49.0, 10), cost=1.0)
    accept = _known([-5.0] * 10)
    board = Board(reject, accept, np.ones(10, np.bool_), -6.0, -20.0, np.random.default_rng(0))
    board.memory.gain, board.memory.n_scores = 1e-12, 1.0
    picks, asked = _play(Bounded(64, first=64, inputs=inputs), replace(board, accepted=-5.0))
    assert picks == [n - 1]
    assert sorted(asked["reject"]) == list(range(n))
    assert board.memory.limited is limited
    assert board.memory.cost == inputs


@pytest.mark.parametrize(("inputs", "n"), [(500, 5), (499, 4), (300, 1), (299, 0)])
def test_bounded_asks_for_no_more_than_it_can_pay(inputs: int, n: int) -> None:
    values = list(np.random.default_rng(0).normal(-30, 5, size=50))
    tables = _table(values, cost=100.0), _table(values, cost=50.0)
    board = Board(*tables, np.ones(50, np.bool_), -20.0, -20.0, np.random.default_rng(0))
    # 50 for each, and for one of them 100 by the other model and 150 when it is kept.
    _, asked = _play(Bounded(64, inputs=inputs), replace(board, accepted=-20.0))
    assert (len(asked["accept"]), asked["reject"]) == (n, [])


def test_the_default_inputs_are_worth_48_scores_of_the_natural_sentence() -> None:
    for price, present, limit in ((9000.0, 0, 48 * 18_000.0), (2.0, 0, 25_000.0)):
        tables = _table([-9.0, -9.0], cost=price), _table([-9.0, -9.0], cost=price)
        board = Board(*tables, np.ones(2, np.bool_), -9.5, -9.0, np.random.default_rng(0))
        board = replace(board, present=present, accepted=-9.0)
        board.memory.cost = limit - 4 * price
        assert _play(Bounded(), board)[1]["accept"] + _play(Bounded(), board)[1]["reject"]
        board.memory.cost = limit - 4 * price + 1
        assert _play(Bounded(), board)[1] == {"reject": [], "accept": []}
        assert board.memory.limited


@pytest.mark.parametrize(
    ("works", "first"), [((None, None), "accept"), ((1e6, None), "accept"), ((1e6, 1e9), "reject")]
)
def test_the_model_whose_scores_are_less_work_scores_first(
    works: tuple[float | None, float | None], first: str
) -> None:
    values = list(np.random.default_rng(0).normal(-30, 5, size=200))
    reject = _table(values, cost=9.0, multiply_adds=works[0])
    accept = _table(values, cost=0.5, multiply_adds=works[1])
    board = Board(reject, accept, np.ones(200, np.bool_), -30.0, -30.0, np.random.default_rng(0))
    _, asked = _play(Bounded(4), replace(board, accepted=-30.0))
    other = "reject" if first == "accept" else "accept"
    assert 0 < len(asked[other]) <= 4 < len(asked[first])
    # The other one scores what the first leaves in the running.
    assert set(asked[other]) <= set(asked[first])


def test_bounded_asks_for_nothing_twice_and_keeps_to_its_budget() -> None:
    rng = np.random.default_rng(3)
    reject, accept = (_table(list(rng.normal(-30, 5, size=200))) for _ in range(2))
    for budget in (1, 4, 16):
        for depth in range(6):
            board = Board(
                reject,
                replace(accept, hints=Hints(0.25)),
                np.ones(200, np.bool_),
                -24.0,
                -45.0,
                np.random.default_rng(0),
                accepted=-24.0,
                depth=depth,
            )
            _, asked = _play(Bounded(budget), board)
            assert len(asked["reject"]) <= min(budget, 4 * 2**depth)
            assert len(asked["accept"]) <= 4 * min(budget, 4 * 2**depth)
            assert all(len(set(index)) == len(index) for index in asked.values())


def test_expected_gain_is_the_integral() -> None:
    mean, deviation = np.array([-3.0, 0.0, 4.0, 2.0]), np.array([1.0, 2.0, 3.0, 0.0])
    draws = mean + deviation * np.random.default_rng(0).normal(size=(400_000, 4))
    expected = np.maximum(1.0 - draws, 0.0).mean(axis=0)
    np.testing.assert_allclose(expected_gain(1.0, mean, deviation), expected, atol=0.02)


def test_a_belief_finds_the_line_by_which_estimates_err() -> None:
    rng = np.random.default_rng(5)
    estimate = rng.uniform(-60.0, -20.0, size=300)
    table = _table([0.0] * 300, estimate=estimate, upper=estimate + 10.0)
    exact = estimate - 4.0 - 0.3 * (estimate + 40.0) + rng.normal(0.0, 0.5, size=300)
    belief = Belief()
    for part in np.split(np.arange(240), 4):
        belief.outlook(table, -40.0).learn(part, exact[part])
    outlook = belief.outlook(table, -40.0)
    # Before anything is known of this position, it may differ from the others.
    _, before = outlook.predict(np.arange(240, 300))
    outlook.learn(np.arange(60), exact[:60], keep=False)
    mean, deviation = outlook.predict(np.arange(240, 300))
    assert before.mean() > 1.1 * deviation.mean()
    error = exact[240:] - mean
    assert np.abs(error.mean()) < 0.3
    assert 0.6 < np.sqrt((error**2).mean()) / deviation.mean() < 1.4


def test_bad_strategies() -> None:
    for call, message in [
        (lambda: Bounded(0), "budget is 0; give at least 1 exact score a position"),
        (lambda: Bounded(first=0), "first is 0; give at least 1 exact score a position"),
        (
            lambda: strategy("paper", budget=3),
            "budget=3 goes with the strategy 'bounded', not 'paper'; leave it out",
        ),
        (
            lambda: strategy("bounded", candidates="contstim:lstm"),
            "candidates='contstim:lstm' goes with the strategy 'paper', not 'bounded'; leave it "
            "out",
        ),
    ]:
        with pytest.raises(InputError) as error:
            call()
        assert str(error.value) == message
    with pytest.raises(UnknownNameError, match="unknown strategy 'papre'; did you mean 'paper'"):
        strategy("papre")
    assert strategy("bounded", budget=7) == Bounded(7)
    assert strategy("bounded", inputs=900) == Bounded(inputs=900)
    assert strategy("paper", candidates="a:b") == Paper(candidates="a:b")


def test_a_belief_tells_words_of_several_tokens_from_short_ones() -> None:
    # Estimates of longer words are 20 nats too high and scatter; those of short words are right.
    rng = np.random.default_rng(4)
    n_tokens = np.repeat(np.array([1, 2], dtype=np.int64), 60)
    estimate = rng.normal(-40, 5, size=120)
    exact = estimate - np.where(n_tokens == 2, 20 + rng.normal(0, 6, size=120), 0.0)
    table = Replacements(
        estimate + 35,
        estimate,
        False,
        lambda i: exact[i],
        Hints(n_tokens=n_tokens),
    )
    outlook = Belief().outlook(table, -40.0)
    seen = np.r_[np.arange(40), np.arange(60, 100)]
    outlook.learn(seen, exact[seen])
    mean, deviation = outlook.predict(np.r_[np.arange(40, 60), np.arange(100, 120)])
    np.testing.assert_allclose(mean[:20], estimate[40:60], atol=0.7)
    np.testing.assert_allclose(mean[20:], estimate[100:] - 20, atol=5)
    assert deviation[:20].mean() < 1.1
    assert 4 < deviation[20:].mean() < 9
