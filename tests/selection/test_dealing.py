"""Dealing as a colouring: exchanges, the exact route, proofs that there is none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contstim.errors import InfeasibleError
from contstim.selection import dealing
from contstim.selection.dealing import Hand, deal


def ring(length, groups):
    """Cells of `groups` trials whose first trials share sentences around a ring."""
    cells, members = [], []
    for cell in range(length):
        for place in range(groups):
            cells.append(cell)
            if place == 0:
                members.append((f"r{cell}", f"r{(cell + 1) % length}"))
            else:
                members.append((f"a{cell}.{place}", f"b{cell}.{place}"))
    return Hand(np.array(cells), members, groups)


def is_valid(hand, dealt):
    for cell in hand.cell_members():
        counts = np.bincount(dealt[cell], minlength=hand.groups)
        assert (counts == len(cell) // hand.groups).all()
    for group in range(hand.groups):
        shown = [s for t in np.flatnonzero(dealt == group) for s in hand.members[t]]
        assert len(set(shown)) == len(shown)


def start(hand):
    """The worst start: the trials that share sentences all in group 0."""
    dealt = np.empty(len(hand.cells), dtype=np.int64)
    for cell in hand.cell_members():
        dealt[cell] = np.arange(len(cell)) % hand.groups
    return dealt


@pytest.mark.parametrize(("length", "groups"), [(4, 2), (6, 2), (5, 3), (7, 4)])
def test_exchanges_separate_what_shares_a_sentence(length, groups):
    hand = ring(length, groups)
    is_valid(hand, deal(hand, start(hand), np.random.default_rng(0)))


@pytest.mark.parametrize(("length", "groups"), [(4, 2), (5, 3)])
def test_the_exact_route_deals_too(length, groups, monkeypatch):
    hand = ring(length, groups)
    monkeypatch.setattr(dealing._Tally, "change", lambda *_: 9)  # no exchange seems any good
    is_valid(hand, deal(hand, start(hand), np.random.default_rng(0)))


def test_a_ring_of_odd_length_cannot_be_dealt_to_two_groups():
    hand = ring(5, 2)
    with pytest.raises(InfeasibleError) as caught:
        deal(hand, start(hand), np.random.default_rng(0))
    text = str(caught.value)
    assert text.startswith(
        "no dealing to 2 groups shows every participant each sentence once: at least 1 would be "
        "seen twice, for example 'r"
    )
    assert text.endswith("use more groups or replace the sentence")


def test_without_time_no_proof_is_claimed(monkeypatch):
    monkeypatch.setattr(dealing, "_EXACT_SECONDS", 1e-9)
    with pytest.raises(InfeasibleError) as caught:
        dealing._deal_exactly(ring(5, 2))
    assert "no dealing to 2 groups" in str(caught.value)


def test_a_good_start_is_kept():
    hand = ring(5, 3)
    first = deal(hand, start(hand), np.random.default_rng(0))
    again = deal(hand, first, np.random.default_rng(1))
    assert (first == again).all()


def test_equal_shares_come_before_sentences_apart():
    """Both trials of a cell in one group would keep all sentences apart, but is not allowed."""
    members = [("s", "t"), ("u", "v"), ("s", "u"), ("t", "v")]
    hand = Hand(np.array([0, 0, 1, 1]), members, 2)
    with pytest.raises(InfeasibleError, match="at least 2 would be seen twice"):
        deal(hand, start(hand), np.random.default_rng(0))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000))
def test_growth_of_an_exchange_is_the_difference_of_the_counts(seed):
    rng = np.random.default_rng(seed)
    keys = [frozenset(rng.integers(0, 5, 3).tolist()) for _ in range(8)]
    dealt = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    tally = dealing._Tally(keys, dealt)
    before, growth = tally.repeats, tally.change(0, 4, 0, 1)
    tally.exchange(0, 4, 0, 1)
    dealt[[0, 4]] = dealt[[4, 0]]
    assert tally.repeats == dealing._Tally(keys, dealt).repeats == before + growth
