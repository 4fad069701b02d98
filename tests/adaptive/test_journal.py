"""A log that outlives kills: the same bits, no trial twice, none lost."""

import json
import multiprocessing
import os
import signal

import numpy as np
import pytest
from pools import PLAN, make_pool

from contstim.adaptive.conduct import Journal
from contstim.errors import InputError


def take_part(log, seed, told):
    """Ask and answer as 50 people would, saying what was acknowledged, until killed."""
    rng = np.random.default_rng(seed)
    with Journal(log, PLAN, make_pool(600)) as journal:
        while True:
            who = f"p{rng.integers(50)}"
            block = journal.issue(who)
            if block is None:
                continue
            told.send(("block", who, block.pairs))
            for pair in block.pairs:
                if rng.random() < 0.9:
                    journal.answer(who, pair, float(rng.choice([-2.5, 2.5])))
                    told.send(("answer", pair, journal.conductor.answers[pair]))


def test_ten_kills_lose_nothing_and_issue_nothing_twice(tmp_path):
    log = tmp_path / "log.jsonl"
    issued: dict[int, str] = {}
    answered: dict[int, int] = {}
    processes = multiprocessing.get_context("fork")
    for number in range(10):
        heard, told = processes.Pipe(duplex=False)
        process = processes.Process(target=take_part, args=(log, number, told))
        process.start()
        for _ in range(25 + number):
            kind, one, two = heard.recv()
            if kind == "block":
                for pair in two:
                    assert issued.setdefault(pair, one) == one
            else:
                assert answered.setdefault(one, two) == two
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    with Journal(log, PLAN, make_pool(600)) as one:
        before = one.conductor.weights.tobytes()
        block = one.conductor.issue("p1")
        assert answered.items() <= one.conductor.answers.items()
        known = [pair for b in one.conductor.blocks for pair in b.pairs]
        assert len(set(known)) == len(known)
        assert set(issued) <= set(known)
        assert one.conductor.posterior.n_answers > 20
    with Journal(log, PLAN, make_pool(600)) as again:
        assert again.conductor.weights.tobytes() == before
        assert again.conductor.issue("p1") == block


def test_the_log_says_what_each_block_was_chosen_by(tmp_path):
    log = tmp_path / "log.jsonl"
    with Journal(log, PLAN, make_pool()) as journal:
        block = journal.issue("Ada")
        journal.answer("Ada", block.pairs[0], 2.5)
        journal.answer("Ada", block.pairs[0], -2.5)  # the first one stands
    head, first, answer = map(json.loads, log.read_text().splitlines())
    assert head["pool"] == make_pool().digest
    assert head["seed"] == PLAN.seed
    assert first["block"]["propensities"] == list(block.propensities)
    assert first["block"]["version"] == 0
    assert answer == {"answer": [block.pairs[0], 2.5]}


def test_two_blocks_may_wait_and_the_first_comes_again(tmp_path):
    with Journal(tmp_path / "log.jsonl", PLAN, make_pool()) as journal:
        one, two = journal.issue("Ada"), journal.issue("Ada")
        assert journal.issue("Ada") == one
        for pair in one.pairs:
            journal.answer("Ada", pair, 2.5)
        three = journal.issue("Ada")
        assert len({*one.pairs, *two.pairs, *three.pairs}) == 9  # all that the plan has
        for pair in (*two.pairs, *three.pairs):
            journal.answer("Ada", pair, -2.5)
        assert journal.issue("Ada") is None


def test_half_a_line_goes_and_anything_else_is_refused(tmp_path):
    log = tmp_path / "log.jsonl"
    with Journal(log, PLAN, make_pool()) as journal:
        block = journal.issue("Ada")
        with pytest.raises(InputError, match=r"pair \d+ was not issued to participant 'Bo'"):
            journal.answer("Bo", block.pairs[0], 2.5)
        with pytest.raises(InputError, match=r"the log .*log.jsonl is held by process"):
            Journal(log, PLAN, make_pool())
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"answer": [1')
    with Journal(log, PLAN, make_pool()) as journal:
        assert journal.issue("Ada").number == 1
    with pytest.raises(InputError, match=r"log.jsonl is the log of another study \(pool changed\)"):
        Journal(log, PLAN, make_pool(seed=9))
    log.write_bytes(whole + b"?\n")
    with pytest.raises(InputError, match=r"log.jsonl, line 3 is not JSON; restore it"):
        Journal(log, PLAN, make_pool())


def test_a_pool_that_ends_ends_the_blocks(tmp_path):
    with Journal(tmp_path / "log.jsonl", PLAN, make_pool(8)) as journal:
        assert sorted(journal.issue("Ada").pairs) == [5, 6, 7]
        assert journal.issue("Bo") is None
        assert journal.issue("Ada") == journal.conductor.blocks[0]
