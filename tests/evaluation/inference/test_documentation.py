"""Test the formulas of docs/inference.md in plain NumPy against `evaluate`."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from contstim.evaluation import Analysis, evaluate

N, K = 12, 18


@pytest.fixture
def study():
    """Return signs of choices (2, N, K) and of predictions (2, K), and the tables."""
    rng = np.random.default_rng(8)
    ratio = rng.normal(size=(2, K))
    felt = ratio[0] + rng.normal(size=K) + 0.6 * rng.normal(size=(2, N, 1))
    felt = felt * np.array([1.0, 0.3])[:, None, None] + rng.normal(size=(2, N, K))
    group, person, pair = np.indices(felt.shape).reshape(3, -1)
    choices = pd.DataFrame(
        {
            "participant": person + 100 * group,
            "native": np.where(group == 0, "yes", "no"),
            "sentence_1": [f"first {k}" for k in pair],
            "sentence_2": [f"second {k}" for k in pair],
            "rating": 1.5 * np.sign(felt.ravel()),
        }
    )
    sentences = [f"{side} {k}" for side in ("first", "second") for k in range(K)]
    scores = pd.DataFrame(np.concatenate([np.zeros((K, 2)), ratio.T]), columns=["a", "b"])
    scores.insert(0, "sentence", sentences)
    return np.sign(felt), np.sign(ratio), choices, scores


def mean_squares(y):
    n, k = y.shape
    p, i, m = y.mean(axis=1, keepdims=True), y.mean(axis=0), y.mean()
    ms_p = k * ((p - m) ** 2).sum() / (n - 1)
    ms_i = n * ((i - m) ** 2).sum() / (k - 1)
    return ms_p, ms_i, ((y - p - i + m) ** 2).sum() / ((n - 1) * (k - 1))


def difference(y):
    n, k = y.shape
    ms_p, ms_i, ms_e = mean_squares(y)
    total = max(ms_p + ms_i - ms_e, ms_e)
    df = total**2 / (ms_p**2 / (n - 1) + ms_i**2 / (k - 1) + ms_e**2 / ((n - 1) * (k - 1)))
    return y.mean(), np.sqrt(total / (n * k)), df


def interaction(y_1, y_2):
    d = y_1.mean(axis=0) - y_2.mean(axis=0)
    variance = d.var(ddof=1) / len(d)
    spread, minimum = variance**2 / (len(d) - 1), 0.0
    for n, k, (ms_p, _, ms_e) in ((*y.shape, mean_squares(y)) for y in (y_1, y_2)):
        variance += (ms_p - ms_e) / (n * k)
        minimum += ms_e / (n * k)
        spread += (ms_p**2 / (n - 1) + ms_e**2 / ((n - 1) * (k - 1))) / (n * k) ** 2
    variance = max(variance, minimum)
    return d.mean(), np.sqrt(variance), variance**2 / spread


def test_difference_of_accuracies_equals_the_formula(study):
    votes, predicted, choices, scores = study
    found = evaluate(
        choices[choices["native"] == "yes"],
        scores,
        analyses=(Analysis("all"),),
        measures=("accuracy",),
    ).comparisons.iloc[0]
    x = (votes[0] == predicted[0]) * 1.0 - (votes[0] == predicted[1])
    assert_equals_estimate(found, *difference(x))


def test_interaction_of_models_and_groups_equals_the_formula(study):
    votes, predicted, choices, scores = study
    table = evaluate(
        choices, scores, analyses=(Analysis("all"),), measures=("accuracy",), condition="native"
    ).conditions
    found = table[table["model_2"] == "b"].iloc[0]
    order = [["yes", "no"].index(level) for level in (found["level_1"], found["level_2"])]
    x = [(votes[g] == predicted[0]) * 1.0 - (votes[g] == predicted[1]) for g in order]
    assert_equals_estimate(found, *interaction(*x))


def assert_equals_estimate(found, value, stderr, df):
    """Compare a row of a result table with an estimate, its p-value and its interval."""
    margin = t.ppf(0.975, df) * stderr
    expected = [
        value,
        stderr,
        df,
        2 * t.sf(abs(value) / stderr, df),
        value - margin,
        value + margin,
    ]
    columns = ["difference", "stderr", "df", "p", "ci_low", "ci_high"]
    assert found[columns].tolist() == pytest.approx(expected)
