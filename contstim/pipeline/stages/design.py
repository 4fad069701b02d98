"""The stage that lays the pairs and triplets out as trials."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

import pandas as pd

from contstim.design.trials import CONDITIONS, LAYOUTS, Layout, design_trials
from contstim.errors import InputError, format_count
from contstim.files import json_digest
from contstim.pipeline.stages import Run, Stage, StageOptions, StudyPlan, notes_of
from contstim.pipeline.stages.natural import NATURAL, NaturalOptions
from contstim.pipeline.stages.set import SET, SetOptions
from contstim.pipeline.stages.triplets import TRIPLETS_STAGE, TripletOptions
from contstim.settings import NonNegativeInt, PositiveInt, TupleFromList, settings, validate_choice
from contstim.tables import read_table
from contstim.text import read_words
from contstim.text_files import format_csv


@settings
class DesignOptions(StageOptions):
    """``[design]``: the layout of the experiment, a published one or its numbers.

    ``common_words`` names a file of words; all others are kept from recurring in a group.
    """

    layout: Annotated[str, validate_choice(LAYOUTS)] | None = None
    groups: PositiveInt | None = None
    participants: PositiveInt | None = None
    random_natural: NonNegativeInt | None = None
    catch: NonNegativeInt | None = None
    conditions: TupleFromList[Annotated[str, validate_choice(CONDITIONS[:4])]] | None = None
    common_words: str | None = None

    def __post_init__(self) -> None:
        if self.layout is not None and self._numbers():
            key = next(iter(self._numbers()))
            raise InputError(f"design has a layout and design.{key}; give one or the other")

    def check(self, plan: StudyPlan) -> None:
        """Refuse a layout of nothing."""
        if not any(plan.get(kind) for kind in (NaturalOptions, SetOptions, TripletOptions)):
            raise InputError("[design] has nothing to lay out; add [natural], [set] or [triplets]")

    def _numbers(self) -> dict[str, Any]:
        names = ("groups", "participants", "random_natural", "catch", "conditions")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def resolved(self) -> Layout:
        """Return the layout itself."""
        return LAYOUTS[self.layout] if self.layout is not None else Layout(**self._numbers())


# Which conditions are made of which stage's rows.
_CONDITIONS: tuple[tuple[Stage, tuple[str, ...]], ...] = (
    (NATURAL, CONDITIONS[:1]),
    (SET, CONDITIONS[:1]),
    (TRIPLETS_STAGE, CONDITIONS[1:4]),
)


class _Design(Stage):
    name = "design"
    file = "trials.csv"
    key = "design"
    options = DesignOptions

    def words(self, plan: StudyPlan) -> str:
        layout, trials = plan.table(DesignOptions).resolved(), self.trials(plan)
        parts = [f"{n} of the condition {name!r}" for name, n in trials.items() if n]
        common = plan.table(DesignOptions).common_words
        words = f" Words that {common} does not list recur in no group." if common else ""
        assignments = format_count(layout.groups * layout.participants, "assignment")
        return (
            f"The design has {assignments} in {format_count(layout.groups, 'group')}, each of "
            f"{format_count(sum(trials.values()), 'trial')}: {', '.join(parts)}. Every group sees "
            "every condition of every model pair equally often, nobody sees a sentence twice, and "
            f"order and sides are each participant's own (seed {plan.study.seed}).{words}"
        )

    @staticmethod
    def trials(plan: StudyPlan) -> dict[str, int]:
        """Return how many trials of each condition a participant answers."""
        layout = plan.table(DesignOptions).resolved()
        made = dict.fromkeys(layout.conditions, 0)
        for stage, conditions in _CONDITIONS:
            for condition in conditions:
                if condition in made:
                    made[condition] += stage.rows(plan)
        each = {condition: n // layout.groups for condition, n in made.items()}
        return {**each, "random_natural": layout.random_natural, "catch": layout.catch}

    def needs(self, plan: StudyPlan) -> Collection[Stage]:
        return NATURAL, SET, TRIPLETS_STAGE

    def inputs(self, run: Run) -> Any:
        return [
            sorted(self._common_words(run) or ()),
            run.plan.study.seed,
            json_digest(run.sentences),
            [run.table(stage).sha256 for stage in self.needs(run.plan) if stage.is_in(run.plan)],
        ]

    def make(self, run: Run) -> tuple[str, dict[str, Any]]:
        natural, of_set, triplets = (self._table(run, stage) for stage in self.needs(run.plan))
        pairs = [table for table in (natural, of_set) if table is not None]
        trials = design_trials(
            pd.concat(pairs, ignore_index=True) if pairs else None,
            triplets,
            run.sentences,
            run.plan.table(DesignOptions).resolved(),
            common_words=self._common_words(run),
            seed=run.plan.study.seed,
        )
        return format_csv(trials), notes_of(trials)

    @staticmethod
    def _table(run: Run, stage: Stage) -> pd.DataFrame | None:
        return read_table(run.table(stage).path, cells="text") if stage.is_in(run.plan) else None

    @staticmethod
    def _common_words(run: Run) -> frozenset[str] | None:
        path = run.plan.table(DesignOptions).common_words
        return None if path is None else frozenset(read_words(run.plan.folder / path))


DESIGN = _Design()
