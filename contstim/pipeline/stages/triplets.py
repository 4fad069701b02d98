"""The stage that chooses among the triplets."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

from pydantic import Field

from contstim.errors import InputError
from contstim.pipeline.options import SynthesisOptions
from contstim.pipeline.stages import SCORE, Run, Stage, StageOptions, StudyPlan, notes_of
from contstim.pipeline.stages.synthesis import SYNTHESIS
from contstim.selection.natural import MAX_PER_PAIR
from contstim.selection.strata import resolve_n_strata
from contstim.selection.triplet_objectives import TIE_RULES, TRIPLET_OBJECTIVES, check_objective
from contstim.selection.triplets import select_triplets
from contstim.settings import PositiveInt, settings, validate_choice
from contstim.text_files import format_csv

#: What the strata of triplets are quantiles of.
REFERENCES = ("triplets", "sentences")


@settings
class TripletOptions(StageOptions):
    """``[triplets]``: the choice of triplets; see `select_triplets`.

    ``reference`` says what the strata are quantiles of: the pair's own ``triplets`` (as
    published), or all natural ``sentences``. ``max_word_share`` limits the use of a word; 1
    means no limit. With ``distinct_items`` no two of the chosen triplets share a sentence.
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
        """Refuse a choice without triplets, or by what the models' scores are not for."""
        synthesis = plan.get(SynthesisOptions)
        if synthesis is None:
            raise InputError("[triplets] needs triplets to choose from; add [synthesis]")
        if not synthesis.makes_triplets:
            raise InputError(
                "[triplets] chooses among triplets of pairs, but synthesis.reject and "
                "synthesis.accept give single sentences; leave out one of them"
            )
        check_objective(self.objective, plan.models)


class _Triplets(Stage):
    name = "triplets"
    file = "triplets.csv"
    key = "triplets"
    options = TripletOptions

    def rows(self, plan: StudyPlan) -> int:
        options = plan.get(TripletOptions)
        synthesis = plan.get(SynthesisOptions)
        pairs = (synthesis.pairs if synthesis is not None else ()) or plan.pairs()
        return 0 if options is None else options.per_pair * len(pairs)

    def words(self, plan: StudyPlan) -> str:
        options = plan.table(TripletOptions)
        limit = ""
        if options.max_word_share < 1:
            limit = f" No word is in more than {options.max_word_share:g} of a pair's sentences."
        distinct = " No two share a sentence." if options.distinct_items else ""
        strata = resolve_n_strata(options.per_pair, options.strata)
        return (
            f"{options.per_pair} triplets of each pair of models are chosen, {self.rows(plan)} in "
            f"all, by the objective {options.objective!r}, as many from each of {strata} "
            f"strata of each model's log-probabilities of the natural sentences (of all "
            f"{options.reference}).{limit}{distinct}"
        )

    def needs(self, plan: StudyPlan) -> Collection[Stage]:
        options = plan.get(TripletOptions)
        by_sentences = options is not None and options.reference == "sentences"
        return (SYNTHESIS, SCORE) if by_sentences else (SYNTHESIS,)

    def inputs(self, run: Run) -> Any:
        return [run.table(stage).sha256 for stage in self.needs(run.plan)]

    def make(self, run: Run) -> tuple[str, dict[str, Any]]:
        options = run.plan.table(TripletOptions)
        chosen = select_triplets(
            SYNTHESIS.of(run).triplets(),
            per_pair=options.per_pair,
            objective=options.objective,
            strata=options.strata,
            max_word_share=options.max_word_share,
            distinct_items=options.distinct_items,
            ties=options.ties,
            reference=run.log_probs() if options.reference == "sentences" else None,
        )
        return format_csv(chosen), notes_of(chosen)


TRIPLETS_STAGE = _Triplets()
