"""Stage that scores the natural sentences under all models."""

from __future__ import annotations

from typing import Any

from contstim.files import json_digest
from contstim.pipeline.plan import StudyPlan
from contstim.pipeline.stages import Run, Stage
from contstim.pipeline.tasks import Task, create_score_tasks
from contstim.text_files import format_csv_rows


class _ScoreStage(Stage):
    name = "score"
    file = "scores.csv"

    def describe(self, plan: StudyPlan) -> str:
        # Describe models and sentences for a preregistration. The parts of the text are empty for
        # options that the plan does not set.
        options, models = plan.sentences, ", ".join(plan.models)
        source = options.file or (
            f"a list of {len(options.listed)}" if options.listed else "the bundled pool of contstim"
        )
        length = "" if options.words is None else f", with {options.words} words"
        limit = "" if options.limit is None else f", the first {options.limit} of them"
        extra = f" Further models: {', '.join(plan.extra_models)}." if plan.extra_models else ""
        return (
            f"{len(plan.models)} models are compared: {models}.{extra} The natural sentences are "
            f"from {source}{length}{limit}. Every model scores every natural sentence."
        )

    def tasks(self, run: Run) -> list[Task]:
        models = [*run.models.values(), *run.extra_models.values()]
        return [*create_score_tasks(models, run.sentences, run.versions)]

    def collect_inputs(self, run: Run) -> Any:
        return json_digest(list(run.score_rows(run.sentences)))

    def make_table(self, run: Run) -> tuple[str, dict[str, Any]]:
        rows = list(run.score_rows(run.sentences))
        models = [model.identity(run.versions) for model in run.models.values()]
        n_missing = len(models) * len(run.sentences) - len(rows)
        return format_csv_rows(run.score_columns, rows), {"missing": n_missing, "models": models}


SCORE_STAGE = _ScoreStage()
