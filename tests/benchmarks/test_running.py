"""Test runs of benchmarks: cached scores, interruption and the results folder."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from example_pairs import pair_benchmark

from contstim.benchmarks import running as module
from contstim.benchmarks.benchmark import RESULTS
from contstim.benchmarks.running import replace_folder, run_benchmarks
from contstim.errors import InputError, OutputError
from contstim.models.registry import load_model

SPEC = "contstim:trigram?unknown=unk"


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(module, "BATCH_SIZE", 3)


class CutError(Exception):
    pass


def fail_after_batches(model, after):
    """Make a model fail after some batches, and return the list of scored batches."""
    whole, asked = type(model).score_with_counts, []

    def totals(sentences):
        if len(asked) == after:
            raise CutError
        asked.append(list(sentences))
        return whole(model, sentences)

    object.__setattr__(model, "score_with_counts", totals)
    return asked


def test_interrupted_run_resumes_with_the_same_results(small_batches, tmp_path):
    benchmark = pair_benchmark()
    whole = run_benchmarks([benchmark], [load_model(SPEC)], tmp_path / "whole")
    model = load_model(SPEC)
    asked = fail_after_batches(model, 4)
    with pytest.raises(CutError):
        run_benchmarks([benchmark], [model], tmp_path / "cut")
    first = [sentence for batch in asked for sentence in batch]
    assert len(first) == 12
    model = load_model(SPEC)
    asked = fail_after_batches(model, 1000)
    run = run_benchmarks([benchmark], [model], tmp_path / "cut")
    rest = [sentence for batch in asked for sentence in batch]
    assert not set(first) & set(rest)
    assert len(first) + len(rest) == len(benchmark.sentences)
    pd.testing.assert_frame_equal(run.results, whole.results, check_exact=True)
    pd.testing.assert_frame_equal(run.scores["made/pairs"], whole.scores["made/pairs"])


def test_results_folder_is_replaced(tmp_path):
    run = run_benchmarks([pair_benchmark()], [load_model(SPEC)], tmp_path / "cache")
    out = tmp_path / "out"
    run.write(out)
    assert list(pd.read_csv(out / "results.csv")) == list(RESULTS)
    names = {path.name for path in (out / "made-pairs").iterdir()}
    assert names == {"results.csv", "paradigms.csv", "published.csv", "scores.csv.gz"}
    assert len(pd.read_csv(out / "made-pairs/scores.csv.gz")) == 32
    provenance = json.loads((out / "provenance.json").read_text("utf-8"))
    assert provenance["models"][0]["spec"] == SPEC
    before = {p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.suffix == ".csv"}
    (out / "left.txt").write_text("of an earlier run")
    run.write(out)
    after = {p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.suffix == ".csv"}
    assert before == after
    assert not (out / "left.txt").exists()
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("")
    with pytest.raises(InputError, match="contains files that are not results of benchmarks"):
        run.write(other)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_primary_results_list_the_best_model_first(tmp_path):
    run = run_benchmarks([pair_benchmark(), pair_benchmark("made/again")], [], tmp_path)
    assert run.primary_results["benchmark"].tolist() == ["made/pairs", "made/again"]
    assert run.primary_results["share"].tolist() == pytest.approx([0.3125, 0.3125])
    run = run_benchmarks([pair_benchmark()], [load_model(SPEC)], tmp_path)
    assert run.primary_results["model"].tolist() == [SPEC, "old"]
    assert run.primary_results["value"].is_monotonic_decreasing


def test_duplicate_names_are_rejected_before_scoring(tmp_path):
    model = load_model(f"old={SPEC}")
    with pytest.raises(InputError, match="made/pairs has a published model 'old'"):
        run_benchmarks([pair_benchmark()], [model], tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
    with pytest.raises(InputError, match="a benchmark is named twice"):
        run_benchmarks([pair_benchmark(), pair_benchmark()], [], tmp_path)


def test_replace_folder_protects_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("old", "below/here"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_text("old")
    monkeypatch.chdir(tmp_path / "below" / "here")
    for folder in (Path(), Path(".."), tmp_path / "below"):
        with (
            pytest.raises(OutputError, match="contains the working folder"),
            replace_folder(folder),
        ):
            raise AssertionError("nothing is made")
        assert Path("file").read_text() == "old"
    with replace_folder(Path("../../old")) as place:
        place.mkdir()
    assert sorted(tmp_path.rglob("file")) == [tmp_path / "below" / "here" / "file"]
