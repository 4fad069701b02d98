"""What the first sentences claim, and what they must not."""

from dataclasses import replace

import numpy as np
import pytest

from contstim.evaluation import Analysis, evaluate
from contstim.evaluation.answer import answer_sentences

ONE = {"analyses": (Analysis("all"),), "measures": ("accuracy",)}


def answers_of(choices, truth, wide):
    """Return the first sentences where people answer as `truth` says of a row's pair."""
    choices = choices.assign(rating=np.where(truth, 2.5, -2.5))
    return answer_sentences(evaluate(choices, wide.reset_index(), **ONE))


@pytest.fixture
def study(make_study):
    """Return 20 people's choices on 40 pairs, the pair of each row, and scores of two models."""
    choices, scores = make_study(n_people=20, n_pairs=40, models=("a", "b"))
    pair = choices["trial"].to_numpy() - 1
    rng = np.random.default_rng(1)
    right = rng.random(40) < 0.5
    wide = scores.set_index("sentence") * 0.0
    for p in range(40):
        # Model b errs on every fourth pair.
        sentence = f"{'Second' if right[p] else 'First'} of {p} in 0"
        wide.loc[sentence] = 1.0
        if p % 4 == 0:
            wide.loc[[f"First of {p} in 0", f"Second of {p} in 0"], "b"] = (
                1.0 - (wide.loc[[f"First of {p} in 0", f"Second of {p} in 0"], "a"])
            )
    return choices, pair, right, wide


