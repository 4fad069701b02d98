"""Stage that assigns the selected sentence pairs and triplets to the trials of an experiment."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

import pandas as pd

from contstim.design.trials import CONDITIONS, LAYOUTS, Layout, design_trials
from contstim.errors import InputError, format_count
from contstim.files import json_digest
from contstim.pipeline.plan import StageOptions, StudyPlan
from contstim.pipeline.stages import Run, Stage
from contstim.pipeline.stages.natural import NATURAL_STAGE, NaturalOptions
from contstim.pipeline.stages.selection import list_notes
from contstim.pipeline.stages.set import SET_STAGE, SetOptions
from contstim.pipeline.stages.triplets import TRIPLETS_STAGE, TripletOptions
from contstim.settings import NonNegativeInt, PositiveInt, TupleFromList, settings, validate_choice
from contstim.tables import read_table
from contstim.text import read_words
from contstim.text_files import format_csv

# Stages that select stimuli, with the conditions of trials that are made from their tables.
_CONDITIONS_BY_STAGE: tuple[tuple[Stage, tuple[str, ...]], ...] = (
    (NATURAL_STAGE, CONDITIONS[:1]),
    (SET_STAGE, CONDITIONS[:1]),
    (TRIPLETS_STAGE, CONDITIONS[1:4]),
)


@settings
class DesignOptions(StageOptions):
    """Table ``[design]`` of a study plan: numbers of participants and trials of the experiment.

    Attributes
    ----------
    layout
        Name of a published layout, such as ``golan2023``, which sets all options except
        `common_words`.
    groups
        Number of groups of participants. The participants of a group see the same trials.
    participants
        Number of participants per group.
    random_natural
        Number of trials per participant that compare two randomly drawn natural sentences.
    catch
        Number of catch trials (attention checks) per participant.
    conditions
        Names of the experimental conditions. A condition is a kind of sentence pair, for example a
        natural and a synthetic sentence.
    common_words
        File of words that may occur in any number of trials of a group. Other words are repeated as
        rarely as possible.
    """

    layout: Annotated[str, validate_choice(LAYOUTS)] | None = None
    groups: PositiveInt | None = None
    participants: PositiveInt | None = None
    random_natural: NonNegativeInt | None = None
    catch: NonNegativeInt | None = None
    conditions: TupleFromList[Annotated[str, validate_choice(CONDITIONS[:4])]] | None = None
    common_words: str | None = None

    def __post_init__(self) -> None:
        if self.layout is not None and (numbers := self._numbers()):
            raise InputError(
                f"design.layout is {self.layout!r} and design.{next(iter(numbers))} is given, too; "
                "leave out one of them"
            )

    def check(self, plan: StudyPlan) -> None:
        """Raise an `InputError` if the plan has no stage that selects stimuli."""
        if not any(plan.find_options(k) for k in (NaturalOptions, SetOptions, TripletOptions)):
            raise InputError("[design] has no stimuli; add [natural], [set] or [triplets]")

    def _numbers(self) -> dict[str, Any]:
        """Return a mapping from name to value of the options that the plan sets for a layout."""
        names = ("groups", "participants", "random_natural", "catch", "conditions")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def get_layout(self) -> Layout:
        """Return the layout of the experiment."""
        return LAYOUTS[self.layout] if self.layout is not None else Layout(**self._numbers())


class _DesignStage(Stage):
    name = "design"
    file = "trials.csv"
    key = "design"
    options = DesignOptions

    def describe(self, plan: StudyPlan) -> str:
        # Describe the design for a preregistration. `n_trials` is the number of trials that each
        # participant completes per condition.
        options = plan.get_options(DesignOptions)
        layout, n_trials = options.get_layout(), self.count_trials(plan)
        conditions = [f"{n} of the condition {name!r}" for name, n in n_trials.items() if n]
        common = ""
        if options.common_words is not None:
            common = f" Only words in {options.common_words} occur in several trials of a group."
        return (
            f"The design has {format_count(layout.groups * layout.participants, 'assignment')} in "
            f"{format_count(layout.groups, 'group')}, each of "
            f"{format_count(sum(n_trials.values()), 'trial')}: {', '.join(conditions)}. Every "
            "group sees every condition of every model pair equally often. No participant sees a "
            "sentence twice. The order of the trials and the sides of the sentences are random "
            f"for each participant (seed {plan.study.seed}).{common}"
        )

    @staticmethod
    def count_trials(plan: StudyPlan) -> dict[str, int]:
        """Return a mapping from condition to number of trials per participant."""
        layout = plan.get_options(DesignOptions).get_layout()
        # Each sentence pair or triplet that a stage selects makes one trial in each of the stage's
        # conditions. The trials are divided among the groups of participants.
        n_rows = dict.fromkeys(layout.conditions, 0)
        for stage, conditions in _CONDITIONS_BY_STAGE:
            for condition in n_rows.keys() & set(conditions):
                n_rows[condition] += stage.count_rows(plan)
        n_trials = {condition: n // layout.groups for condition, n in n_rows.items()}
        # The numbers of the other two kinds of trials are set per participant.
        return {**n_trials, "random_natural": layout.random_natural, "catch": layout.catch}

    def requires(self, plan: StudyPlan) -> Collection[Stage]:
        return NATURAL_STAGE, SET_STAGE, TRIPLETS_STAGE

    def collect_inputs(self, run: Run) -> Any:
        common_words = sorted(self._read_common_words(run) or ())
        # Digests of the tables with the selected pairs and triplets.
        stages = [stage for stage in self.requires(run.plan) if stage.is_in(run.plan)]
        digests = [run.get_table(stage).sha256 for stage in stages]
        return [common_words, run.plan.study.seed, json_digest(run.sentences), digests]

    def make_table(self, run: Run) -> tuple[str, dict[str, Any]]:
        tables = {
            stage: read_table(run.get_table(stage).path, cells="text")
            for stage in self.requires(run.plan)
            if stage.is_in(run.plan)
        }
        # `pair_tables` contains the tables of the stages that select sentence pairs, not triplets.
        pair_tables = [tables[stage] for stage in (NATURAL_STAGE, SET_STAGE) if stage in tables]
        # Distribute the pairs and triplets over the trials of the experiment.
        trials = design_trials(
            pd.concat(pair_tables, ignore_index=True) if pair_tables else None,
            tables.get(TRIPLETS_STAGE),
            run.sentences,
            run.plan.get_options(DesignOptions).get_layout(),
            common_words=self._read_common_words(run),
            seed=run.plan.study.seed,
        )
        return format_csv(trials), list_notes(trials)

    @staticmethod
    def _read_common_words(run: Run) -> frozenset[str] | None:
        path = run.plan.get_options(DesignOptions).common_words
        return None if path is None else frozenset(read_words(run.plan.folder / path))


DESIGN_STAGE = _DesignStage()
