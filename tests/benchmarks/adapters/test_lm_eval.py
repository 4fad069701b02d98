"""The lm-evaluation-harness on models of contstim, where it is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import contstim
from contstim.errors import InputError

harness = pytest.importorskip("lm_eval", reason="lm_eval has an environment of its own")
pytestmark = pytest.mark.filterwarnings("ignore")

PAIRS = [
    ("The dogs sleep near the fire.", "The dogs sleeps near the fire."),
    ("Every child knew that song.", "Every child knew those song."),
    ("She has seen herself.", "She has seen themselves."),
    ("The old man saw a cat.", "The old man saw an cat."),
]


@pytest.fixture
def task(tmp_path: Path) -> dict[str, Any]:
    rows = [{"sentence_good": good, "sentence_bad": bad} for good, bad in PAIRS]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return {
        "task": "pairs",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"train": str(path)}, "cache_dir": str(tmp_path)},
        "output_type": "multiple_choice",
        "validation_split": "train",
        "doc_to_text": "",
        "doc_to_target": 0,
        "doc_to_choice": "{{[sentence_good, sentence_bad]}}",
        "metric_list": [{"metric": "acc"}],
    }


@pytest.mark.parametrize("spec", ["contstim:trigram?unknown=unk", "contstim:gpt", "contstim:bert"])
def test_accuracy_is_that_of_the_scores(spec: str, task: dict[str, Any]) -> None:
    from contstim.benchmarks.adapters.lm_eval import HarnessModel

    results = harness.simple_evaluate(model=HarnessModel(spec), tasks=[task])
    model = contstim.load_model(spec)
    good, bad = (model.score(list(side)) for side in zip(*PAIRS, strict=True))
    assert results["results"]["pairs"]["acc,none"] == pytest.approx((good > bad).mean())


def test_the_harness_knows_it_by_name(task: dict[str, Any]) -> None:
    from contstim.benchmarks.adapters.lm_eval import HarnessModel

    arguments = "spec=contstim:bert?metric=pll"
    results = harness.simple_evaluate(model="contstim", model_args=arguments, tasks=[task])
    direct = harness.simple_evaluate(model=HarnessModel("contstim:bert?metric=pll"), tasks=[task])
    assert results["results"] == direct["results"]


def test_the_command_on_files(task: dict[str, Any], tmp_path: Path) -> None:
    tasks, out = tmp_path / "tasks", tmp_path / "out"
    tasks.mkdir()
    (tasks / "pairs.yaml").write_text(json.dumps(task), "utf-8")
    spec = "contstim:trigram?unknown=unk"
    asked = ["--model", "contstim", "--model_args", f"spec={spec}", "--tasks", "pairs"]
    where = ["--include_path", str(tasks), "--output_path", str(out)]
    command = [sys.executable, "-m", "contstim.benchmarks.adapters.lm_eval", "run", *asked, *where]
    subprocess.run(command, check=True, capture_output=True)
    (file,) = out.rglob("results_*.json")
    model = contstim.load_model(spec)
    good, bad = (model.score(list(side)) for side in zip(*PAIRS, strict=True))
    accuracy = json.loads(file.read_text("utf-8"))["results"]["pairs"]["acc,none"]
    assert accuracy == pytest.approx((good > bad).mean())


def test_what_it_does_not_do() -> None:
    from lm_eval.api.instance import Instance

    from contstim.benchmarks.adapters.lm_eval import HarnessModel

    model = HarnessModel("contstim:trigram")

    def asked(kind: str, *arguments: str) -> list[Instance]:
        return [Instance(request_type=kind, doc={}, arguments=arguments, idx=0)]

    with pytest.raises(InputError) as error:
        model.loglikelihood(asked("loglikelihood", "It was late.", " The dog slept."))
    assert str(error.value) == (
        "contstim:trigram scores whole sentences, and the task has the context 'It was late.' "
        "before ' The dog slept.'; choose a task without one, such as blimp"
    )
    with pytest.raises(InputError, match="writes none"):
        model.generate_until(asked("generate_until", "It was late."))
    text = "The dog slept."
    (score,) = model.loglikelihood_rolling(asked("loglikelihood_rolling", text))
    assert score == contstim.load_model("contstim:trigram").score([text])[0]
