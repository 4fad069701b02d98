"""Runs of study plans: tables, interruption, shards and failed tasks.

Tests `contstim.pipeline.engine`, `contstim.pipeline.study`, `contstim.pipeline.stages`,
`contstim.pipeline.stages.score`, `contstim.pipeline.stages.selection`,
`contstim.pipeline.stages.natural`, `contstim.pipeline.stages.set`,
`contstim.pipeline.stages.triplets` and `contstim.pipeline.stages.design`.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from small_study import RecordingExecutor, create_run, make_study, mark_sentence, tables

from contstim import synthesize
from contstim.cli import main
from contstim.design import check_design
from contstim.errors import InfeasibleError, InputError, OutputError
from contstim.files import LockedError
from contstim.pipeline.engine import SequentialExecutor, TaskOutcomes, lock_run
from contstim.pipeline.plan import StudyOptions, StudyPlan
from contstim.pipeline.stages.design import DesignOptions
from contstim.pipeline.stages.natural import NaturalOptions
from contstim.pipeline.stages.set import SetOptions
from contstim.pipeline.stages.synthesis import SYNTHESIS_STAGE
from contstim.pipeline.stages.triplets import TripletOptions
from contstim.pipeline.study import read_study_plan, run_study
from contstim.pipeline.synthesis_job import Problems
from contstim.pipeline.synthesis_options import SynthesisOptions
from contstim.pipeline.tasks import Task
from contstim.pipeline.worker import RunContext
from contstim.selection import ResponseModel
from contstim.synthesis.results import SynthesisResult


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> StudyPlan:
    return read_study_plan(make_study(tmp_path_factory.mktemp("study")))


@pytest.fixture(scope="module")
def whole(study: StudyPlan) -> Path:
    """Return the folder of an uninterrupted run in this process."""
    out = study.folder / "whole"
    report = run_study(study, SequentialExecutor(), out=out)
    assert report.is_complete
    assert [path.name for path in report.written_tables] == sorted(
        (path.name for path in report.written_tables), key=[*_names(out)].index
    )
    return out


def _names(out: Path) -> Iterator[str]:
    yield from ("scores.csv", "natural_pairs.csv", "synthesized.csv", "triplets.csv", "trials.csv")


def _read(path: Path) -> pd.DataFrame:
    """Read a table with numbers of full precision."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [
            {k: float(v) if "_lp_" in k or k == "log_prob" else v for k, v in row.items()}
            for row in csv.DictReader(file)
        ]
    return pd.DataFrame(rows)


def test_options_of_the_strategy_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = make_study(tmp_path, starts=1)
    file.write_text(file.read_text("utf-8").replace("candidates=all", "inputs=77"))
    asked = []

    def spy(*args: Any, **options: Any) -> SynthesisResult:
        asked.append(options["strategy"])
        return synthesize(*args, **options)

    monkeypatch.setattr("contstim.pipeline.tasks.synthesize", spy)
    run_study(read_study_plan(file), SequentialExecutor(), out=tmp_path / "out", stage="synthesis")
    assert asked
    assert set(asked) == {"edit?inputs=77"}


def test_start_sentences_are_partitioned_or_shared(study: StudyPlan) -> None:
    run = create_run(study)

    def allocate(plan: StudyPlan, **values: Any) -> dict[Problems, list[str]]:
        changed = plan.replace_options(SynthesisOptions, **values)
        return dict(SYNTHESIS_STAGE.get_job(replace(run, plan=changed)).sentences_by_problems)

    partitioned = [s for own in allocate(study).values() for s in own]
    assert len(partitioned) == len(set(partitioned)) == 12
    sizes = [len(own) for own in allocate(study, per_pair=None).values()]
    assert sizes == [14, 13, 13]
    three = allocate(study, allocation="shared")
    two = allocate(replace(study, models=study.models[:2]), allocation="shared")
    # The sentences of a pair do not depend on the other models.
    ((problems, sentences),) = two.items()
    assert three[problems] == sentences
    assert len({tuple(own) for own in three.values()}) == 3
    later = replace(study, study=replace(study.study, seed=4))
    assert allocate(later) != allocate(study)
    every = allocate(later, allocation="all", per_pair=None)
    assert list(every.values()) == [run.sentences] * 3


def test_finished_run_repeats_no_task(study: StudyPlan, whole: Path) -> None:
    executor = RecordingExecutor()
    report = run_study(study, executor, out=whole)
    assert executor.submitted == []
    assert report.written_tables == []
    assert len(report.current_tables) == 5