def noisy(right, pair, share, seed=2):
    """Return answers of which this share is right."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(len(pair)) < share, right[pair], ~right[pair])


def test_a_model_that_is_better_than_chance_and_than_all_others_is_best(study):
    choices, pair, right, wide = study
    first, second, _ = answers_of(choices, noisy(right, pair, 0.9), wide)
    assert first.startswith("a predicts people best (accuracy 0.")
    assert second.startswith("At a false discovery rate of 0.05 it is better than b (difference 0.")
    assert ", 95 % interval 0." in second


def test_random_answers_name_no_best_model(study):
    choices, pair, right, wide = study
    first, *_ = answers_of(choices, noisy(right, pair, 0.5), wide)
    assert first.startswith("No model is shown to predict people better than chance (0.5): ")
    alone, *_ = answers_of(choices, noisy(right, pair, 0.5), wide[["a"]])
    assert alone.startswith("a is not shown to predict people better than chance (accuracy 0.")


def test_what_is_not_decided_is_called_so_with_the_interval_of_the_difference(study):
    choices, pair, right, wide = study
    wide["b"] = wide["a"]
    both = [f"First of {p} in 0" for p in (0, 1)] + [f"Second of {p} in 0" for p in (0, 1)]
    wide.loc[both, "b"] = 1.0 - wide.loc[both, "a"]
    first, second, _ = answers_of(choices, noisy(right, pair, 0.8), wide)
    assert first.startswith("Undecided: a has the highest accuracy (0.")
    assert first.endswith("), but is not shown to be best.")
    assert "not told apart from b (difference 0." in second
    assert "95 % interval -0." in second


def test_models_that_all_lie_below_chance_are_the_first_thing_said(study):
    choices, pair, right, wide = study
    first, *_ = answers_of(choices, noisy(right, pair, 0.1), wide)
    assert first.startswith("Both models lie below chance (0.5); the highest accuracy is 0.")
    assert "check that neither the rating scale nor the scores are turned round" in first


def test_of_tied_winners_none_is_named_alone(study):
    choices, pair, right, wide = study
    wide["c"] = wide["a"] * 2
    sentences = answers_of(choices, noisy(right, pair, 0.9), wide[["a", "c", "b"]])
    assert sentences[0].startswith("Tied: a and c predict people equally well (accuracy 0.")
    assert "each is better than b (difference 0." in sentences[1]
    assert sentences[2].startswith("Each lies ")


def test_tied_winners_with_rivals_of_their_own_are_described_one_by_one(study):
    choices, pair, right, wide = study
    wide["c"], wide["d"] = wide["a"] * 2, wide["b"]
    choices["rating"] = np.where(noisy(right, pair, 0.9), 2.5, -2.5)
    result = evaluate(choices, wide.reset_index(), **ONE)
    table = result.comparisons.set_index(["model_1", "model_2"])
    own = table.loc[[("a", "b"), ("c", "d")]] if ("c", "d") in table.index else None
    assert own is not None
    second = answer_sentences(replace(result, comparisons=own.reset_index()))[1]
    assert "a is better than b (difference 0." in second
    assert "; c is better than d (difference 0." in second


def test_a_model_alone_is_not_called_best(study):
    choices, pair, right, wide = study
    first, *_ = answers_of(choices, noisy(right, pair, 0.9), wide[["a"]])
    assert first.startswith("a predicts people better than chance (accuracy 0.")
    assert first.endswith("; there is no other model to compare it with.")


def test_of_models_that_are_not_above_chance_those_below_it_are_named(study):
    choices, pair, right, wide = study
    wide["b"] = 1 - wide["a"]
    wide["a"] = 0.0  # no preference: chance, exactly
    wide.loc[["First of 0 in 0", "First of 1 in 0"], "a"] = 1.0
    first, *_ = answers_of(choices, noisy(right, pair, 0.8), wide)
    assert first.startswith("No model is shown to predict people better than chance (0.5): ")
    assert first.endswith(", of a; b lies below chance.")


def test_who_beats_a_model_but_not_chance_is_no_contradiction(study):
    choices, pair, right, wide = study
    choices["rating"] = np.where(noisy(right, pair, 0.9), 2.5, -2.5)
    result = evaluate(choices, wide.reset_index(), **ONE)
    assert len(answer_sentences(result)) == 3
    unsure = replace(result, models=result.models.assign(ci_low=0.4))
    first, second, third, _ = answer_sentences(unsure)
    assert first.startswith("No model is shown to predict people better than chance (0.5): ")
    assert "it is better than b" in second
    assert third.startswith("Chance and other models are tested apart; with few people or pairs")


def test_intervals_of_differences_end_where_values_do(study):
    choices, _, right, wide = study
    few = choices[choices["trial"] <= 4]
    pair = few["trial"].to_numpy() - 1
    wide["b"] = 1 - wide["a"]
    truth = np.where(pair < 3, right[pair], ~right[pair])  # three of four pairs
    few = few.assign(rating=np.where(truth, 2.5, -2.5))
    row = evaluate(few, wide.reset_index(), **ONE).comparisons.iloc[0]
    assert row["difference"] == 0.5
    assert (row["ci_high"], row["ci_low"]) == (1.0, pytest.approx(-0.627, abs=0.5))
    assert row["ci_low"] >= -1


def test_without_scores_the_first_sentence_says_that_there_is_no_answer(study):
    choices, _, _, _ = study
    first, second = answer_sentences(evaluate(choices, **ONE))
    assert first == "No answer: no scores of models were given, so that none could be judged."
    assert second.startswith("The best possible model of these people would reach 0.")


def test_what_is_the_same_for_tied_models_is_said_once(study):
    choices, pair, right, wide = study
    wide["c"] = wide["a"] * 2
    choices["rating"] = np.where(noisy(right, pair, 0.9), 2.5, -2.5)
    result = evaluate(choices, wide.reset_index(), **ONE)
    # As if their distances from the third differed.
    of_a = (result.comparisons[["model_1", "model_2"]] == ["a", "b"]).all(axis=1)
    moved = result.comparisons["difference"] + 0.01 * of_a
    second = answer_sentences(
        replace(result, comparisons=result.comparisons.assign(difference=moved))
    )[1]
    assert second == "At a false discovery rate of 0.05 each is better than b."
