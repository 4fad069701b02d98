"""Benchmarks of choices and of pairs, and the share of the ceiling by Fieller's interval.

Of `contstim.benchmarks`, `contstim.benchmarks.choices` and
`contstim.benchmarks.pairs`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from contstim import datasets
from contstim.benchmarks import (
    FIGURE_COLUMNS,
    HERE,
    RESULTS,
)
from contstim.benchmarks.choices import ChoiceBenchmark
from contstim.benchmarks.estimates import ceiling_share, mean_over_items
from contstim.benchmarks.pairs import PairBenchmark
from contstim.errors import InputError
from contstim.evaluation import evaluate, read_choices


def fieller(g, s_g, c, s_c, t):
    """Return the roots of (g - r c)^2 = t^2 (s_g^2 + r^2 s_c^2), plus one."""
    roots = np.roots([c**2 - (t * s_c) ** 2, -2 * g * c, g**2 - (t * s_g) ** 2])
    return 1 + np.sort(roots.real)


@pytest.mark.parametrize("g", [-0.3, -0.02, 0.0, 0.1])
def test_with_normal_intervals_the_share_has_fiellers(g):
    s_g, c, s_c, t, chance = 0.04, 0.35, 0.05, 1.96, 0.5
    gap = (g, g - t * s_g, g + t * s_g)
    ceiling = (chance + c, chance + c - t * s_c, chance + c + t * s_c)
    share, *ends = ceiling_share(gap, ceiling, chance)
    assert share == pytest.approx(1 + g / c)
    np.testing.assert_allclose(ends, fieller(g, s_g, c, s_c, t))


def test_a_ceiling_that_may_be_chance_gives_no_interval():
    assert ceiling_share((-0.1, -0.2, 0.0), (0.7, 0.5, 0.9), 0.5)[0] == pytest.approx(0.5)
    assert np.isnan(ceiling_share((-0.1, -0.2, 0.0), (0.7, 0.5, 0.9), 0.5)[1:]).all()
    assert np.isnan(ceiling_share((0.1, 0.0, 0.2), (0.4, 0.3, 0.5), 0.5)).all()


def test_the_mean_over_items_is_students_on_fishers_scale():
    values = np.array([0.7, 0.9, 0.8, np.nan, 0.6])
    there = values[~np.isnan(values)]
    z = np.arctanh(2 * there.mean() - 1)
    stderr = stats.sem(there) * 2 / (1 - (2 * there.mean() - 1) ** 2)
    reach = stats.t.ppf(0.975, 3) * stderr
    expected = there.mean(), *(0.5 + 0.5 * np.tanh([z - reach, z + reach]))
    np.testing.assert_allclose(mean_over_items(values, 0.5), expected)
    assert np.isnan(mean_over_items(values[:2], 0.5)[1:]).all()
    assert np.isnan(mean_over_items(values[3:4], 0.5)).all()


def benchmark(**changes):
    human = read_choices(datasets.simulated_choices().query("condition != 'catch'"))
    scores = datasets.natural_scores()[["contstim:bigram", "contstim:trigram"]]
    shown = {*human.choices["sentence_1"], *human.choices["sentence_2"]}
    human = read_choices(human.choices[human.choices["condition"] == "natural_controversial"])
    wide = scores[scores.index.isin(shown)].rename(columns=lambda name: name.split(":")[1])
    human = type(human)(human.choices, wide.reset_index())
    return ChoiceBenchmark(
        name="made/choices", title="Made", source="Nobody (2026)", human=human, **changes
    )


def scored(bench, name="mine"):
    column = datasets.natural_scores()["contstim:gpt"]
    rows = [(s, name, column[s], 9, 8, 0.0, "nats") for s in bench.sentences]
    columns = ["sentence", "model", "log_prob", "n_tokens", "n_words", "stderr", "unit"]
    return pd.DataFrame(rows, columns=columns)


def test_choices_are_judged_by_the_evaluation_with_published_models_beside_ours():
    bench = benchmark()
    judged = bench.judge(scored(bench))
    assert list(judged.results) == list(RESULTS)
    sources = judged.results.groupby("model")["source"].first().to_dict()
    assert sources == {"bigram": "Nobody (2026)", "trigram": "Nobody (2026)", "mine": HERE}
    scores = bench.human.scores.assign(
        mine=datasets.natural_scores()["contstim:gpt"]
        .reindex(bench.human.scores["sentence"])
        .to_numpy()
    )
    plain = evaluate(bench.human.choices, scores).models
    keys = ["analysis", "measure", "model"]
    both = judged.results.merge(plain, on=keys, suffixes=("", "_plain"))
    assert len(both) == len(plain) == len(judged.results)
    np.testing.assert_allclose(both["ci_low"], both["ci_low_plain"])
    row = judged.results.query("analysis == 'all' and measure == 'accuracy' and model == 'mine'")
    expected = (row["value"] - 0.5) / (row["ceiling_lower"] - 0.5)
    assert row["share"].item() == pytest.approx(expected.item())
    assert row["share_low"].item() < row["share"].item() < row["share_high"].item()


def test_a_model_called_like_a_published_one_is_refused():
    bench = benchmark()
    with pytest.raises(
        InputError, match="a model is called 'trigram' as a published one of made/choices"
    ):
        bench.judge(scored(bench, "trigram"))


def test_figures_are_compared_and_stand_alone_where_nothing_was_scored():
    value = benchmark().judge().results.query("analysis == 'all' and measure == 'accuracy'")
    trigram = value.set_index("model").loc["trigram"]
    rows = [
        ("all", "accuracy", "trigram", "value", trigram["value"] + 0.01, "Table 1"),
        ("all", "accuracy", "trigram", "ceiling_lower", trigram["ceiling_lower"], "Table 1"),
        ("all", "accuracy", "other", "value", 0.9, "Table 2"),
    ]
    bench = benchmark(figures=pd.DataFrame(rows, columns=list(FIGURE_COLUMNS)))
    results = bench.judge().results
    compared = bench.compared(results)
    np.testing.assert_array_equal(compared["difference"].round(9), [-0.01, 0.0, np.nan])
    other = results[results["model"] == "other"].iloc[0]
    assert (other["value"], other["source"]) == (0.9, "Table 2")
    assert other["note"] == "as published, no interval"
    assert np.isnan(other["ci_low"])


def pair_benchmark():
    pairs = pd.DataFrame(
        [
            (paradigm, kind, f"good {paradigm} {i}", f"bad {paradigm} {i}")
            for paradigm, kind in (("p", "k"), ("q", "k"), ("r", "k"), ("s", "l"))
            for i in range(4)
        ],
        columns=["paradigm", "kind", "sentence_good", "sentence_bad"],
    )
    accuracies = pd.DataFrame({"old": [0.5, 0.75, 1.0, 0.25]}, index=list("pqrs"))
    people = pd.Series([0.9, 1.0, 0.8, 0.9], index=list("pqrs"))
    return PairBenchmark(
        name="made/pairs",
        title="Made",
        source="Nobody (2026)",
        pairs=pairs,
        accuracies=accuracies,
        people=people,
    )


def test_pairs_are_right_if_the_good_sentence_is_strictly_better():
    bench = pair_benchmark()
    assert len(bench.sentences) == 32
    right = {"p": 4, "q": 3, "r": 2, "s": 0}
    values = {}
    for row in bench.pairs.itertuples():
        is_right = int(row.sentence_good[-1]) < right[row.paradigm]
        values[row.sentence_good], values[row.sentence_bad] = (-1, -2) if is_right else (-2, -2)
    table = pd.DataFrame(
        {"sentence": list(values), "model": "new", "log_prob": list(values.values())}
    )
    judged = bench.judge(table)
    overall = judged.results.query("analysis == 'all'").set_index("model")
    assert overall.loc["new", "value"] == pytest.approx((1 + 0.75 + 0.5 + 0) / 4)
    assert overall.loc["old", "value"] == 0.625
    assert overall["ceiling_lower"].unique() == pytest.approx([0.9])
    assert overall.loc["old", "share"] == pytest.approx(0.125 / 0.4)
    assert overall["source"].to_dict() == {"old": "Nobody (2026)", "new": HERE}
    of_kind = judged.results.query("analysis == 'k'").set_index("model")
    assert of_kind["n_items"].tolist() == [3, 3]
    assert of_kind.loc["new", "value"] == 0.75
    falling = table.assign(unit="surprisal", better="lower", log_prob=-table["log_prob"])
    np.testing.assert_allclose(bench.judge(falling).results["value"], judged.results["value"])
    with pytest.raises(
        InputError, match="a model is called 'old' as a published one of made/pairs"
    ):
        bench.judge(table.assign(model="old"))
    assert set(judged.details["paradigms"]) == {"paradigm", "kind", "old", "new", "people"}
