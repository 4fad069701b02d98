"""Power by the default test: against the analysis itself, and against people who do not differ."""

import numpy as np
import pandas as pd
import pytest

from contstim.design.planning import DesignPlan, people_needed, plan_design, power
from contstim.design.simulate import Simulation, simulate_choices
from contstim.design.studies import StatedStudies, TrialStudies
from contstim.errors import InputError
from contstim.evaluation import evaluate
from contstim.evaluation.stopping import Stopping


def trials_and_scores(n_pairs: int, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    pairs = [(f"one {k}", f"two {k}") for k in range(n_pairs)]
    design = pd.DataFrame(pairs, columns=["sentence_1", "sentence_2"])
    design["item"] = np.arange(n_pairs) // 2
    design["model_1"], design["model_2"] = "a", np.where(np.arange(n_pairs) % 4 < 2, "b", "c")
    sentences = [text for pair in pairs for text in pair]
    scores = pd.DataFrame(rng.normal(size=(len(sentences), 3)), columns=list("abc"))
    scores.insert(0, "sentence", sentences)
    return design, scores


def test_power_is_the_share_of_studies_in_which_evaluate_finds_it() -> None:
    design, scores = trials_and_scores(24)
    people = Simulation.of("a", noise=0.5, item_sd=0.3, slope_sd=0.3)
    studies = TrialStudies.of(design, scores, ["a", "b", "c"], people)
    said = power(studies, [10], [24], n_simulations=400, seed=1)
    shares = []
    for seed in range(40):
        choices = simulate_choices(design, scores, people, 10, seed=seed)
        comparisons = evaluate(choices, scores).comparisons
        shares.append(comparisons["q"] < 0.05)
    keys = ["analysis", "measure", "model_1", "model_2"]
    # The same tests: of every analysis, by both measures, of each two models.
    assert said[keys].to_numpy().tolist() == comparisons[keys].to_numpy().tolist()
    shares = np.mean(shares, axis=0)
    assert shares.max() - shares.min() > 0.2
    error = np.sqrt(np.maximum(said["power"] * (1 - said["power"]), 0.02) * (1 / 40 + 1 / 400))
    assert (np.abs(said["power"] - shares) < 3.5 * error).all()
    assert (said["power"] <= said["alone"]).all()


def test_five_people_and_twenty_pairs_can_find_a_difference() -> None:
    design, scores = trials_and_scores(20)
    studies = TrialStudies.of(
        design[["sentence_1", "sentence_2"]], scores, "ab", Simulation.of("a")
    )
    row = power(studies, [5], [20], n_simulations=200).iloc[0]
    assert row["power"] > 0.4
    assert row["low"] < row["power"] < row["high"]
    assert row["first_better"] == row["power"]


def test_a_difference_of_nothing_is_found_as_often_as_the_test_errs() -> None:
    table = power(StatedStudies(0.0), [12], [20], n_simulations=1500, seed=2)
    assert table["alone"].between(0.03, 0.07).all()
    assert (table["first_better"] / table["power"]).between(0.25, 0.75).all()
    assert table["difference"].abs().max() < 0.02


def test_numbers_of_people_are_those_at_which_power_is_at_the_target() -> None:
    studies = StatedStudies(0.4, measures=("accuracy",))
    needed, tried = people_needed(studies, 60, target=0.8, n_simulations=600, seed=3)
    row = needed.iloc[0]
    assert row["low"] <= row["n_participants"] <= row["high"]
    shares = power(studies, [row["n_participants"] - 2, row["n_participants"] + 2], [60])["power"]
    assert shares.iloc[0] < 0.83
    assert shares.iloc[1] > 0.77
    assert tried["n_participants"].is_monotonic_increasing
    hopeless, tried = people_needed(studies, 4, target=0.95, n_simulations=100)
    assert hopeless["n_participants"].isna().all()
    assert tried["n_participants"].max() < 500  # more people change nothing, and none are tried


def test_looks_find_as_much_with_fewer_people_and_err_as_rarely() -> None:
    rule = Stopping(analyses=(1, 2, 3), participants=3)
    studies = StatedStudies(0.25, kin=1)
    row = power(studies, [18], [60], n_simulations=400, stopping=rule).squeeze()
    assert row[["analysis", "measure", "looks"]].tolist() == ["all", "accuracy", "6 12 18"]
    assert row["alone"] - 0.06 < row["power"] <= row["alone"] + 0.01
    assert 6 <= row["mean_participants"] < 15
    null = power(StatedStudies(0.0), [18], [60], n_simulations=1500, stopping=rule).squeeze()
    assert 0.035 < null["power"] < 0.065
    needed, _ = people_needed(studies, 60, n_simulations=300, stopping=rule)
    assert needed["n_participants"].item() >= needed["alone"].item()
    with pytest.raises(InputError, match="the stopping rule has no analyses"):
        power(studies, [18], [60], stopping=Stopping())


def test_a_plan_names_the_difference_that_is_found() -> None:
    plan = plan_design(20, 40, 10)
    assert plan.alone < plan.among
    for difference, least, most in ((plan.alone, 0.7, 0.9), (0.7 * plan.alone, 0.3, 0.7)):
        table = power(StatedStudies(difference, measures=("accuracy",)), [20], [40])
        assert least < table["alone"].iloc[0] < most
    assert plan_design(20, 10, kin=1).alone < plan_design(20, 10, kin=2).alone


def test_plans_in_words() -> None:
    plan = DesignPlan(2, 10, 36, 12, 3, 0.05, 0.8, 0.123, 0.2)
    assert str(plan) == (
        "With 20 participants in 2 groups with pairs of their own, 36 pairs of 12 items each, of "
        "two models that disagree on every pair `evaluate` finds a difference of accuracy of 0.12 "
        "in 80% of studies (p < 0.05), and of 0.20 if it is the only one among 3 comparisons (p < "
        "0.0167)."
    )
    assert str(plan_design(3, 20, 36)) == (
        "With 3 participants, 20 pairs each, nothing can be significant: a test over people and "
        "items takes 4 people and 3 items."
    )
    assert "nothing can be significant" in str(plan_design(10, 8, kin=4))
    assert "`evaluate` finds no difference in 99% of studies." in str(
        plan_design(4, 3, target=0.99)
    )


def test_no_difference_is_enough_where_people_cannot_show_one() -> None:
    plan = plan_design(5, 6, people=Simulation(lapse=0.4, item_sd=0.75))
    assert str(plan).endswith("`evaluate` finds no difference in 80% of studies.")
    assert np.isnan(plan.alone)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plan_design(0, 3), "groups of people"),
        (lambda: plan_design(5, 3, alpha=0.0), "alpha is 0.0; give a rate between 0 and 1"),
        (lambda: plan_design(5, 3, 2.5), "comparisons is 2.5; give a whole number of at least 1"),
        (lambda: plan_design(5, 6, kin=0), "kin is 0; give a whole number of at least 1"),
        (lambda: plan_design(5, 6, kin=-1), "kin is -1; give a whole number of at least 1"),
        (
            lambda: power(
                StatedStudies(0.1, measures=("signed_rank_cosine",)),
                *([6], [20], [1], 3),
                stopping=Stopping(analyses=(1, 2), participants=2),
            ),
            "looks go by accuracy over all trials, which these studies do not have; add it to",
        ),
        (lambda: power(StatedStudies(0.1), [10**6], [40]), "more than 10000000 answers a study"),
        (lambda: people_needed(StatedStudies(0.1), target=1.0), "target is 1.0; give a share"),
    ],
)
def test_what_cannot_be_planned(call, message: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert message.replace("groups of people", "people is 0") in str(caught.value)
