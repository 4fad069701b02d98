"""Test simulated adaptive studies."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from pools import PLAN, make_pool

from contstim.adaptive import Stopping, TrialScheduler, simulate
from contstim.adaptive.interim import analyse_trials
from contstim.adaptive.link import SIX_POINT
from contstim.adaptive.simulation import _simulate_study, collect_trials, simulate_answers
from contstim.errors import InputError, UnknownNameError
from contstim.response_model import ResponseModel

SURE = ResponseModel(slope=50, slope_sd=0, side_sd=0, item_sd=0, lapse=0)
SHORT = replace(PLAN, trials=4, stopping=Stopping(participants=12, margin=0.01))


def test_deterministic_participants_recover_their_model() -> None:
    pool = make_pool()
    found = simulate(SHORT, pool, None, SURE, n_studies=6)
    assert found["truth"].tolist() == list("abcabc")
    assert found["recovered"].all()
    assert found["most_probable"].tolist() == found["truth"].tolist()
    assert not found["false_winner"].any()
    assert (found["participants"] <= 12).all()
    pd.testing.assert_frame_equal(found, simulate(SHORT, pool, None, SURE, n_studies=6))


def test_participants_following_no_model_recover_none() -> None:
    pool = make_pool(150)
    opposite = replace(pool, preferences=pool.preferences[:, [0, 0, 0]] * [1, -1, -1])
    far = replace(PLAN, trials=6, stopping=Stopping(participants=24, margin=0.01))
    told = simulate(far, opposite, "a", SURE, n_studies=1)
    # People who lean to one side, and follow nobody, name nobody.
    none = simulate(far, opposite, (), replace(SURE, side_sd=3.0), n_studies=1)
    assert told["model"].item() == "a"
    assert not told["false_winner"].item()
    assert (none["kind"] != "best").all()
    assert none["truth"].item() == ""
    assert not none["recovered"].any()


def test_tied_models_are_most_probable_equally_often() -> None:
    pool = make_pool()
    differ = np.sign(pool.preferences[:, 0]) != np.sign(pool.preferences[:, 1])
    only = replace(pool, pairs=pool.pairs[differ].reset_index(drop=True))
    only = replace(only, log_ratios=pool.log_ratios[differ], preferences=pool.preferences[differ])
    found = simulate(replace(SHORT, trials=1), only, ("a", "b"), SURE, n_studies=20)
    assert found["truth"].unique().tolist() == ["a = b"]
    # With preferences of 0 sure people toss a coin.
    named = (found["most_probable"] == "a").mean()
    assert 0.15 < named < 0.85
    assert not found["recovered"].any()


def test_links_with_thresholds_simulate_ratings() -> None:
    plan = replace(SHORT, link=replace(SHORT.link, thresholds=SIX_POINT))
    assert simulate(plan, make_pool(), "b", SURE, n_studies=1)["recovered"].all()


@pytest.mark.parametrize("analyses", [(), (4, 8, 12)])
def test_studies_end_at_the_first_possible_stop(analyses) -> None:
    stopping = Stopping(participants=12, margin=0.2, analyses=analyses)
    pool, plan = make_pool(), replace(SHORT, stopping=stopping)
    preferences = pool.preferences[:, 0]
    result, conclusion = _simulate_study(plan, pool, preferences, SURE, np.random.default_rng(3))
    # The same study once more, without an analysis before its end.
    rng, log = np.random.default_rng(3), []
    effects = SURE.item_sd * rng.normal(size=len(preferences))
    scheduler = TrialScheduler(plan, pool)
    for person, block, ratings in simulate_answers(scheduler, preferences, effects, SURE, rng):
        sides = np.where(block.swapped_sides, -1, 1)
        for row in zip(block.pairs, sides, sides * ratings, strict=True):
            log.append((person, *row))
    first = analyse_trials(collect_trials(log, pool), plan).first_stop
    assert first is not None
    assert first.n_participants == conclusion.n_participants <= 12
    assert first.text == conclusion.text
    assert len(result.conclusions) == 1


def test_simulated_answers_use_curve_and_item_effects() -> None:
    pool = make_pool()
    nothing, effects = np.zeros(len(pool.pairs)), np.where(np.arange(len(pool.pairs)) % 2, 1, -1)
    scheduler = TrialScheduler(replace(SHORT, trials=9), pool)
    rng, people = np.random.default_rng(0), replace(SURE, side_sd=0.0)

    def step(x):
        return (x > 0).astype(float)

    told = list(simulate_answers(scheduler, nothing, effects, people, rng, step))
    assert len(told) == 18 + 1  # 55 pairs beside the anchors: nobody is asked one twice
    for _, block, ratings in told:
        assert ratings == [2.5 if pair % 2 else -2.5 for pair in block.pairs]


def test_pools_too_small_for_one_participant_are_rejected() -> None:
    with pytest.raises(InputError, match="the pool has 60 pairs, too few for the 56 trials"):
        simulate(replace(PLAN, trials=56), make_pool(), n_studies=1)


def test_unknown_true_models_are_rejected() -> None:
    with pytest.raises(UnknownNameError, match="'d'"):
        simulate(SHORT, make_pool(), "d")
