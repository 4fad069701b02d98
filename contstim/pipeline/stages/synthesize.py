"""The stage that writes synthetic sentences."""

from __future__ import annotations

from typing import Any

from contstim.pipeline.stage import Run, Stage
from contstim.pipeline.tasks import Searches, SynthesisOptions, starts_of
from contstim.pipeline.work import Task, csv_text
from contstim.tables import TRIPLETS

__all__ = ["SYNTHESIZE", "searches_of"]


def searches_of(run: Run) -> Searches:
    """Return the searches of a run's pairs."""
    options = run.plan.table(SynthesisOptions)
    names = {given: model.name for given, model in run.models.items()}
    seed = run.plan.study.seed
    starts = starts_of(run.sentences, run.plan.pairs(), names, options, seed)
    return Searches(run.models, run.versions, run.vocabulary_digest, options, seed, starts)


class _Synthesize(Stage):
    name = "synthesize"
    file = "synthesized.csv"
    key = "synthesis"
    options = SynthesisOptions

    def tasks(self, run: Run) -> list[Task]:
        return searches_of(run).tasks(run.store)

    def inputs(self, run: Run) -> Any:
        return [task.key for task in self.tasks(run) if task.is_done(run.store)]

    def make(self, run: Run) -> tuple[str, dict[str, Any]]:
        tasks = self.tasks(run)
        rows = list(searches_of(run).triplets(run.store))
        several = run.plan.table(SynthesisOptions).per_sentence > 1
        columns = (*TRIPLETS, "repeat") if several else TRIPLETS
        notes = {
            "tasks": len(tasks),
            "missing": len(run.store.left(tasks)),
            "triplets": len(rows),
            "opposed": sum(row.opposed for row in rows),
        }
        return csv_text(columns, ([row.row()[name] for name in columns] for row in rows)), notes


SYNTHESIZE = _Synthesize()
