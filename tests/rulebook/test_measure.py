"""A custom measure: with ``--measure``, in an analysis plan, in Python, and in its check.

Tests `contstim.evaluation.measures.check`.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import contstim
from contstim.errors import ValidationError
from contstim.evaluation import evaluate
from contstim.evaluation.measures import MEASURES


@pytest.fixture
def study(add_extension):
    """Install the measure and write ``choices.csv`` and ``scores.csv``."""
    add_extension("log_score", "contstim.measures", "log_score = LOG_SCORE")
    rng = np.random.default_rng(0)
    truth = rng.normal(size=20)
    rows = [
        (f"p{i}", f"A {k} b.", f"C {k} d.", rng.choice([0.5, 1.5, 2.5]) * np.sign(truth[k]))
        for i in range(8)
        for k in range(20)
        if rng.random() < 0.9
    ]
    choices = pd.DataFrame(rows, columns=["participant", "sentence_1", "sentence_2", "rating"])
    choices.to_csv("choices.csv", index=False)
    first = {f"A {k} b.": (0.0, 0.0) for k in range(20)}
    second = {f"C {k} d.": (10 * truth[k], 10 * rng.normal()) for k in range(20)}
    scores = pd.DataFrame(first | second, index=["good", "poor"]).T
    scores.to_csv("scores.csv", index_label="sentence")
    return choices, scores


def test_custom_measure(study, run):
    words = ["evaluate", "choices.csv", "--scores", "scores.csv"]
    ended = run(*words, "--measure", "log_score", "--measure", "accuracy", "--out", "out")
    assert ended.returncode == 0, ended.stderr
    models = pd.read_csv("out/models.csv").set_index(["measure", "model"])
    assert list(models.index.unique("measure")) == ["log_score", "accuracy"]
    choices, scores = study
    belief = 0.5 + choices["rating"] / 5
    ratio = scores["good"].loc[choices["sentence_2"]].to_numpy() / 10
    log_score = -belief * np.logaddexp(0, -ratio) - (1 - belief) * np.logaddexp(0, ratio)
    expected = log_score.groupby(choices["participant"]).mean().mean()
    row = models.loc[("log_score", "good")]
    assert row["value"] == pytest.approx(expected)
    assert row["ci_low"] < expected < row["ci_high"] < 0
    assert row["ceiling_lower_ci_low"] < row["ceiling_lower"] < row["ceiling_lower_ci_high"]
    assert "good predicts people best (log score -0." in ended.stdout
    page = Path("out/report.html").read_text("utf-8")
    assert "Log score of graded choices, nats by model" in page
    assert "the mean log-probability of a participant" in page

    plan = 'measures = ["log_score"]\ninference = "signed-rank"\nn_bootstrap = 50\n'
    Path("plan.toml").write_text(plan, "utf-8")
    ended = run(*words, "--plan", "plan.toml", "--out", "planned")
    assert ended.returncode == 0, ended.stderr
    planned = pd.read_csv("planned/models.csv").set_index(["measure", "model"])
    assert planned.loc[("log_score", "good"), "value"] == pytest.approx(expected)
    assert planned["ci_low"].notna().all()

    result = evaluate(choices, scores, measures=("log_score",))
    assert set(result.models["measure"]) == {"log_score"}
    ended = run(*words, "--measure", "log_scor", "--out", "other")
    assert ended.returncode == 2
    assert "log_score" in ended.stderr


def test_check_measure_finds_wrong_influence(study):
    for name in MEASURES:
        assert len(contstim.check_measure(MEASURES[name])) == 1
    mistaken = type(MEASURES["log_score"])()
    mistaken.trial_influence = lambda subset, prediction: np.zeros(subset.n_rows)
    with pytest.raises(
        ValidationError, match="^log_score: mean pseudo-values differ from participant_value by "
    ):
        contstim.check_measure(mistaken)
