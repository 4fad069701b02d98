"""Verdicts: the best, equivalent, futile, or go on, and after whom."""

import numpy as np
import pytest

from contstim.adaptive.sequences import mean_sequence
from contstim.adaptive.stopping import Stopping
from contstim.adaptive.verdicts import person_means, verdicts
from contstim.errors import InputError

RNG = np.random.default_rng(11)


def answers(chances, n_people, n_trials, rng=RNG):
    """Participants' trials and, for each model, whether it predicts the answer."""
    person = np.repeat(np.arange(n_people), n_trials)
    right = rng.random((len(person), len(chances))) < np.array(chances)
    return person, right.astype(float)


def test_the_best_model_is_named_once_it_is_apart_from_all_others():
    person, scores = answers((0.9, 0.5, 0.4), 60, 30)
    found = verdicts(person, scores, ["a", "b", "c"], Stopping())
    kinds = [verdict.kind for verdict in found]
    first = kinds.index("best")
    assert set(kinds[:first]) == {"go on"}
    assert found[first].models == ("a",)
    assert found[first].text == f"a is best, apart from all others, after {first + 1} participants"
    # The ends are those of the confidence sequence at alpha / M on each side.
    means = person_means(person, scores)
    lower, upper = mean_sequence(means[:, 0] - means[:, 1], 2 * 0.05 / 3)
    row = found[first].pairs.iloc[0]
    assert (row["low"], row["high"]) == (lower[first], upper[first])
    assert verdicts(person, scores, ["a", "b", "c"], Stopping(), every=False)[0].kind == kinds[-1]


def test_two_models_that_answer_alike_are_never_told_apart_but_equivalent():
    person, scores = answers((0.85, 0.3), 80, 40)
    scores = scores[:, [0, 0, 1]]
    found = verdicts(person, scores, ["a", "twin", "c"], Stopping(margin=0.2))
    assert "best" not in {verdict.kind for verdict in found}
    assert found[-1].kind == "equivalent"
    assert found[-1].models == ("a", "twin")
    assert "a and twin are equivalent within 0.2" in found[-1].text


def test_constant_designs_are_settled_sooner():
    person, scores = answers((0.8, 0.5), 60, 20)
    adaptive, fixed = (
        [v.kind for v in verdicts(person, scores, ["a", "b"], Stopping(constant=constant))]
        for constant in (False, True)
    )
    assert fixed.index("best") < adaptive.index("best")


def test_what_cannot_be_settled_within_the_budget_is_futile():
    person, scores = answers((0.6, 0.58), 30, 10)
    last = verdicts(person, scores, ["a", "b"], Stopping(margin=0.001, participants=40))[-1]
    assert last.kind == "futile"
    assert last.text.startswith("futile within 40 participants: a and b need")


@pytest.mark.parametrize("constant", [False, True])
def test_studies_that_would_be_decided_are_not_called_futile_before(constant):
    """A difference of .16, which 100 participants of 20 trials each nearly always settle."""
    for seed in range(10):
        right = np.random.default_rng(seed).random(2000) < 0.58
        scores = np.stack([right, ~right], axis=1).astype(float)
        person, stopping = np.repeat(np.arange(100), 20), Stopping(constant=constant)
        kinds = [v.kind for v in verdicts(person, scores, ["a", "b"], stopping)]
        assert "best" in kinds
        assert "futile" not in kinds


def test_two_losers_that_are_alike_do_not_make_a_study_futile():
    rng = np.random.default_rng(0)
    person, scores = answers((0.75, 0.5, 0.5), 60, 20, rng)
    found = verdicts(person, scores, ["a", "b", "c"], Stopping(participants=60))
    assert found[-1].models == ("a",)
    assert {verdict.kind for verdict in found} == {"go on", "best"}
    assert all(" a and " in v.text for v in found if v.kind == "go on")


def test_equal_models_become_futile_before_the_budget_ends():
    right = np.random.default_rng(4).random(2000) < 0.5
    person, scores = np.repeat(np.arange(100), 20), np.stack([right, ~right], axis=1).astype(float)
    kinds = [v.kind for v in verdicts(person, scores, ["a", "b"], Stopping())]
    assert kinds.index("futile") < 80


def test_more_trials_are_advised_where_they_help_and_more_people_where_not():
    rng = np.random.default_rng(2)
    person, scores = answers((0.8, 0.5), 20, 2, rng)
    noisy = verdicts(person, scores, ["a", "b"], Stopping(participants=45))[-1]
    assert noisy.kind == "go on"
    assert "more trials per participant" in noisy.text
    lots = verdicts(person, scores, ["a", "b"], Stopping(participants=5000))[-1]
    assert lots.text.startswith("go on: a and b need about")
    assert lots.text.endswith("more participants")


