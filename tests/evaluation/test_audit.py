"""The audit: calibrated among honest participants, and finds those who follow a model.

Of `contstim.evaluation.audit` and `contstim.evaluation.following`.
"""

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import false_discovery_control

from contstim.errors import InputError
from contstim.evaluation.audit import _holm, _longest_run, audit, pattern_table
from contstim.evaluation.following import (
    Votes,
    _score,
    _slope,
    following_table,
    influence_table,
    read_votes,
)

MODELS = ("m0", "m1", "m2")


def people(
    seed: int, groups: int = 4, n: int = 8, trials: int = 80, followers: int = 0
) -> list[Votes]:
    """Simulate people of different sensitivity who share preferences, models a little like them.

    The first `followers` participants of the first group answer as model 0 but for 5 % lapses.
    """
    rng = np.random.default_rng(seed)
    found = []
    for group in range(groups):
        base = rng.normal(size=trials)
        models = 0.5 * base + np.sqrt(0.75) * rng.normal(size=(len(MODELS), trials))
        slope = np.exp(rng.normal(scale=0.5, size=(n, 1)))
        latent = 1.5 * base + rng.normal(scale=0.7, size=(n, trials))
        chose = (rng.random((n, trials)) < expit(slope * latent)).astype(float)
        if group == 0 and followers:
            lapse = rng.random((followers, trials)) < 0.05
            answer = rng.random((followers, trials)) < 0.5
            chose[:followers] = np.where(lapse, answer, models[0] > 0)
        names = tuple(f"{group}-{i}" for i in range(n))
        found.append(Votes(names, chose, np.sign(models)))
    return found


def test_honest_participants_are_seldom_flagged() -> None:
    tables = [following_table(people(seed), MODELS) for seed in range(25)]
    flagged = [bool((table["q"] < 0.05).any()) for table in tables]
    # At most 5 % of such studies should have any flag; 5 of 25 has a probability of 0.007 then.
    assert sum(flagged) < 5
    rate = float(np.mean([(table["p"] < 0.05).mean() for table in tables]))
    assert 0.02 < rate < 0.07


def test_followers_are_found() -> None:
    for seed in range(10):
        table = following_table(people(seed, followers=2), MODELS).set_index("participant")
        own = table[table["model"] == "m0"]
        assert (own["q"][["0-0", "0-1"]] < 0.05).all()
        assert (own["agreement"][["0-0", "0-1"]] > 0.9).all()
        assert (own["expected"][["0-0", "0-1"]] < 0.8).all()


def test_the_score_is_that_of_the_likelihood() -> None:
    """The statistic is the gradient over its standard error, by numerical differentiation."""
    rng = np.random.default_rng(0)
    x, m = rng.normal(size=60), rng.choice([-1.0, 1.0], 60)
    y = (rng.random(60) < expit(x)).astype(float)

    def loss(a: float, b: float) -> float:
        eta = a * x + b * m
        return float((y * eta - np.log1p(np.exp(eta))).sum())

    slope = _slope(x, y)
    assert loss(slope, 0) == max(loss(slope + d, 0) for d in (-0.01, 0, 0.01))
    h = 1e-3
    gradient = (loss(slope, h) - loss(slope, -h)) / (2 * h)
    hessian = np.empty((2, 2))
    for i, j in itertools.product(range(2), range(2)):
        steps = np.eye(2) * h
        corners = [
            loss(slope + (a * steps[i] + b * steps[j])[0], (a * steps[i] + b * steps[j])[1]) * a * b
            for a in (-1, 1)
            for b in (-1, 1)
        ]
        hessian[i, j] = -sum(corners) / (4 * h * h)
    efficient = hessian[1, 1] - hessian[0, 1] ** 2 / hessian[0, 0]
    assert _score(x, y, m, expit(slope * x)) == pytest.approx(gradient / np.sqrt(efficient), 1e-4)


def test_the_slope_is_bounded_and_free_where_nothing_is_known() -> None:
    x = np.array([1.0, 2.0, -1.0])
    assert _slope(x, np.array([1.0, 1.0, 0.0])) == 6
    assert _slope(x, np.array([0.0, 0.0, 1.0])) == -6
    assert _score(x * 0, np.ones(3), np.ones(3), expit(_slope(x * 0, np.ones(3)) * x * 0)) == (
        pytest.approx(3**0.5)
    )


def test_q_values_leave_out_who_is_not_judged() -> None:
    groups = people(0, groups=2)
    few = Votes(("few-1",), groups[0].chose_2[:1], groups[0].prefers)
    table = following_table([*groups, few], MODELS)
    assert table["q"].isna().sum() == len(MODELS)
    judged = table[table["q"].notna()]
    assert judged["q"].to_numpy() == pytest.approx(false_discovery_control(judged["p"]))
    assert _holm(pd.Series([0.01, 0.04, 0.03])).tolist() == pytest.approx([0.03, 0.06, 0.06])


def test_small_groups_and_few_trials_are_not_judged() -> None:
    small = following_table(people(0, groups=1, n=3), MODELS)
    assert small["z"].isna().all()
    few = following_table(people(0, trials=9), MODELS)
    assert few["q"].isna().all()


