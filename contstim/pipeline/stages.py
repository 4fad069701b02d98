"""The stages of a run and their tables: score, natural, synthesize, triplets, design.

Two of them consist of tasks (`score`, `synthesize`) whose results the store keeps; each ends in one
table, written in the order of the plan. A table is made again only if what it was made from has
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from contstim.files import digest_of
from contstim.models.cache import CachedScore, ScoreCache
from contstim.pipeline.plan import StudyPlan
from contstim.pipeline.store import RunStore
from contstim.pipeline.tables import StageTable, csv_text, frame_text
from contstim.pipeline.tasklist import TaskList
from contstim.pipeline.tasks import Task, synthesis_from
from contstim.search.triplets import Triplet
from contstim.selection.design import design_trials
from contstim.selection.features import repeats_no_word
from contstim.selection.natural import select_natural_pairs
from contstim.selection.triplets import select_triplets
from contstim.tables import SCORES, TRIPLETS
from contstim.text.sentences import read_words

__all__ = ["STAGES", "Stages", "needed", "stages_of"]

#: The stages in their order, and the table that each leaves.
STAGES = {
    "score": "scores.csv",
    "natural": "natural_pairs.csv",
    "synthesize": "synthesized.csv",
    "triplets": "triplets.csv",
    "design": "trials.csv",
}


def stages_of(plan: StudyPlan) -> list[str]:
    """Return the stages of a study, in order."""
    there = {
        "score": True,
        "natural": plan.natural is not None,
        "synthesize": plan.synthesis is not None,
        "triplets": plan.triplets is not None,
        "design": plan.design is not None,
    }
    return [stage for stage in STAGES if there[stage]]


def needed(plan: StudyPlan, stage: str) -> list[str]:
    """Return `stage` and the stages of the study that it rests on, in order."""
    rests_on = {
        "score": (),
        "natural": ("score",),
        "synthesize": (),
        "triplets": ("synthesize",),
        "design": ("natural", "triplets"),
    }
    found = {stage}
    for one in reversed(STAGES):
        if one in found:
            found.update(rests_on[one])
            if one == "triplets" and plan.triplets is not None:
                found.update({"score"} if plan.triplets.reference == "sentences" else ())
    return [one for one in stages_of(plan) if one in found]


class Stages:
    """Tells what is done of a run's stages, and makes their tables from the store.

    Parameters
    ----------
    tasklist
        The run's tasks.
    out
        The run's folder.
    scores
        The score cache.
    """

    def __init__(self, tasklist: TaskList, out: Path, scores: Path) -> None:
        self.tasklist = tasklist
        self.plan = tasklist.plan
        self.store = RunStore(out)
        self.cache = ScoreCache(scores)
        self.tables = {stage: StageTable(out / name) for stage, name in STAGES.items()}
        self._shared = {"versions": dict(tasklist.versions)}

    def tasks(self, stage: str) -> list[Task]:
        """Return the tasks of a stage; none for one that only makes its table."""
        if stage == "score":
            return self.tasklist.score_tasks
        return self.tasklist.synthesis_tasks if stage == "synthesize" else []

    def open_tasks(self, stage: str) -> list[Task]:
        """Return the tasks of a stage whose results are not there yet."""
        if stage == "score":
            known = {given: self._scores(given) for given in self.plan.models}
            return [
                task
                for task in self.tasks(stage)
                if any(s not in known[task.models[0]] for s in task.config["sentences"])
            ]
        finished = self.store.finished() if self.tasks(stage) else set()
        return [task for task in self.tasks(stage) if task.key not in finished]

    def holds(self, stage: str) -> bool:
        """Say whether a stage's table is there and up to date."""
        return self.tables[stage].holds(self._inputs(stage))

    def make(self, stage: str) -> None:
        """Make a stage's table.

        Raises
        ------
        ContstimError
            If what there is does not suffice for the stage; the message says why.
        """
        makers: dict[str, Callable[[], tuple[str, dict[str, Any]]]] = {
            "score": self._score,
            "natural": self._natural,
            "synthesize": self._synthesize,
            "triplets": self._triplets,
            "design": self._design,
        }
        text, notes = makers[stage]()
        self.tables[stage].write(text, self._inputs(stage), notes)

    def _inputs(self, stage: str) -> Any:
        """Return all that a stage's table depends on, as JSON values."""
        plan = self.plan
        if stage == "score":
            rows = [list(self._score_rows(given)) for given in plan.models]
            return [self._shared, digest_of(rows)]
        if stage == "natural":
            return [
                self._shared,
                _as_json(plan.natural),
                self._sha("score"),
                sorted(self.tasklist.vocabulary.repeatable),
            ]
        if stage == "synthesize":
            assert plan.synthesis is not None
            finished = self.store.finished()
            keys = [task.key for task in self.tasklist.synthesis_tasks if task.key in finished]
            return [self._shared, plan.synthesis.minimum_drop, keys]
        if stage == "triplets":
            assert plan.triplets is not None
            by_sentences = plan.triplets.reference == "sentences"
            return [
                self._shared,
                _as_json(plan.triplets),
                self._sha("synthesize"),
                self._sha("score") if by_sentences else None,
            ]
        parts = [self._sha(one) for one in ("natural", "triplets") if one in stages_of(plan)]
        return [
            self._shared,
            _as_json(plan.design),
            sorted(self._common_words or ()),
            plan.study.seed,
            digest_of(self.tasklist.sentences),
            parts,
        ]

    def _sha(self, stage: str) -> str | None:
        path = self.tables[stage].path
        return self.tables[stage].sha256 if path.is_file() else None

    def _scores(self, given: str) -> Mapping[str, CachedScore]:
        return self.cache.read(self.tasklist.identity(given))

    def _score_rows(self, given: str) -> Iterator[tuple[object, ...]]:
        known, name = self._scores(given), self.tasklist.name(given)
        for sentence in self.tasklist.sentences:
            if sentence in known:
                yield (sentence, name, *known[sentence])

    def _score(self) -> tuple[str, dict[str, Any]]:
        rows = [row for given in self.plan.models for row in self._score_rows(given)]
        wanted = len(self.plan.models) * len(self.tasklist.sentences)
        models = [self.tasklist.identity(given) for given in self.plan.models]
        return csv_text(SCORES, rows), {"missing": wanted - len(rows), "models": models}

    @property
    def _log_probs(self) -> pd.DataFrame:
        columns = {
            self.tasklist.name(given): pd.Series(
                {s: row.log_prob for s, row in self._scores(given).items()}, dtype="float64"
            ).reindex(self.tasklist.sentences)
            for given in self.plan.models
        }
        return pd.DataFrame(columns)

    def _natural(self) -> tuple[str, dict[str, Any]]:
        options = self.plan.natural
        assert options is not None
        eligible = None
        if options.distinct_words:
            eligible = repeats_no_word(self.tasklist.sentences, self.tasklist.vocabulary.repeatable)
        pairs = select_natural_pairs(
            self._log_probs,
            options.per_pair,
            accept_from=options.accept_from,
            reject_below=options.reject_below,
            eligible=eligible,
        )
        return frame_text(pairs), _notes(pairs)

    @property
    def _triplet_rows(self) -> list[Triplet]:
        """Triplets whose two directions are both there, changed, and fall far enough."""
        options = self.plan.synthesis
        assert options is not None
        finished = self.store.finished()
        rows = []
        for pair, sentences in self.tasklist.starts.items():
            for sentence in sentences:
                tasks = self.tasklist.directions(pair, sentence)
                if not all(task.key in finished for task in tasks):
                    continue
                first, second = (synthesis_from(self.store.result(task.key)) for task in tasks)
                if all(s.changed and -s.loss >= options.minimum_drop for s in (first, second)):
                    rows.append(Triplet.of(first, second, repeat=1))
        return rows

    def _synthesize(self) -> tuple[str, dict[str, Any]]:
        rows = self._triplet_rows
        text = csv_text(TRIPLETS, ([row.row()[name] for name in TRIPLETS] for row in rows))
        open_tasks = self.open_tasks("synthesize")
        notes = {
            "tasks": len(self.tasklist.synthesis_tasks),
            "missing": len(open_tasks),
            "triplets": len(rows),
            "opposed": sum(row.opposed for row in rows),
        }
        return text, notes

    def _triplets(self) -> tuple[str, dict[str, Any]]:
        options = self.plan.triplets
        assert options is not None
        rows = [row.row() for row in self._triplet_rows]
        chosen = select_triplets(
            pd.DataFrame(rows, columns=list(TRIPLETS)),
            options.per_pair,
            options.objective,
            strata=options.strata,
            ties=options.ties,
            reference=self._log_probs if options.reference == "sentences" else None,
        )
        return frame_text(chosen), _notes(chosen)

    @cached_property
    def _common_words(self) -> frozenset[str] | None:
        options = self.plan.design
        if options is None or options.common_words is None:
            return None
        return read_words(self.plan.folder / options.common_words)

    def _design(self) -> tuple[str, dict[str, Any]]:
        options = self.plan.design
        assert options is not None
        there = stages_of(self.plan)
        trials = design_trials(
            self.tables["natural"].read() if "natural" in there else None,
            self.tables["triplets"].read() if "triplets" in there else None,
            self.tasklist.sentences,
            options.resolved(),
            common_words=self._common_words,
            seed=self.plan.study.seed,
        )
        return frame_text(trials), _notes(trials)


def _as_json(options: Any) -> dict[str, Any] | None:
    """Return a table of the study plan as JSON values."""
    return None if options is None else asdict(options)


def _notes(table: pd.DataFrame) -> dict[str, Any]:
    return {str(name): value for name, value in table.attrs.items()}