def test_what_makes_no_sense_is_refused():
    with pytest.raises(
        InputError, match=r"1 model cannot be compared with others; give two or more"
    ):
        verdicts(np.zeros(3, dtype=int), np.zeros((3, 1)), ["a"], Stopping())
    with pytest.raises(InputError, match=r"there are no answers; wait for some"):
        verdicts(np.zeros(0, dtype=int), np.zeros((0, 2)), ["a", "b"], Stopping())
    with pytest.raises(InputError, match=r"participant 1 has no answer; leave them out"):
        verdicts(np.array([0, 2]), np.zeros((2, 2)), ["a", "b"], Stopping())
    with pytest.raises(InputError, match=r"alpha is 1.0; give less than 1"):
        Stopping(alpha=1.0)


@pytest.mark.parametrize("ahead", [[0] * 12 + [1] * 400, [0] * 60 + [1] * 80 + [2] * 200])
def test_constant_intervals_that_contradict_one_another_are_said_and_name_nobody(ahead):
    models = ["a", "b", "c"][: max(ahead) + 1]
    scores = np.eye(len(models))[ahead]
    last = verdicts(np.arange(len(ahead)), scores, models, Stopping(constant=True), every=False)[0]
    assert (last.kind, last.models) == ("go on", tuple(models))
    assert last.text == (
        "go on: models' differences change from participant to participant, so intervals "
        "contradict one another; give stopping.constant = false"
    )


def test_looks_decide_at_the_numbers_that_were_announced_and_stand():
    person, scores = answers((0.8, 0.5, 0.3), 40, 20, np.random.default_rng(5))
    plan = Stopping(rule="looks", looks=(10, 20, 40), participants=40)
    found = verdicts(person, scores, ["a", "b", "c"], plan)
    kinds = [verdict.kind for verdict in found]
    assert kinds[:9] == ["go on"] * 9
    assert found[0].text == "go on: the first look is after 10 participants"
    first = kinds.index("best") + 1
    assert first in (10, 20)
    assert kinds[first - 1 :] == ["best"] * (41 - first)
    assert found[-1].text == f"a is best, apart from all others, after {first} participants"
    assert found[-1].n_participants == 40


@pytest.mark.parametrize("chances", [(0.72, 0.5), (0.72, 0.5, 0.5)])
def test_p_values_of_looks_are_below_the_level_where_models_are_apart(chances):
    stopping = Stopping(rule="looks", looks=(10, 20, 30), participants=30)
    seen = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        person, scores = answers(chances, 30, 4, rng)
        found = verdicts(person, scores, list("abc")[: len(chances)], stopping)
        assert found[0].pairs["p"].isna().all()  # before the first look
        for look in (10, 20, 30):
            pairs = found[look - 1].pairs
            assert ((pairs["p"] < 2 * 0.05 / len(chances)) == pairs["apart"]).all()
            seen += pairs["p"].tolist()
    assert min(seen) < 0.05 < max(seen)


def test_a_pair_that_all_see_is_no_news_from_each_of_them():
    rng = np.random.default_rng(6)
    person, item = np.repeat(np.arange(30), 8), np.tile(np.arange(8), 30)
    right = rng.random(240) < np.where(item < 5, 0.95, 0.05)
    scores = np.stack([right, ~right], axis=1).astype(float)
    plan = Stopping(rule="looks", looks=(15, 30), participants=30)
    alone, crossed = (
        verdicts(person, scores, ["a", "b"], plan, item=which)[-1] for which in (None, item)
    )
    assert alone.kind == "best"
    assert crossed.kind == "futile"
    assert crossed.text.startswith("futile: a and b are ")


def test_models_that_are_alike_are_given_up_and_asymptotic_ends_decide_sooner():
    person, scores = answers((0.6, 0.6), 60, 20, np.random.default_rng(8))
    plan = Stopping(rule="looks", looks=(20, 40, 60), participants=60, margin=0.01)
    assert "futile" in {v.kind for v in verdicts(person, scores, ["a", "b"], plan)}
    person, scores = answers((0.7, 0.5), 60, 20, np.random.default_rng(9))
    exact, asymptotic = (
        [v.kind for v in verdicts(person, scores, ["a", "b"], Stopping(rule=rule))].index("best")
        for rule in ("exact", "asymptotic")
    )
    assert 9 <= asymptotic < exact / 2