def test_all_shards_together_complete_the_run(
    study: StudyPlan, whole: Path, tmp_path: Path
) -> None:
    counts = []
    for number in (3, 1, 2):
        executor = RecordingExecutor()
        report = run_study(study, executor, out=tmp_path, shard=(number, 3))
        counts.append(len(executor.submitted))
        assert report.written_tables == []
    assert sum(counts) == 27
    assert min(counts) > 0
    merging = RecordingExecutor()
    run_study(study, merging, out=tmp_path)
    assert merging.submitted == []
    assert tables(tmp_path) == tables(whole)
    with pytest.raises(InputError, match="no shard 4 of 3"):
        run_study(study, SequentialExecutor(), out=tmp_path, shard=(4, 3))


def test_stage_runs_with_its_required_stages(study: StudyPlan, tmp_path: Path) -> None:
    def names(stage: str) -> list[str]:
        return [
            p.name
            for p in run_study(
                study, SequentialExecutor(), out=tmp_path, stage=stage
            ).written_tables
        ]

    assert names("natural") == ["scores.csv", "natural_pairs.csv"]
    assert names("triplets") == ["synthesized.csv", "triplets.csv"]
    assert names("design") == ["trials.csv"]
    with pytest.raises(InputError, match="did you mean 'design'"):
        names("desing")


