"""Test the summary of a result in three sentences, `contstim.evaluation.summary`."""

import numpy as np
import pytest

from contstim.evaluation import Analysis, ExclusionRules, evaluate
from contstim.evaluation.summary import describe_sample, summarize

ONE = {"analyses": (Analysis("all"),), "measures": ("accuracy",)}


def summarize_answers(choices, truth, wide):
    """Return the summary of a study with the answers `truth`."""
    choices = choices.assign(rating=np.where(truth, 2.5, -2.5))
    return summarize(evaluate(choices, wide.reset_index(), **ONE))


@pytest.fixture
def study(make_study):
    """Return choices of 20 participants on 40 pairs, pair numbers, and scores of two models."""
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


def noisy_answers(right, pair, share, seed=2):
    """Return answers with the share `share` of right ones."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(len(pair)) < share, right[pair], ~right[pair])


def test_summary_names_the_best_model(study):
    choices, pair, right, wide = study
    first, second, third = summarize_answers(choices, noisy_answers(right, pair, 0.9), wide)
    assert first.startswith("a predicts people best (accuracy 0.")
    assert second.startswith("At a false discovery rate of 0.05, a is better than b (difference 0.")
    assert ", 95 % interval 0." in second
    assert third.startswith("It is at the lower bound of the noise ceiling (0.898 to 0.898; q =")


def test_random_answers_name_no_best_model(study):
    choices, pair, right, wide = study
    for columns in (["a", "b"], ["a"]):
        first, *_ = summarize_answers(choices, noisy_answers(right, pair, 0.5), wide[columns])
        assert first.startswith("No model predicts people significantly better than chance (0.5); ")


def test_nonsignificant_difference_is_undecided(study):
    choices, pair, right, wide = study
    wide["b"] = wide["a"]
    both = [f"First of {p} in 0" for p in (0, 1)] + [f"Second of {p} in 0" for p in (0, 1)]
    wide.loc[both, "b"] = 1.0 - wide.loc[both, "a"]
    first, second, _ = summarize_answers(choices, noisy_answers(right, pair, 0.8), wide)
    assert first.startswith("Undecided: a has the highest accuracy 0.")
    assert first.endswith(", but is not shown to be the best.")
    assert "not significantly different from b (difference 0." in second
    assert "95 % interval -0." in second


def test_indistinguishable_models_are_not_compared(study):
    """Neither a tie nor an equivalence of the two models is reported."""
    choices, pair, right, wide = study
    wide["c"] = wide["a"] * 2
    choices = choices.assign(rating=np.where(noisy_answers(right, pair, 0.9), 2.5, -2.5))
    result = evaluate(choices, wide[["a", "c", "b"]].reset_index(), **ONE)
    sample = " ".join(describe_sample(result))
    assert (
        "These trials cannot distinguish a and c: they prefer the same sentence in all 40 pairs. "
        "Of 40 sentence pairs, a and b disagree on 10; c and b disagree on 10."
    ) in sample
    first, second, _ = summarize(result)
    assert first.startswith(
        "a and c predict people equally well and better than every other model (accuracy 0."
    )
    assert "better than b" in second
    assert "equivalent" not in first + second
    row = result.comparisons.query("model_1 == 'a' and model_2 == 'c'").iloc[0]
    assert (row["conclusion"], row["difference"]) == ("indistinguishable", 0)
    assert row["note"] == "both models prefer the same sentence of every pair"
    only = evaluate(choices, wide[["a", "c"]].reset_index(), **ONE)
    assert "equivalent" not in " ".join(summarize(only))
    assert len(summarize(only)) == 2


def test_disagreements_of_many_models_are_given_as_a_range(study):
    choices, _, _, wide = study
    wide["c"], wide["d"] = 1 - wide["a"], 1 - wide["b"]
    sample = describe_sample(evaluate(choices, wide.reset_index(), **ONE))
    assert "Of 40 sentence pairs, two models disagree on 10 to 40." in sample


def test_models_below_chance_are_reported_with_advice(study):
    choices, pair, right, wide = study
    choices = choices.assign(rating=np.where(noisy_answers(right, pair, 0.1), 2.5, -2.5))
    result = evaluate(choices, wide.reset_index(), **ONE)
    assert summarize(result)[0].startswith("Every model is below chance (0.5); the highest is b (")
    note = describe_sample(result)[-1]
    assert note.startswith("Below chance: a (0.")
    assert (
        "check that the sentences, the ends of the scale or the sign of the scores are not" in note
    )
    right_way = choices.assign(rating=-choices["rating"])
    above = describe_sample(evaluate(right_way, wide.reset_index(), **ONE))
    assert "Below chance" not in " ".join(above)


def test_single_model_is_not_called_best(study):
    choices, pair, right, wide = study
    first, *_ = summarize_answers(choices, noisy_answers(right, pair, 0.9), wide[["a"]])
    assert first.startswith("a predicts people better than chance (accuracy 0.")


def test_exclusions_are_counted_by_rule(study):
    choices, pair, right, wide = study
    choices = choices.assign(rating=np.where(right[pair], 2.5, -2.5))
    choices = choices[(choices["participant"] != "s1") | (choices["trial"] <= 5)]
    choices.loc[choices["participant"] == "s0", "rt_ms"] = 50.0
    rules = ExclusionRules(min_trials=10, min_median_rt_ms=100)
    sample = describe_sample(evaluate(choices, wide.reset_index(), exclusions=rules, **ONE))
    assert sample[0] == "Analysed: 18 participants, 720 choices on 40 sentence pairs."
    assert sample[1].startswith("Excluded: ")
    assert "(40 choices of 1 participant)" in sample[1]
    assert "few trials (5 choices of 1 participant)" in sample[1]


def test_difference_intervals_stay_within_their_range(study):
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


def test_without_scores_no_model_is_evaluated(study):
    choices, _, _, _ = study
    assert summarize(evaluate(choices, **ONE)) == [
        "No model was evaluated: no scores of models were given."
    ]
