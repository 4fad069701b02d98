"""Test response times as a measure, `contstim.evaluation.measures.speed`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from contstim.cli import main
from contstim.errors import InputError
from contstim.evaluation import evaluate
from contstim.evaluation.measures.check import check_measure
from contstim.evaluation.measures.speed import SPEED

N_PAIRS = 40


def simulate_study(
    n_people: int = 12, seed: int = 0, hastened: float = 0.0, missing: float = 0.0
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return choices with times that decrease with model a's preference, and scores."""
    rng = np.random.default_rng(seed)
    first, second = ([f"{word} {k} is here." for k in range(N_PAIRS)] for word in ("One", "Two"))
    scores = pd.DataFrame(
        rng.normal(-40, 5, size=(2 * N_PAIRS, 2)), columns=["a", "b"], index=[*first, *second]
    ).rename_axis("sentence")
    ratio = (scores["a"].loc[second].to_numpy() - scores["a"].loc[first].to_numpy()) / 7
    pairs, rows = rng.normal(size=N_PAIRS), []
    for person in range(n_people):
        log_ms = 7 + rng.normal() + 0.3 * pairs - hastened * np.abs(ratio)
        log_ms += 0.5 * rng.normal(size=N_PAIRS)
        rows.append(
            pd.DataFrame(
                {
                    "participant": f"p{person}",
                    "sentence_1": first,
                    "sentence_2": second,
                    "rating": rng.choice([-2.5, 2.5], size=N_PAIRS),
                    "rt_ms": np.where(rng.random(N_PAIRS) < missing, np.nan, np.exp(log_ms)),
                }
            )
        )
    return pd.concat(rows, ignore_index=True), scores


def spearman_by_scipy(choices: pd.DataFrame, scores: pd.DataFrame, model: str) -> float:
    strength = (
        scores[model].loc[choices["sentence_2"]].to_numpy()
        - scores[model].loc[choices["sentence_1"]].to_numpy()
    )
    table = choices.assign(strength=np.abs(strength)).dropna(subset=["rt_ms"])
    return float(
        np.mean(
            [
                spearmanr(-rows["rt_ms"], rows["strength"]).statistic
                for _, rows in table.groupby("participant")
            ]
        )
    )


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_speed_equals_spearman_correlation(missing: float) -> None:
    choices, scores = simulate_study(hastened=0.3, missing=missing)
    result = evaluate(choices, scores, measures=("speed",))
    for model in ("a", "b"):
        row = result.models.query("analysis == 'all'").set_index("model").loc[model]
        assert row["value"] == pytest.approx(spearman_by_scipy(choices, scores, model))
        turned = evaluate(choices.assign(rating=-choices["rating"]), scores, measures=("speed",))
        again = turned.models.query("analysis == 'all'").set_index("model").loc[model]
        assert again["value"] == row["value"]
    assert result.comparisons["conclusion"].tolist() == ["model 1"]
    assert row["ceiling_lower"] > 0.1  # pairs have times of their own
    assert row["ceiling_upper"] > row["ceiling_lower"]


def test_speed_passes_check_measure() -> None:
    assert len(check_measure(SPEED)) == 1


def test_speed_error_rate_of_unrelated_models() -> None:
    p = []
    for seed in range(10):
        choices, scores = simulate_study(n_people=6, seed=seed)
        drawn = np.random.default_rng(seed).normal(size=(len(scores), 8))
        table = pd.DataFrame(drawn, index=scores.index, columns=[f"m{k}" for k in range(8)])
        p.append(evaluate(choices, table, measures=("speed",)).models["p_chance"])
    assert (np.concatenate(p) < 0.05).mean() <= 0.12
    choices, scores = simulate_study(hastened=0.5, seed=1)
    models = evaluate(choices, scores, measures=("speed",)).models.set_index("model")
    assert models.loc["a", "p_chance"] < 0.01


def test_speed_with_signed_rank_inference_and_report(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    choices, scores = simulate_study(hastened=0.3, missing=0.1)
    choices.to_csv("choices.csv", index=False)
    scores.to_csv("scores.csv")
    command = ["evaluate", "choices.csv", "--scores", "scores.csv", "--measure", "speed"]
    assert main([*command, "--out", "crossed"]) == 0
    assert "speed" in capsys.readouterr().out
    page = (tmp_path / "crossed" / "report.html").read_text("utf-8")
    assert "the negative logarithm of the response time" in page
    Path("plan.toml").write_text('inference = "signed-rank"\nn_bootstrap = 50\n', "utf-8")
    assert main([*command, "--plan", "plan.toml", "--out", "ranked"]) == 0
    value = pd.read_csv("ranked/models.csv").set_index("model")["value"]
    assert value["a"] == pytest.approx(spearman_by_scipy(choices, scores, "a"))


def test_speed_needs_response_times() -> None:
    choices, scores = simulate_study()
    with pytest.raises(InputError) as error:
        evaluate(choices.drop(columns="rt_ms"), scores, measures=("speed",))
    assert str(error.value) == (
        "the measure 'speed' needs response times, of which there are none; give the column "
        "rt_ms, or rt_s in seconds"
    )


def test_speed_ceilings_do_not_depend_on_row_order() -> None:
    """Tied mean ranks differ in the last digit if they are summed in another order."""
    choices, scores = simulate_study(hastened=0.3)
    kwargs = {"measures": ("speed",)}
    first = evaluate(choices, scores, **kwargs).models
    other = evaluate(choices.sample(frac=1, random_state=1), scores, **kwargs).models
    columns = ["ceiling_lower", "ceiling_upper", "ceiling_lower_ci_low", "p_ceiling"]
    np.testing.assert_allclose(first[columns], other[columns], rtol=1e-9)
