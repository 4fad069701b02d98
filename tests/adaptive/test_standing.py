"""How a study stands, from tables; over the pool; blinded; replayed."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from contstim.adaptive.conduct import AdaptivePlan
from contstim.adaptive.policies import Choosing, Pool, View, choose_block, places_of
from contstim.adaptive.posterior import Link, ModelPosterior, Nodes
from contstim.adaptive.standing import pool_scores, replay, study_standing
from contstim.adaptive.stopping import Stopping
from contstim.errors import InputError

LINK = Link(slopes=(0.6, 1.5))
PLAN = AdaptivePlan(link=LINK, trials=20, together=3)


def study(n_people=30, n_trials=20, seed=0, crossed=True):
    """Choices of people who follow model b; model twin is b again."""
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


def test_models_that_choose_alike_are_not_told_apart_and_the_third_is():
    choices, scores = study(60)
    found = study_standing(choices, scores, PLAN)
    assert all(verdict.kind != "best" for verdict in found.verdicts)
    last = found.verdicts[-1].pairs.set_index(["model_1", "model_2"])["apart"]
    assert last.to_dict() == {("a", "b"): True, ("a", "twin"): True, ("b", "twin"): False}
    assert found.n_counted == 20
    assert "first apart: a and b after" in str(found)
    accuracy = found.models.set_index("model")["accuracy"]
    assert accuracy["b"] == accuracy["twin"] > 0.7


def test_accuracy_is_the_mean_over_the_participants_counted():
    choices, scores = study(3, 10, crossed=False)
    plan = AdaptivePlan(link=LINK, trials=10, together=50)
    choices.loc[choices["participant"] == "p1", "rating"] *= -1
    # The last has answered half, and is at it still.
    begun = choices[(choices["participant"] != "p2") | (choices.index < 25)]
    means = []
    for _, own in choices[choices["participant"] != "p2"].groupby("participant"):
        one, two = (scores.loc[own[f"sentence_{k}"]].to_numpy() for k in (1, 2))
        means.append(((two > one) == (own[["rating"]].to_numpy() > 0)).mean(axis=0))
    found = study_standing(begun, scores, plan)
    assert found.models["accuracy"].tolist() == pytest.approx(np.mean(means, axis=0).tolist())
    assert study_standing(choices[:5], scores, plan).models["accuracy"].isna().all()


@pytest.mark.parametrize("none", ["", None])
def test_pairs_without_an_item_are_items_of_their_own(none):
    choices, scores = study(12, 10)
    stopping = Stopping(rule="looks", looks=(6, 12), participants=12)
    plan = AdaptivePlan(link=LINK, trials=10, stopping=stopping)
    plain = study_standing(choices, scores, plan).pairs
    unnamed = study_standing(choices.assign(item=none), scores, plan).pairs
    pd.testing.assert_frame_equal(unnamed, plain)


def test_fresh_pairs_are_believed_and_the_posterior_is_that_of_the_answers_one_by_one():
    choices, scores = study(8, 6, crossed=False)
    plan = AdaptivePlan(link=LINK, trials=6)
    found = study_standing(choices, scores, plan)
    posterior = ModelPosterior(LINK, 3)
    sd = scores.to_numpy().std(axis=0)
    for row in choices.itertuples():
        g = (scores.loc[row.sentence_2] - scores.loc[row.sentence_1]).to_numpy() / sd
        posterior.add(row.participant, np.clip(g, -3, 3), int(row.rating > 0))
    np.testing.assert_allclose(found.models["posterior"], posterior.weights, atol=1e-9)
    assert found.n_counted == 48
    assert found.models["log_e_against"].iloc[0] > found.models["log_e_against"].iloc[1]


def test_sides_turn_with_the_sentences():
    choices, scores = study(6, 10, crossed=False)
    plan = AdaptivePlan(link=LINK, trials=10)
    sided = choices.assign(side_1="left")
    turned = sided.copy()
    turned[["sentence_1", "sentence_2"]] = sided[["sentence_2", "sentence_1"]].to_numpy()
    turned["rating"] *= -1
    turned["side_1"] = "right"
    one, two = (study_standing(table, scores, plan).models for table in (sided, turned))
    pd.testing.assert_frame_equal(one, two)


def test_rows_are_taken_by_block_and_unfinished_people_wait():
    choices, scores = study(6, 10, crossed=False)
    plan = AdaptivePlan(link=LINK, trials=10, together=50)
    blocks = np.repeat(np.arange(6), 10)
    shuffled = choices.assign(block=blocks).sample(frac=1, random_state=0)
    whole = study_standing(shuffled, scores, plan)
    assert whole.verdicts[-1].n_participants == 6
    cut = choices.assign(block=blocks).drop(index=[25])  # the third participant lacks one
    assert study_standing(cut, scores, plan).verdicts[-1].n_participants == 2
    left = AdaptivePlan(link=LINK, trials=10, together=2)
    assert study_standing(cut, scores, left).verdicts[-1].n_participants == 6


def test_the_pool_is_estimated_without_bias_and_the_trials_asked_are_not_the_pool():
    rng = np.random.default_rng(2)
    names = [f"s{k}" for k in range(60)]
    scores = pd.DataFrame(rng.normal(size=(60, 2)), index=names, columns=["a", "b"])
    pairs = pd.DataFrame({"sentence_1": names[:30], "sentence_2": names[30:]})
    choosing = Choosing(policy="disagreement", epsilon=0.4, temperature=0.3, block=4)
    nodes = Nodes(LINK)
    pool = Pool.of(pairs, scores, nodes.link)
    places, none = places_of(pool.preferences, nodes), np.zeros((2, 2, 257), dtype=np.float32)
    view = View(places, pool.preferences, np.ones(30, dtype=bool), np.full(2, 0.5), none)
    chance = expit(1.5 * pool.preferences[:, 0])
    truth = np.where(pool.preferences[:, 0] > 0, chance, 1 - chance).mean()
    estimates, naive = [], []
    for seed in range(600):
        chosen, propensities = choose_block(choosing, view, np.random.default_rng(seed))
        chose = rng.random(4) < chance[chosen]
        right = (chose == (pool.preferences[chosen, 0] > 0)).astype(float)[:, None]
        estimates.append(pool_scores(right, np.array(propensities), 30.0).mean())
        naive.append(right.mean())
    error = np.std(estimates) / np.sqrt(600)
    assert abs(np.mean(estimates) - truth) < 3 * error
    assert abs(np.mean(naive) - truth) > 3 * np.std(naive) / np.sqrt(600)


def test_a_replay_asks_what_was_answered_and_fresh_pairs_first():
    choices, scores = study(10, 20)
    for policy in ("information", "fixed", "random"):
        plan = AdaptivePlan(choosing=Choosing(policy=policy, block=2), link=LINK, trials=4)
        asked, found = replay(choices, scores, plan)
        assert len(asked) == 40
        assert found.n_counted == 20
        assert not asked.duplicated(["participant", "sentence_1"]).any()
        assert not asked.head(20).duplicated("sentence_1").any()
        assert found.verdicts[-1].n_participants == 10


def test_a_replay_that_is_to_speak_of_the_pool_is_refused():
    choices, scores = study(3, 4)
    plan = AdaptivePlan(link=LINK, stopping=Stopping(over="pool"))
    with pytest.raises(InputError, match=r"says nothing of the pool; give stopping.over = 'asked'"):
        replay(choices.assign(propensity=1.0, available=4, pool=4), scores, plan)


@pytest.mark.parametrize("name", ["filler", "fillers", "natural_vs_shuffled"])
def test_fillers_and_catch_trials_do_not_speak_for_a_model(name):
    """Four pairs follow a, eight of another condition b: only those of the design count."""
    names = [f"s{k:02d}" for k in range(24)]
    scores = pd.DataFrame({"a": [0.0, 1.0] * 12, "b": [1.0, 0.0] * 12}, index=names)
    rows = [
        (f"p{person}", names[2 * k], names[2 * k + 1], *(("main", 2.5) if k < 4 else (name, -2.5)))
        for person in range(12)
        for k in range(12)
    ]
    columns = ["participant", "sentence_1", "sentence_2", "condition", "rating"]
    stopping = Stopping(rule="looks", looks=(6, 12), participants=12)
    plan = AdaptivePlan(choosing=Choosing(policy="fixed"), trials=4, stopping=stopping)
    standing = study_standing(pd.DataFrame(rows, columns=columns), scores, plan)
    assert standing.verdicts[-1].pairs["difference"].tolist() == [1.0]
    assert standing.n_answers == 48
    assert standing.settled.n_participants == 6


def test_what_cannot_be_used_is_refused():
    choices, scores = study(3, 4)
    for table, plan, message in (
        (choices.drop(columns="rating"), PLAN, "the choices have no column 'rating'; give one row"),
        (
            choices.assign(condition="catch"),
            PLAN,
            "there are no answers to chosen trials yet; wait",
        ),
        (choices.assign(block=None), PLAN, "a chosen trial has no block number; fill"),
        (choices.assign(sentence_1="new"), PLAN, "sentence 'new' of the pool has no finite score"),
        (
            choices,
            AdaptivePlan(stopping=Stopping(over="pool")),
            "the choices have no column 'propensity', without which nothing can be said about the",
        ),
        (
            choices.assign(propensity=0.001, available=10, pool=10),
            AdaptivePlan(stopping=Stopping(over="pool")),
            "propensity 0.001 is below choosing.epsilon / available = 0.01; give the epsilon",
        ),
        (
            choices.assign(propensity=0.1, available=36, pool=60, block=0),
            AdaptivePlan(stopping=Stopping(over="pool")),
            "pool is 60 and available is 36, when at most 0 pairs had been issued; give as pool",
        ),
    ):
        with pytest.raises(InputError) as error:
            study_standing(table, scores, plan)
        assert message in str(error.value)
