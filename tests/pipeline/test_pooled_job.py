"""Synthesis by strategies that sample one pool of sentences.

Tests `contstim.pipeline.pooled_job`.
"""

from __future__ import annotations

import csv
import itertools
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_study import RecordingExecutor, synthesis_plan

from contstim import load_model, pool
from contstim.arrays import FloatArray
from contstim.cli.synthesis_study import build_plan, report_synthesis
from contstim.models.base import SentenceModel
from contstim.pipeline.engine import SequentialExecutor
from contstim.pipeline.plan import StudyPlan
from contstim.pipeline.store import RunStore
from contstim.pipeline.synthesis import SynthesisReport, write_synthesis
from contstim.pipeline.synthesis_options import SynthesisOptions
from contstim.pipeline.tasks import SampleTask, ScoreTask
from contstim.pipeline.worker import Worker
from contstim.selection.scores import read_scores
from contstim.synthesis.pool import Request, SentencePool
from contstim.text.diversity import folded_words, infrequent_words
from contstim.text.languages import ENGLISH
from contstim.text.vocabulary import bundled_vocabulary

MODELS = ("contstim:bigram", "contstim:trigram")
# The likeliest of some: what is written for people is likelier than most of the bundled ones.
SOME = [text for text in pool()[:200] if len(text.split()) == 8]
STARTS = [SOME[i] for i in np.argsort(-load_model(MODELS[0]).score(SOME))[:4]]
BOUND = "contstim:gpt>=-72"


@pytest.fixture(scope="module")
def plan() -> StudyPlan:
    """Triplets of four natural sentences from a small pool."""
    whole = synthesis_plan(STARTS, bundled_vocabulary(), MODELS, seed=2)
    strategy = (
        "sample?writer=contstim:gpt&guidance=12&min_end_probability=0.05&n_prompts=0"
        "&batch_size=8&max_samples=56"
    )
    return whole.replace_options(SynthesisOptions, strategy=strategy, min_scores=(BOUND,))


@pytest.fixture(scope="module")
def whole(
    plan: StudyPlan, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, SynthesisReport]:
    """Return a folder with the triplets and the pool of the plan, and the report of the run."""
    folder = tmp_path_factory.mktemp("whole")
    out, sampled = folder / "triplets.csv", folder / "pool.csv"
    report = write_synthesis(plan, out, SequentialExecutor(), pool=sampled)
    assert not report.failures
    return folder, report


def test_triplets_of_a_pool_satisfy_all_constraints(whole: tuple[Path, SynthesisReport]) -> None:
    folder, report = whole
    rows = list(csv.DictReader((folder / "triplets.csv").read_text("utf-8").splitlines()))
    assert rows
    one, two, gpt = map(load_model, (*MODELS, "contstim:gpt"))
    written = [row[f"synthetic_{k}"] for row in rows for k in (1, 2)]
    assert len(set(written)) == len(written)
    before = [{*folded_words(row["natural"])} for row in rows for _ in range(2)]
    counts = Counter(word for text in written for word in infrequent_words(text, ENGLISH))
    for word, n in counts.items():
        assert n <= max(2, sum(word in words for words in before)), word
    for row in rows:
        texts = [row["natural"], row["synthetic_1"], row["synthetic_2"]]
        first, second = one.score(texts), two.score(texts)
        assert first[1] >= first[0] > first[2]
        assert second[2] >= second[0] > second[1]
        lengths = [len(text.split()) for text in texts[1:]]
        assert (gpt.score(texts[1:]) >= -72.0).all()
        assert {7 <= n <= 9 for n in lengths} == {True}
        assert float(row["synthetic_1_lp_2"]) == pytest.approx(second[1], abs=1e-6)
    notes = json.loads((folder / "triplets.csv.meta.json").read_text("utf-8"))["notes"]
    assert notes["n_candidates"] == report.notes["n_candidates"]
    assert set(notes["n_satisfying"]) == {
        BOUND,
        *(f"{m}>=natural" for m in MODELS),
        *(name for name in notes["n_satisfying"] if name.startswith("all constraints")),
    }


