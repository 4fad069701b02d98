"""Stage that selects triplets for each pair of models."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field

from contstim.errors import InputError
from contstim.pipeline.plan import StageOptions, StudyPlan
from contstim.pipeline.stages import Run, Stage
from contstim.pipeline.stages.score import SCORE_STAGE
from contstim.pipeline.stages.selection import list_notes, load_log_probs, load_triplets
from contstim.pipeline.stages.synthesis import SYNTHESIS_STAGE
from contstim.pipeline.synthesis_options import SynthesisOptions
from contstim.selection.natural import MAX_PER_PAIR
from contstim.selection.strata import resolve_n_strata
from contstim.selection.triplet_objectives import TIE_RULES, TRIPLET_OBJECTIVES, check_objective
from contstim.selection.triplets import select_triplets
from contstim.settings import PositiveInt, settings, validate_choice
from contstim.text_files import format_csv

#: Sentences whose log-probabilities define the strata of triplets by their quantiles.
REFERENCES = ("triplets", "sentences")


@settings
class TripletOptions(StageOptions):
    """Table ``[triplets]`` of a study plan: selection of triplets for each pair of models.

    A triplet is a natural sentence with two synthetic sentences. The options are parameters of
    `select_triplets`.

    Attributes
    ----------
    per_pair
        Number of triplets to select for each pair of models.
    objective
        Name of the objective of the selection, ``controversiality`` or ``worst-rank``.
    strata
        Number of strata of natural sentences (quantile ranges of their log-probability under each
        model). The same number of triplets is selected from each stratum.
    max_word_share
        Maximum fraction of the synthetic sentences for a pair of models that may contain the same
        word; 1: no limit.
    distinct_items
        Whether a sentence may occur in only one selected triplet.
    ties
        Rule for triplets with equal ranks, ``average`` or ``row-order``.
    reference
        Reference distribution of the strata, that is, the sentences whose log-probabilities define
        them: ``triplets``, the natural sentences of the triplets for a pair of models, or
        ``sentences``, all natural sentences.
    """

    per_pair: Annotated[int, Field(ge=1, le=MAX_PER_PAIR)] = 10
    objective: Annotated[str, validate_choice(TRIPLET_OBJECTIVES)] = "controversiality"
    strata: PositiveInt | None = None
    max_word_share: Annotated[float, Field(ge=1e-6, le=1)] = 1.0
    distinct_items: bool = False
    ties: Annotated[str, validate_choice(TIE_RULES)] = "average"
    reference: Annotated[str, validate_choice(REFERENCES)] = "triplets"

    def __post_init__(self) -> None:
        resolve_n_strata(self.per_pair, self.strata, "triplets.per_pair")

    def check(self, plan: StudyPlan) -> None:
        """Check that the plan synthesizes triplets and that the objective is valid for its models.

        Raises
        ------
        InputError
            If the plan makes no triplets, or if the objective does not apply to its models.
        """
        synthesis = plan.find_options(SynthesisOptions)
        # A triplet is a natural sentence with two synthetic sentences, so the plan must contain the
        # options of the synthesis. The synthesis makes triplets unless models are named.
        if synthesis is None:
            raise InputError("[triplets] needs triplets to select from; add [synthesis]")
        if not synthesis.makes_triplets:
            raise InputError(
                "[triplets] needs triplets, but synthesis.reject and synthesis.accept make single "
                "sentences; remove these two options, or remove [triplets]"
            )
        check_objective(self.objective, plan.models)


class _TripletStage(Stage):
    name = "triplets"
    file = "triplets.csv"
    key = "triplets"
    options = TripletOptions

    def count_rows(self, plan: StudyPlan) -> int:
        options = plan.find_options(TripletOptions)
        synthesis = plan.find_options(SynthesisOptions)
        if options is None or synthesis is None:
            return 0
        return options.per_pair * len(synthesis.pairs or plan.pairs())

    def describe(self, plan: StudyPlan) -> str:
        # Describe the selection for a preregistration.
        options = plan.get_options(TripletOptions)
        n_strata = resolve_n_strata(options.per_pair, options.strata)
        word_limit = ""
        if options.max_word_share < 1:
            word_limit = (
                f" At most {options.max_word_share:g} of the sentences of a pair contain the same "
                "word."
            )
        distinct = " No two triplets share a sentence." if options.distinct_items else ""
        return (
            f"{options.per_pair} triplets are selected for each pair of models, "
            f"{self.count_rows(plan)} in all, by the objective {options.objective!r}. The same "
            f"number is selected from each of {n_strata} strata of each model's log-probabilities "
            f"of the natural sentences (of all {options.reference}).{word_limit}{distinct}"
        )

    def requires(self, plan: StudyPlan) -> Collection[Stage]:
        options = plan.find_options(TripletOptions)
        has_reference = options is not None and options.reference == "sentences"
        return (SYNTHESIS_STAGE, SCORE_STAGE) if has_reference else (SYNTHESIS_STAGE,)

    def collect_inputs(self, run: Run) -> Any:
        return [run.get_table(stage).sha256 for stage in self.requires(run.plan)]

    def make_table(self, run: Run) -> tuple[str, dict[str, Any]]:
        options = run.plan.get_options(TripletOptions)
        parameters: dict[str, Any] = asdict(options)
        parameters["reference"] = load_log_probs(run) if options.reference == "sentences" else None
        triplets = select_triplets(load_triplets(run), **parameters)
        return format_csv(triplets), list_notes(triplets)


TRIPLETS_STAGE = _TripletStage()