def test_constraints_of_a_plan_are_satisfied(study: StudyPlan, tmp_path: Path) -> None:
    sentences = (study.folder / "natural.txt").read_text("utf-8").splitlines()
    topics = pd.DataFrame({"sentence": sentences, "topic": [i // 2 for i in range(40)]})
    topics.to_csv(study.folder / "topics.csv", index=False)
    kept = study.replace_options(
        NaturalOptions, per_pair=2, constraints=("at-most:topic:1",), features="topics.csv"
    )

    def select() -> pd.DataFrame:
        run_study(kept, SequentialExecutor(), out=tmp_path, stage="natural")
        return pd.read_csv(tmp_path / "natural_pairs.csv")

    pairs = select()
    assert len(pairs) == 6
    used = pd.concat([pairs["sentence_1"], pairs["sentence_2"]])
    assert topics.set_index("sentence")["topic"][used].is_unique
    # Another table of features is another selection.
    topics["topic"] = topics["topic"].where(~topics["sentence"].isin(used), 0)
    topics.to_csv(study.folder / "topics.csv", index=False)
    with pytest.raises(InfeasibleError, match="at-most:topic:1: at most 1 of group"):
        select()


def test_only_outdated_tables_are_written_again(
    study: StudyPlan, whole: Path, tmp_path: Path
) -> None:
    run_study(study, SequentialExecutor(), out=tmp_path)

    def again(changed: StudyPlan) -> tuple[int, list[str]]:
        executor = RecordingExecutor()
        report = run_study(changed, executor, out=tmp_path)
        return len(executor.submitted), [path.name for path in report.written_tables]

    by_rank = study.replace_options(TripletOptions, objective="worst-rank")
    made = again(by_rank)
    assert made[0] == 0
    assert made[1][0] == "triplets.csv"
    assert "scores.csv" not in made[1]
    again(study)
    assert tables(tmp_path) == tables(whole)
    # A table that was edited, or lost its end, does not hold.
    path = tmp_path / "natural_pairs.csv"
    path.write_bytes(path.read_bytes()[:-30])
    assert again(study) == (0, ["natural_pairs.csv"])
    fewer = study.replace_options(SynthesisOptions, strategy="edit")
    assert again(fewer)[0] == 24
    reseeded = replace(study, study=replace(study.study, seed=9))
    assert again(reseeded)[0] == 24


def test_changed_weights_repeat_the_tasks_of_a_model(tmp_path: Path) -> None:
    study = read_study_plan(make_study(tmp_path))
    run_study(study, SequentialExecutor())
    path = tmp_path / "1.arpa"
    path.write_text(path.read_text("utf-8").replace("\t.\n", "\t.\n", 1) + "\n", "utf-8")
    executor = RecordingExecutor()
    run_study(study, executor)
    # Its scores, and both pairs that it is in.
    assert len(executor.submitted) == 1 + 16


def test_failed_tasks_are_repeated_by_the_next_run(
    faulty: StudyPlan, capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = mark_sentence(faulty, "fails")
    file = str(faulty.folder / "study.toml")
    assert main(["run", file]) == 1
    listed = capsys.readouterr().err
    assert listed.count("failed: synthesize from") == 2
    assert f"{sentence!r}, rejected by faulty:3.arpa" in listed
    assert "RuntimeError: as the test asked" in listed
    # Both directions, three times each.
    assert (faulty.folder / "tries.log").read_text("utf-8") == "fails\n" * 6
    # The rest went on.
    assert (faulty.out / "trials.csv").exists()
    assert sentence not in (faulty.out / "synthesized.csv").read_text("utf-8")
    failed = [json.loads(p.read_text("utf-8")) for p in (faulty.out / "failed").rglob("*.json")]
    assert len(failed) == 2
    assert "Traceback" in failed[0]["details"]
    assert main(["run", file, "--status"]) == 0
    status = capsys.readouterr().out
    assert "22 of 24 tasks done, 2 failed" in status
    # What else was put into a file of the run counts as not there or is named, not a traceback.
    failure, result = (next((faulty.out / kind).rglob("*.json")) for kind in ("failed", "tasks"))
    plan = faulty.out / "plan.json"
    for path, status, wanted in (
        (failure, 0, "22 of 24 tasks done, 1 failed"),
        (result, 0, "21 of 24 tasks done, 2 failed"),
        (plan, 2, f"cannot read the models and versions of the run from {plan}"),
    ):
        whole = path.read_bytes()
        for content in (b"", b"\xff", b"[" * 100_000, b"[]", b"{}"):
            path.write_bytes(content)
            assert main(["run", file, "--status"]) == status
            assert wanted in "".join(capsys.readouterr())
        path.write_bytes(whole)
    (faulty.folder / "fails.txt").unlink()
    assert main(["run", file]) == 0
    assert not list((faulty.out / "failed").rglob("*.json"))
    assert sentence in (faulty.out / "synthesized.csv").read_text("utf-8")
    assert main(["run", file, "--status"]) == 0
    assert "24 of 24 tasks done, 0 failed" in capsys.readouterr().out


def test_sentences_without_score_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = make_study(tmp_path)
    natural = tmp_path / "natural.txt"
    natural.write_text("A zyzzyva ate the bread.\n" + natural.read_text("utf-8"), "utf-8")
    assert main(["run", str(file), "--stage", "natural"]) == 1
    listed = capsys.readouterr().err
    assert listed.count("1 of 41 sentences have no score: 'A zyzzyva ate the bread.'") == 3
    scores = pd.read_csv(tmp_path / "runs" / "small" / "scores.csv")
    assert len(scores) == 3 * 40
    assert len(pd.read_csv(tmp_path / "runs" / "small" / "natural_pairs.csv")) == 6


def test_scores_can_be_shared_between_runs(study: StudyPlan, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    counts = []
    for name in ("one", "two"):
        executor = RecordingExecutor()
        run_study(study, executor, out=tmp_path / name, cache=cache, stage="score")
        counts.append(len(executor.submitted))
    assert counts == [3, 0]


def test_invalid_arguments_are_reported(
    study: StudyPlan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(study.folder / "study.toml")
    out = ["--out", str(tmp_path / "new")]
    assert main(["run", file, "--status", *out]) == 2
    assert "contains no run; run the study plan" in capsys.readouterr().err
    for where in ("local:", "local:0", "local:x", "slurm:-1", "dask:somewhere", "somewhere"):
        assert main(["run", file, "--executor", where, *out]) == 2
        assert f"'{where}' is not an executor; write local:N" in capsys.readouterr().err
    (tmp_path / "file").write_text("x", "utf-8")
    assert main(["run", file, "--out", str(tmp_path / "file")]) == 2
    assert "it is not a folder; give another" in capsys.readouterr().err
    for shard in ("3", "0/2", "3/2", "a/b"):
        assert main(["run", file, "--shard", shard]) == 2
        assert "write I/N" in capsys.readouterr().err


def test_unknown_listed_words_are_refused(
    study: StudyPlan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = study.folder / "listed.toml"
    text = (study.folder / "study.toml").read_text("utf-8")
    listed = '[synthesis]\nedits = "words=2:qwzx"\n'
    file.write_text(text.replace("[synthesis]\n", listed), "utf-8")
    assert main(["run", str(file), "--out", str(tmp_path / "new")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("contstim: ngram:")
    assert line.endswith(
        " knows none of the 1 words listed for position 2; list words that it knows"
    )
    assert not list((tmp_path / "new").rglob("*.csv"))


def test_two_specs_of_one_model_are_refused(study: StudyPlan) -> None:
    twice = (study.models[1], study.models[1] + "&case=keep")
    with pytest.raises(InputError, match="keep one"):
        create_run(replace(study, models=twice))


def test_tables_use_the_model_names_of_the_plan(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    text = """
models = ["one=contstim:bigram", "two=contstim:unigram"]
[study]
name = "named"
[sentences]
limit = 2
[synthesis]
strategy = "beam?width=8"
pairs = [["two", "one"]]
min_scores = ["one >= natural-60"]
"""
    plan.write_text(text, "utf-8")
    assert main(["run", str(plan)]) == 0
    out = tmp_path / "runs" / "named"
    assert set(_read(out / "scores.csv")["model"]) == {"one", "two"}
    pairs = _read(out / "synthesized.csv")[["model_1", "model_2"]].drop_duplicates()
    assert pairs.to_numpy().tolist() == [["two", "one"]]
    assert '"spec": "contstim:bigram"' in (out / "plan.json").read_text("utf-8")
    with pytest.raises(InputError, match="^two models have the name 'one'; rename one of them"):
        StudyPlan(("one=contstim:bigram", "one=contstim:unigram"), StudyOptions("x"))


def test_results_in_another_folder_are_an_error(
    study: StudyPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Elsewhere(SequentialExecutor):
        def run(self, context: RunContext, tasks: Sequence[Task]) -> TaskOutcomes:
            other = tmp_path / "other"
            yield from super().run(replace(context, store_folder=other, cache_folder=other), tasks)

    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with pytest.raises(OutputError, match="give the workers access to this folder"):
        run_study(study, Elsewhere(), out=tmp_path / "out")


def test_shards_and_the_whole_run_exclude_each_other(tmp_path: Path) -> None:
    with lock_run(tmp_path, "shard-1-of-2"):
        with lock_run(tmp_path, "shard-2-of-2"):
            assert len(list((tmp_path / "locks").iterdir())) == 2
        with (
            pytest.raises(LockedError, match="shard-1-of-2 in .* is held"),
            lock_run(tmp_path, "run"),
        ):
            pass
    with lock_run(tmp_path, "run"):
        with pytest.raises(LockedError) as error, lock_run(tmp_path, "shard-1-of-2"):
            pass
        assert str(error.value).startswith(f"the run in {tmp_path} is held by ")
    assert not list((tmp_path / "locks").iterdir())


def test_set_of_natural_and_synthetic_pairs_is_selected(study: StudyPlan, tmp_path: Path) -> None:
    kept = [options for options in study.stages if isinstance(options, SynthesisOptions)]
    of_set = SetOptions(
        n=8,
        criterion="log-bf",
        constraints=("balance:words:0.5", "recurring:sentence:6"),
        synthetic=True,
        time_limit=5.0,
        response_model=ResponseModel(slope=2.0),
    )
    layout = DesignOptions(groups=2, participants=2)
    plan = replace(study, stages=(*kept, of_set, layout))
    report = run_study(plan, SequentialExecutor(), out=tmp_path)
    assert report.is_complete
    assert "set_pairs.csv" in [path.name for path in report.written_tables]
    pairs = pd.read_csv(tmp_path / "set_pairs.csv")
    assert len(pairs) == 8
    synthesized = pd.read_csv(tmp_path / "synthesized.csv")
    synthetic = {*synthesized["synthetic_1"], *synthesized["synthetic_2"]}
    known = {*(study.folder / "natural.txt").read_text("utf-8").splitlines(), *synthetic}
    assert {*pairs["sentence_1"], *pairs["sentence_2"]} <= known
    notes = json.loads((tmp_path / "set_pairs.csv.meta.json").read_text("utf-8"))
    assert "pair with a missing or infinite score" in str(notes)
    check_design(pd.read_csv(tmp_path / "trials.csv"))
    assert run_study(plan, SequentialExecutor(), out=tmp_path).written_tables == []
    alone = replace(study, stages=(replace(of_set, synthetic=False),))
    again = run_study(alone, SequentialExecutor(), out=tmp_path)
    assert [path.name for path in again.written_tables] == ["set_pairs.csv"]
    natural = pd.read_csv(tmp_path / "set_pairs.csv")
    assert not {*natural["sentence_1"], *natural["sentence_2"]} & synthetic
    with pytest.raises(InputError) as caught:
        replace(study, stages=(of_set,))
    assert str(caught.value) == (
        "set.synthetic needs triplets; add [synthesis] without reject and accept, or leave "
        "set.synthetic out"
    )
