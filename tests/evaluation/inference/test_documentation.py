"""The formulas of docs/inference.md in plain NumPy against the output of evaluate."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from contstim.evaluation import Analysis, evaluate

N, K = 12, 18


@pytest.fixture
def study():
    """Signs of choices (2, N, K) in two groups, of predictions (2, K), and the tables."""
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
    m, rows, columns = y.mean(), y.mean(axis=1), y.mean(axis=0)
    left = y - rows[:, None] - columns[None, :] + m
    return (
        k * ((rows - m) ** 2).sum() / (n - 1),
        n * ((columns - m) ** 2).sum() / (k - 1),
        (left**2).sum() / ((n - 1) * (k - 1)),
    )


def test_a_difference_of_accuracies(study):
    votes, predicted, choices, scores = study
    found = evaluate(
        choices[choices["native"] == "yes"],
        scores,
        analyses=(Analysis("all"),),
        measures=("accuracy",),
    ).comparisons.iloc[0]
    x = (votes[0] == predicted[0]) * 1.0 - (votes[0] == predicted[1])
    people, items, rest = mean_squares(x)
    total = max(people + items - rest, rest)
    stderr = np.sqrt(total / (N * K))
    df = total**2 / (people**2 / (N - 1) + items**2 / (K - 1) + rest**2 / ((N - 1) * (K - 1)))
    reach = t.ppf(0.975, df) * stderr
    expected = [x.mean(), stderr, 2 * t.sf(abs(x.mean()) / stderr, df)]
    expected += [x.mean() - reach, x.mean() + reach]
    columns = ["difference", "stderr", "p", "ci_low", "ci_high"]
    assert found[columns].tolist() == pytest.approx(expected)


def test_an_interaction_of_models_and_groups(study):
    votes, predicted, choices, scores = study
    table = evaluate(
        choices, scores, analyses=(Analysis("all"),), measures=("accuracy",), condition="native"
    ).conditions
    found = table[table["model_2"] == "b"].iloc[0]
    order = [["yes", "no"].index(level) for level in (found["level_1"], found["level_2"])]
    y = [(votes[g] == predicted[0]) * 1.0 - (votes[g] == predicted[1]) for g in order]
    squares = [mean_squares(one) for one in y]
    d = y[0].mean(axis=0) - y[1].mean(axis=0)
    terms = [(d.var(ddof=1) / K, K - 1)]
    for people, _, rest in squares:
        terms += [(people / (N * K), N - 1), (-rest / (N * K), (N - 1) * (K - 1))]
    variance = sum(term for term, _ in terms)
    assert variance > sum(rest for *_, rest in squares) / (N * K)
    df = variance**2 / sum(term**2 / df for term, df in terms)
    value, stderr = d.mean(), np.sqrt(variance)
    reach = t.ppf(0.975, df) * stderr
    expected = [value, stderr, df, 2 * t.sf(abs(value) / stderr, df), value - reach, value + reach]
    columns = ["difference", "stderr", "df", "p", "ci_low", "ci_high"]
    assert found[columns].tolist() == pytest.approx(expected)
