"""Confidence sequences against closed forms, other integrals and simulations."""

import numpy as np
import pytest
from scipy import integrate, stats

from contstim.adaptive.sequences import (
    Outlook,
    asymptotic_ahead,
    asymptotic_sequence,
    betting_ahead,
    betting_sequence,
    fit_e_value,
    log_e_above,
    mean_ahead,
    mean_sequence,
)
from contstim.errors import InputError

RNG = np.random.default_rng(7)


def mixture(above, spread, rho):
    """The gamma-exponential mixture by numerical integration.

    With l = 1 - v, the density of l is proportional to v^(rho - 1) exp(rho (1 - v)); u = v^rho.
    """

    def integral(spread, rate):
        def at(u):
            v = u ** (1 / rho)
            return v**spread * np.exp((1 - v) * rate)

        return integrate.quad(at, 0, 1, epsabs=0, epsrel=1e-12, limit=500)[0]

    return integral(spread, above + spread + rho) / integral(0, rho)


def test_e_values_are_those_of_a_numerical_mixture():
    values = RNG.uniform(-0.3, 0.8, 25)
    alpha, best_at = 0.05, 30.0
    rho = best_at * 0.01
    own = log_e_above(values, alpha, best_at=best_at)
    scaled, total, spread = (values + 1) / 2, 0.0, 0.0
    for t, x in enumerate(scaled):
        spread += (x - (0.5 + total) / (t + 1)) ** 2
        total += x
        above = total - (t + 1) / 2
        if above > 0:
            assert own[t] == pytest.approx(np.log(mixture(above, spread, rho)), abs=1e-9)


def test_an_end_of_the_sequence_is_where_the_e_value_rejects():
    values = RNG.uniform(-0.6, 1, (3, 40))
    lower, upper = mean_sequence(values, 0.05)
    for row in range(3):
        for t in (0, 5, 39):
            for side, end in ((1, lower[row, t]), (-1, upper[row, t])):
                if abs(end) < 1:
                    own = log_e_above(side * values[row, : t + 1], 0.05, than=side * end)[-1]
                    assert own == pytest.approx(np.log(40), abs=1e-9)


def hedged(values, alpha, truncation, means):
    """The hedged capital process, candidate by candidate and value by value."""
    lower, upper, low, high = [], [], 0, len(means) - 1
    capital = np.zeros((len(means), 2))
    for t in range(len(values)):
        seen = values[:t]
        running = [(0.5 + sum(seen[: k + 1])) / (k + 2) for k in range(t)]
        variance = (0.25 + sum((x - m) ** 2 for x, m in zip(seen, running, strict=True))) / (t + 1)
        bet = (2 * np.log(2 / alpha) / (variance * (t + 1) * np.log(t + 2))) ** 0.5
        for k, mean in enumerate(means):
            up = min(bet, truncation / mean if mean else np.inf)
            down = min(bet, truncation / (1 - mean) if mean < 1 else np.inf)
            capital[k] += np.log([1 + up * (values[t] - mean), 1 - down * (values[t] - mean)])
        inside = np.flatnonzero(capital.max(axis=1) - np.log(2) < np.log(1 / alpha))
        ends = (inside[0], inside[-1]) if len(inside) else [capital.max(axis=1).argmin()] * 2
        low, high = max(low, ends[0] - 1, 0), min(high, ends[1] + 1, len(means) - 1)
        lower.append(means[low])
        upper.append(means[high])
    return np.array(lower), np.array(upper)


@pytest.mark.parametrize("truncation", [0.5, 0.75])
def test_the_betting_sequence_is_that_of_an_implementation_by_loops(truncation):
    values = RNG.beta(5, 3, 30)
    own = betting_sequence(values, 0.02, (0, 1), truncation, 101)
    loops = hedged(values, 0.02, truncation, np.linspace(0, 1, 101))
    np.testing.assert_allclose(own, loops, rtol=0, atol=1e-9)


def test_sequences_of_several_rows_are_those_of_each():
    values = RNG.uniform(-1, 1, (2, 3, 12))
    for sequence in (mean_sequence, betting_sequence):
        lower, upper = sequence(values, 0.1)
        alone = sequence(values[1, 2], 0.1)
        np.testing.assert_array_equal((lower[1, 2], upper[1, 2]), alone)


def ever_missed(values, running, alpha):
    """Share of rows where an e-value ever rejects the running mean, on either side."""
    centred = (values - running[..., :1]) / 2  # of a constant mean
    both = [log_e_above(side * centred, alpha) for side in (1, -1)]
    return (np.max(both, axis=0) >= np.log(2 / alpha)).any(axis=1).mean()


