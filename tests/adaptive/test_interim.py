"""Test interim analyses: conclusions, included participants, neutral ratings and items."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from contstim.adaptive.interim import interim_analysis
from contstim.adaptive.link import Link
from contstim.adaptive.policies import PolicyOptions
from contstim.adaptive.posterior import ModelPosterior
from contstim.adaptive.scheduler import AdaptivePlan
from contstim.adaptive.stopping import Stopping
from contstim.errors import InputError
from contstim.evaluation.evaluate import evaluate

LINK = Link(slopes=(0.6, 1.5))


def simulate_study(n_people=30, n_trials=20, seed=0, crossed=True):
    """Return choices of participants who follow model b, and scores; twin equals b."""
    rng = np.random.default_rng(seed)
    n = n_trials if crossed else n_people * n_trials
    names = [f"s{k:04d}" for k in range(2 * n)]
    scores = pd.DataFrame(rng.normal(size=(2 * n, 3)) * 9, index=names, columns=["a", "b", "twin"])
    scores["twin"] = scores["b"]
    rows = []
    for person in range(n_people):
        for t in range(n_trials):
            pair = t if crossed else person * n_trials + t
            one, two = names[2 * pair], names[2 * pair + 1]
            g = (scores.loc[two, "b"] - scores.loc[one, "b"]) / 9
            right = rng.random() < expit(2 * g)
            rows.append((f"p{person}", one, two, 2.5 if right else -2.5))
    columns = ["participant", "sentence_1", "sentence_2", "rating"]
    return pd.DataFrame(rows, columns=columns), scores


def test_identical_models_do_not_differ_significantly():
    choices, scores = simulate_study(60)
    found = interim_analysis(choices, scores, AdaptivePlan(link=LINK, trials=20))
    assert all(one.kind != "best" for one in found.conclusions)
    last = found.pairs.set_index(["model_1", "model_2"])["differs"]
    assert last.to_dict() == {("a", "b"): True, ("a", "twin"): True, ("b", "twin"): False}
    assert found.n_posterior_answers == 20
    accuracy = found.models.set_index("model")["accuracy"]
    assert accuracy["b"] == accuracy["twin"] > 0.7


def test_accuracy_is_the_mean_over_participants_who_finished():
    choices, scores = simulate_study(3, 10, crossed=False)
    plan = AdaptivePlan(link=LINK, trials=10)
    choices.loc[choices["participant"] == "p1", "rating"] *= -1
    begun = choices[(choices["participant"] != "p2") | (choices.index < 25)]
    means = []
    for _, own in choices[choices["participant"] != "p2"].groupby("participant"):
        one, two = (scores.loc[own[f"sentence_{k}"]].to_numpy() for k in (1, 2))
        means.append(((two > one) == (own[["rating"]].to_numpy() > 0)).mean(axis=0))
    found = interim_analysis(begun, scores, plan)
    assert found.models["accuracy"].tolist() == pytest.approx(np.mean(means, axis=0).tolist())
    assert interim_analysis(choices[:5], scores, plan).models["accuracy"].isna().all()


def test_dropouts_do_not_delay_interim_analyses():
    choices, scores = simulate_study(12, 10)
    plan = AdaptivePlan(link=LINK, trials=10)
    for leaver in ("p0", "p5"):
        own = choices["participant"] == leaver
        left = choices[~own | (own.cumsum() <= 3)]
        without = choices[~own]
        found = interim_analysis(left, scores, plan)
        assert [one.n_participants for one in found.conclusions] == list(range(1, 12))
        expected = interim_analysis(without, scores, plan)
        pd.testing.assert_frame_equal(found.pairs, expected.pairs)


def test_participants_are_analysed_in_order_of_completion():
    choices, scores = simulate_study(6, 10)
    stopping = Stopping(analyses=(4, 6), participants=6)
    plan = AdaptivePlan(link=LINK, trials=10, stopping=stopping)
    minutes = pd.to_timedelta(choices.index, unit="min")
    times = (pd.Timestamp("2026-01-01", tz="UTC") + minutes).to_series(index=choices.index)
    late = choices["participant"].isin(["p0", "p1"])
    times[late] += pd.Timedelta("1D")
    choices["received_at"] = times.map(pd.Timestamp.isoformat)
    found = interim_analysis(choices, scores, plan).conclusions[3]
    alone = interim_analysis(choices[~late], scores, plan).conclusions[3]
    pd.testing.assert_frame_equal(found.pairs, alone.pairs)
    backwards = interim_analysis(choices[::-1], scores, plan)
    pd.testing.assert_frame_equal(backwards.conclusions[3].pairs, found.pairs)


def test_neutral_ratings_count_one_half_as_in_evaluate():
    choices, scores = simulate_study(12, 10)
    choices.loc[choices.index % 10 == 3, "rating"] = 0.0
    found = interim_analysis(choices, scores, AdaptivePlan(link=LINK, trials=10))
    assert found.conclusions[-1].n_participants == 12
    assert found.n_chosen_answers == 120
    models = evaluate(choices, scores).models
    accuracy = models[models["measure"] == "accuracy"].set_index("model")["value"]
    ours = found.models.set_index("model")["accuracy"]
    assert ours.to_dict() == pytest.approx(accuracy.to_dict())


@pytest.mark.parametrize("none", ["", None])
def test_pairs_without_an_item_are_separate_items(none):
    choices, scores = simulate_study(12, 10)
    stopping = Stopping(analyses=(6, 12), participants=12)
    plan = AdaptivePlan(link=LINK, trials=10, stopping=stopping)
    plain = interim_analysis(choices, scores, plan).pairs
    unnamed = interim_analysis(choices.assign(item=none), scores, plan).pairs
    pd.testing.assert_frame_equal(unnamed, plain)


def test_posterior_equals_sequential_updates():
    choices, scores = simulate_study(8, 6, crossed=False)
    found = interim_analysis(choices, scores, AdaptivePlan(link=LINK, trials=6))
    posterior = ModelPosterior(LINK, 3)
    sd = scores.to_numpy().std(axis=0)
    for row in choices.itertuples():
        g = (scores.loc[row.sentence_2] - scores.loc[row.sentence_1]).to_numpy() / sd
        posterior.add_answer(row.participant, np.clip(g, -3, 3), int(row.rating > 0))
    np.testing.assert_allclose(found.models["posterior"], posterior.weights, atol=1e-9)
    assert found.n_posterior_answers == 48
    assert found.models["log_e_value"].iloc[0] > found.models["log_e_value"].iloc[1]


def test_swapping_sentences_and_sides_keeps_the_results():
    choices, scores = simulate_study(6, 10, crossed=False)
    plan = AdaptivePlan(link=LINK, trials=10)
    sided = choices.assign(side_1="left")
    swapped = sided.copy()
    swapped[["sentence_1", "sentence_2"]] = sided[["sentence_2", "sentence_1"]].to_numpy()
    swapped["rating"] *= -1
    swapped["side_1"] = "right"
    one, two = (interim_analysis(table, scores, plan).models for table in (sided, swapped))
    pd.testing.assert_frame_equal(one, two)


def test_posterior_uses_answers_in_block_order():
    choices, scores = simulate_study(6, 10, crossed=False)
    plan = AdaptivePlan(link=LINK, trials=10)
    blocks = choices.assign(block=np.repeat(np.arange(6), 10))
    shuffled = blocks.sample(frac=1, random_state=0)
    one, two = (interim_analysis(table, scores, plan).models for table in (blocks, shuffled))
    np.testing.assert_allclose(one["posterior"], two["posterior"])


@pytest.mark.parametrize("name", ["filler", "fillers", "natural_vs_shuffled"])
def test_fillers_and_catch_trials_are_excluded(name):
    """Four main pairs follow model a, and eight pairs of the other condition follow b."""
    names = [f"s{k:02d}" for k in range(24)]
    scores = pd.DataFrame({"a": [0.0, 1.0] * 12, "b": [1.0, 0.0] * 12}, index=names)
    rows = [
        (f"p{person}", names[2 * k], names[2 * k + 1], *(("main", 2.5) if k < 4 else (name, -2.5)))
        for person in range(12)
        for k in range(12)
    ]
    columns = ["participant", "sentence_1", "sentence_2", "condition", "rating"]
    stopping = Stopping(analyses=(6, 12), participants=12)
    plan = AdaptivePlan(trial_selection=PolicyOptions(policy="fixed"), trials=4, stopping=stopping)
    found = interim_analysis(pd.DataFrame(rows, columns=columns), scores, plan)
    assert found.pairs["difference"].tolist() == [1.0]
    assert found.n_chosen_answers == 48
    assert found.first_stop.n_participants == 6


def test_invalid_choices_are_rejected():
    choices, scores = simulate_study(3, 4)
    plan = AdaptivePlan(link=LINK, trials=20)
    for table, message in (
        (choices.drop(columns="rating"), "the choices have no column 'rating'; give one row"),
        (choices.assign(condition="catch"), "there are no answers to chosen trials yet; wait"),
        (choices.assign(block=None), "a chosen trial has no block number; fill"),
        (choices.assign(sentence_1="new"), "sentence 'new' of the pool lacks a finite score"),
    ):
        with pytest.raises(InputError) as error:
            interim_analysis(table, scores, plan)
        assert message in str(error.value)
