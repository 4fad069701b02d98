"""A small study for tests, with three n-gram models and a few sentences."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from contstim import Vocabulary, pool
from contstim.pipeline.engine import SequentialExecutor, TaskOutcomes
from contstim.pipeline.plan import SentenceOptions, StudyOptions, StudyPlan
from contstim.pipeline.stages import Run
from contstim.pipeline.stages.synthesis import SYNTHESIS_STAGE
from contstim.pipeline.store import RunStore
from contstim.pipeline.synthesis_options import SynthesisOptions
from contstim.pipeline.tasks import Task
from contstim.pipeline.worker import RunContext
from contstim.training.ngram import train_ngram

TABLES = ("scores.csv", "natural_pairs.csv", "synthesized.csv", "triplets.csv", "trials.csv")

PLAN = """\
models = [
    "ngram:1.arpa?punctuation=split",
    "ngram:2.arpa?punctuation=split",
    "ngram:3.arpa?punctuation=split",
]

[study]
name = "small"
seed = 3

[sentences]
file = "natural.txt"

[vocabulary]
file = "words.csv"

[natural]
per_pair = 2

[synthesis]
per_pair = {starts}
strategy = "edit?candidates=all"
max_word_share = 1.0

[triplets]
per_pair = 2
strata = 2

[design]
groups = 2
participants = 2
random_natural = 1
catch = 1
conditions = ["natural_controversial", "synthetic_vs_synthetic"]
"""


class RecordingExecutor(SequentialExecutor):
    """Executor that records its tasks, and stops as by Ctrl-C after a number of tasks."""

    def __init__(self, stop_after: int | None = None) -> None:
        super().__init__()
        self.submitted: list[Task] = []
        self.n_done = 0
        self.stop_after = stop_after

    def run(self, context: RunContext, tasks: Sequence[Task]) -> TaskOutcomes:
        self.submitted.extend(tasks)
        for result in super().run(context, tasks):
            self.n_done += 1
            yield result
            if self.n_done == self.stop_after:
                raise KeyboardInterrupt


def make_study(folder: Path, starts: int = 4, words: int = 300) -> Path:
    """Train the models, write sentences and vocabulary, and return the study plan."""
    eight = [s for s in pool() if len(s.split()) == 8]
    natural, rest = eight[:40], eight[40:]
    # All words are known, but no sentence: its words are learnt in another order.
    rng = np.random.default_rng(0)
    shuffled = [" ".join(rng.permutation(sentence.split())) for sentence in natural]
    text = folder / "text.txt"
    text.write_text("\n".join([*rest, *shuffled]) + "\n", "utf-8")
    for order in (1, 2, 3):
        out = folder / f"{order}.arpa"
        train_ngram(text, out, order=order, fallback=(0.5, 1.0, 1.5), punctuation="split")
    Vocabulary.from_text(text, size=words).save(folder / "words.csv")
    (folder / "natural.txt").write_text("\n".join(natural) + "\n", "utf-8")
    file = folder / "study.toml"
    file.write_text(PLAN.format(starts=starts), "utf-8")
    return file


def synthesis_plan(
    sentences: Sequence[str],
    words: Vocabulary,
    *pairs: tuple[str, str],
    models: Sequence[str] = (),
    seed: int = 0,
    **options: object,
) -> StudyPlan:
    """Return a study plan like those of ``contstim synthesize``."""
    options = {"strategy": "edit?candidates=all", "allocation": "all", "pairs": pairs} | options
    compared = [*models, *(spec for pair in pairs for spec in pair)]
    return StudyPlan(
        tuple(dict.fromkeys(compared)),
        StudyOptions("synthesis", seed),
        SentenceOptions(listed=tuple(sentences)),
        stages=(SynthesisOptions(**options),),
        loaded_vocabulary=words,
    )


def command(*arguments: str, name: str = "run") -> list[str]:
    code = "import sys; from contstim.cli import main; sys.exit(main())"
    return [sys.executable, "-c", code, name, *arguments]


def run_alone(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``contstim run`` in another process."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=False)


def tables(out: Path) -> dict[str, bytes]:
    """Return the bytes of the tables of a run and of their meta files, by name."""
    found = {name: (out / name).read_bytes() for name in TABLES}
    found |= {f"{name}.meta": (out / f"{name}.meta.json").read_bytes() for name in TABLES}
    return found


def create_run(plan: StudyPlan) -> Run:
    """Return a run of a study without results."""
    return Run.from_plan(plan, RunStore(plan.out), SequentialExecutor().describe_models)


def mark_sentence(study: StudyPlan, name: str) -> str:
    """Write the first natural sentence of the last pair to a file that the faulty model reads."""
    sentence = [*SYNTHESIS_STAGE.get_job(create_run(study)).sentences_by_problems.values()][-1][0]
    (study.folder / f"{name}.txt").write_text(sentence + "\n", "utf-8")
    return sentence
