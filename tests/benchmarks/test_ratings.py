"""Test benchmarks of ratings, of judgement differences in pairs and of labels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from six_pairs import PEOPLE, SIX

from contstim.benchmarks.benchmark import SCORED_HERE
from contstim.benchmarks.estimates import acceptability_delta_criterion
from contstim.benchmarks.ratings import DeltaBenchmark, LabelBenchmark, RatingBenchmark
from contstim.errors import InputError


def simulate_ratings(n_sentences=200, n_people=12, noise=1.0, people=True, seed=0):
    """Return ratings with effects of sentences and participants, and the sentence effects."""
    rng = np.random.default_rng(seed)
    true = rng.normal(size=n_sentences)
    lean = rng.normal(size=n_people)
    cells = true[:, None] + lean + noise * rng.normal(size=(n_sentences, n_people))
    names = [f"S {i}." for i in range(n_sentences)]
    wide = pd.DataFrame(cells, columns=range(n_people)).assign(sentence=names)
    long = wide.melt("sentence", var_name="participant", value_name="rating")
    return (long if people else long.drop(columns="participant")), pd.Series(true, names)


def rating_benchmark(ratings, scores=None, **changes):
    scores = pd.DataFrame() if scores is None else scores
    words = {"name": "made/ratings", "title": "Made", "source": "Nobody (2026)"}
    return RatingBenchmark(**words, ratings=ratings, scores=scores, **changes)


def test_correlation_and_ceiling_of_known_ratings():
    ratings, true = simulate_ratings(n_sentences=400, noise=1.5)
    rng = np.random.default_rng(1)
    guess = true + rng.normal(size=len(true))
    row = (
        rating_benchmark(ratings, pd.DataFrame({"truth": true, "guess": guess})).evaluate().results
    )
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


def test_ceiling_with_few_ratings_per_participant():
    ratings, true = simulate_ratings(n_sentences=400, n_people=60, noise=1.0)
    some = ratings.groupby("sentence").sample(8, random_state=0)
    row = rating_benchmark(some, pd.DataFrame({"truth": true})).evaluate().results.iloc[0]
    # People's leanings are in the means, since others rated other sentences.
    assert row["ceiling_lower"] == pytest.approx(np.sqrt(1 / (1 + 2 / 8)), abs=0.03)
    assert row["share"] == pytest.approx(1.0, abs=0.03)


def test_interval_without_participants_is_fisher_interval():
    ratings, true = simulate_ratings(n_sentences=300, noise=0.5, people=False)
    guess = true + np.random.default_rng(2).normal(size=len(true))
    row = rating_benchmark(ratings, pd.DataFrame({"guess": guess})).evaluate().results.iloc[0]
    reach = (np.arctanh(row["ci_high"]) - np.arctanh(row["ci_low"])) / 2
    assert reach == pytest.approx(1.968 / np.sqrt(300 - 3), rel=0.12)
    assert np.isnan(row["n_participants"])
    assert row["share_low"] < row["share"] < row["share_high"]


def test_items_and_participants_widen_the_interval():
    ratings, true = simulate_ratings(n_sentences=60)
    scores = pd.DataFrame({"truth": true})
    alone = rating_benchmark(ratings.drop(columns="participant"), scores).evaluate().results.iloc[0]
    crossed = rating_benchmark(ratings, scores).evaluate().results.iloc[0]
    assert crossed["ci_high"] - crossed["ci_low"] > alone["ci_high"] - alone["ci_low"]
    of_items = ratings.assign(item=ratings["sentence"].str.extract(r"(\d+)")[0].astype(int) // 20)
    few = rating_benchmark(of_items, scores).evaluate().results.iloc[0]
    assert few["value"] == crossed["value"]
    assert few["ci_low"] != crossed["ci_low"]


def test_scored_and_published_models_are_compared():
    ratings, true = simulate_ratings(n_sentences=20)
    table = pd.DataFrame({"sentence": true.index, "model": "new", "log_prob": true.to_numpy()})
    judged = rating_benchmark(ratings, pd.DataFrame({"old": -true})).evaluate(table)
    rows = judged.results.set_index("model")
    assert rows["source"].to_dict() == {"old": "Nobody (2026)", "new": SCORED_HERE}
    assert rows.loc["old", "value"] == pytest.approx(-rows.loc["new", "value"])
    assert judged.detail_tables["sentences"]["n_ratings"].eq(12).all()
    ratings.loc[3, "rating"] = np.nan
    with pytest.raises(InputError, match="1 ratings are missing; leave them out"):
        rating_benchmark(ratings).evaluate(table)
    ratings = ratings.dropna()
    with pytest.raises(InputError, match="made/ratings has no published models; name one"):
        rating_benchmark(ratings).evaluate()


def delta_data(n=40, seed=0):
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
    return {"judgements": sentences, "pairs": pairs}, score


def test_delta_benchmark_measures_by_hand():
    data, score = delta_data()
    words = {"name": "made/deltas", "title": "Made", "source": "Nobody (2026)"}
    bench = DeltaBenchmark(**words, **data, scores={"old": score})
    judged = bench.evaluate()
    rows = judged.results.set_index("measure")
    judgement, people = bench.judgements["judgement"], bench.human_deltas()
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
    met = bench.model_deltas(score) > 0
    sums = (met - met.mean()).reshape(10, 4).sum(axis=1)
    stderr = np.sqrt(10 / 9 * (sums**2).sum()) / 40
    value = met.mean()
    z = np.arctanh(2 * value - 1) - stats.t.ppf(0.975, 9) * stderr * 2 / (1 - (2 * value - 1) ** 2)
    assert rows.loc["blimp", "ci_low"] == pytest.approx(0.5 + 0.5 * np.tanh(z))
    by_sentence = score.set_axis(bench.judgements["sentence"])
    table = pd.DataFrame(
        {"sentence": by_sentence.index, "model": "new", "log_prob": by_sentence.to_numpy()}
    )
    both = bench.evaluate(table).results
    values = both.pivot_table("value", "measure", "model")
    np.testing.assert_allclose(values["old"], values["new"])
    assert set(both["source"]) == {"Nobody (2026)", SCORED_HERE}


def test_delta_criterion_matches_the_published_example():
    # Vazquez Martinez (2021), Table 1.5: deltas of people and of a trigram, delta = 1.
    human, trigram = [2.320552, 0.023432], [0.633896671, -0.158799029]
    assert acceptability_delta_criterion(human, trigram, 1).tolist() == [False, False]
    assert acceptability_delta_criterion(human, trigram, 5).tolist() == [True, False]


def test_delta_criterion_is_strict_and_treats_zero_as_a_sign():
    assert acceptability_delta_criterion([1.0, 1.0], [1.5, 1.499], 0.5).tolist() == [False, True]
    assert acceptability_delta_criterion([0.0, 0.1], [0.0, 0.0], 1).tolist() == [True, False]
    with pytest.raises(InputError, match="must be positive, not 0"):
        acceptability_delta_criterion([1], [1], 0)


@given(
    st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3)), min_size=1, max_size=20),
    st.floats(0.1, 3),
)
def test_wider_deltas_admit_more_pairs(pairs, delta):
    human, model = np.array(pairs).T
    near = acceptability_delta_criterion(human, model, delta)
    wide = acceptability_delta_criterion(human, model, 2 * delta)
    assert (near <= wide).all()
    free = acceptability_delta_criterion(human, model, np.inf)
    assert (free == (np.sign(human) == np.sign(model))).all()


def test_deltas_of_two_pairs_by_hand() -> None:
    judgement = [1.0, -1.0, 0.5, 0.4]
    ids = ["g1", "u1", "g2", "u2"]
    sentences = pd.DataFrame({"id": ids, "sentence": list("abcd"), "judgement": judgement})
    data = DeltaBenchmark(
        name="made/deltas",
        title="Made",
        source="Nobody (2026)",
        judgements=sentences,
        pairs=pd.DataFrame({"gramm_id": ids[::2], "ungramm_id": ids[1::2]}),
    )
    np.testing.assert_allclose(data.human_deltas(), [2.0, 0.1])
    z = stats.zscore([-4.0, -4.0, -6.0, -5.0])
    scores = pd.Series([-4.0, -4.0, -6.0, -5.0], ids)
    np.testing.assert_allclose(data.model_deltas(scores), [z[0] - z[1], z[2] - z[3]])
    there = data.model_deltas(scores[["g1", "u1", "g2"]])
    assert np.isnan(there).tolist() == [False, True]


# Which pairs each meets, by number: the BLiMP criterion, and the ADC with 0.5, 1 and 5.
MET = {
    "trigram": ({1, 2, 5, 6}, {2, 4}, {2, 4}, {1, 2, 4, 6}),
    "PLL": ({1, 2, 3, 4, 6}, {1, 3, 5, 6}, {1, 2, 3, 5, 6}, {1, 2, 3, 5, 6}),
    "classifier": ({1, 2, 3, 4, 6}, {1, 3}, {1, 3, 6}, {1, 2, 3, 6}),
}


def test_criteria_of_six_pairs_by_hand() -> None:
    for model, sets in MET.items():
        by_pair = [
            np.asarray(SIX[model]) > 0,
            *(acceptability_delta_criterion(PEOPLE, SIX[model], d) for d in (0.5, 1.0, 5.0)),
        ]
        assert [set((np.flatnonzero(met) + 1).tolist()) for met in by_pair] == list(sets)


def matthews_correlation(labels, guesses):
    """Return the Matthews correlation of two binary vectors, or 0 if one is constant."""
    if np.ptp(labels) == 0 or len(set(guesses)) == 1:
        return 0.0
    return stats.pearsonr(labels, guesses.astype(float)).statistic


def labelled_sentences(n, name, seed, distance=1.0):
    """Return n sentences with labels, and their scores with ties."""
    rng = np.random.default_rng(seed)
    labels = (np.arange(n) % 5 > 1).astype(int)
    scores = np.round(distance * labels + rng.normal(size=n), 1)
    return pd.DataFrame({"sentence": [f"{name} {i}." for i in range(n)], "label": labels}), scores


def test_label_benchmark_uses_the_best_training_threshold():
    parts = {
        name: labelled_sentences(n, name, seed)
        for seed, (name, n) in enumerate(
            {"train": 80, "in domain": 60, "out of domain": 40}.items()
        )
    }
    bench = LabelBenchmark(
        name="made/labels",
        title="Made",
        source="Nobody (2026)",
        train=parts["train"][0],
        parts={name: parts[name][0] for name in ("in domain", "out of domain")},
    )
    assert len(bench.sentences) == 180
    score = {
        text: value
        for data, values in parts.values()
        for text, value in zip(data["sentence"], values, strict=True)
    }
    table = pd.DataFrame({"sentence": list(score), "model": "m", "log_prob": list(score.values())})
    results = bench.evaluate(table).results.set_index(["analysis", "measure"])
    data, values = parts["train"]
    cuts = np.unique(values)
    correlations = [matthews_correlation(data["label"], values > cut) for cut in cuts]
    best = cuts[int(np.argmax(correlations))]
    for name in ("in domain", "out of domain"):
        data, values = parts[name]
        row = results.loc[(name, "mcc")]
        assert row["value"] == pytest.approx(matthews_correlation(data["label"], values > best))
        assert row["ci_low"] < row["value"] < row["ci_high"]
        good, bad = values[data["label"] == 1], values[data["label"] == 0]
        auc = ((good[:, None] > bad) + 0.5 * (good[:, None] == bad)).mean()
        assert results.loc[(name, "auc"), "value"] == pytest.approx(auc)
    assert results.loc[("all", "mcc"), "n_items"] == 100
    assert results["source"].unique().tolist() == [SCORED_HERE]
    falling = table.assign(unit="surprisal", better="lower", log_prob=-table["log_prob"])
    again = bench.evaluate(falling).results.set_index(["analysis", "measure"])
    np.testing.assert_allclose(again["value"], results["value"])
    flat = bench.evaluate(table.assign(log_prob=-1.0)).results.set_index(["analysis", "measure"])
    assert flat.loc[("all", "mcc"), ["value", "ci_low"]].tolist() == pytest.approx(
        [0, np.nan], nan_ok=True
    )
