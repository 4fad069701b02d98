"""Test the stopping rule with confidence sequences and prespecified interim analyses."""

import numpy as np
import pytest

from contstim.adaptive.anytime_valid import asymptotic_confidence_sequence
from contstim.adaptive.conclusions import apply_stopping_rule, participant_means
from contstim.adaptive.stopping import Stopping
from contstim.errors import InputError


def simulate_answers(chances, n_people, n_trials, seed=11):
    """Return participants of trials and whether each model predicts each answer."""
    person = np.repeat(np.arange(n_people), n_trials)
    right = np.random.default_rng(seed).random((len(person), len(chances))) < np.array(chances)
    return person, right.astype(float)


def test_best_model_is_concluded_from_confidence_sequences():
    person, scores = simulate_answers((0.9, 0.5, 0.4), 60, 30)
    found = apply_stopping_rule(person, scores, ["a", "b", "c"], Stopping())
    kinds = [one.kind for one in found]
    first = kinds.index("best")
    assert set(kinds[:first]) == {"continue"}
    assert found[first].models == ("a",)
    assert found[first].text.endswith(f"all others, after {first + 1} participants")
    means = participant_means(person, scores)
    lower, upper = asymptotic_confidence_sequence(means[:, 0] - means[:, 1], 2 * 0.05 / 3)
    row = found[first].pairs.iloc[0]
    assert (row["low"], row["high"]) == (lower[first], upper[first])
    last = apply_stopping_rule(person, scores, ["a", "b", "c"], Stopping(), last_only=True)
    assert [one.kind for one in last] == kinds[-1:]


def test_stopping_rule_finds_equivalent_and_inconclusive_models():
    person, scores = simulate_answers((0.85, 0.3), 80, 40)
    found = apply_stopping_rule(
        person, scores[:, [0, 0, 1]], ["a", "twin", "c"], Stopping(margin=0.2)
    )
    assert found[-1].kind == "equivalent"
    assert found[-1].models == ("a", "twin")
    person, scores = simulate_answers((0.6, 0.58), 40, 10)
    stopping = Stopping(margin=0.001, participants=40)
    kinds = [one.kind for one in apply_stopping_rule(person, scores, ["a", "b"], stopping)]
    assert kinds == ["continue"] * 39 + ["inconclusive"]


def test_conclusions_come_only_at_prespecified_analyses():
    person, scores = simulate_answers((0.8, 0.5, 0.3), 40, 20, 5)
    plan = Stopping(analyses=(10, 20, 40), participants=40)
    found = apply_stopping_rule(person, scores, ["a", "b", "c"], plan)
    kinds = [one.kind for one in found]
    assert kinds[:9] == ["continue"] * 9
    assert found[0].text == "continue: the first analysis is after 10 participants"
    first = kinds.index("best") + 1
    assert first in (10, 20)
    assert kinds[first - 1 :] == ["best"] * (41 - first)
    assert found[-1].text.endswith(f"after {first} participants")
    person, scores = simulate_answers((0.6, 0.6), 60, 20, 8)
    plan = Stopping(analyses=(20, 40, 60), participants=60, margin=0.01)
    assert apply_stopping_rule(person, scores, ["a", "b"], plan)[-1].kind == "inconclusive"


@pytest.mark.parametrize("chances", [(0.72, 0.5), (0.72, 0.5, 0.5)])
def test_p_values_agree_with_the_differs_column(chances):
    stopping = Stopping(analyses=(10, 20, 30), participants=30)
    seen = []
    for seed in range(12):
        person, scores = simulate_answers(chances, 30, 4, seed)
        found = apply_stopping_rule(person, scores, list("abc")[: len(chances)], stopping)
        assert found[0].pairs["p"].isna().all()  # before the first analysis
        for n in (10, 20, 30):
            pairs = found[n - 1].pairs
            assert ((pairs["p"] < 2 * 0.05 / len(chances)) == pairs["differs"]).all()
            seen += pairs["p"].tolist()
    assert min(seen) < 0.05 < max(seen)


def test_shared_items_make_conclusions_conservative():
    rng = np.random.default_rng(6)
    person, item = np.repeat(np.arange(30), 8), np.tile(np.arange(8), 30)
    right = rng.random(240) < np.where(item < 5, 0.95, 0.05)
    scores = np.stack([right, ~right], axis=1).astype(float)
    plan = Stopping(analyses=(15, 30), participants=30)
    alone, crossed = (
        apply_stopping_rule(person, scores, ["a", "b"], plan, item=which)[-1]
        for which in (None, item)
    )
    assert (alone.kind, crossed.kind) == ("best", "inconclusive")


def test_stopping_rule_rejects_missing_models_and_answers():
    with pytest.raises(InputError, match="cannot compare 1 model; give at least two"):
        apply_stopping_rule(np.zeros(3, dtype=int), np.zeros((3, 1)), ["a"], Stopping())
    with pytest.raises(InputError, match="there are no answers; wait for some"):
        apply_stopping_rule(np.zeros(0, dtype=int), np.zeros((0, 2)), ["a", "b"], Stopping())
    with pytest.raises(InputError, match="participant 1 has no answer; leave them out"):
        apply_stopping_rule(np.array([0, 2]), np.zeros((2, 2)), ["a", "b"], Stopping())
