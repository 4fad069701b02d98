"""Strategies on boards written out by hand, without models."""

import numpy as np
import pytest

from contstim.models.base import FloatArray, IntArray, Replacements
from contstim.synthesis.strategies import Ask, Board, Bounded, Pick, exhaustive, first_improvement

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
    """Run a word search; return the picks and what was asked of each model."""
    asked: dict[str, list[int]] = {"reject": [], "accept": []}
    picks: list[int] = []
    turn = strategy(board)
    request = next(turn, None)
    while request is not None:
        answer: FloatArray | bool
        if isinstance(request, Ask):
            asked[request.role] += request.index.tolist()
            answer = getattr(board, request.role).score(request.index)
        else:
            assert isinstance(request, Pick)
            picks.append(request.index)
            answer = holds(request.index)
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
@pytest.mark.parametrize("strategy", [exhaustive, Bounded(5)])
def test_a_pick_that_does_not_hold_is_followed_by_the_next_best(strategy, known) -> None:
    picks, _ = _play(strategy, _board(*known), holds=lambda i: i == 2)
    assert picks == [4, 1, 2]


@pytest.mark.parametrize("known", KNOWN)
def test_nothing_is_picked_that_is_no_improvement(known: tuple[bool, bool]) -> None:
    allowed = np.array([True, False, False, True, False])
    for strategy in (exhaustive, first_improvement, Bounded(5)):
        assert _play(strategy, _board(*known, allowed))[0] == []


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("strategy", [exhaustive, first_improvement, Bounded(5)])
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
