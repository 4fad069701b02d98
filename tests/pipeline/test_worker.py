"""Workers, their models, and the store of results.

Tests `contstim.pipeline.worker`, `contstim.pipeline.model_records` and `contstim.pipeline.store`.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from small_study import RecordingExecutor, create_run, make_study

from contstim import load_model
from contstim.models.devices import limit_torch_threads
from contstim.pipeline.engine import SequentialExecutor
from contstim.pipeline.model_records import ModelRecord
from contstim.pipeline.stages.synthesis import SYNTHESIS_STAGE
from contstim.pipeline.study import read_study_plan, run_study
from contstim.pipeline.worker import RunContext, Worker


def test_networks_compute_on_one_thread() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with limit_torch_threads():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def _place(folder: Path) -> RunContext:
    out = folder / "out"
    return RunContext(out, out / "scores", folder, folder / "words.csv")


def test_worker_rejects_changed_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = create_run(read_study_plan(make_study(tmp_path)))
    monkeypatch.chdir(tmp_path)
    worker = Worker(_place(tmp_path))
    task = SYNTHESIS_STAGE.tasks(run)[0]

    def error(**changes: object) -> str:
        result = worker.run(replace(task, **changes))
        assert result.error is not None
        return result.error

    assert "numpy" in error(versions={**run.versions, "numpy": "0.1"})
    assert "(run: 0.1)" in error(versions={**run.versions, "numpy": "0.1"})
    assert "vocabulary has changed" in error(vocabulary="other")
    reject, accept = task.models
    other = replace(reject, description={**reject.description, "weights": "0"})
    assert "2.arpa?punctuation=split has changed" in error(models=(other, accept))
    assert worker.run(task).error is None
    assert worker.store.has_result(task.key)


def test_models_of_one_pair_stay_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = create_run(read_study_plan(make_study(tmp_path)))
    monkeypatch.chdir(tmp_path)
    loaded = []
    load = __import__("contstim.pipeline.model_records", fromlist=["load_model"]).load_model
    monkeypatch.setattr(
        "contstim.pipeline.model_records.load_model", lambda spec: loaded.append(spec) or load(spec)
    )
    worker = Worker(_place(tmp_path))
    for task in SYNTHESIS_STAGE.tasks(run):
        worker.run(task)
    # Pairs in order: 1-2, 1-3, 2-3.
    assert [spec[6] for spec in loaded] == ["2", "1", "3", "2"]


def test_sequential_run_loads_each_model_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = read_study_plan(make_study(tmp_path))
    plan = replace(plan, models=plan.models[:2])
    loaded = []
    monkeypatch.setattr(
        "contstim.pipeline.model_records.load_model",
        lambda spec: loaded.append(spec) or load_model(spec),
    )
    executor = SequentialExecutor()
    assert run_study(plan, executor, stage="synthesis").is_complete
    assert len(loaded) == 2

    # The same words elsewhere name another model.
    other = tmp_path / "other"
    shutil.copytree(tmp_path, other, ignore=shutil.ignore_patterns("runs", "other"))
    (other / "3.arpa").replace(other / "1.arpa")
    run_study(replace(plan, folder=other), executor, stage="score")
    scores = pd.read_csv(other / "runs" / "small" / "scores.csv")
    scores = scores[scores["model"] == plan.models[0]]
    third = load_model(f"ngram:{tmp_path}/3.arpa?punctuation=split")
    assert scores["log_prob"].to_numpy() == pytest.approx(third.score([*scores["sentence"]]))


def _describe(spec: str) -> dict[str, object]:
    return dict(ModelRecord.from_spec(spec).description)


def test_device_does_not_change_the_description(tmp_path: Path) -> None:
    make_study(tmp_path)
    plain = f"ngram:{tmp_path}/1.arpa?punctuation=split"
    on_gpu = _describe(f"ngram:{tmp_path}/1.arpa?device=cuda:1&punctuation=split")
    assert on_gpu == {**_describe(plain), "spec": on_gpu["spec"]}
    assert on_gpu["spec"].endswith("1.arpa?device=cuda:1&punctuation=split")
    assert _describe(plain + "&device=cpu") == _describe(plain)


def test_damaged_results_are_computed_again(tmp_path: Path) -> None:
    plan = read_study_plan(make_study(tmp_path, starts=1))
    run_study(plan, SequentialExecutor(), stage="synthesis")
    paths = sorted((plan.out / "tasks").rglob("*.json"))
    before = [json.loads(path.read_text("utf-8")) for path in paths]
    first, second = paths[:2]
    first.write_bytes(paths[1].read_bytes())
    second.write_text(json.dumps(before[0]), "utf-8")
    paths[2].write_bytes(paths[2].read_bytes()[:-20])
    executor = RecordingExecutor()
    table = (plan.out / "synthesized.csv").read_bytes()
    assert run_study(plan, executor, stage="synthesis").is_complete
    assert sorted(task.key for task in executor.submitted) == [path.stem for path in paths[:3]]
    after = [json.loads(path.read_text("utf-8")) for path in paths]
    assert [record["result"] for record in after] == [record["result"] for record in before]
    assert (plan.out / "synthesized.csv").read_bytes() == table
