"""Test bootstrap resamples and their percentile intervals."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from contstim.evaluation import align_choices, check_choices, score_table
from contstim.evaluation.inference.signed_rank import (
    default_levels,
    draw_resamples,
    percentile_intervals,
    resample_values,
)
from contstim.evaluation.measures import MEASURES
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import TrialData


def make_data(right, groups=None):
    """Return forced choices; right[i, p] is True if participant i follows the model on pair p."""
    n_people, n_pairs = right.shape
    i, p = np.divmod(np.arange(right.size), n_pairs)
    group = np.zeros(n_people, dtype=int) if groups is None else groups
    frame = pd.DataFrame(
        {
            "participant": i.astype(str),
            "group": group[i].astype(str),
            "sentence_1": [f"a {k} {g}" for k, g in zip(p, group[i], strict=True)],
            "sentence_2": [f"b {k} {g}" for k, g in zip(p, group[i], strict=True)],
            "rating": np.where(right.ravel(), 2.5, -2.5),
        }
    )
    sentences = [*frame["sentence_1"], *frame["sentence_2"]]
    scores = score_table({"m": {s: float(s[0] == "b") for s in sentences}}, sentences)
    return TrialData.from_choices(align_choices(check_choices(frame)), scores)


def covers(data, truth, levels, seed, n_draws):
    subset = Subset(data, np.arange(len(data.rating)), np.array([0]))
    draws = draw_resamples(data, levels, n_draws, seed)
    low, high = percentile_intervals(
        resample_values(subset, MEASURES["accuracy"], draws), draws.n_units
    )
    return low[0] <= truth <= high[0]


def logistic(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize(
    ("levels", "sd_people", "sd_pairs", "n_runs", "n_draws"),
    [
        (("participant",), 0.8, 0.0, 1000, 1000),
        (("participant", "pair"), 0.8, 1.5, 350, 200),
        (("group",), 0.5, 1.0, 1000, 1000),
    ],
)
def test_bootstrap_coverage_is_nominal(levels, sd_people, sd_pairs, n_runs, n_draws):
    rng = np.random.default_rng(11)
    n_people, n_pairs = 24, 30
    wide = rng.normal(size=(400_000, 2))
    truth = logistic(0.5 + sd_people * wide[:, 0] + sd_pairs * wide[:, 1]).mean()
    groups = np.arange(n_people) % 12 if "group" in levels else None
    frame = make_data(np.ones((n_people, n_pairs), dtype=bool), groups)
    hits = 0
    for run in range(n_runs):
        people = sd_people * rng.normal(size=(n_people, 1))
        if groups is None:
            pairs = sd_pairs * rng.normal(size=(1, n_pairs))
        else:
            pairs = (sd_pairs * rng.normal(size=(12, n_pairs)))[groups]
        right = rng.random((n_people, n_pairs)) < logistic(0.5 + people + pairs)
        # Rows go by participant and pair, and pairs are numbered as they first occur.
        data = replace(frame, rating=np.where(right.ravel(), 2.5, -2.5))
        hits += covers(data, truth, levels, run, n_draws)
    assert 0.93 <= hits / n_runs <= 0.97


def test_default_levels_follow_the_design():
    right = np.ones((12, 5), dtype=bool)
    assert default_levels(make_data(right)) == ("participant", "pair")
    assert default_levels(make_data(right, np.arange(12) % 6)) == ("group",)
    assert default_levels(make_data(right, np.arange(12) % 4)) == ("participant", "pair")


def test_bootstrap_counts_sum_to_the_sample_size():
    data = make_data(np.ones((6, 5), dtype=bool), np.arange(6) % 3)
    draws = draw_resamples(data, ("group", "participant", "pair"), 50, 0)
    assert draws.participants.sum(axis=1).tolist() == [6] * 50
    assert draws.pairs.sum(axis=1).tolist() == [15] * 50
    assert draws.n_units == 3
    within = draw_resamples(data, ("participant",), 50, 0).participants
    assert (within[:, :3] + within[:, 3:] == 2).all()  # two participants in each of three groups


def test_percentile_interval_is_as_wide_as_the_t_interval():
    rng = np.random.default_rng(5)
    x = rng.normal(size=8)
    samples = rng.choice(x, size=(200_000, 8)).mean(axis=1)[:, None]
    low, high = percentile_intervals(samples, 8)
    half = 2.3646 * x.std(ddof=1) / np.sqrt(8)  # t with 7 degrees of freedom
    assert (high - low)[0] == pytest.approx(2 * half, rel=0.1)
    assert np.isnan(percentile_intervals(samples, 1)[0]).all()
