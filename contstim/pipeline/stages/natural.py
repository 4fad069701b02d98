"""Stage that selects natural sentence pairs for each pair of models."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

from pydantic import Field

from contstim.pipeline.plan import StudyPlan
from contstim.pipeline.stages import Run, Stage
from contstim.pipeline.stages.score import SCORE_STAGE
from contstim.pipeline.stages.selection import SelectionOptions, list_notes, load_log_probs
from contstim.selection.natural import MAX_PER_PAIR, NATURAL_CRITERIA, select_natural_pairs
from contstim.settings import settings, validate_choice
from contstim.text.features import has_distinct_words
from contstim.text_files import format_csv


@settings
class NaturalOptions(SelectionOptions):
    """Table ``[natural]`` of a study plan: selection of natural sentence pairs for two models each.

    The two models of a comparison disagree about each selected pair: each sentence is probable
    under one model and improbable under the other. The options are parameters of
    `select_natural_pairs`.

    Attributes
    ----------
    per_pair
        Number of sentence pairs for each pair of models.
    criterion
        Name of the cost of a sentence pair that is minimised, for example ``rank``.
    accept_from
        Minimum fractional rank (0 to 1, by probability among all sentences) of a sentence under
        the model that should find it probable.
    reject_below
        Fractional rank that a sentence must be below under the model that finds it improbable.
        Default: no limit.
    """

    per_pair: Annotated[int, Field(ge=1, le=MAX_PER_PAIR)] = 10
    criterion: Annotated[str, validate_choice(NATURAL_CRITERIA)] = "rank"
    accept_from: Annotated[float, Field(ge=0, le=1)] = 0.5
    reject_below: Annotated[float, Field(ge=0, le=1)] | None = None


class _NaturalStage(Stage):
    name = "natural"
    file = "natural_pairs.csv"
    key = "natural"
    options = NaturalOptions

    def count_rows(self, plan: StudyPlan) -> int:
        options = plan.find_options(NaturalOptions)
        return 0 if options is None else options.per_pair * len(plan.pairs())

    def describe(self, plan: StudyPlan) -> str:
        # Describe the selection for a preregistration.
        options = plan.get_options(NaturalOptions)
        maximum = options.reject_below
        reject_below = "" if maximum is None else f" (fractional rank below {maximum:g})"
        return (
            f"{options.per_pair} pairs of natural sentences are selected for each pair of models, "
            f"{self.count_rows(plan)} in all, by the criterion {options.criterion!r}. Each "
            "sentence of a pair is accepted by one model (fractional rank of at least "
            f"{options.accept_from:g} among all sentences) and rejected by the other one"
            f"{reject_below}. {options.describe_rules()}"
        ).rstrip()

    def requires(self, plan: StudyPlan) -> Collection[Stage]:
        return (SCORE_STAGE,)

    def collect_inputs(self, run: Run) -> Any:
        return [
            run.get_table(SCORE_STAGE).sha256,
            *run.plan.get_options(NaturalOptions).collect_inputs(run),
        ]

    def make_table(self, run: Run) -> tuple[str, dict[str, Any]]:
        options = run.plan.get_options(NaturalOptions)
        # Exclude sentences in which a content word occurs twice. None: all sentences are eligible.
        eligible = None
        if options.distinct_words:
            eligible = has_distinct_words(run.sentences, run.vocabulary.repeatable)
        log_probs = load_log_probs(run)
        pairs = select_natural_pairs(
            log_probs,
            per_pair=options.per_pair,
            criterion=options.criterion,
            accept_from=options.accept_from,
            reject_below=options.reject_below,
            eligible=eligible,
            constraints=options.load_constraints(run, log_probs.index),
        )
        return format_csv(pairs), list_notes(pairs)


NATURAL_STAGE = _NaturalStage()
