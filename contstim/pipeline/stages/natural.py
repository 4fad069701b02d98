"""The stage that chooses natural pairs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from contstim.pipeline.stage import Run, Stage, StageOptions, StudyPlan, notes_of
from contstim.pipeline.stages.score import SCORE
from contstim.pipeline.tables import frame_text
from contstim.selection.natural import select_natural_pairs
from contstim.settings import Count, settings
from contstim.text.features import repeats_no_word

__all__ = ["NATURAL", "NaturalOptions"]


@settings
class NaturalOptions(StageOptions):
    """``[natural]``: the choice of natural pairs; see `select_natural_pairs`.

    ``distinct_words`` leaves out sentences in which a word recurs, the vocabulary's repeatable
    words aside (as published).
    """

    per_pair: Count = 10
    accept_from: float = 0.5
    reject_below: float | None = None
    distinct_words: bool = False


class _Natural(Stage):
    name = "natural"
    file = "natural_pairs.csv"
    key = "natural"
    options = NaturalOptions

    def needs(self, plan: StudyPlan) -> Collection[Stage]:
        return (SCORE,)

    def inputs(self, run: Run) -> Any:
        return [run.table(SCORE).sha256, sorted(run.vocabulary.repeatable)]

    def make(self, run: Run) -> tuple[str, dict[str, Any]]:
        options = run.plan.table(NaturalOptions)
        eligible = None
        if options.distinct_words:
            eligible = repeats_no_word(run.sentences, run.vocabulary.repeatable)
        pairs = select_natural_pairs(
            run.log_probs,
            options.per_pair,
            accept_from=options.accept_from,
            reject_below=options.reject_below,
            eligible=eligible,
        )
        return frame_text(pairs), notes_of(pairs)


NATURAL = _Natural()