def test_influence_by_hand() -> None:
    chose = np.array([[1.0, 1, 0, 0], [1, 0, 0, np.nan]])
    prefers = np.array([[1.0, 1, 1, 1], [-1, -1, -1, -1]])
    votes = [Votes(("a", "b"), chose, prefers)]
    table = influence_table(votes, ["up", "down"], [0, 2]).set_index(["k", "model"])
    before = (2 / 4 + 1 / 3) / 2
    assert table.loc[(0, "up"), "accuracy_with"] == pytest.approx(before)
    assert table.loc[(0, "up"), ["rank", "first"]].tolist() == [2, 0]
    # Both replaced by followers of `up`, who lapse in 2 % of the trials and are then half right.
    assert table.loc[(2, "up"), "accuracy_with"] == pytest.approx(0.99)
    assert table.loc[(2, "up"), ["rank_with", "first"]].tolist() == [1, 1]
    with pytest.raises(InputError, match="3 participants cannot be replaced; there are 2"):
        influence_table(votes, ["up", "down"], [3])


def test_influence_grows_with_the_number() -> None:
    table = influence_table(people(3), MODELS, [1, 4, 16])
    for _, own in table.groupby("model"):
        assert own["accuracy_with"].is_monotonic_increasing
        assert own["first"].is_monotonic_increasing


def choices(seed: int = 0, n: int = 12, trials: int = 40) -> pd.DataFrame:
    """Return choices of honest participants as the export has them."""
    rng = np.random.default_rng(seed)
    rows = [(f"p{i}", t) for i in range(n) for t in range(1, trials + 1)]
    table = pd.DataFrame(rows, columns=["participant", "trial"])
    table["group"], table["condition"] = 1, "natural_controversial"
    table["sentence_1"] = "one " + table["trial"].astype(str)
    table["sentence_2"] = "two " + table["trial"].astype(str)
    table["choice"] = rng.choice([-3, -2, -1, 1, 2, 3], len(table))
    table["rating"] = table["choice"] - np.sign(table["choice"]) * 0.5
    table["rt_ms"] = np.exp(rng.normal(8, 0.5, len(table)))
    table["focus_losses"] = (rng.random(len(table)) < 0.03).astype(int)
    table["hidden_ms"] = 0.0
    return table


@pytest.mark.parametrize(
    ("column", "change", "flag"),
    [
        ("rt_ms", lambda own: own.where(np.arange(len(own)) % 5 > 0, 250), "impossible times"),
        ("rt_ms", lambda own: own * 0 + np.linspace(2900, 3100, len(own)), "even times"),
        ("focus_losses", lambda own: own * 0 + (np.arange(len(own)) % 3 == 0), "focus"),
        ("hidden_ms", lambda own: own + 5000, "focus"),
        ("choice", lambda own: own * 0 - 2, "straight-lining"),
        ("choice", lambda own: own.sort_values().to_numpy(), "straight-lining"),
    ],
)
def test_patterns(column: str, change: Callable[[pd.Series], object], flag: str) -> None:
    table = choices()
    assert (pattern_table(table)["flags"] == "").all()
    here = table["participant"] == "p3"
    table.loc[here, column] = change(table.loc[here, column])
    found = pattern_table(table).set_index("participant")["flags"]
    assert found["p3"] == flag
    assert (found.drop("p3") == "").all()


def test_runs_by_brute_force() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        row = rng.integers(0, 3, 12)
        wanted = max(len(list(run)) for _, run in itertools.groupby(row.tolist()))
        assert _longest_run(row[None])[0] == wanted
    few = pattern_table(choices(trials=9).assign(choice=1))
    assert (few["flags"] == "").all()


def test_votes_are_read_as_choices_say() -> None:
    table = choices(n=4, trials=12)
    table.loc[[0, 1], "condition"] = ["catch", "natural_vs_shuffled"]
    scores = pd.DataFrame({"m": [0.0, 1.0]}, index=["one 1", "two 1"])
    with pytest.raises(InputError, match="there is no score of"):
        read_votes(table, scores)
    names = [f"{word} {t}" for word in ("one", "two") for t in range(1, 13)]
    scores = pd.DataFrame({"m": np.arange(24.0)}, index=names)
    (votes,) = read_votes(table, scores)
    assert (votes.prefers == 1).all()
    for own, of_models, message in (
        (
            table,
            scores.where(scores["m"] != 3),
            "there is no score of 'one 4'; score all sentences of the study",
        ),
        (table, pd.concat([scores, scores[:1]]), "'one 1' has two rows of scores; keep one"),
        (table, scores[[]], "the scores name no model; give those of at least one"),
        (
            table.assign(rating=0.0),
            scores,
            "the only preferences are in catch trials; there are no votes to count",
        ),
    ):
        with pytest.raises(InputError) as caught:
            read_votes(own, of_models)
        assert str(caught.value) == message
    assert np.isnan(votes.chose_2).sum() == 2
    right = (table["rating"] > 0).sum() - (table.loc[[0, 1], "rating"] > 0).sum()
    assert np.nansum(votes.chose_2) == right


def test_the_report(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    table = choices(n=12, trials=60)
    names = [f"{word} {t}" for word in ("one", "two") for t in range(1, 61)]
    scores = pd.DataFrame({m: rng.normal(size=120) for m in MODELS}, index=names)
    here = table["participant"] == "p3"
    one, two = (scores["m1"][table.loc[here, f"sentence_{k}"]].to_numpy() for k in (1, 2))
    table.loc[here, "rating"] = 2.5 * np.sign(two - one)
    found = audit(table, scores)
    assert found.flags["participant"].tolist() == ["p3"]
    assert found.flags["reason"].tolist() == ["follows m1"]
    found.write(tmp_path)
    text = (tmp_path / "audit.md").read_text("utf-8")
    assert "1 of 12 participants have a flag" in text
    assert "p3: follows m1 (100% of 60 choices" in text
    assert set(found.influence["k"]) == {1, 2, 5, 10}
    assert pd.read_csv(tmp_path / "influence.csv").shape == (12, 8)
