"""The stage that writes synthetic sentences: its tasks, and the rows that come of them."""

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
from contstim.synthesis import default_of
from contstim.synthesis.results import Triplet, model_columns, written_and_natural
from contstim.tables import csv_text
from contstim.text.diversity import diversity

#: What the notes of a table hold besides the settings that made it.
FIGURES = ("tasks", "missing", "rows", "asked", "opposed", "words", "written", "pool", "keeping")

# Options that are noted where they are not as usual.
_NOTED = (
    *("reference", "loss", "margin", "floors"),
    *("most_changes", "fixed", "changed", "words_at", "certificate"),
    *("agree", "same_tokens", "alike", "most_use"),
)


class SynthesisStage(Stage):
    """The stage of the syntheses, whose table has a row for each that came of them."""

    name = "synthesis"
    file = "synthesized.csv"
    key: ClassVar[str | None] = "synthesis"
    options: ClassVar[type[Any] | None] = SynthesisOptions

    def read(self, table: object) -> SynthesisOptions:
        """Return the options of the table, the strategy's own among them."""
        return SynthesisOptions.read(table, self.key or self.name)

    def words(self, plan: StudyPlan) -> str:
        """Say how sentences are written."""
        options = plan.table(SynthesisOptions)
        named = {
            "reject": options.reject,
            "accept": options.accept,
            "reference": () if options.reference is None else (options.reference,),
            "pairs": [" against ".join(pair) for pair in options.pairs],
        }
        of_target = "".join(f"; {name} {', '.join(v)}" for name, v in named.items() if v)
        starts = "as many as there are" if options.per_pair is None else f"{options.per_pair} each"
        strategy = _strategy_of(options)
        given = ", ".join(f"{name} {value}" for name, value in options.of_strategy.items())
        limits = {
            "scores that models keep": ", ".join(options.floors),
            "words that may change, at most": options.most_changes,
            "positions that stay (from 0)": ", ".join(map(str, options.fixed)),
            "positions that must change": ", ".join(map(str, options.changed)),
            "positions that have words of their own": ", ".join(options.words_at),
            "what a word shares with the one that it replaces": options.alike,
            "neighbours": "as their language has them together" if options.agree else "",
            "tokens": "under every model as many as of the natural sentence"
            if options.same_tokens
            else "",
        }
        limited = "; ".join(f"{name}: {value}" for name, value in limits.items() if value)
        return (
            f"Synthetic sentences are written for the target {options.target!r}{of_target}: the "
            "log-probability under rejecting models is lowered, "
            f"while under accepting ones it falls by no more than {options.margin:g} nats. They "
            f"start from natural sentences ({options.starts}, {starts}), by the strategy "
            f"{strategy}{f' ({given})' if given else ''}. A word is in no more than "
            f"{options.most_use:g} of a pair's sentences, unless natural ones have it more often."
            f"{f' Limits: {limited}.' if limited else ''}"
        )

    def of(self, run: Run) -> Syntheses:
        """Return the syntheses of a run, and what is known of them."""
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
        return (SCORE,) if several or plan.table(SynthesisOptions).floors else ()

    def check(self, run: Run) -> None:
        """Refuse models and words that cannot do."""
        options = run.plan.table(SynthesisOptions)
        for spec, model in run.every.items():
            if model.description["event"]["start"] == UNSTATED:
                raise InputError(
                    f"{spec!r} scores the sentences it holds and no others, so that none can be "
                    "written for it; use a model that can be loaded"
                )
        listed = (word for words in options.words_at.values() for word in words)
        run.plan.vocabulary.refuse(listed, run.plan.folder, run.language)
        options.check_words(run.every, run.sentences, run.language)
        names = {spec: model.name for spec, model in run.every.items()}
        for goal in self.of(run).starts:
            for sides in options.sides_of(goal):
                sides.named(names)  # refuses one model by two specs
        options.check_certificates(self.of(run).starts)

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
                **({"options": dict(plan.vocabulary.given)} if plan.vocabulary.given else {}),
            },
            "sentences": {
                "digest": digest("\n".join(run.sentences))[:16],
                "number": len(run.sentences),
            },
            "target": options.target,
            "goals": [
                [[[names[spec] for spec in side] for side in sides] for sides in goal]
                for goal in self.of(run).starts
            ],
            **noted,
            "strategy": {"name": _strategy_of(options), **options.of_strategy},
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
        if options.aim.triplets:
            figures["asked"] = len(syntheses.pieces) * options.per_sentence
            figures["opposed"] = sum(isinstance(row, Triplet) and row.opposed for row in rows)
        if len(rows) > 1:  # one has no variety, and frequencies take a third of a second to load
            figures["words"] = diversity(*written_and_natural(rows), run.language.code).row()
        values = [{**row.row(), **model_columns(row, syntheses.specs)} for row in rows]
        columns = list(values[0]) if values else Triplet.columns()
        text = csv_text(columns, (row.values() for row in values))
        return text, {**self.settings(run), **figures}


def _strategy_of(options: SynthesisOptions) -> str:
    """Return the strategy, or by what it is chosen where none is named."""
    of_ngrams, other = (
        default_of(options.of_strategy, at_once=at_once) for at_once in (True, False)
    )
    if options.strategy or of_ngrams == other:
        return options.strategy or other
    return f"{of_ngrams} where all models are n-grams, else {other}"


SYNTHESIS = SynthesisStage()
