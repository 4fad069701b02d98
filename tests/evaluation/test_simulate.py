import numpy as np
import pandas as pd
import pytest

from contstim.errors import InputError, UnknownNameError
from contstim.evaluation import evaluate
from contstim.evaluation.exclusion import ExclusionRules, exclude
from contstim.evaluation.simulate import Simulation, power, simulate_choices


def design_and_scores(n_pairs=60, n_groups=1, seed=0, models=("a", "b", "c")):
    rng = np.random.default_rng(seed)
    rows, scores = [], {}
    for g in range(n_groups):
        for p in range(n_pairs):
            one, two = f"one {g} {p}", f"two {g} {p}"
            rows.append({"group": f"g{g}", "trial": p, "sentence_1": one, "sentence_2": two})
            scores[one] = rng.normal(-40, 5, size=len(models))
            scores[two] = rng.normal(-40, 5, size=len(models))
    wide = pd.DataFrame(scores, index=list(models)).T.rename_axis("sentence").reset_index()
    return pd.DataFrame(rows), wide


@pytest.mark.parametrize("n_groups", [1, 4])
def test_the_model_that_people_follow_is_found_at_the_ceiling(n_groups):
    design, scores = design_and_scores(n_groups=n_groups)
    simulation = Simulation.of("b", noise=0.7, lapse=0.02)
    choices = simulate_choices(design, scores, simulation, 20, seed=1)
    result = evaluate(choices, scores, n_bootstrap=0)
    for _, block in result.models.query("analysis == 'all'").groupby("measure"):
        rows = block.set_index("model")
        assert rows["value"].idxmax() == "b"
        best = rows.loc["b"]
        assert best["ceiling_lower"] <= best["value"] + 0.01
        assert best["value"] <= best["ceiling_upper"] + 0.01
        assert (rows.drop("b")["value"] < best["ceiling_lower"] - 0.2).all()


@pytest.mark.parametrize("natural", [0.0, -200.0])
def test_catch_trials_say_which_sentence_is_right(natural):
    design, scores = design_and_scores(n_pairs=4)
    design["condition"] = ["a", "catch", "catch", "a"]
    shown = design.loc[design["condition"] == "catch", "sentence_1"]
    scores.loc[scores["sentence"].isin(shown), "b"] = natural
    choices = simulate_choices(design, scores, Simulation.of("b", noise=0, lapse=0), 2, seed=1)
    catch = choices[choices["condition"] == "catch"]
    right = catch["sentence_1"].where(catch["expected"] == 1, catch["sentence_2"])
    assert set(right) == set(shown)
    assert choices.loc[choices["condition"] == "a", "expected"].isna().all()
    rules = ExclusionRules(min_catch_correct=1.0)
    if natural == 0:
        assert len(exclude(choices, rules)[0]) == len(choices)
    else:
        with pytest.raises(InputError, match="leave no choices"):
            exclude(choices, rules)


def test_the_mixture_weight_is_ordered_rightly():
    design, scores = design_and_scores(n_pairs=150)
    values = []
    for weight in (0.0, 0.25, 0.5, 0.75, 1.0):
        simulation = Simulation.of({"a": weight, "b": 1 - weight}, noise=0.5)
        choices = simulate_choices(design, scores, simulation, 10, seed=2)
        models = evaluate(choices, scores, n_bootstrap=0).models
        values.append(
            models.query("measure == 'signed_rank_cosine' and model == 'a'")["value"].iloc[0]
        )
    assert values == sorted(values)
    assert values[-1] - values[0] > 0.5


def test_answers_without_noise_are_the_preferences():
    design, scores = design_and_scores(n_pairs=200)
    still = Simulation.of("a", noise=0, lapse=0, confident=0.5, very_confident=1.0)
    choices = simulate_choices(design, scores, still, 1)
    lp = scores.set_index("sentence")["a"]
    ratio = lp.loc[choices["sentence_2"]].to_numpy() - lp.loc[choices["sentence_1"]].to_numpy()
    size = np.abs(ratio) / np.sqrt((ratio**2).mean())
    expected = np.sign(ratio) * np.select([size < 0.5, size < 1.0], [0.5, 1.5], 2.5)
    np.testing.assert_array_equal(choices["rating"], expected)


def test_lapses_are_uniform_over_ratings():
    design, scores = design_and_scores(n_pairs=200)
    lapsed = simulate_choices(design, scores, Simulation.of("a", noise=0, lapse=1), 60, seed=4)
    counts = lapsed["rating"].value_counts(normalize=True)
    assert set(counts.index) == {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5}
    np.testing.assert_allclose(counts, 1 / 6, atol=0.015)


def test_a_design_with_participants_is_kept():
    design, scores = design_and_scores(n_pairs=6)
    own = pd.concat([design.assign(participant="x"), design.iloc[:2].assign(participant="y")])
    choices = simulate_choices(own, scores, Simulation.of("a"))
    assert choices.groupby("participant").size().to_dict() == {"x": 6, "y": 2}
    again = simulate_choices(own, scores, Simulation.of("a"))
    pd.testing.assert_frame_equal(choices, again)
    none = simulate_choices(design, None, Simulation(), 2)
    assert len(none) == 12


