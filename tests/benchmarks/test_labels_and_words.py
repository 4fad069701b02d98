"""Benchmarks of labels, of suites of regions and of words within sentences.

Of `contstim.benchmarks.labels`, `contstim.benchmarks.words` and
`contstim.benchmarks.estimates`.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from contstim.benchmarks import HERE
from contstim.benchmarks.estimates import (
    area_under_curve,
    clustered_correlation,
    clustered_share,
)
from contstim.benchmarks.labels import LabelBenchmark, best_threshold
from contstim.benchmarks.running import Scoring, run_benchmarks, scorings
from contstim.benchmarks.syntaxgym import read_suites
from contstim.benchmarks.words import SuiteBenchmark, WordBenchmark
from contstim.benchmarks.writing import write_run
from contstim.errors import InputError
from contstim.models.cache import ScoreCache, model_identity
from contstim.models.registry import load_model
from contstim.text.cola import LabelledSentences, matthews_correlation

SPEC = "contstim:trigram?unknown=unk"
WORDS = {"title": "Made", "source": "Nobody (2026)"}


def labelled(n, name, seed, distance=1.0):
    """Return n sentences with labels, and their scores, in which there are ties."""
    rng = np.random.default_rng(seed)
    labels = (np.arange(n) % 5 > 1).astype(int)
    scores = np.round(distance * labels + rng.normal(size=n), 1)
    return LabelledSentences([f"{name} {i}." for i in range(n)], labels), scores


def test_labels_by_the_best_threshold_of_other_sentences():
    parts = {
        name: labelled(n, name, seed)
        for seed, (name, n) in enumerate(
            {"train": 80, "in domain": 60, "out of domain": 40}.items()
        )
    }
    bench = LabelBenchmark(
        **WORDS,
        name="made/labels",
        train=parts["train"][0],
        parts={name: parts[name][0] for name in ("in domain", "out of domain")},
    )
    assert len(bench.sentences) == 180
    score = {
        text: value
        for data, values in parts.values()
        for text, value in zip(data.sentences, values, strict=True)
    }
    table = pd.DataFrame({"sentence": list(score), "model": "m", "log_prob": list(score.values())})
    results = bench.judge(table).results.set_index(["analysis", "measure"])
    data, values = parts["train"]
    cuts = np.unique(values)
    correlations = [matthews_correlation(data.labels, values > cut) for cut in cuts]
    best = cuts[int(np.argmax(correlations))]
    for name in ("in domain", "out of domain"):
        data, values = parts[name]
        row = results.loc[(name, "mcc")]
        assert row["value"] == pytest.approx(matthews_correlation(data.labels, values > best))
        assert row["ci_low"] < row["value"] < row["ci_high"]
        good, bad = values[data.labels == 1], values[data.labels == 0]
        auc = ((good[:, None] > bad) + 0.5 * (good[:, None] == bad)).mean()
        assert results.loc[(name, "auc"), "value"] == pytest.approx(auc)
    assert results.loc[("all", "mcc"), "n_items"] == 100
    assert results["source"].unique().tolist() == [HERE]
    falling = table.assign(unit="surprisal", better="lower", log_prob=-table["log_prob"])
    again = bench.judge(falling).results.set_index(["analysis", "measure"])
    np.testing.assert_allclose(again["value"], results["value"])
    flat = bench.judge(table.assign(log_prob=-1.0)).results.set_index(["analysis", "measure"])
    assert flat.loc[("all", "mcc"), ["value", "ci_low"]].tolist() == pytest.approx(
        [0, np.nan], nan_ok=True
    )
    with pytest.raises(InputError, match="needs acceptable and unacceptable sentences"):
        best_threshold([1, 1], np.array([1.0, 2.0]))
    assert best_threshold([0, 1], np.array([-np.inf, 2.0])) == -np.inf


def test_the_interval_of_an_area_under_the_curve_holds_what_it_should():
    true = stats.norm.cdf(1 / np.sqrt(2))
    held = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        labels = np.arange(120) < 80
        value, low, high = area_under_curve(labels, labels + rng.normal(size=120))
        held.append(low < true < high)
    assert 0.92 < np.mean(held) < 0.98
    # DeLong's variance, written out.
    scores = np.round(rng.normal(size=30) + (np.arange(30) < 12), 1)
    labels = np.arange(30) < 12
    wins = (scores[labels][:, None] > scores[~labels]) + 0.5 * (
        scores[labels][:, None] == scores[~labels]
    )
    value, low, high = area_under_curve(labels, scores)
    assert value == pytest.approx(wins.mean())
    stderr = np.sqrt(wins.mean(axis=1).var(ddof=1) / 12 + wins.mean(axis=0).var(ddof=1) / 18)
    z = np.arctanh(2 * value - 1)
    reach = stats.t.ppf(0.975, 11) * stderr * 2 / (1 - (2 * value - 1) ** 2)
    np.testing.assert_allclose([low, high], 0.5 + 0.5 * np.tanh([z - reach, z + reach]))
    assert np.isnan(area_under_curve(np.ones(3, dtype=bool), np.arange(3.0))).all()
    assert np.isnan(area_under_curve(np.arange(5) < 1, np.arange(5.0))[1:]).all()


def test_clusters_that_say_the_same_twice_count_once():
    rng = np.random.default_rng(0)
    x, right = rng.normal(size=50), rng.random(50) < 0.7
    y = x + rng.normal(size=50)
    alone, twice = np.arange(50), np.tile(np.arange(50), 2)
    expected = clustered_correlation(x, y, alone)
    np.testing.assert_allclose(clustered_correlation(np.tile(x, 2), np.tile(y, 2), twice), expected)
    assert expected[0] == pytest.approx(stats.pearsonr(x, y).statistic)
    expected = clustered_share(right, alone)
    np.testing.assert_allclose(clustered_share(np.tile(right, 2), twice), expected)


def suite_file(folder, name, formulas):
    """Write a suite of two items with two conditions, in words that the trigram knows."""

    def condition(called, *contents):
        regions = [{"region_number": i, "content": c} for i, c in enumerate(contents, start=1)]
        return {"condition_name": called, "regions": regions}

    items = [
        {
            "item_number": number,
            "conditions": [
                condition("match", f"The {noun}", "was", "."),
                condition("mismatch", f"The {noun}", "the", "."),
            ],
        }
        for number, noun in enumerate(("dog", "boy"), start=1)
    ]
    suite = {"items": items, "predictions": [{"formula": formula} for formula in formulas]}
    (folder / f"{name}.json").write_text(json.dumps(suite))


@pytest.fixture
def suites(tmp_path):
    suite_file(tmp_path, "easy", ["(2;%match%) < (2;%mismatch%)"])
    suite_file(tmp_path, "hard", ["(2;%match%) < (2;%mismatch%)", "(2;%match%) < 0"])
    return SuiteBenchmark(
        **WORDS,
        name="made/suites",
        suites=tuple(read_suites(tmp_path)),
        circuits={"easy": "verbs", "hard": "other"},
        accuracies=pd.DataFrame({"old": [1.0, 0.5]}, index=["easy", "hard"]),
    )


def test_an_item_is_right_if_all_predictions_of_its_suite_hold(suites, tmp_path):
    run = run_benchmarks([suites], [load_model(SPEC)], tmp_path / "cache")
    rows = run.results.set_index(["analysis", "model"])
    assert rows.loc[("verbs", SPEC), "value"] == 1.0
    assert rows.loc[("other", SPEC), "value"] == 0.0
    assert rows.loc[("all", SPEC), "value"] == 0.5
    assert rows.loc[("all", "old"), "value"] == 0.75
    page = write_run(run, tmp_path / "out").read_text("utf-8")
    assert "with its 95 % interval." in page  # of no ceiling is said nothing
    table = run.scores["made/suites"]
    by_hand = load_model(SPEC).score_words(["The dog was ."])[0]
    rows = table[table["sentence"] == "The dog was ."]
    assert rows["word"].tolist() == ["The", "dog", "was", "."]
    assert rows["log_prob"].tolist() == by_hand.tolist()
    table = table[table["sentence"] != "The dog was ."]
    with pytest.raises(InputError, match=r"the words of 'The dog was \.' have no scores"):
        suites.judge(table)


def test_scores_of_words_are_kept_apart_and_asked_for_once(suites, tmp_path, monkeypatch):
    model = load_model(SPEC)
    (scoring,) = scorings([model], [suites], tmp_path)
    cost = scoring.cost()
    assert (cost.n_sentences, cost.n_left) == (4, 4)
    assert str(cost).startswith(f"{SPEC}: 4 sentences to score, about 16 words, about ")
    monkeypatch.setattr(type(model), "score_words", None)
    scoring.run()
    assert len(scoring.table(suites.sentences)) == 16
    assert str(scoring.cost()) == f"{SPEC}: all 4 sentences have scores"
    assert Scoring(model, [suites], tmp_path).cost().n_sentences == 0


def test_words_are_those_of_the_models_language(suites, tmp_path):
    model = load_model("contstim:unigram?language=fr&unknown=unk")
    (scoring,) = scorings([model], [suites], tmp_path)
    of_words = model.score_words(["L'homme dort."])
    ScoreCache(tmp_path).add_words(model_identity(model), ["L'homme dort."], of_words)
    assert scoring.table(["L'homme dort."])["word"].tolist() == ["L'", "homme", "dort."]


@pytest.mark.parametrize("spec", ["contstim:bert", "contstim:trigram?reduction=mean"])
def test_models_that_say_nothing_of_the_next_word_are_refused(suites, tmp_path, spec):
    with pytest.raises(InputError) as caught:
        run_benchmarks([suites], [load_model(spec)], tmp_path / "cache")
    assert str(caught.value) == (
        f"made/suites asks how probable each word is after those before it, which {spec!r} does "
        "not say; name a causal model, such as contstim:gpt"
    )
    assert not (tmp_path / "cache").exists()


def test_words_correlate_with_what_people_foresee(tmp_path):
    rng = np.random.default_rng(0)
    sentences = [
        f"The {noun} was {verb} ." for noun in ("dog", "boy", "man") for verb in ("old", "here")
    ]
    words = pd.DataFrame(
        [(text, place) for text in sentences for place in (1, 3)], columns=["sentence", "position"]
    ).assign(rating=rng.normal(size=12))
    bench = WordBenchmark(
        **WORDS,
        name="made/words",
        words=words,
        measures={"rating": "rating"},
        labels={"rating": "correlation with ratings"},
        surprisals=pd.DataFrame({"old": rng.normal(size=12)}),
        headline=("all", "rating"),
    )
    run = run_benchmarks([bench], [load_model(SPEC)], tmp_path)
    rows = run.results.set_index("model")
    model = load_model(SPEC)
    by_hand = [
        model.score_words([text])[0][place]
        for text, place in words[["sentence", "position"]].to_numpy()
    ]
    expected = stats.pearsonr(by_hand, words["rating"]).statistic
    assert rows.loc[SPEC, "value"] == pytest.approx(expected)
    expected = stats.pearsonr(-bench.surprisals["old"], words["rating"]).statistic
    assert rows.loc["old", "value"] == pytest.approx(expected)
    assert rows.loc["old", "n_items"] == 12
    assert bench.label("rating") == "correlation with ratings"
