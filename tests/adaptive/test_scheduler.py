"""Test the trial scheduler: unique pairs, block order and reproducible replay."""

from dataclasses import replace

import numpy as np
import pytest
from pools import PLAN as NINE_TRIALS
from pools import make_pool

from contstim.adaptive.policies import POLICIES, PolicyOptions
from contstim.adaptive.scheduler import TrialScheduler
from contstim.errors import InputError

PLAN = replace(NINE_TRIALS, trials=21)


def play(scheduler, n_blocks, seed=0, slow=()):
    """Issue blocks to four participants; blocks in `slow` are not answered."""
    rng = np.random.default_rng(seed)
    weights = []
    for number in range(n_blocks):
        block = scheduler.choose_next_block(f"p{number % 4}")
        scheduler.record_block(block)
        weights.append(scheduler.weights)
        if number not in slow:
            for pair in rng.permutation(block.pairs).tolist():
                scheduler.record_answer(block.participant, pair, float(rng.choice([-2.5, 2.5])))
    return weights


def test_pairs_are_issued_once_and_anchors_never():
    scheduler = TrialScheduler(PLAN, make_pool())
    play(scheduler, 18)
    issued = [pair for block in scheduler.blocks for pair in block.pairs]
    assert len(set(issued)) == len(issued) == 54
    assert min(issued) >= 5
    assert [block.n_available for block in scheduler.blocks[:3]] == [55, 52, 49]


def test_excluded_pairs_are_not_counted_as_available(monkeypatch):
    class Never(type(POLICIES["information"])):
        def pair_values(self, view):
            return np.where(
                np.arange(len(view.grid_positions)) % 2, -np.inf, super().pair_values(view)
            )

    monkeypatch.setitem(POLICIES, "never", Never())
    plan = replace(PLAN, trial_selection=PolicyOptions(policy="never", epsilon=0.5, block_size=3))
    scheduler = TrialScheduler(plan, make_pool())
    play(scheduler, 6)
    assert all(pair % 2 == 0 for block in scheduler.blocks for pair in block.pairs)
    # Of 55 pairs, 5 to 59, 27 may be asked.
    assert [block.n_available for block in scheduler.blocks[:3]] == [27, 24, 21]


def test_participants_get_at_most_the_planned_trials():
    scheduler = TrialScheduler(NINE_TRIALS, make_pool())
    play(scheduler, 12)
    with pytest.raises(InputError, match=r"participant 'p0' already has the 9 trials of the plan"):
        scheduler.choose_next_block("p0")


def test_pending_blocks_delay_later_ones_until_skipped():
    scheduler = TrialScheduler(PLAN, make_pool())
    play(scheduler, 12, slow=(2,))
    assert [block.n_processed for block in scheduler.blocks] == [
        0,
        1,
        2,
        2,
        2,
        2,
        2,
        2,
        5,
        8,
        10,
        11,
    ]  # three at a time
    assert [block.skipped_blocks for block in scheduler.blocks if block.skipped_blocks] == [(2,)]
    late = scheduler.blocks[2]
    scheduler.record_answer(
        late.participant, late.pairs[0], 2.5
    )  # counted where verdicts are made, not by the policy
    before = scheduler.posterior.n_answers
    scheduler.record_block(scheduler.choose_next_block("p0"))
    assert scheduler.posterior.n_answers == before + 3


def test_replay_does_not_depend_on_answer_order():
    scheduler = TrialScheduler(PLAN, make_pool())
    play(scheduler, 15, slow=(1, 7))
    again = TrialScheduler(PLAN, make_pool())
    ratings = {key: 2.5 if answer else -2.5 for key, answer in scheduler.answers.items()}
    again.replay(scheduler.blocks, dict(sorted(ratings.items())))
    assert again.weights.tobytes() == scheduler.weights.tobytes()
    assert again.choose_next_block("p1") == scheduler.choose_next_block("p1")


def test_unrecorded_blocks_are_chosen_again():
    scheduler, other = (TrialScheduler(PLAN, make_pool()) for _ in range(2))
    for one in (scheduler, other):
        play(one, 9, slow=(2,))
    scheduler.choose_next_block("p0")
    scheduler.choose_next_block("p1")  # neither was recorded
    assert scheduler.choose_next_block("p2") == other.choose_next_block("p2")


def test_unissued_answers_and_wrong_blocks_are_rejected():
    scheduler = TrialScheduler(PLAN, make_pool())
    block = scheduler.choose_next_block("p0")
    with pytest.raises(InputError, match=r"pair 7 was not issued to participant 'p0'"):
        scheduler.record_answer("p0", 7, 2.5)
    scheduler.record_block(block)
    with pytest.raises(InputError, match=r"block 0 is not the next block, 1"):
        scheduler.record_block(block)
    with pytest.raises(InputError, match=r"the pool has 5 pairs, all of them used as the 5"):
        TrialScheduler(PLAN, make_pool(5))


def test_reissue_reproduces_each_block_from_the_log():
    scheduler, pool = TrialScheduler(PLAN, make_pool()), make_pool()
    rng = np.random.default_rng(0)
    for turn in range(10):
        block = scheduler.choose_next_block(f"p{turn % 4}", scheduler.n_remaining(f"p{turn % 4}"))
        scheduler.record_block(block)
        for pair in block.pairs:
            if turn != 2:  # this one leaves; later blocks pass it over
                scheduler.record_answer(block.participant, pair, float(rng.choice([-2.5, 2.5])))
    again = TrialScheduler(PLAN, pool)
    for block in scheduler.blocks:
        assert again.reissue(block) == block
        again.record_block(block)
        for key in {(block.participant, pair) for pair in block.pairs} & set(scheduler.answers):
            again.answers[key] = scheduler.answers[key]
    assert any(block.skipped_blocks for block in scheduler.blocks)
    assert again.weights.tobytes() == scheduler.weights.tobytes()


def test_fixed_policy_shows_the_same_trials_to_all():
    plan = replace(NINE_TRIALS, trial_selection=PolicyOptions(policy="fixed", block_size=3))
    scheduler = TrialScheduler(plan, make_pool(14))
    play(scheduler, 12)
    for name in ("p0", "p1", "p2", "p3"):
        own = [pair for b in scheduler.blocks if b.participant == name for pair in b.pairs]
        assert own == list(range(5, 14))
        assert not scheduler.n_remaining(name)
    assert {p for block in scheduler.blocks for p in block.propensities} == {1.0}
    scheduler.update_posterior(12)
    assert scheduler.posterior.n_answers == 9
    with pytest.raises(InputError, match=r"block 12 contains pair 5, which is not available"):
        scheduler.record_block(replace(scheduler.blocks[0], number=12))
    # Of people who were deleted there is no name, and there may be several.
    again = TrialScheduler(plan, make_pool(14))
    for number, block in enumerate(scheduler.blocks[:2]):
        again.record_block(replace(block, number=number, participant=""))
