"""Benchmarks of graded judgements: correlations with ceilings, and the criterion on deltas.

Of `contstim.benchmarks.ratings` and `contstim.benchmarks.deltas`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from contstim.benchmarks import HERE
from contstim.benchmarks.deltas import DeltaBenchmark
from contstim.benchmarks.ratings import RatingBenchmark
from contstim.benchmarks.suites import LIAdger
from contstim.errors import InputError


def rated(n_sentences=200, n_people=12, noise=1.0, people=True, seed=0):
    """Return ratings that sum a sentence's and a person's effect and noise, and the sentences'."""
    rng = np.random.default_rng(seed)
    true = rng.normal(size=n_sentences)
    lean = rng.normal(size=n_people)
    cells = true[:, None] + lean + noise * rng.normal(size=(n_sentences, n_people))
    names = [f"S {i}." for i in range(n_sentences)]
    wide = pd.DataFrame(cells, columns=range(n_people)).assign(sentence=names)
    long = wide.melt("sentence", var_name="participant", value_name="rating")
    return (long if people else long.drop(columns="participant")), pd.Series(true, names)


def bench(ratings, scores=None, **changes):
    scores = pd.DataFrame() if scores is None else scores
    words = {"name": "made/ratings", "title": "Made", "source": "Nobody (2026)"}
    return RatingBenchmark(**words, ratings=ratings, scores=scores, **changes)


def test_the_correlation_is_scipys_and_the_ceiling_is_what_the_truth_reaches():
    ratings, true = rated(n_sentences=400, noise=1.5)
    rng = np.random.default_rng(1)
    guess = true + rng.normal(size=len(true))
    row = bench(ratings, pd.DataFrame({"truth": true, "guess": guess})).judge().results
    row = row.set_index("model")
    means = ratings.groupby("sentence", sort=False)["rating"].mean()
    expected = stats.pearsonr(guess[means.index], means).statistic
    assert row.loc["guess", "value"] == pytest.approx(expected)
    # What people say on average has the ceiling for its correlation with these means.
    assert row.loc["truth", "share"] == pytest.approx(1.0, abs=0.02)
    reliability = 1 / (1 + 1.5**2 / 12)
    assert row.loc["truth", "ceiling_lower"] == pytest.approx(np.sqrt(reliability), abs=0.02)
    assert row["n_participants"].tolist() == [12, 12]
    assert row["n_items"].tolist() == [400, 400]


def test_the_ceiling_where_everybody_rated_a_few():
    ratings, true = rated(n_sentences=400, n_people=60, noise=1.0)
    some = ratings.groupby("sentence").sample(8, random_state=0)
    row = bench(some, pd.DataFrame({"truth": true})).judge().results.iloc[0]
    # People's leanings are in the means, since others rated other sentences.
    assert row["ceiling_lower"] == pytest.approx(np.sqrt(1 / (1 + 2 / 8)), abs=0.03)
    assert row["share"] == pytest.approx(1.0, abs=0.03)


def test_where_people_are_not_known_the_interval_is_fishers():
    ratings, true = rated(n_sentences=300, noise=0.5, people=False)
    guess = true + np.random.default_rng(2).normal(size=len(true))
    row = bench(ratings, pd.DataFrame({"guess": guess})).judge().results.iloc[0]
    reach = (np.arctanh(row["ci_high"]) - np.arctanh(row["ci_low"])) / 2
    assert reach == pytest.approx(1.968 / np.sqrt(300 - 3), rel=0.12)
    assert np.isnan(row["n_participants"])
    assert row["share_low"] < row["share"] < row["share_high"]


