"""Test benchmarks of words within sentences and of SyntaxGym suites."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from contstim.benchmarks.running import run_benchmarks, score_words
from contstim.benchmarks.syntaxgym import read_suite
from contstim.benchmarks.words import SuiteBenchmark, WordBenchmark
from contstim.errors import InputError
from contstim.models.cache import ScoreCache
from contstim.models.registry import load_model

SPEC = "contstim:trigram?unknown=unk"
WORDS = {"title": "Made", "source": "Nobody (2026)"}


def suite_file(folder, name, formulas):
    """Write a suite of two items with two conditions, in words known to the trigram model."""

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
        suites=tuple(read_suite(tmp_path / f"{name}.json") for name in ("easy", "hard")),
        circuits={"easy": "verbs", "hard": "other"},
        accuracies=pd.DataFrame({"old": [1.0, 0.5]}, index=["easy", "hard"]),
    )


def test_item_is_correct_if_all_predictions_hold(suites, tmp_path):
    run = run_benchmarks([suites], [load_model(SPEC)], tmp_path / "cache")
    rows = run.results.set_index(["analysis", "model"])
    assert rows.loc[("verbs", SPEC), "value"] == 1.0
    assert rows.loc[("other", SPEC), "value"] == 0.0
    assert rows.loc[("all", SPEC), "value"] == 0.5
    assert rows.loc[("all", "old"), "value"] == 0.75
    table = run.scores["made/suites"]
    by_hand = load_model(SPEC).score_words(["The dog was ."])[0]
    rows = table[table["sentence"] == "The dog was ."]
    assert rows["word"].tolist() == ["The", "dog", "was", "."]
    assert rows["log_prob"].tolist() == by_hand.tolist()
    table = table[table["sentence"] != "The dog was ."]
    with pytest.raises(InputError, match=r"the words of 'The dog was \.' have no scores"):
        suites.evaluate(table)


def test_word_scores_are_cached(suites, tmp_path, monkeypatch):
    model = load_model(SPEC)
    first = score_words(model, suites.sentences, ScoreCache(tmp_path))
    assert len(first) == 16
    monkeypatch.setattr(type(model), "score_words", None)
    again = score_words(model, suites.sentences, ScoreCache(tmp_path))
    pd.testing.assert_frame_equal(first, again)


def test_words_follow_the_language_of_the_model(tmp_path):
    model = load_model("contstim:unigram?language=fr&unknown=unk")
    table = score_words(model, ["L'homme dort."], ScoreCache(tmp_path))
    assert table["word"].tolist() == ["L'", "homme", "dort."]


@pytest.mark.parametrize("spec", ["contstim:bert", "contstim:trigram?reduction=mean"])
def test_models_without_next_word_scores_are_rejected(suites, tmp_path, spec):
    with pytest.raises(InputError) as caught:
        run_benchmarks([suites], [load_model(spec)], tmp_path / "cache")
    assert str(caught.value) == (
        f"{spec!r} does not predict each word from the words before it; name a causal model, "
        "such as contstim:gpt"
    )
    assert not (tmp_path / "cache").exists()


def test_word_benchmark_correlation_by_hand(tmp_path):
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
        measures=("rating",),
        log_probs=pd.DataFrame({"old": rng.normal(size=12)}),
        primary_measure=("all", "rating"),
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
    expected = stats.pearsonr(bench.log_probs["old"], words["rating"]).statistic
    assert rows.loc["old", "value"] == pytest.approx(expected)
    assert rows.loc["old", "n_items"] == 12
