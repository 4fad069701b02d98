"""Test that simulated studies have the accuracies and variances of their parameters.

Tests `contstim.design.pilot` as well.
"""

import numpy as np
import pandas as pd
import pytest

from contstim.design.power import power_curve
from contstim.design.simulate import Simulation, simulate_choices
from contstim.design.studies import GOLAN2023_PARTICIPANTS, StudySimulator
from contstim.errors import InputError, UnknownNameError
from contstim.evaluation.trials import TrialData


def make_design(n_pairs: int, groups: int = 1) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(n_pairs)
    design = pd.DataFrame({"sentence_1": [f"one {k}" for k in range(n_pairs)]})
    design["sentence_2"] = [f"two {k}" for k in range(n_pairs)]
    design["group"] = np.arange(n_pairs) * groups // n_pairs
    scores = pd.DataFrame(rng.normal(size=(2 * n_pairs, 2)), columns=["a", "b"])
    scores.insert(0, "sentence", [*design["sentence_1"], *design["sentence_2"]])
    return design, scores


@pytest.mark.parametrize("difference", [0.0, 0.1, 0.6])
def test_studies_have_the_stated_difference(difference: float) -> None:
    data = StudySimulator.from_difference(difference).draw(50, 60, 30, np.random.default_rng(0))
    (_, measure, influence), _ = data.influences
    assert measure.name == "accuracy"
    assert (influence[0] - influence[1]).mean() == pytest.approx(difference, abs=0.03)
    assert influence.mean() == pytest.approx(0.5, abs=1e-9)  # they disagree on every pair


