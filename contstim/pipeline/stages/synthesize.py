"""The stage that writes synthetic sentences."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from contstim.pipeline.options import SynthesisOptions
from contstim.pipeline.searches import Searches, starts_of
from contstim.pipeline.stages import SCORE, Run, Stage, StudyPlan
from contstim.pipeline.work import Task
from contstim.search.results import Triplet, written_and_natural
from contstim.tables import TRIPLETS, csv_text
from contstim.text.diversity import diversity


def searches_of(run: Run) -> Searches:
    """Return the searches of a run, as far as they are known from the natural sentences' scores.

    Raises
    ------
    InfeasibleError
        If a natural sentence breaks a constraint itself.
    """
    options, models = run.plan.table(SynthesisOptions), {**run.models, **run.further}
    names = {given: model.name for given, model in models.items()}
    listed = (word for words in options.words_at.values() for word in words)
    run.plan.vocabulary.refuse(listed, run.plan.folder)
    seed, pairs = run.plan.study.seed, run.plan.pairs()
    wanted = options.sides(run.plan.models) or pairs
    starts = starts_of(run.sentences, wanted, names, options, seed)
    searches = Searches(
        models, run.versions, run.vocabulary_digest, options, seed, starts, words=run.vocabulary
    )
    if not _needs_scores(options):
        return searches
    scores = {
        spec: {s: kept[s].score for s in run.sentences if s in kept}
        for spec in models
        for kept in [run.scores(spec)]
    }
    if any(len(known) < len(run.sentences) for known in scores.values()):
        return replace(searches, starts={})
    return searches.prepared(scores)


def _needs_scores(options: SynthesisOptions) -> bool:
    return options.target != "pair" or bool(options.floors)


class _Synthesize(Stage):
    name = "synthesize"
    file = "synthesized.csv"
    key = "synthesis"
    options = SynthesisOptions

    def needs(self, plan: StudyPlan) -> Collection[Stage]:
        return (SCORE,) if _needs_scores(plan.table(SynthesisOptions)) else ()

    def tasks(self, run: Run) -> list[Task]:
        return searches_of(run).tasks(run.store)

    def inputs(self, run: Run) -> Any:
        return [task.key for task in self.tasks(run) if task.is_done(run.store)]

    def make(self, run: Run) -> tuple[str, dict[str, Any]]:
        tasks, options = self.tasks(run), run.plan.table(SynthesisOptions)
        rows = list(searches_of(run).rows(run.store))
        notes = {
            "tasks": len(tasks),
            "missing": len(run.store.left(tasks)),
            "target": options.target,
            "rows": len(rows),
        }
        if options.target == "pair":
            opposed = sum(isinstance(row, Triplet) and row.opposed for row in rows)
            del notes["target"], notes["rows"]
            notes |= {"triplets": len(rows), "opposed": opposed}
        if rows:
            notes["words"] = diversity(*written_and_natural(rows)).row()
        values = [row.row() for row in rows]
        if options.target == "pair" and options.per_sentence == 1:
            for row in values:
                del row["repeat"]
        columns = list(values[0]) if values else list(TRIPLETS)
        return csv_text(columns, (row.values() for row in values)), notes


SYNTHESIZE = _Synthesize()
