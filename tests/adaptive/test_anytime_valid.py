"""Test confidence sequences and e-values against closed forms and simulation."""

import numpy as np
import pytest
from scipy import stats

from contstim.adaptive.anytime_valid import asymptotic_confidence_sequence, log_e_value
from contstim.errors import InputError

RNG = np.random.default_rng(7)


def test_confidence_sequence_equals_the_published_formula():
    values = RNG.normal(0.1, 0.25, (3, 80)).clip(-1, 1)
    lower, upper = asymptotic_confidence_sequence(values, 0.05, start=12)
    assert (lower[:, :11] == -1).all()
    assert (upper[:, :11] == 1).all()
    rho = np.sqrt((-2 * np.log(0.05) + np.log(1 - 2 * np.log(0.05))) / 12)
    z = np.sqrt(2 * (60 * rho**2 + 1) / (60 * rho**2) * np.log(np.sqrt(60 * rho**2 + 1) / 0.05))
    level = 2 * stats.norm.sf(z)
    reach = stats.t.isf(level / 2, 59) * values[0, :60].std(ddof=1) / np.sqrt(60)
    assert lower[0, 59] == pytest.approx(values[0, :60].mean() - reach, abs=1e-12)
    assert upper[0, 59] == pytest.approx(values[0, :60].mean() + reach, abs=1e-12)


def test_confidence_sequence_is_computed_row_by_row():
    values = RNG.uniform(-1, 1, (2, 3, 20))
    lower, upper = asymptotic_confidence_sequence(values, 0.1)
    alone = asymptotic_confidence_sequence(values[1, 2], 0.1)
    np.testing.assert_array_equal((lower[1, 2], upper[1, 2]), alone)


def test_confidence_sequence_has_uniform_coverage():
    values = np.where(RNG.random((2000, 150)) < 0.35, 1.0, -1.0) * RNG.random((2000, 150))
    mean = -0.3 / 2
    running = values.cumsum(axis=1) / np.arange(1, 151)
    error = 1.645 * values.std() / np.sqrt(np.arange(1, 151))
    lower, upper = asymptotic_confidence_sequence(values, 0.1)
    assert ((lower > mean) | (upper < mean)).any(axis=1).mean() < 0.1
    assert (np.abs(running - mean) > error).any(axis=1).mean() > 0.3


def test_confidence_sequence_covers_a_drifting_mean():
    means = np.where(np.arange(120) < 60, 0.5, -0.4)
    values = RNG.binomial(20, (1 + means) / 2, (1000, 120)) / 10 - 1.0
    running = means.cumsum() / np.arange(1, 121)
    lower, upper = asymptotic_confidence_sequence(values, 0.1)
    assert ((lower > running) | (upper < running)).any(axis=1).mean() < 0.1


def test_log_e_value_equals_universal_inference_by_hand():
    assert log_e_value(np.log([0.02, 0.4]), np.log([0.5, 0.5]), np.log([0.1, 0.07])) == (
        pytest.approx(np.log(2.1))
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0], 1.0), "alpha is 1.0; give a probability between 0 and 1"),
        (([0.0, 2.0], 0.1), "value 2 is not between -1 and 1"),
        (([float("nan")], 0.1), "value nan is not between -1 and 1"),
        (
            ([0.0], 0.1, (1.0, float("inf"))),
            "bounds are 1.0 and inf; give two finite ascending numbers",
        ),
    ],
)
def test_invalid_alpha_values_and_bounds_are_rejected(arguments, message):
    with pytest.raises(InputError) as error:
        asymptotic_confidence_sequence(*arguments)
    assert message in str(error.value)