@pytest.mark.parametrize(("unit", "n_groups"), [("participant", 1), ("group", 12)])
def test_a_null_design_has_the_nominal_false_alarm_rate(unit, n_groups):
    design, scores = design_and_scores(n_pairs=40)
    table = power(
        design,
        scores,
        ("a", "b"),
        Simulation(),
        n_groups=[n_groups],
        n_participants=[24 // n_groups],
        measure="signed_rank_cosine",
        unit=unit,
        n_simulations=1000,
        seed=3,
    ).iloc[0]
    assert 0.03 <= table["power"] <= 0.07
    assert table["low"] <= 0.05 <= table["high"]
    assert 0.25 < table["first_better"] / table["power"] < 0.75


def test_power_grows_with_people_and_trials():
    design, scores = design_and_scores(n_pairs=60)
    simulation = Simulation.of({"a": 0.7, "b": 0.3}, noise=2.5)
    table = power(
        design,
        scores,
        ("a", "b"),
        simulation,
        n_groups=[1],
        n_participants=[8, 40],
        n_trials=[15, 60],
        n_simulations=150,
    ).set_index(["n_participants", "n_trials"])
    assert table.loc[(40, 60), "power"] > table.loc[(8, 15), "power"] + 0.2
    assert table["power"].between(table["low"], table["high"]).all()
    assert table.loc[(40, 60), "first_better"] > 0.9 * table.loc[(40, 60), "power"]


def test_groups_have_their_own_pairs():
    design, scores = design_and_scores(n_pairs=10, n_groups=7)
    table = power(design, scores, ("a", "b"), Simulation.of("a"), [7], [3], n_simulations=20)
    row = table.iloc[0]
    assert (row["unit"], row["n_units"], row["n_trials"]) == ("group", 7, 10)
    assert row["power"] > 0.8
    # Five groups cannot give p below 2 / 2^5.
    five = power(
        design, scores, ("a", "b"), Simulation.of("a"), [5], [3], unit="group", n_simulations=20
    )
    assert five["power"].tolist() == [0]
    with pytest.raises(InputError, match="8 groups are asked for, the design has 7"):
        power(design, scores, ("a", "b"), Simulation.of("a"), [8], [3], n_simulations=1)
    with pytest.raises(InputError, match="11 trials a group are asked for and a group has 10"):
        power(design, scores, ("a", "b"), Simulation.of("a"), [2], [3], [11], n_simulations=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d, s: Simulation(noise=-1), "noise is -1; give at least 0"),
        (lambda d, s: Simulation(noise=1e308), "noise is 1e+308; give at most 1e+06"),
        (lambda d, s: Simulation(lapse=2), "lapse is 2; give at most 1"),
        (lambda d, s: Simulation(confident=3), "must rise from 0"),
        (lambda d, s: simulate_choices(d, s, Simulation.of("z")), "names 'z', which has no"),
        (lambda d, s: simulate_choices(d, s, Simulation.of("a"), 0), "at least one participant"),
        (lambda d, s: simulate_choices(d[["trial"]], s, Simulation()), "column 'sentence_1'"),
        (
            lambda d, s: simulate_choices(d[:0], s, Simulation()),
            "the design has no rows; give trials or pairs of sentences",
        ),
        (
            lambda d, s: power(d.assign(sentence_2=None), s, ("a", "b"), Simulation()),
            "the design lacks a sentence (rows 1, 2, 3, 4 and 5); fill it in",
        ),
        (lambda d, s: power(d, s, ("a", "b"), Simulation(), [0]), "at least one group"),
        (lambda d, s: power(d, s, ("a", "b"), Simulation(), [1], [0]), "are no experiment"),
        (lambda d, s: power(d, s, ("a", "b"), Simulation(), n_simulations=0), "at least one sim"),
        (lambda d, s: simulate_choices(d, s.assign(a=0.0), Simulation.of("a")), "prefers no"),
        (
            lambda d, s: simulate_choices(d, s.assign(b=-s["a"]), Simulation.of({"a": 1, "b": 1})),
            "cancel out",
        ),
    ],
)
def test_what_cannot_be_simulated(call, message):
    with pytest.raises(InputError) as caught:
        call(*design_and_scores(n_pairs=5))
    assert message in str(caught.value)


def test_unknown_names():
    design, scores = design_and_scores(n_pairs=5)
    with pytest.raises(UnknownNameError, match="unknown model 'z'"):
        power(design, scores, ("a", "z"), Simulation())
    with pytest.raises(UnknownNameError, match="unknown measure"):
        power(design, scores, ("a", "b"), Simulation(), measure="r")
    with pytest.raises(UnknownNameError, match="unknown unit 'groups'"):
        power(design, scores, ("a", "b"), Simulation(), unit="groups", n_simulations=1)
