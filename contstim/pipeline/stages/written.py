"""The stage that writes the pool of sampled and natural sentences with their scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from contstim.pipeline.options import SynthesisOptions
from contstim.pipeline.pooled import PooledSyntheses
from contstim.pipeline.stages import Run, StudyPlan
from contstim.pipeline.stages.synthesis import SynthesisStage
from contstim.text_files import format_csv_rows

#: Columns of the table besides those of scores: ``natural`` or ``written``, and log-probabilities
#: under the writer after its prompt, nats (`contstim.synthesis.writer.Draft`).
COLUMNS = ("source", "writer_log_prob", "writer_worst", "writer_end")


class _Pool(SynthesisStage):
    name = "pool"
    file = "pool.csv"
    key = None
    options = None

    def words(self, plan: StudyPlan) -> str:
        return ""  # described by the syntheses

    def is_in(self, plan: StudyPlan) -> bool:
        options = plan.get(SynthesisOptions)
        return options is not None and options.is_pooled

    def make(self, run: Run) -> tuple[str, dict[str, Any]]:
        tasks, syntheses = self.tasks(run), self.of(run)
        assert isinstance(syntheses, PooledSyntheses)
        figures = {"tasks": len(tasks), "missing": len(run.store.left(tasks)), **syntheses.notes()}
        text = format_csv_rows((*run.score_columns, *COLUMNS), self._rows(run, syntheses))
        return text, {**self.settings(run), **figures}

    @staticmethod
    def _rows(run: Run, syntheses: PooledSyntheses) -> Iterator[tuple[object, ...]]:
        drafts, left = syntheses.drafts(), syntheses.left()
        natural = dict.fromkeys(sentence for _, sentence in syntheses.pieces)
        for given, model in run.models.items():
            scores, stated = run.scores(given), run.stated(model)
            for sentence in natural:
                if sentence in scores:
                    row = (sentence, model.name, *scores[sentence], *stated)
                    yield (*row, "natural", "", "", "")
            for sentence in left:
                if sentence in scores and sentence not in natural:
                    draft = drafts[sentence]
                    figures = (draft["log_prob"], draft["worst"], draft["end"])
                    row = (sentence, model.name, *scores[sentence], *stated)
                    yield (*row, "written", *figures)


POOL = _Pool()
