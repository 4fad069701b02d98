"""Where simulated studies come from: what they say of models is what was asked for."""

import numpy as np
import pandas as pd
import pytest

from contstim.design.planning import power
from contstim.design.simulate import Simulation, simulate_choices
from contstim.design.studies import (
    FITTED,
    PilotStudies,
    StatedStudies,
    StudySize,
    TrialStudies,
)
from contstim.errors import InputError, UnknownNameError
from contstim.evaluation.trials import TrialData


def table_of(n_pairs: int, groups: int = 1) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(n_pairs)
    design = pd.DataFrame({"sentence_1": [f"one {k}" for k in range(n_pairs)]})
    design["sentence_2"] = [f"two {k}" for k in range(n_pairs)]
    design["group"] = np.arange(n_pairs) * groups // n_pairs
    scores = pd.DataFrame(rng.normal(size=(2 * n_pairs, 2)), columns=["a", "b"])
    scores.insert(0, "sentence", [*design["sentence_1"], *design["sentence_2"]])
    return design, scores


@pytest.mark.parametrize("difference", [0.0, 0.1, 0.6])
def test_a_stated_difference_is_that_of_the_cells(difference: float) -> None:
    studies = StatedStudies(difference)
    drawn = studies.draw(StudySize(1, 50, 60), 30, np.random.default_rng(0))
    (_, measure, cells), _ = drawn.cells
    assert measure.name == "accuracy"
    assert (cells[0] - cells[1]).mean() == pytest.approx(difference, abs=0.03)
    assert cells.mean() == pytest.approx(0.5, abs=1e-9)  # they disagree on every pair


def test_items_share_what_is_asked_for() -> None:
    def between(shared: float) -> float:
        people = Simulation(item_sd=30.0, shared=shared, lapse=0.0)
        studies = StatedStudies(0.0, people, kin=2, measures=("accuracy",))
        drawn = studies.draw(StudySize(1, 1, 40), 200, np.random.default_rng(1))
        assert drawn.item[0].tolist() == [k // 2 for k in range(40)]
        chosen = drawn.cells[0][2][0].reshape(200, 20, 2)
        return float((chosen[..., 0] == chosen[..., 1]).mean())

    assert between(0.0) == pytest.approx(0.5, abs=0.03)
    assert between(1.0) > 0.95


def test_groups_judge_their_own_pairs_and_fewer_are_drawn_by_items() -> None:
    design, scores = table_of(24, groups=2)
    design["item"] = np.arange(24) // 3
    studies = TrialStudies.of(design, scores, ["a", "b"], Simulation.of("a"))
    drawn = studies.draw(StudySize(2, 2, 6), 50, np.random.default_rng(2))
    assert drawn.cells[0][2].shape == (2, 50, 24)
    first, second = drawn.item[:, :12], drawn.item[:, 12:]
    assert (first.max(axis=1) < second.min(axis=1)).all()  # nothing in common
    assert (np.array([len(set(row)) for row in first]) == 2).all()  # whole items, three pairs each
    with pytest.raises(InputError, match="3 groups are asked for, the design has 2"):
        power(studies, [3], [6], [3])
    with pytest.raises(InputError, match="13 trials per group are asked for and a group has 12"):
        power(studies, [3], [13], [2])


def test_a_model_without_a_preference_is_tested_where_it_has_one() -> None:
    design, scores = table_of(20)
    scores["b"] = 0.0  # the cosine is not defined anywhere
    studies = TrialStudies.of(design, scores, ["a", "b"], Simulation.of("a"))
    table = power(studies, [7], [18], n_simulations=20).set_index("measure")
    assert table.loc["accuracy", "power"] > 0.5
    assert table.loc["signed_rank_cosine", "power"] == 0


def test_a_pilot_gives_the_power_of_what_it_was_drawn_from() -> None:
    design, scores = table_of(400)
    people = Simulation.of("a", noise=0.8, item_sd=0.3, slope_sd=0.5)
    choices = simulate_choices(design, scores, people, 80, seed=3)
    data = TrialData.of(choices, scores.set_index("sentence"))
    pilot = power(PilotStudies.of(data), [7], [18], n_simulations=1000)
    truth = power(TrialStudies.of(design, scores, "ab", people), [7], [18], n_simulations=1000)
    assert (truth["power"].between(0.3, 0.92)).all()
    assert np.abs(pilot["power"] - truth["power"]).max() < 0.08
    assert np.abs(pilot["difference"] - truth["difference"]).max() < 0.03


def test_a_pilot_of_few_says_nothing() -> None:
    design, scores = table_of(20)
    choices = simulate_choices(design, scores, Simulation.of("a"), 3)
    with pytest.raises(InputError, match="the pilot has 3 people and 20 items"):
        PilotStudies.of(TrialData.of(choices, scores.set_index("sentence")))
    with pytest.raises(InputError, match="1 model cannot be compared"):
        PilotStudies.of(TrialData.of(choices, scores.set_index("sentence")[["a"]]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d, s: StatedStudies(1.0), "difference is 1.0; give one from 0 to below 0.989"),
        (lambda d, s: StatedStudies(0.1, FITTED, 0), "kin is 0; give a whole number"),
        (
            lambda d, s: TrialStudies.of(d, s, ["a", "a"], Simulation()),
            "1 model cannot be compared",
        ),
        (
            lambda d, s: TrialStudies.of(d.assign(condition="catch"), s, "ab", Simulation()),
            "the design has only catch trials or fillers; give other trials",
        ),
        (lambda d, s: TrialStudies.of(d[:0], s, "ab", Simulation()), "the design has no rows"),
    ],
)
def test_what_cannot_be_simulated(call, message: str) -> None:
    with pytest.raises(InputError) as caught:
        call(*table_of(5))
    assert message in str(caught.value)


def test_unknown_names() -> None:
    design, scores = table_of(5)
    with pytest.raises(UnknownNameError, match="unknown model 'z'"):
        TrialStudies.of(design, scores, ["a", "z"], Simulation())
    with pytest.raises(UnknownNameError, match="unknown measure"):
        TrialStudies.of(design, scores, ["a", "b"], Simulation(), ["r"])
