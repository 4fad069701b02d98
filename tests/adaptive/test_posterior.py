"""Test the posterior over models against independent numerical integration.

Tests `contstim.adaptive.link` and `contstim.adaptive.posterior`.
"""

import numpy as np
import pytest
from scipy import integrate
from scipy.special import expit, logsumexp
from scipy.stats import norm

from contstim.adaptive.link import SIX_POINT, Link
from contstim.adaptive.posterior import ModelPosterior, ParticipantQuadrature
from contstim.errors import InputError
from contstim.response_model import ResponseModel

PEOPLE = ResponseModel(slope_sd=0.47, side_sd=0.29, item_sd=1.36, lapse=0.02)


def integrate_answer_probability(g, answer, beta, b, people, cuts):
    """Return P(answer), with the item effect integrated adaptively by SciPy."""

    def chance(u):
        above = [1.0, *(expit(beta * g + b + u - cut) for cut in cuts), 0.0]
        return (above[answer] - above[answer + 1]) * norm.pdf(u, scale=people.item_sd)

    inside = integrate.quad(chance, -9 * people.item_sd, 9 * people.item_sd, epsabs=1e-12)[0]
    return (1 - people.lapse) * inside + people.lapse / (len(cuts) + 1)


def grid_log_likelihood(trials, slope, people, cuts):
    """Return a participant's log marginal likelihood on a dense grid of midpoints."""
    z = (np.arange(-6, 6, 0.15) + 0.075)[:, None]
    side = (np.arange(-6, 6, 0.15) + 0.075)[None, :]
    total = norm.logpdf(z) + norm.logpdf(side) + 2 * np.log(0.15)
    # The item effect by Gauss and Hermite's rule, another than the package's.
    nodes, weights = np.polynomial.hermite_e.hermegauss(50)
    weights = weights / weights.sum()
    for g, answer in trials:
        leaning = slope * np.exp(people.slope_sd * z) * g + people.side_sd * side
        chance = np.full(leaning.shape, people.lapse / (len(cuts) + 1))
        for u, w in zip(people.item_sd * nodes, weights, strict=True):
            above = [np.ones(leaning.shape), *(expit(leaning + u - c) for c in cuts), 0.0]
            chance += (1 - people.lapse) * w * (above[answer] - above[answer + 1])
        total = total + np.log(chance)
    return logsumexp(total)


