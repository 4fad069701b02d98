"""The stage that synthesizes sentences: its tasks, and the rows of its table."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from contstim.errors import InputError
from contstim.files import digest
from contstim.models.base import UNSTATED
from contstim.pipeline.options import SynthesisOptions
from contstim.pipeline.stages import SCORE, Run, Stage, StudyPlan
from contstim.pipeline.syntheses import Syntheses
from contstim.pipeline.work import Task
from contstim.synthesis import format_strategy
from contstim.synthesis.results import Triplet, sentences_with_originals, spec_columns
from contstim.text.diversity import measure_diversity
from contstim.text_files import format_csv_rows

#: Notes of a table besides the settings that it was made with.
FIGURES = (
    *("tasks", "missing", "rows", "asked", "opposed", "words"),
    *("written", "pool", "satisfying", "filter_only"),
)

# Options that are noted where they differ from their defaults.
_NOTED = ("margin", "min_scores", "readable", "edits", "max_word_share")


class SynthesisStage(Stage):
    """The stage of the syntheses, whose table has a row for each triplet or sentence."""

    name = "synthesis"
    file = "synthesized.csv"
    key: ClassVar[str | None] = "synthesis"
    options: ClassVar[type[Any] | None] = SynthesisOptions

    def words(self, plan: StudyPlan) -> str:
        """Describe how sentences are synthesized."""
        options = plan.table(SynthesisOptions)
        named = {
            "rejecting models": options.reject,
            "accepting models": options.accept,
            "pairs": [" against ".join(pair) for pair in options.pairs],
        }
        models = "".join(f"; {name}: {', '.join(v)}" for name, v in named.items() if v)
        starts = "as many as there are" if options.per_pair is None else f"{options.per_pair} each"
        limits = {
            "minimum scores": ", ".join(map(str, options.bounds)),
            "edits": options.edits,
        }
        limited = "; ".join(f"{name}: {value}" for name, value in limits.items() if value)
        kind = "triplets of model pairs" if options.makes_triplets else "single sentences"
        return (
            f"Synthetic sentences are written as {kind}{models}: the log-probability under "
            "rejecting models is lowered, while under accepting models it decreases by no more "
            f"than {options.margin:g} nats. They start from natural sentences ({options.starts}, "
            f"{starts}), by the strategy {format_strategy(options.parsed_strategy)}. At most "
            f"{options.max_word_share:g} of the synthetic sentences of a pair contain the same "
            "word, unless natural sentences contain it more often."
            f"{f' Limits: {limited}.' if limited else ''}"
        )

    def of(self, run: Run) -> Syntheses:
        """Return the syntheses of a run."""
        syntheses = run.known.get(SYNTHESIS.name)
        if syntheses is None:
            kind = Syntheses
            if run.plan.table(SynthesisOptions).is_pooled:
                from contstim.pipeline.pooled import PooledSyntheses

                kind = PooledSyntheses
            syntheses = run.known[SYNTHESIS.name] = kind(run)
        assert isinstance(syntheses, Syntheses)
        return syntheses

    def needs(self, plan: StudyPlan) -> Collection[Stage]:
        """Return the natural sentences' scores where syntheses depend on them."""
        goals = plan.table(SynthesisOptions).goals(plan.models)
        several = any(len(reject) > 1 for goal in goals for reject, _ in goal)
        return (SCORE,) if several or plan.table(SynthesisOptions).bounds else ()

    def check(self, run: Run) -> None:
        """Refuse models and words that cannot do."""
        options = run.plan.table(SynthesisOptions)
        for spec, model in run.every.items():
            if model.description["event"]["start"] == UNSTATED:
                raise InputError(
                    f"{spec!r} scores the sentences it holds and no others, so that none can be "
                    "written for it; use a model that can be loaded"
                )
        listed = (word for _, words in options.parsed_edits.words for word in words)
        run.plan.vocabulary.check_not_blocked(listed, run.plan.folder, run.language)
        options.check_words(run.every, run.sentences, run.language)
        names = {spec: model.name for spec, model in run.every.items()}
        for goal in self.of(run).starts:
            for contrast in options.contrasts(goal):
                contrast.rename_models(names)  # refuses one model by two specs

    def tasks(self, run: Run) -> list[Task]:
        """Return the tasks, as far as they are known."""
        syntheses = self.of(run)
        if syntheses.by_scores:
            scoring = syntheses.scoring()
            if any(run.store.error(task) is None for task in run.store.left(scoring)):
                return list(scoring)
            syntheses.check_starts()
        return syntheses.tasks()

    def expected(self, run: Run) -> int:
        """Return how many syntheses there are, or how many batches are written, at least."""
        return self.of(run).number

    def later(self, run: Run) -> float:
        """Return how long what is written takes to be scored, by what is known of it so far."""
        return self.of(run).later()

    def inputs(self, run: Run) -> Any:
        """Return the finished tasks."""
        return [task.key for task in self.tasks(run) if task.is_done(run.store)]

    def settings(self, run: Run) -> dict[str, Any]:
        """Return all that the rows depend on, as JSON values."""
        plan, options, usual = run.plan, run.plan.table(SynthesisOptions), SynthesisOptions()
        names = {spec: model.name for spec, model in run.every.items()}
        noted = {
            key: value for key in _NOTED if (value := getattr(options, key)) != getattr(usual, key)
        }
        return {
            "models": [model.description for model in run.every.values()],
            "versions": dict(run.versions),
            "vocabulary": {
                "digest": run.vocabulary_digest,
                "words": len(run.vocabulary.elsewhere),
                **(
                    {"options": dict(plan.vocabulary.non_defaults)}
                    if plan.vocabulary.non_defaults
                    else {}
                ),
            },
            "sentences": {
                "digest": digest("\n".join(run.sentences))[:16],
                "number": len(run.sentences),
            },
            "goals": [
                [[[names[spec] for spec in side] for side in sides] for sides in goal]
                for goal in self.of(run).starts
            ],
            **noted,
            "strategy": format_strategy(options.parsed_strategy),
            "seed": plan.study.seed,
            "starts": options.starts,
            "per_pair": options.per_pair,
            "per_sentence": options.per_sentence,
            "minimum_drop": options.minimum_drop,
        }

    def make(self, run: Run) -> tuple[str, dict[str, Any]]:
        """Return the rows, with figures of the work."""
        tasks, options, syntheses = self.tasks(run), run.plan.table(SynthesisOptions), self.of(run)
        rows = list(syntheses.rows())
        figures: dict[str, Any] = {
            **syntheses.notes(),
            "tasks": len(tasks),
            "missing": len(run.store.left(tasks)),
            "rows": len(rows),
        }
        figures["asked"] = len(syntheses.pieces) * options.per_sentence
        if options.makes_triplets:
            figures["opposed"] = sum(isinstance(row, Triplet) and row.opposed for row in rows)
        if len(rows) > 1:  # one has no variety, and frequencies take a third of a second to load
            figures["words"] = measure_diversity(
                *sentences_with_originals(rows), run.language.code
            ).row()
        values = [{**row.row(), **spec_columns(row, syntheses.specs)} for row in rows]
        columns = list(values[0]) if values else Triplet.columns()
        text = format_csv_rows(columns, (row.values() for row in values))
        return text, {**self.settings(run), **figures}


SYNTHESIS = SynthesisStage()
