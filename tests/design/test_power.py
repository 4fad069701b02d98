"""Test power and sample size against closed forms and `evaluate`."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, nct, t

from contstim.design.power import power_curve, required_sample_size
from contstim.design.simulate import Simulation, simulate_choices
from contstim.design.studies import StudySimulator
from contstim.errors import InputError
from contstim.evaluation import evaluate

#: Participants who do not differ, on pairs that do not differ.
ALIKE = Simulation(lapse=0.0)


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


def test_power_without_variance_between_units_is_noncentral_t() -> None:
    """With residual variance alone, quasi-F uses the variance of all answers."""
    difference, participants, trials = 0.12, 20, 30
    simulator = StudySimulator.from_difference(difference, ALIKE, measures=("accuracy",))
    row = power_curve(simulator, [participants], [trials], 4000, seed=1).squeeze()
    n = participants * trials
    # Answers of 1 and -1 with this mean; the residual has 19 x 29 degrees of freedom.
    center = difference / np.sqrt((1 - difference**2) / n)
    df = (participants - 1) * (trials - 1)
    limit = t.isf(0.025, df)
    expected = nct.sf(limit, df, center) + nct.cdf(-limit, df, center)
    # The variance is not taken to be less than the residual, which costs some power.
    assert expected - 0.12 < row["power"] < expected
    assert row["difference"] == pytest.approx(difference, abs=0.005)
    assert row["stderr"] == pytest.approx(np.sqrt(row["power"] * (1 - row["power"]) / 4000))


def test_power_with_identical_participants_is_an_item_t_test() -> None:
    """If all agree on each item, the test is a t test of items whose signs are binomial."""
    items = 12
    simulation = Simulation(noise=0.0, lapse=0.0, item_sd=1.0)
    simulator = StudySimulator.from_difference(0.7, simulation, measures=("accuracy",))
    row = power_curve(simulator, [200], [items], 2000, seed=2).squeeze()
    wins = np.arange(items + 1)
    mean = 2 * wins / items - 1
    stderr = np.sqrt((1 - mean**2) / (items - 1))
    with np.errstate(divide="ignore"):
        significant = 2 * t.sf(np.abs(mean) / stderr, items - 1) < 0.05
    expected = binom.pmf(wins, items, 0.85) @ significant
    assert row["power"] == pytest.approx(expected, abs=4 * np.sqrt(0.25 / 2000))


def test_recovery_of_one_pair_is_binomial() -> None:
    """The followed model has the majority of n answers to one pair, or half of the ties."""
    simulator = StudySimulator.from_difference(0.4, ALIKE, measures=("accuracy",))
    curve = power_curve(simulator, [1, 4, 9], [1], 4000, seed=3)
    for row in curve.itertuples():
        n = row.n_participants
        expected = binom.sf(n // 2, n, 0.7) + (n % 2 == 0) * binom.pmf(n // 2, n, 0.7) / 2
        assert row.recovery == pytest.approx(expected, abs=0.03)


def test_item_effects_limit_recovery() -> None:
    """With many participants a single pair is decided by its item effect."""
    simulation = Simulation(lapse=0.0, item_sd=1.0)
    simulator = StudySimulator.from_difference(0.4, simulation, measures=("accuracy",))
    row = power_curve(simulator, [400], [1], 2000, seed=4).squeeze()
    # Accuracy is Phi(latent / sqrt(1 + 1)); the majority is right if latent + effect > 0.
    latent = np.sqrt(2) * 0.5244  # Phi(0.5244) = 0.7
    expected = 0.770  # Phi(0.7416)
    assert latent == pytest.approx(0.7416, abs=1e-4)
    assert row["recovery"] == pytest.approx(expected, abs=0.03)


def test_power_equals_the_share_of_significant_studies() -> None:
    design, scores = trials_and_scores(24)
    simulation = Simulation.from_weights("a", noise=0.5, item_sd=0.3, slope_sd=0.3)
    simulator = StudySimulator.from_trials(design, scores, ["a", "b", "c"], simulation)
    curve = power_curve(simulator, [10], n_simulations=400, seed=1)
    found, best = [], []
    for seed in range(40):
        result = evaluate(simulate_choices(design, scores, simulation, 10, seed=seed), scores)
        found.append(result.comparisons["q"] < 0.05)
        values = result.models.query("analysis == 'all' and measure == 'accuracy'")
        best.append(values.set_index("model")["value"].idxmax() == "a")
    keys = ["analysis", "measure", "model_1", "model_2"]
    # The same tests: all analyses, both measures, each pair of models.
    assert curve[keys].to_numpy().tolist() == result.comparisons[keys].to_numpy().tolist()
    shares = np.mean(found, axis=0)
    assert shares.max() - shares.min() > 0.2
    error = np.sqrt(np.maximum(curve["power"] * (1 - curve["power"]), 0.02) * (1 / 40 + 1 / 400))
    assert (np.abs(curve["power"] - shares) < 3.5 * error).all()
    assert (curve["power"] <= curve["power_unadjusted"]).all()
    assert curve["recovery"].iloc[0] == pytest.approx(np.mean(best), abs=0.15)


def test_power_without_difference_equals_the_error_rate() -> None:
    table = power_curve(StudySimulator.from_difference(0.0), [12], [20], 1500, seed=2)
    assert table["power_unadjusted"].between(0.03, 0.07).all()
    assert (table["first_better"] / table["power"]).between(0.25, 0.75).all()
    assert table["difference"].abs().max() < 0.02
    assert table["recovery"].isna().all()  # no model is followed


def test_power_curve_is_determined_by_the_seed() -> None:
    simulator = StudySimulator.from_difference(0.3)
    tables = [power_curve(simulator, [6], [10], 50, seed=seed) for seed in (1, 1, 2)]
    pd.testing.assert_frame_equal(tables[0], tables[1])
    assert not tables[0].equals(tables[2])


def test_required_sample_size_reaches_the_target() -> None:
    simulation = Simulation(lapse=0.0, item_sd=0.3)
    simulator = StudySimulator.from_difference(0.15, simulation, measures=("accuracy",))
    needed, tried = required_sample_size(simulator, 60, target=0.8, n_simulations=600, seed=3)
    row = needed.iloc[0]
    assert row["low"] <= row["n_participants"] <= row["high"]
    assert row["low"] < row["high"]
    n = int(row["n_participants"])
    shares = power_curve(simulator, [n * 2 // 3, n], [60], seed=4)["power"]
    assert shares.iloc[0] < 0.75
    assert shares.iloc[1] == pytest.approx(0.8, abs=0.05)
    assert tried["n_participants"].is_monotonic_increasing
    hopeless, tried = required_sample_size(simulator, 4, target=0.95, n_simulations=100)
    assert hopeless["n_participants"].isna().all()
    assert tried["n_participants"].max() < 500  # more participants change nothing


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: power_curve(s, [0]), "n_participants is 0; give a whole number of at least 1"),
        (lambda s: power_curve(s, [5], [2.5]), "n_trials is 2.5; give a whole number"),
        (lambda s: power_curve(s, [10**6]), "more than 10000000 answers per study; ask for fewer"),
        (lambda s: required_sample_size(s, target=1.0), "target is 1.0; give a share between 0"),
    ],
)
def test_invalid_sample_sizes_are_rejected(call, message: str) -> None:
    with pytest.raises(InputError) as caught:
        call(StudySimulator.from_difference(0.1))
    assert message in str(caught.value)