def test_items_of_several_sentences_and_people_make_intervals_longer():
    ratings, true = rated(n_sentences=60)
    scores = pd.DataFrame({"truth": true})
    alone = bench(ratings.drop(columns="participant"), scores).judge().results.iloc[0]
    crossed = bench(ratings, scores).judge().results.iloc[0]
    assert crossed["ci_high"] - crossed["ci_low"] > alone["ci_high"] - alone["ci_low"]
    of_items = ratings.assign(item=ratings["sentence"].str.extract(r"(\d+)")[0].astype(int) // 20)
    few = bench(of_items, scores).judge().results.iloc[0]
    assert few["value"] == crossed["value"]
    assert few["ci_low"] != crossed["ci_low"]


def test_models_of_ours_beside_published_ones():
    ratings, true = rated(n_sentences=20)
    table = pd.DataFrame({"sentence": true.index, "model": "new", "log_prob": true.to_numpy()})
    judged = bench(ratings, pd.DataFrame({"old": -true})).judge(table)
    rows = judged.results.set_index("model")
    assert rows["source"].to_dict() == {"old": "Nobody (2026)", "new": HERE}
    assert rows.loc["old", "value"] == pytest.approx(-rows.loc["new", "value"])
    assert judged.details["sentences"]["n_ratings"].eq(12).all()
    ratings.loc[3, "rating"] = np.nan
    with pytest.raises(InputError, match="1 ratings are missing; leave them out"):
        bench(ratings).judge(table)
    ratings = ratings.dropna()
    with pytest.raises(InputError, match="made/ratings comes without models; name one"):
        bench(ratings).judge()


def deltas(n=40, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        stem, number = f"p{i // 4}", f"{i % 4:02}"
        rows.append((f"{stem}.g.{number}", f"Good {i}.", rng.normal(1)))
        rows.append((f"{stem}.*.{number}", f"Bad {i}.", rng.normal(-1)))
    sentences = pd.DataFrame(rows, columns=["id", "sentence", "judgement"])
    ids = sentences["id"]
    pairs = pd.DataFrame({"gramm_id": ids[::2].tolist(), "ungramm_id": ids[1::2].tolist()})
    score = sentences.set_index("id")["judgement"] + rng.normal(size=2 * n)
    return LIAdger(sentences, pairs), score


def test_deltas_have_the_values_of_the_suite_and_intervals_by_phenomenon():
    data, score = deltas()
    words = {"name": "made/deltas", "title": "Made", "source": "Nobody (2026)"}
    judged = DeltaBenchmark(**words, data=data, scores={"old": score}).judge()
    rows = judged.results.set_index("measure")
    judgement, people = data.sentences["judgement"], data.human_deltas()
    own = np.diff(stats.zscore(score.to_numpy()).reshape(-1, 2)[:, ::-1], axis=1).ravel()
    near, alike = np.abs(people - own), np.sign(people) == np.sign(own)
    plain = {
        "sentence_correlation": stats.pearsonr(judgement, score).statistic,
        "pair_correlation": stats.pearsonr(people, own).statistic,
        "blimp": (own > 0).mean(),
        **{f"adc_{delta:g}": (alike & (near < delta)).mean() for delta in (0.5, 1.0, 5.0)},
    }
    for measure, row in rows.iterrows():
        assert row["value"] == pytest.approx(plain[measure])
        assert row["ci_low"] < row["value"] < row["ci_high"]
    assert rows["share"].isna().all()
    # The standard error of a share with clusters, written out.
    met = data.model_deltas(score) > 0
    sums = (met - met.mean()).reshape(10, 4).sum(axis=1)
    stderr = np.sqrt(10 / 9 * (sums**2).sum()) / 40
    value = met.mean()
    z = np.arctanh(2 * value - 1) - stats.t.ppf(0.975, 9) * stderr * 2 / (1 - (2 * value - 1) ** 2)
    assert rows.loc["blimp", "ci_low"] == pytest.approx(0.5 + 0.5 * np.tanh(z))
    by_sentence = score.set_axis(data.sentences["sentence"])
    table = pd.DataFrame(
        {"sentence": by_sentence.index, "model": "new", "log_prob": by_sentence.to_numpy()}
    )
    both = DeltaBenchmark(**words, data=data, scores={"old": score}).judge(table).results
    values = both.pivot_table("value", "measure", "model")
    np.testing.assert_allclose(values["old"], values["new"])
    assert set(both["source"]) == {"Nobody (2026)", HERE}
