"""The stage that scores the natural sentences under every model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from contstim.files import digest_of
from contstim.pipeline.stage import Run, Stage
from contstim.pipeline.tasks import score_tasks
from contstim.pipeline.work import Task, csv_text
from contstim.tables import SCORES


class _Score(Stage):
    name = "score"
    file = "scores.csv"

    def tasks(self, run: Run) -> list[Task]:
        models = [*run.models.values(), *run.further.values()]
        return [*score_tasks(models, run.sentences, run.versions)]

    def inputs(self, run: Run) -> Any:
        return digest_of(list(self._rows(run)))

    def make(self, run: Run) -> tuple[str, dict[str, Any]]:
        rows = list(self._rows(run))
        models = [run.identity(given) for given in run.models]
        missing = len(models) * len(run.sentences) - len(rows)
        return csv_text(SCORES, rows), {"missing": missing, "models": models}

    @staticmethod
    def _rows(run: Run) -> Iterator[tuple[object, ...]]:
        for given, model in run.models.items():
            scores = run.scores(given)
            for sentence in run.sentences:
                if sentence in scores:
                    yield (sentence, model.name, *scores[sentence])


SCORE = _Score()
