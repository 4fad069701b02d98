"""The stage that chooses natural pairs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

from pydantic import Field

from contstim.files import json_digest
from contstim.pipeline.stages import SCORE, Run, Stage, StudyPlan, notes_of
from contstim.selection.constraint_text import check_constraints, parse_constraints
from contstim.selection.natural import MAX_PER_PAIR, NATURAL_CRITERIA, select_natural_pairs
from contstim.settings import TupleFromList, settings, validate_choice
from contstim.text.features import has_distinct_words
from contstim.text_files import format_csv


@settings
class NaturalOptions:
    """``[natural]``: the choice of natural pairs; see `select_natural_pairs`.

    ``distinct_words`` leaves out sentences in which a word recurs, the vocabulary's repeatable
    words aside (as published). ``constraints`` are what the selection must keep, such as
    ``balance:words:0.5``, and ``features`` names a file of columns for them; see
    `contstim.selection.constraint_text.parse_constraints`.
    """

    per_pair: Annotated[int, Field(ge=1, le=MAX_PER_PAIR)] = 10
    criterion: Annotated[str, validate_choice(NATURAL_CRITERIA)] = "rank"
    accept_from: Annotated[float, Field(ge=0, le=1)] = 0.5
    reject_below: Annotated[float, Field(ge=0, le=1)] | None = None
    distinct_words: bool = False
    constraints: TupleFromList[str] = ()
    features: str | None = None

    def __post_init__(self) -> None:
        check_constraints(self.constraints)


def rules_kept(distinct_words: bool, constraints: Collection[str]) -> str:
    """Say what the sentences of a selection must keep."""
    distinct = "No content word comes twice in a sentence." if distinct_words else ""
    rules = f"Constraints: {', '.join(constraints)}." if constraints else ""
    return " ".join(filter(None, (distinct, rules)))


class _Natural(Stage):
    name = "natural"
    file = "natural_pairs.csv"
    key = "natural"
    options = NaturalOptions

    def rows(self, plan: StudyPlan) -> int:
        options = plan.get(NaturalOptions)
        return 0 if options is None else options.per_pair * len(plan.pairs())

    def words(self, plan: StudyPlan) -> str:
        options = plan.table(NaturalOptions)
        below = options.reject_below
        rejects = "" if below is None else f" (below {below:g})"
        return (
            f"Of natural sentences {options.per_pair} pairs are chosen for each two of the models, "
            f"{self.rows(plan)} in all, the best by the criterion {options.criterion!r}: each "
            "sentence of a pair is accepted by one model (fractional rank of at least "
            f"{options.accept_from:g} among the sentences) and rejected by the other{rejects}. "
            f"{rules_kept(options.distinct_words, options.constraints)}"
        ).rstrip()

    def needs(self, plan: StudyPlan) -> Collection[Stage]:
        return (SCORE,)

    def inputs(self, run: Run) -> Any:
        features = run.features(run.plan.table(NaturalOptions).features)
        given = [] if features is None else [json_digest(features.to_csv())]
        return [run.table(SCORE).sha256, sorted(run.vocabulary.repeatable), *given]

    def make(self, run: Run) -> tuple[str, dict[str, Any]]:
        options = run.plan.table(NaturalOptions)
        eligible = None
        if options.distinct_words:
            eligible = has_distinct_words(run.sentences, run.vocabulary.repeatable)
        scores, features = run.log_probs(), run.features(options.features)
        pairs = select_natural_pairs(
            scores,
            per_pair=options.per_pair,
            criterion=options.criterion,
            accept_from=options.accept_from,
            reject_below=options.reject_below,
            eligible=eligible,
            constraints=parse_constraints(
                options.constraints, scores.index, features, run.n_tokens(), run.language
            ),
        )
        return format_csv(pairs), notes_of(pairs)


NATURAL = _Natural()
