"""A custom stage: the sentences that each model finds most probable."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from contstim.pipeline.plan import StudyPlan
from contstim.pipeline.stages import Run, Stage
from contstim.pipeline.stages.score import SCORE_STAGE
from contstim.pipeline.stages.selection import load_log_probs
from contstim.settings import PositiveInt, settings
from contstim.text_files import format_csv_rows

__all__ = ["EXTREMES"]


@settings
class ExtremesOptions:
    """``[extremes]``: how many sentences of each model."""

    number: PositiveInt = 3


class _Extremes(Stage):
    name = "extremes"
    file = "extremes.csv"
    key = "extremes"
    options = ExtremesOptions

    def requires(self, plan: StudyPlan) -> Collection[Stage]:
        return (SCORE_STAGE,)

    def collect_inputs(self, run: Run) -> Any:
        return run.get_table(SCORE_STAGE).sha256

    def make_table(self, run: Run) -> tuple[str, dict[str, Any]]:
        number = run.plan.get_options(ExtremesOptions).number
        best = {model: values.nlargest(number) for model, values in load_log_probs(run).items()}
        rows = [(m, *pair) for m, values in best.items() for pair in values.items()]
        return format_csv_rows(["model", "sentence", "log_prob"], rows), {"number": number}


EXTREMES = _Extremes()