def test_pairs_of_an_item_share_their_effect() -> None:
    def share_equal(shared: float) -> float:
        simulation = Simulation(item_sd=30.0, shared=shared, lapse=0.0)
        simulator = StudySimulator.from_difference(0.0, simulation, 2, measures=("accuracy",))
        data = simulator.draw(1, 40, 200, np.random.default_rng(1))
        assert data.item[0].tolist() == [k // 2 for k in range(40)]
        chosen = data.influences[0][2][0].reshape(200, 20, 2)
        return float((chosen[..., 0] == chosen[..., 1]).mean())

    assert share_equal(0.0) == pytest.approx(0.5, abs=0.03)
    assert share_equal(1.0) > 0.95


def test_groups_judge_different_pairs_and_whole_items() -> None:
    design, scores = make_design(24, groups=2)
    design["item"] = np.arange(24) // 3
    simulator = StudySimulator.from_trials(design, scores, ["a", "b"], Simulation.from_weights("a"))
    data = simulator.draw(2, 6, 50, np.random.default_rng(2))
    assert data.influences[0][2].shape == (2, 50, 24)
    first, second = data.item[:, :12], data.item[:, 12:]
    assert (first.max(axis=1) < second.min(axis=1)).all()  # nothing in common
    assert (np.array([len(set(row)) for row in first]) == 2).all()  # three pairs each
    assert simulator.default_trials == 12
    with pytest.raises(InputError, match="13 trials per participant are more than the 12 pairs"):
        power_curve(simulator, [3], [13])


def test_conditions_between_participants_share_items() -> None:
    """Each of two groups sees one version of every item, so both have the same items."""
    design, scores = make_design(24)
    design["group"], design["item"] = np.arange(24) % 2, np.arange(24) // 2
    simulator = StudySimulator.from_trials(design, scores, ["a", "b"], Simulation.from_weights("a"))
    data = simulator.draw(3, 12, 4, np.random.default_rng(0))
    by_group = data.item.reshape(4, 2, 3, 12)
    assert (by_group == np.arange(12)).all()


def test_constant_model_is_tested_by_accuracy_only() -> None:
    design, scores = make_design(20)
    scores["b"] = 0.0  # the cosine is not defined
    simulator = StudySimulator.from_trials(design, scores, ["a", "b"], Simulation.from_weights("a"))
    table = power_curve(simulator, [7], [18], n_simulations=20).set_index("measure")
    assert table.loc["accuracy", "power"] > 0.5
    assert table.loc["signed_rank_cosine", "power"] == 0


def test_pilot_predicts_the_power_of_its_population() -> None:
    design, scores = make_design(400)
    simulation = Simulation.from_weights("a", noise=0.8, item_sd=0.3, slope_sd=0.5)
    data = TrialData.from_choices(
        simulate_choices(design, scores, simulation, 80, seed=3), scores.set_index("sentence")
    )
    pilot = power_curve(StudySimulator.from_pilot(data), [7], [18], 1000)
    truth = power_curve(
        StudySimulator.from_trials(design, scores, "ab", simulation), [7], [18], 1000
    )
    assert (truth["power"].between(0.3, 0.92)).all()
    assert np.abs(pilot["power"] - truth["power"]).max() < 0.08
    assert np.abs(pilot["difference"] - truth["difference"]).max() < 0.03
    assert np.abs(pilot["recovery"] - truth["recovery"]).max() < 0.03


def test_pilot_recovers_accuracies_and_slope_sd() -> None:
    """The probabilities of pairs and the spread of slopes are known."""
    design, scores = make_design(150)
    estimated = []
    for slope_sd in (0.0, 0.8):
        simulation = Simulation.from_weights("a", noise=0.8, lapse=0.0, slope_sd=slope_sd)
        choices = simulate_choices(design, scores, simulation, 60, seed=5)
        data = TrialData.from_choices(choices, scores.set_index("sentence"))
        simulator = StudySimulator.from_pilot(data)
        estimated.append(simulator.simulation.slope_sd)
        drawn = simulator.draw(200, 150, 4, np.random.default_rng(0))
        for model, influence in enumerate(drawn.influences[0][2]):
            right = np.sign(data.rating) == np.sign(data.log_ratio[data.pair, model])
            assert influence.mean() == pytest.approx(right.mean(), abs=0.02)
    assert estimated[0] < 0.2
    assert estimated[1] == pytest.approx(0.8, abs=0.2)


def test_small_pilots_are_rejected() -> None:
    design, scores = make_design(20)
    choices = simulate_choices(design, scores, Simulation.from_weights("a"), 3)
    with pytest.raises(InputError, match="the pilot has 3 participants and 20 items"):
        StudySimulator.from_pilot(TrialData.from_choices(choices, scores.set_index("sentence")))
    choices = simulate_choices(design, scores, Simulation.from_weights("a"), 4)
    with pytest.raises(InputError, match="1 model cannot be compared"):
        StudySimulator.from_pilot(
            TrialData.from_choices(choices, scores.set_index("sentence")[["a"]])
        )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d, s: StudySimulator.from_difference(1.0), "give one from 0 to below 0.989"),
        (
            lambda d, s: StudySimulator.from_difference(0.1, GOLAN2023_PARTICIPANTS, 0),
            "pairs_per_item is 0",
        ),
        (
            lambda d, s: StudySimulator.from_trials(d, s, ["a", "a"], Simulation()),
            "1 model cannot be compared",
        ),
        (
            lambda d, s: StudySimulator.from_trials(
                d.assign(condition="catch"), s, "ab", Simulation()
            ),
            "the design has only catch trials or fillers; give other trials",
        ),
        (
            lambda d, s: StudySimulator.from_trials(d[:0], s, "ab", Simulation()),
            "the design has no rows",
        ),
    ],
)
def test_invalid_studies_are_rejected(call, message: str) -> None:
    with pytest.raises(InputError) as caught:
        call(*make_design(5))
    assert message in str(caught.value)


def test_unknown_models_and_measures_are_rejected() -> None:
    design, scores = make_design(5)
    with pytest.raises(UnknownNameError, match="unknown model 'z'"):
        StudySimulator.from_trials(design, scores, ["a", "z"], Simulation())
    with pytest.raises(UnknownNameError, match="unknown measure"):
        StudySimulator.from_trials(design, scores, ["a", "b"], Simulation(), ["r"])