@pytest.mark.parametrize("n_started", [3, 12])
def test_interrupted_pool_continues_to_equal_rows(
    n_started: int,
    plan: StudyPlan,
    whole: tuple[Path, SynthesisReport],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The folder of unfinished work contains a folder of the same name.
    out = tmp_path / "scores"
    done = 0
    real = SampleTask.execute

    def stop(task: SampleTask, worker: Worker) -> dict[str, object]:
        nonlocal done
        done += 1
        if done == n_started:
            raise KeyboardInterrupt
        return real(task, worker)

    monkeypatch.setattr(SampleTask, "execute", stop)
    with pytest.raises(KeyboardInterrupt):
        write_synthesis(plan, out, SequentialExecutor())
    assert not out.exists()
    write_synthesis(plan, out, SequentialExecutor())
    # Each side has five batches in the first round, and two later rounds of one batch. The batches
    # that were finished are not sampled again.
    assert done == 15
    assert out.read_bytes() == (whole[0] / "triplets.csv").read_bytes()
    executor = RecordingExecutor()
    assert write_synthesis(plan, out, executor).is_up_to_date


def test_interrupted_pool_continues_with_other_limits(
    plan: StudyPlan,
    whole: tuple[Path, SynthesisReport],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def change(old: str, new: str) -> StudyPlan:
        strategy = plan.get_options(SynthesisOptions).strategy.replace(old, new)
        return plan.replace_options(SynthesisOptions, strategy=strategy)

    def read_rows(path: Path) -> list[dict[str, str]]:
        with path.open(encoding="utf-8", newline="") as file:
            return [{**row, "strategy": ""} for row in csv.DictReader(file)]

    # The first round has five batches of eight sentences for each of two problems.
    write_synthesis(change("=56", "=40"), tmp_path / "round.csv", SequentialExecutor())
    n_started, last, real = 0, 12, SampleTask.execute

    def stop(task: SampleTask, worker: Worker) -> dict[str, object]:
        nonlocal n_started
        n_started += 1
        if n_started >= last:
            raise KeyboardInterrupt
        return real(task, worker)

    out, lines = tmp_path / "triplets.csv", list[str]()
    saved = tmp_path / ".triplets.csv.run" / "rows" / "triplets.csv"
    with monkeypatch.context() as patch:
        patch.setattr(SampleTask, "execute", stop)
        with pytest.raises(KeyboardInterrupt, match=r"^[1-4] of 4 rows were found, see .*csv$"):
            write_synthesis(change("=56", "=400"), out, SequentialExecutor())
        assert read_rows(saved) == read_rows(tmp_path / "round.csv")
        # Limits on the number of rounds do not affect finished results, but other options do.
        for other in (change("=56", "=72&min_improvement=0.1"), change("=12", "=11")):
            assert lines == []
            with pytest.raises(KeyboardInterrupt):
                write_synthesis(other, out, SequentialExecutor(), show_progress=lines.append)
        assert 'had another strategy ("sample?' in lines[0]
        assert read_rows(saved) == []
    executor = RecordingExecutor()
    write_synthesis(plan, out, executor)
    # Eleven of the fourteen batches of a complete run were finished.
    assert sum(isinstance(task, SampleTask) for task in executor.submitted) == 3
    assert out.read_bytes() == (whole[0] / "triplets.csv").read_bytes()


def test_models_that_only_filter_are_reported(tmp_path: Path) -> None:
    models = (MODELS[0], f"{MODELS[1]}?reduction=mean")
    whole = synthesis_plan(STARTS[:1], bundled_vocabulary(), models, seed=2)
    plan = whole.replace_options(
        SynthesisOptions, strategy="sample?writer=contstim:gpt&n_prompts=0&max_samples=16"
    )
    out, lines = tmp_path / "triplets.csv", list[str]()
    write_synthesis(plan, out, SequentialExecutor(), show_progress=lines.append)
    assert lines[0].startswith(f"{models[1]} cannot guide the sampling")
    assert "0 of 1 triplets found" in lines[1]
    notes = json.loads((tmp_path / "triplets.csv.meta.json").read_text("utf-8"))["notes"]
    assert notes["non_guiding_models"] == [models[1]]


@pytest.mark.parametrize(
    ("strategy", "bound"),
    [("sample?writer=contstim:gpt&n_prompts=0&max_samples=16", "at most"), ("edit", "about")],
)
def test_remaining_time_of_sampling_is_a_maximum(
    strategy: str, bound: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("contstim.progress._SILENT_SECONDS", 1e-9)
    monkeypatch.setattr("contstim.progress._SECONDS_BETWEEN_LINES", 0.0)
    whole = synthesis_plan(STARTS[:1], bundled_vocabulary(), MODELS, seed=2)
    plan = whole.replace_options(SynthesisOptions, strategy=strategy)
    write_synthesis(plan, None, SequentialExecutor())
    lines = [line for line in capsys.readouterr().err.splitlines() if "synthesis: " in line]
    assert lines
    assert all(f", {bound} " in line and line.endswith(" left") for line in lines)


def test_another_seed_gives_another_pool(
    plan: StudyPlan, whole: tuple[Path, SynthesisReport]
) -> None:
    other = replace(plan, study=replace(plan.study, seed=9))
    assert write_synthesis(other, None, SequentialExecutor()).rows != whole[1].rows


def test_pool_table_contains_scores_of_all_models(whole: tuple[Path, SynthesisReport]) -> None:
    out, report = whole[0] / "pool.csv", whole[1]
    rows = list(csv.DictReader(out.read_text("utf-8").splitlines()))
    assert {row["source"] for row in rows} == {"natural", "sampled"}
    assert {row["sentence"] for row in rows if row["source"] == "natural"} == set(STARTS)
    for spec in MODELS:
        of_model = [row for row in rows if row["model"] == spec]
        scores = load_model(spec).score([row["sentence"] for row in of_model])
        assert scores == pytest.approx([float(row["log_prob"]) for row in of_model], abs=1e-6)
        assert len(of_model) == report.notes["n_candidates"] + len(STARTS)
    assert read_scores(out).shape == (report.notes["n_candidates"] + len(STARTS), 2)


def test_models_score_only_sentences_within_earlier_bounds(
    plan: StudyPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The second bound is relative: sentences that satisfy it for no natural one are left out.
    second = "contstim:rnn>=natural"
    bounded = plan.replace_options(SynthesisOptions, min_scores=("contstim:gpt>=-44", second))
    asked: dict[str, set[str]] = {}
    real = ScoreTask.execute

    def do(task: ScoreTask, worker: Worker) -> None:
        asked.setdefault(task.model.name, set()).update(task.sentences)
        real(task, worker)

    monkeypatch.setattr(ScoreTask, "execute", do)
    out = tmp_path / "pool.csv"
    report = write_synthesis(bounded, None, SequentialExecutor(), pool=out)
    gpt, rnn = load_model("contstim:gpt"), load_model("contstim:rnn")
    written = asked[gpt.name] - {*STARTS}
    assert len(written) == report.notes["n_sampled"]

    def score(model: SentenceModel, texts: list[str]) -> dict[str, float]:
        return dict(zip(texts, model.score(texts).tolist(), strict=True))

    first = {text for text, value in score(gpt, sorted(written)).items() if value >= -44}
    assert 0 < len(first) < len(written)
    assert asked[rnn.name] - {*STARTS} == first
    lowest = min(rnn.score(STARTS))
    left = {text for text, value in score(rnn, sorted(first)).items() if value >= lowest}
    assert 0 < len(left) < len(first)
    for spec in MODELS:
        assert asked[load_model(spec).name] - {*STARTS} == left
    assert len(left) == report.notes["n_candidates"]
    assert set(read_scores(out).index) == {*left, *STARTS}


def test_time_limit_gives_an_estimate(
    plan: StudyPlan,
    whole: tuple[Path, SynthesisReport],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tried = tmp_path / "tried.csv"
    monkeypatch.setattr(RunStore, "read_durations", lambda self, tasks: [10.0 for _ in tasks])
    report = write_synthesis(plan, tried, SequentialExecutor(), time_limit=0.0)
    left = report.status
    assert left is not None
    assert not tried.exists()
    # Each side has seven batches of eight sentences.
    assert (left.n_done, left.n_tasks) == (1, 14)
    assert left.remaining_seconds == 13 * 10
    report.status, report.processor_share = replace(left, remaining_seconds=240.0), 0.5
    assert report_synthesis(report, plan, str(tried)) == 0
    time = "at most about 4 min left with one worker (2 min of processor time), plus scoring"
    assert f"1 of at most 14 tasks done, {time}; run the same" in capsys.readouterr().err
    monkeypatch.undo()
    assert write_synthesis(plan, tried, SequentialExecutor()).status is None
    assert tried.read_bytes() == (whole[0] / "triplets.csv").read_bytes()
    batch = write_synthesis(plan, tried, SequentialExecutor(), time_limit=0.0)
    assert batch.is_up_to_date


def test_sampling_ends_when_all_targets_are_filled() -> None:
    """A larger maximum number of samples gives the same table once sampling has ended."""
    plan = synthesis_plan(STARTS[:1], bundled_vocabulary(), MODELS, seed=2)
    tables, numbers, lines = [], list[int](), list[str]()
    for limits in (800, 1600, "800&min_improvement=0.05"):
        strategy = (
            "sample?writer=contstim:gpt&guidance=12&min_end_probability=0.02&n_prompts=0"
            f"&batch_size=8&max_samples={limits}"
        )
        longer = plan.replace_options(SynthesisOptions, strategy=strategy, min_scores=())
        executor = RecordingExecutor()
        report = write_synthesis(longer, None, executor, show_progress=lines.append)
        tables.append([{**row.to_record(), "strategy": ""} for row in report.rows])
        numbers.append(sum(isinstance(task, SampleTask) for task in executor.submitted))
        assert "1 of 1 triplets found" in lines[-1]
    assert tables[0] == tables[1]
    assert len(tables[0]) == 1
    # Of 200 and 400 batches. An improvement is measured over the last five batches of each side.
    assert numbers[0] == numbers[1] < numbers[2] < 200
    assert lines[-1].endswith("the last 5 rounds improved the loss by at most 5%")


def test_readable_sentences_satisfy_the_bound_on_fresh_scores(plan: StudyPlan) -> None:
    reader = "contstim:gpt?reduction=reading&prompt=natural"
    bounds = (f"{reader}>=-6", f"{reader}>=-7")
    bounded = plan.replace_options(SynthesisOptions, min_scores=bounds)
    executor = RecordingExecutor()
    report = write_synthesis(bounded, None, executor)
    texts = [row.to_record()[f"synthetic_{k}"] for row in report.rows for k in (1, 2)]
    assert texts
    assert load_model(reader).score(texts).min() >= -6
    # The writer does not complete sentences far below the bound.
    tasks = [task for task in executor.submitted if isinstance(task, SampleTask)]
    assert {task.sentence_form.min_reading_score for task in tasks} == {-6.2}
    assert report.notes["n_candidates"] < report.notes["n_sampled"]


def test_natural_sentences_with_the_lowest_losses_are_chosen(plan: StudyPlan) -> None:
    """One of three natural sentences receives synthetic sentences."""
    losses = {}
    for per_pair in (1, 3):
        chosen = plan.replace_options(SynthesisOptions, per_pair=per_pair)
        report = write_synthesis(chosen, None, SequentialExecutor())
        assert report.notes["requested"] == per_pair
        scores = [row.to_record() for row in report.rows]
        losses[per_pair] = {
            row["natural"]: row["synthetic_1_lp_2"]
            - row["natural_lp_2"]
            + row["synthetic_2_lp_1"]
            - row["natural_lp_1"]
            for row in scores
        }
    ((natural, loss),) = losses[1].items()
    assert len(losses[3]) > 1
    # Without competition for the sampled sentences, the loss can only be lower.
    assert loss <= losses[3][natural] + 1e-9
    assert loss <= min(losses[3].values()) + 1e-9


def test_only_unsolved_problems_are_sampled_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool lacks sentences that the trigram model should reject."""
    real = SentencePool.losses

    def empty_one_side(pool: SentencePool, request: Request) -> FloatArray:
        losses = real(pool, request)
        return losses * np.nan if request.problem.reject == (MODELS[1],) else losses

    monkeypatch.setattr(SentencePool, "losses", empty_one_side)
    strategy = (
        "sample?writer=contstim:gpt&guidance=12&min_end_probability=0.02&n_prompts=0"
        "&batch_size=8&max_samples=80"
    )
    plan = synthesis_plan(STARTS[:1], bundled_vocabulary(), MODELS, seed=2)
    longer = plan.replace_options(SynthesisOptions, strategy=strategy, min_scores=())
    executor = RecordingExecutor()
    write_synthesis(longer, None, executor)
    tasks = [task for task in executor.submitted if isinstance(task, SampleTask)]
    assert {task.definition.reject for task in tasks if task.batch < 5} == {MODELS[:1], MODELS[1:]}
    assert {task.definition.reject for task in tasks if task.batch >= 5} == {MODELS[1:]}


@pytest.mark.parametrize(
    ("options", "n_natural", "per_pair"),
    [
        ({"strategy": "sample"}, 12, 4),
        ({"strategy": "sample", "allocation": "partitioned"}, 24, 4),
        ({"strategy": "edit"}, 4, None),
    ],
)
def test_limit_is_the_number_of_rows_of_each_pair(
    options: dict[str, Any], n_natural: int, per_pair: int | None
) -> None:
    pairs = (("contstim:bigram", "contstim:trigram"), ("contstim:bigram", "contstim:gpt"))
    plan = build_plan({**options, "pairs": pairs}, None, None, 4, None, None, None)
    assert len(plan.sentences.listed) == n_natural
    assert plan.get_options(SynthesisOptions).per_pair == per_pair


def test_pairs_of_models_without_natural_sentences_get_no_rows() -> None:
    """Two natural sentences for three pairs of models, and a bound that no sentence satisfies."""
    plan = synthesis_plan(STARTS[:2], bundled_vocabulary(), MODELS, seed=2)
    models = (*MODELS, "contstim:unigram")
    options = {
        "strategy": "sample?writer=contstim:gpt&n_prompts=0&batch_size=4&max_samples=4",
        "allocation": "partitioned",
        "pairs": tuple(itertools.combinations(models, 2)),
        "min_scores": ("contstim:gpt>=-5",),
    }
    whole = replace(plan.replace_options(SynthesisOptions, **options), models=models)
    report = write_synthesis(whole, None, SequentialExecutor())
    assert report.rows == []
    assert report.notes["requested"] == 2


def test_unattainable_bounds_are_reported_after_one_round(plan: StudyPlan) -> None:
    strategy = (
        "sample?writer=contstim:gpt&guidance=12&min_end_probability=0.02&n_prompts=0"
        "&batch_size=4&max_samples=160"
    )
    hopeless = plan.replace_options(
        SynthesisOptions, strategy=strategy, min_scores=("contstim:gpt>=-5",)
    )
    lines = list[str]()
    report = write_synthesis(hopeless, None, SequentialExecutor(), show_progress=lines.append)
    assert report.rows == []
    found = "0 of 4 triplets found; about 0 expected after batch 40"
    assert lines[0].startswith(f"batch 5 of at most 40: {found}")
    assert "satisfy contstim:gpt>=-5: increase max_samples" in lines[0]
    # Sampling stops before the maximum number of samples, and says why.
    assert lines[-1].startswith(f"batch 10 of at most 40: {found}")
    assert lines[-1].endswith("sampling ends: none are expected in the next 5 rounds")
