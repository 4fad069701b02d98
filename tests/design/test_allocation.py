"""Test the allocation of trials to groups: exchanges, exact search and infeasibility."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contstim.design import allocation
from contstim.design.allocation import TrialCells, allocate
from contstim.errors import InfeasibleError


def ring(length, groups):
    """Return cells of `groups` trials; the first trials of neighbouring cells share a sentence."""
    cells, members = [], []
    for cell in range(length):
        for place in range(groups):
            cells.append(cell)
            if place == 0:
                members.append((f"r{cell}", f"r{(cell + 1) % length}"))
            else:
                members.append((f"a{cell}.{place}", f"b{cell}.{place}"))
    return TrialCells(np.array(cells), members, groups)


def assert_valid_allocation(trials, allocated):
    for cell in trials.group_trials_by_cell():
        counts = np.bincount(allocated[cell], minlength=trials.n_groups)
        assert (counts == len(cell) // trials.n_groups).all()
    for group in range(trials.n_groups):
        shown = [s for t in np.flatnonzero(allocated == group) for s in trials.sentences[t]]
        assert len(set(shown)) == len(shown)


def worst_allocation(trials):
    """Return an allocation with all trials that share sentences in group 0."""
    allocated = np.empty(len(trials.cells), dtype=np.int64)
    for cell in trials.group_trials_by_cell():
        allocated[cell] = np.arange(len(cell)) % trials.n_groups
    return allocated


@pytest.mark.parametrize(("length", "groups"), [(4, 2), (6, 2), (5, 3), (7, 4)])
def test_exchanges_separate_trials_with_a_shared_sentence(length, groups):
    trials = ring(length, groups)
    assert_valid_allocation(
        trials, allocate(trials, worst_allocation(trials), np.random.default_rng(0))
    )


@pytest.mark.parametrize(("length", "groups"), [(4, 2), (5, 3)])
def test_exact_allocation_finds_a_solution(length, groups, monkeypatch):
    trials = ring(length, groups)
    monkeypatch.setattr(
        allocation._RepeatCounter, "score_exchange", lambda *_: 9
    )  # no exchange seems any good
    assert_valid_allocation(
        trials, allocate(trials, worst_allocation(trials), np.random.default_rng(0))
    )


def test_odd_ring_cannot_be_allocated_to_two_groups():
    trials = ring(5, 2)
    with pytest.raises(InfeasibleError) as caught:
        allocate(trials, worst_allocation(trials), np.random.default_rng(0))
    text = str(caught.value)
    assert text.startswith(
        "no allocation to 2 groups shows every participant each sentence once: at least 1 would be "
        "seen twice, for example 'r"
    )
    assert text.endswith("use more groups or replace the sentence")


def test_timeout_claims_no_proof_of_infeasibility(monkeypatch):
    monkeypatch.setattr(allocation, "_TIME_LIMIT", 1e-9)
    with pytest.raises(InfeasibleError) as caught:
        allocation._allocate_exactly(ring(5, 2))
    assert "no allocation to 2 groups" in str(caught.value)


def test_valid_allocations_are_kept():
    trials = ring(5, 3)
    first = allocate(trials, worst_allocation(trials), np.random.default_rng(0))
    again = allocate(trials, first, np.random.default_rng(1))
    assert (first == again).all()


def test_equal_shares_take_precedence_over_separation():
    """Both trials of a cell in one group would separate all sentences, but shares would differ."""
    members = [("s", "t"), ("u", "v"), ("s", "u"), ("t", "v")]
    trials = TrialCells(np.array([0, 0, 1, 1]), members, 2)
    with pytest.raises(InfeasibleError, match="at least 2 would be seen twice"):
        allocate(trials, worst_allocation(trials), np.random.default_rng(0))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000))
def test_score_exchange_equals_the_change_in_repeats(seed):
    rng = np.random.default_rng(seed)
    texts = [frozenset(rng.integers(0, 5, 3).tolist()) for _ in range(8)]
    allocated = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    counter = allocation._RepeatCounter(texts, allocated)
    before, growth = counter.n_repeats, counter.score_exchange(0, 4, 0, 1)
    counter.exchange(0, 4, 0, 1)
    allocated[[0, 4]] = allocated[[4, 0]]
    assert (
        counter.n_repeats
        == allocation._RepeatCounter(texts, allocated).n_repeats
        == before + growth
    )