@pytest.mark.parametrize("thresholds", [(), SIX_POINT])
def test_posterior_equals_numerical_integration(thresholds):
    rng = np.random.default_rng(3)
    link = Link(
        PEOPLE, slopes=(0.5, 1.4), slope_weights=(1, 2), thresholds=thresholds, prior=(2, 1)
    )
    cuts = [-t for t in reversed(thresholds)] + [0.0, *thresholds]
    posterior = ModelPosterior(link, 2)
    trials = []
    for t in range(8):
        g, answer = rng.uniform(-3, 3, size=2), int(rng.integers(link.n_answers))
        trials.append((t % 2, g, answer))
        posterior.add_answer(t % 2, g, answer)
    log_evidence = []
    for model in range(2):
        of_slope = [
            sum(
                grid_log_likelihood(
                    [(g[model], y) for who, g, y in trials if who == person], slope, PEOPLE, cuts
                )
                for person in range(2)
            )
            for slope in link.slopes
        ]
        log_evidence.append(logsumexp(np.log([1 / 3, 2 / 3]) + np.array(of_slope)))
    np.testing.assert_allclose(posterior.log_evidence, log_evidence, rtol=0, atol=1e-6)
    weights = np.exp(np.log([2 / 3, 1 / 3]) + np.array(log_evidence))
    np.testing.assert_allclose(posterior.weights, weights / weights.sum(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("thresholds", [(), (0.4,), SIX_POINT])
def test_answer_probabilities_equal_adaptive_quadrature(thresholds):
    link = Link(PEOPLE, thresholds=thresholds)
    cuts = [-t for t in reversed(thresholds)] + [0.0, *thresholds]
    for beta, g, b in ((0.8, 1.3, 0.2), (3.0, -3.0, -0.5), (9.0, 3.0, 0.0)):
        own = ParticipantQuadrature(link).answer_probabilities(np.array(beta * g + b))
        for answer in range(link.n_answers):
            brute = integrate_answer_probability(g, answer, beta, b, PEOPLE, cuts)
            assert own[answer] == pytest.approx(brute, abs=2e-7)
        assert own.sum() == pytest.approx(1)


def test_narrow_posterior_is_integrated_accurately():
    rng = np.random.default_rng(5)
    link = Link(PEOPLE, slopes=(1.0,))
    posterior = ModelPosterior(link, 1)
    trials = [(float(rng.uniform(-3, 3)), int(rng.integers(2))) for _ in range(80)]
    for g, answer in trials:
        posterior.add_answer("a", np.array([g]), answer)
    brute = grid_log_likelihood(trials, 1.0, PEOPLE, [0.0])
    assert posterior.log_evidence[0] == pytest.approx(brute, abs=1e-5)


@pytest.mark.parametrize(
    ("people", "trials", "thresholds"),
    [
        ({"slope_sd": 1.0, "side_sd": 1.0}, 150, ()),
        ({"side_sd": 3.0}, 40, ()),
        ({"side_sd": 10.0}, 5, ()),
        ({}, 150, SIX_POINT),
    ],
)
def test_quadrature_is_accurate_for_variable_participants(people, trials, thresholds):
    rng = np.random.default_rng(8)
    link = Link(ResponseModel(item_sd=0, **people), slopes=(1.0,), thresholds=thresholds)
    posterior = ModelPosterior(link, 1, trials)
    axis = np.arange(-6, 6, 0.02) + 0.01
    # A person who leans by half a standard deviation.
    beta, b = (
        np.exp(link.response_model.slope_sd * axis)[:, None],
        link.response_model.side_sd * axis,
    )
    log_density = -(axis[:, None] ** 2 + axis**2) / 2
    cuts = np.sort([-np.inf, *(-t for t in thresholds), 0.0, *thresholds, np.inf])
    total = np.zeros((len(axis), len(axis)))
    for g in rng.uniform(-3, 3, trials):
        chances = -np.diff(expit(g + link.response_model.side_sd / 2 - cuts))
        answer = int(rng.choice(len(chances), p=chances))
        posterior.add_answer("a", np.array([g]), answer)
        above = expit(beta * g + b - cuts[answer]) - expit(beta * g + b - cuts[answer + 1])
        lapse = link.response_model.lapse
        total += np.log((1 - lapse) * above + lapse / link.n_answers)
    brute = logsumexp(total + log_density) - logsumexp(log_density)
    assert posterior.log_evidence[0] == pytest.approx(brute, abs=1e-4)


def test_excessive_variance_and_answers_are_rejected():
    with pytest.raises(InputError, match=r"40 trials of participants with side_sd 50 and slope"):
        ModelPosterior(Link(ResponseModel(side_sd=50)), 2, max_answers=40)
    posterior = ModelPosterior(Link(), 1, max_answers=1)
    posterior.add_answer("Ada", np.array([1.0]), 1)
    with pytest.raises(InputError, match=r"participant 'Ada' already has 1 answers, the maximum"):
        posterior.add_answer("Ada", np.array([1.0]), 1)


def test_predictions_sum_to_the_evidence_and_are_reproducible():
    rng = np.random.default_rng(0)
    answers = [
        (int(rng.integers(4)), rng.uniform(-2, 2, 3), int(rng.integers(2))) for _ in range(40)
    ]
    one, two = ModelPosterior(Link(), 3), ModelPosterior(Link(), 3)
    predicted = sum(one.add_answer(*answer) for answer in answers)
    for answer in answers:
        two.add_answer(*answer)
    np.testing.assert_allclose(predicted, one.log_evidence, atol=1e-9)
    assert one.weights.tobytes() == two.weights.tobytes()
    assert one.answer_curves(2).tobytes() == two.answer_curves(2).tobytes()


def test_answer_curves_equal_predictive_probabilities():
    posterior = ModelPosterior(Link(thresholds=SIX_POINT), 2)
    for g, answer in (((1.0, -1.0), 5), ((2.0, 0.5), 4), ((-1.5, 0.3), 1)):
        posterior.add_answer("a", np.array(g), answer)
    grid, curves = posterior.quadrature.grid, posterior.answer_curves("a")
    for place in (0, 100, 200):
        for answer in (0, 3, 5):
            again = ModelPosterior(Link(thresholds=SIX_POINT), 2)
            for g, given in (((1.0, -1.0), 5), ((2.0, 0.5), 4), ((-1.5, 0.3), 1)):
                again.add_answer("a", np.array(g), given)
            log_probability = again.add_answer("a", np.full(2, grid[place]), answer)
            np.testing.assert_allclose(curves[:, answer, place], np.exp(log_probability), atol=1e-5)


def test_posterior_recovers_the_model_for_any_slope():
    rng = np.random.default_rng(1)
    for slope in (0.6, 2.0):
        posterior = ModelPosterior(Link(), 3)
        for t in range(300):
            g = rng.uniform(-2, 2, 3)
            chance = expit(slope * g[1] + 1.36 * rng.normal())
            posterior.add_answer(t // 20, g, int(rng.random() < chance))
        assert posterior.weights[1] > 0.99


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"slopes": ()}, "slopes are (); give numbers above 0, at most 100"),
        ({"slopes": (1.0, float("nan"))}, "slopes are (1.0, nan); give numbers above 0"),
        ({"thresholds": (2.0, 1.0)}, "thresholds are (2.0, 1.0); give ascending numbers above 0"),
        (
            {"prior": (0.0, 0.0)},
            "prior is (0.0, 0.0); give numbers of at least 0, one above 0",
        ),
        ({"slope_weights": (1.0,)}, "there are 7 slopes and 1 slope_weights; give each slope its"),
    ],
)
def test_invalid_link_parameters_are_rejected(given, message):
    with pytest.raises(InputError) as error:
        Link(**given)
    assert message in str(error.value)


def test_ratings_outside_the_scale_are_rejected():
    assert [Link().encode_rating(r) for r in (-2.5, -0.5, 0.5)] == [0, 0, 1]
    six = Link(thresholds=SIX_POINT)
    assert [six.encode_rating(r) for r in (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5)] == [0, 1, 2, 3, 4, 5]
    with pytest.raises(InputError, match=r"rating 0.3 is none of the 6 ratings of the link"):
        six.encode_rating(0.3)
    with pytest.raises(InputError, match=r"prior has 2 weights for 3 models; give one per model"):
        ModelPosterior(Link(prior=(1, 2)), 3)
