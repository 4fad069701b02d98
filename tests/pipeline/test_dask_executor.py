"""Dask executors, and worker processes that die.

Tests `contstim.pipeline.dask_executor`.
"""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import distributed
import pytest
from small_study import make_study, mark_sentence, run_alone, tables

from contstim.errors import InputError
from contstim.pipeline.dask_executor import DaskExecutor, create_executor
from contstim.pipeline.engine import SequentialExecutor, TaskOutcomes
from contstim.pipeline.plan import StudyPlan
from contstim.pipeline.study import read_study_plan, run_study
from contstim.pipeline.tasks import Task
from contstim.pipeline.worker import RunContext, TaskOutcome


def test_local_workers_have_one_thread_and_one_gpu(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    with create_executor("local:3") as executor:
        seen = executor.client.run(_seen_environment)
    assert sorted(seen.values()) == [("1", "2"), ("1", "2"), ("1", "5")]
    assert os.environ["OMP_NUM_THREADS"] == "7"
    # What a worker prints does not come into a table on standard output.
    assert capfd.readouterr().out == ""


def _seen_environment() -> tuple[str | None, ...]:
    os.write(1, b"printed by a model\n")
    return os.environ.get("OMP_NUM_THREADS"), os.environ.get("CUDA_VISIBLE_DEVICES")


def test_tables_are_equal_after_a_worker_is_killed(tmp_path: Path) -> None:

    class Killing(DaskExecutor):
        killed = 0

        def run(self, context: RunContext, tasks: Sequence[Task]) -> TaskOutcomes:
            for number, result in enumerate(super().run(context, tasks)):
                if tasks[0].kind == "synthesis" and number == 4:
                    victim = min(self.client.run(os.getpid).values())
                    os.kill(victim, signal.SIGKILL)
                    self.killed += 1
                yield result

    study = read_study_plan(make_study(tmp_path))
    run_study(study, SequentialExecutor(), out=tmp_path / "whole")
    with Killing("local", 2) as executor:
        assert run_study(study, executor, out=tmp_path / "dask").is_complete
        assert executor.killed == 1
    assert tables(tmp_path / "dask") == tables(tmp_path / "whole")


def test_slowly_restarting_worker_is_not_removed() -> None:
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "10ms"}),
        DaskExecutor("local", 1) as executor,
    ):
        (pid,) = executor.client.run(os.getpid).values()
        executor.client.run_on_scheduler(_kill_soon, pid)
        executor.client.submit(os.getcwd).result(timeout=60)
        (other,) = executor.client.run(os.getpid).values()
        assert other != pid
        assert len(executor.client.cluster.workers) == 1  # else it is on its way out


def _kill_soon(pid: int) -> None:
    """Kill a worker and wait until the scheduler notices."""
    os.kill(pid, signal.SIGKILL)
    time.sleep(0.2)


def test_lost_outcomes_are_recomputed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        loop = None
        submitted = 0

        def submit(self, *_: object, key: str, **__: object) -> SimpleNamespace:
            self.submitted += 1
            # The worker dies when the first result is there, and another one when it is made anew.
            lost = self.submitted == 1

            def result() -> TaskOutcome:
                if lost:
                    raise distributed.KilledWorker(key, None, 0)
                return TaskOutcome("ab")

            ended = {"exception": lambda: None, "cancelled": lambda: False, "result": result}
            return SimpleNamespace(key=key, status="finished", **ended)

        def cancel(self, futures: Sequence[object]) -> None:
            assert not futures

    class Completed(list[Any]):
        add = list[Any].append

    monkeypatch.setattr(
        "contstim.pipeline.dask_executor.as_completed", lambda futures, loop: Completed(futures)
    )
    executor = DaskExecutor("local", 1)
    executor.client = Client()
    task: Any = SimpleNamespace(key="ab")
    context = RunContext(tmp_path, tmp_path, tmp_path)
    assert [*executor.run(context, [task])] == [TaskOutcome("ab")]
    assert executor.client.submitted == 2


def test_unreachable_scheduler_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contstim.pipeline.dask_executor._CONNECTION_TIMEOUT", 0.2)
    with pytest.raises(InputError, match="cannot reach the Dask scheduler tcp://127"):
        create_executor("dask:tcp://127.0.0.1:9").__enter__()


def test_task_that_kills_its_workers_fails_after_three_tries(faulty: StudyPlan) -> None:
    mark_sentence(faulty, "dies")
    # In a process of its own: Dask logs and warns about the deaths.
    ended = run_alone(str(faulty.folder / "study.toml"), "--executor", "local:2")
    assert ended.returncode == 1, ended.stderr
    assert ended.stderr.count("failed: synthesize from") == 2
    assert (
        ended.stderr.count("the worker process died each of the 3 times it started the task") == 2
    )
    assert (faulty.folder / "tries.log").read_text("utf-8") == "dies\n" * 6
    assert (faulty.out / "trials.csv").exists()


def test_worker_deaths_count_only_for_started_tasks(faulty: StudyPlan) -> None:
    # Two tasks alone, which one worker is given together; each kills it.
    file = faulty.folder / "study.toml"
    text = file.read_text("utf-8").replace('    "ngram:1.arpa?punctuation=split",\n', "")
    file.write_text(text.replace("[synthesis]\nper_pair = 4", "[synthesis]\nper_pair = 1"), "utf-8")
    mark_sentence(read_study_plan(file), "dies")
    ended = run_alone(str(file), "--executor", "local:1", "--stage", "synthesis")
    assert ended.stderr.count("failed: synthesize from") == 2, ended.stderr
    assert (faulty.folder / "tries.log").read_text("utf-8") == "dies\n" * 6
    assert list((faulty.out / "tries").glob("*")) == []