def test_sequences_cover_at_all_times_and_a_test_at_each_time_does_not():
    values = np.where(RNG.random((2000, 150)) < 0.35, 1.0, -1.0) * RNG.random((2000, 150))
    mean = -0.3 / 2
    running = values.cumsum(axis=1) / np.arange(1, 151)
    error = 1.645 * values.std() / np.sqrt(np.arange(1, 151))
    assert ever_missed(values, np.full(1, mean), 0.1) < 0.1
    lower, upper = betting_sequence(values[:200], 0.1, n_means=401)
    assert ((lower > mean) | (upper < mean)).any(axis=1).mean() < 0.1
    assert (np.abs(running - mean) > error).any(axis=1).mean() > 0.3


def test_the_running_mean_is_covered_where_it_changes():
    means = np.where(np.arange(120) < 60, 0.5, -0.4)
    values = np.where(RNG.random((200, 120)) < (1 + means) / 2, 1.0, -1.0)
    running = means.cumsum() / np.arange(1, 121)
    lower, upper = mean_sequence(values[:, :], 0.1)
    assert ((lower > running) | (upper < running)).any(axis=1).mean() < 0.1


def test_the_e_value_of_universal_inference():
    assert fit_e_value(np.log([0.02, 0.4]), np.log([0.5, 0.5]), np.log([0.1, 0.07])) == (
        pytest.approx(np.log(2.1))
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0], 1.0), "alpha is 1.0; give a share between 0 and 1"),
        (([0.0, 2.0], 0.1), "value 2 is not between -1 and 1"),
        (([float("nan")], 0.1), "value nan is not between -1 and 1"),
        (([0.0], 0.1, (1.0, float("inf"))), "bounds are 1.0 and inf; give two finite numbers"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message):
    for sequence in (mean_sequence, betting_sequence):
        with pytest.raises(InputError) as error:
            sequence(*arguments)
        assert message in str(error.value)


def test_what_is_foreseen_comes_to_pass_if_those_to_come_are_as_supposed():
    values = RNG.normal(0.1, 0.3, 15).clip(-1, 1)
    units = np.array([20, 40, 80, 160])
    to_come = 0.15 + 0.2 * np.resize([1.0, -1.0], 145)
    then = np.concatenate([values, to_come])
    outlook = Outlook(np.array([0.15]), np.array([0.04]), units)
    for than in (-0.05, 0.0):
        own = log_e_above(then, 0.05, than=than)[units - 1]
        ahead = mean_ahead(values[None], outlook, 0.05, than=than)[0]
        np.testing.assert_allclose(ahead, own, rtol=0.03, atol=0.05)
    every = Outlook(outlook.mean, outlook.variance, np.arange(16, 161))
    for than in (-0.05, 0.0, 0.05):
        lower = betting_sequence(then, 0.05)[0]
        first = int(np.argmax(lower >= than - 0.001)) + 1  # ends lie on the next candidate outside
        ahead = betting_ahead(values[None], every, 0.05, than=than)[0]
        assert every.units[ahead >= np.log(40)][0] == pytest.approx(first, abs=3)


def test_the_asymptotic_sequence_ends_where_its_e_value_rejects_and_is_narrower():
    values = RNG.normal(0.1, 0.25, (3, 80)).clip(-1, 1)
    lower, upper = asymptotic_sequence(values, 0.05, start=12)
    assert (lower[:, :11] == -1).all()
    assert (upper[:, :11] == 1).all()
    exact = mean_sequence(values, 0.05)
    assert (upper - lower < exact[1] - exact[0])[:, 11:].all()
    # Those to come are none, so that what is foreseen is what there is.
    mean, variance = values[:, :60].mean(axis=1), values[:, :60].var(axis=1)
    now = Outlook(mean, variance, np.array([60]))
    for than in lower[:, 59]:
        ahead = asymptotic_ahead(values[:, :60], now, 0.05, than=than, start=12)[:, 0]
        assert np.array_equal(ahead >= np.log(40) - 1e-9, lower[:, 59] >= than - 1e-12)
    rho = np.sqrt((-2 * np.log(0.05) + np.log(1 - 2 * np.log(0.05))) / 12)
    z = np.sqrt(2 * (60 * rho**2 + 1) / (60 * rho**2) * np.log(np.sqrt(60 * rho**2 + 1) / 0.05))
    level = 2 * stats.norm.sf(z)
    reach = stats.t.isf(level / 2, 59) * values[0, :60].std(ddof=1) / np.sqrt(60)
    assert lower[0, 59] == pytest.approx(values[0, :60].mean() - reach, abs=1e-12)


def test_nothing_is_foreseen_of_participants_who_do_not_differ():
    outlook = Outlook(np.zeros(1), np.zeros(1), np.array([20, 40]))
    ahead = asymptotic_ahead(np.zeros((1, 12)), outlook, 0.05)
    assert (ahead == -np.inf).all()
