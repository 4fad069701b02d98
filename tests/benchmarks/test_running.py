"""Runs of benchmarks: the cost before, what is kept, going on, and the folder.

Of `contstim.benchmarks.running` and `contstim.benchmarks.writing`.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from made import pair_benchmark

from contstim.benchmarks import RESULTS
from contstim.benchmarks import running as module
from contstim.benchmarks.running import Scoring, ScoringCost, run_benchmarks
from contstim.benchmarks.writing import (
    headline_sentences,
    published_note,
    share_table,
    write_run,
)
from contstim.errors import InputError
from contstim.models.registry import load_model

SPEC = "contstim:trigram?unknown=unk"


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(module, "SCORED_TOGETHER", 3)


class CutError(Exception):
    pass


def breaking(model, after):
    """Let a model break after so many batches, and return the batches that it was asked for."""
    whole, asked = type(model).totals, []

    def totals(sentences):
        if len(asked) == after:
            raise CutError
        asked.append(list(sentences))
        return whole(model, sentences)

    object.__setattr__(model, "totals", totals)
    return asked


def test_an_interrupted_run_goes_on_and_gives_the_same(small_batches, tmp_path):
    benchmark = pair_benchmark()
    whole = run_benchmarks([benchmark], [load_model(SPEC)], tmp_path / "whole")
    model = load_model(SPEC)
    asked = breaking(model, 4)
    with pytest.raises(CutError):
        run_benchmarks([benchmark], [model], tmp_path / "cut")
    first = [sentence for batch in asked for sentence in batch]
    assert len(first) == 12
    model = load_model(SPEC)
    asked = breaking(model, 1000)
    run = run_benchmarks([benchmark], [model], tmp_path / "cut")
    rest = [sentence for batch in asked for sentence in batch]
    assert not set(first) & set(rest)
    assert len(first) + len(rest) == len(benchmark.sentences)
    pd.testing.assert_frame_equal(run.results, whole.results, check_exact=True)
    pd.testing.assert_frame_equal(run.scores["made/pairs"], whole.scores["made/pairs"])


def test_the_cost_is_of_what_is_left(small_batches, tmp_path):
    benchmark = pair_benchmark()
    scoring = Scoring(load_model(SPEC), [benchmark, pair_benchmark("made/again")], tmp_path)
    cost = scoring.cost()
    assert (cost.n_sentences, cost.n_left) == (32, 32)
    tokens = scoring.model.totals(benchmark.sentences).n_tokens.sum()
    assert cost.n_tokens == pytest.approx(tokens, rel=0.2)
    assert cost.seconds > 0
    again = Scoring(load_model(SPEC), [benchmark], tmp_path).cost()
    assert again.n_left == 32 - 9  # three batches were tried, and kept
    scoring.run()
    assert str(scoring.cost()) == f"{SPEC}: all 32 sentences have scores"
    costs = (ScoringCost("m", 1000, 900, 5000.4, 90.0), ScoringCost("m", 10, 10, 99.0, 7200.0))
    assert [str(cost) for cost in costs] == [
        "m: 900 of 1,000 sentences to score, about 5,000 tokens, about 1.5 minutes",
        "m: 10 sentences to score, about 99 tokens, about 2.0 hours",
    ]


def test_the_folder_is_whole_and_is_replaced(tmp_path):
    run = run_benchmarks([pair_benchmark()], [load_model(SPEC)], tmp_path / "cache")
    out = tmp_path / "out"
    page = write_run(run, out).read_text("utf-8")
    assert "made/pairs: Made pairs" in page
    assert "Nobody (2026)" in page
    assert list(pd.read_csv(out / "results.csv")) == list(RESULTS)
    names = {path.name for path in (out / "made-pairs").iterdir()}
    assert names == {"results.csv", "paradigms.csv", "published.csv", "scores.csv.gz"}
    assert len(pd.read_csv(out / "made-pairs/scores.csv.gz")) == 32
    provenance = json.loads((out / "provenance.json").read_text("utf-8"))
    assert provenance["models"][0]["spec"] == SPEC
    before = {p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.suffix == ".csv"}
    (out / "left.txt").write_text("of an earlier run")
    write_run(run, out)
    after = {p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.suffix == ".csv"}
    assert before == after
    assert not (out / "left.txt").exists()
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("")
    with pytest.raises(InputError, match="has something else than the results of benchmarks"):
        write_run(run, other)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_what_is_said_of_a_run(tmp_path):
    run = run_benchmarks([pair_benchmark(), pair_benchmark("made/again")], [], tmp_path)
    first, second = headline_sentences(run)
    low, high = run.headlines.loc[0, ["share_low", "share_high"]].astype(float) * 100
    assert first == (
        "On made/pairs old does best: accuracy 0.625, 31.2 % of "
        "the way from chance to the lower noise ceiling, 0.900 (95 % interval "
        f"{low:.1f} to {high:.1f})."
    )
    assert second.startswith("On made/again old does")
    assert published_note(run, "made/pairs") == (
        "Figures computed again from what was published with them: 1; the largest difference is 0."
    )
    page = write_run(run, tmp_path / "out").read_text("utf-8")
    assert "made <small>pairs</small></th>" in page
    assert '<p class="caption"><b>Table 1.</b> Share of' in page
    assert '<table aria-label="Table 1">' in page
    table = share_table(run.headlines)
    assert list(table) == ["model", "made/pairs", "made/again"]
    alone = run.headlines.assign(share=np.nan)
    assert share_table(alone).iloc[0].tolist() == ["old", "(0.625)", "(0.625)"]


def test_names_are_checked_before_anything_is_scored(tmp_path):
    model = load_model(f"old={SPEC}")
    with pytest.raises(InputError, match="is called 'old' as a published one of made/pairs"):
        run_benchmarks([pair_benchmark()], [model], tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
    with pytest.raises(InputError, match="a benchmark is named twice"):
        run_benchmarks([pair_benchmark(), pair_benchmark()], [], tmp_path)
