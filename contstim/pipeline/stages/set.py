"""The stage that chooses sentence pairs for all models at once."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

import pandas as pd
from pydantic import Field

from contstim.errors import InputError
from contstim.files import json_digest
from contstim.pipeline.options import SynthesisOptions
from contstim.pipeline.stages import SCORE, Run, Stage, StageOptions, StudyPlan, notes_of
from contstim.pipeline.stages.natural import rules_kept
from contstim.pipeline.stages.synthesis import SYNTHESIS
from contstim.pipeline.tasks import score_tasks
from contstim.pipeline.work import Task
from contstim.response_model import ResponseModel
from contstim.selection.constraint_text import check_constraints, parse_constraints
from contstim.selection.sets import SET_CRITERIA, select_set, triplet_pairs
from contstim.settings import PositiveInt, TupleFromList, settings, validate_choice
from contstim.text.features import has_distinct_words
from contstim.text_files import format_csv


@settings
class SetOptions(StageOptions):
    """``[set]``: the choice of pairs for all models at once; see `select_set`.

    ``distinct_words``, ``constraints`` and ``features`` are those of ``[natural]``; ``synthetic``
    makes the pairs of triplets candidates as well, whose sentences are then scored under every
    model; the table ``[set.response_model]`` describes how participants
    answer, for the criterion ``log-bf``.
    """

    n: PositiveInt = 360
    criterion: Annotated[str, validate_choice(SET_CRITERIA)] = "separation"
    rank_margin: Annotated[float, Field(ge=0, lt=1)] = 0.0
    uses: PositiveInt = 1
    time_limit: Annotated[float, Field(gt=0)] = 60.0
    response_model: ResponseModel | None = None
    distinct_words: bool = False
    constraints: TupleFromList[str] = ()
    features: str | None = None
    synthetic: bool = False

    def __post_init__(self) -> None:
        check_constraints(self.constraints)

    def check(self, plan: StudyPlan) -> None:
        """Refuse candidates that are not made."""
        synthesis = plan.get(SynthesisOptions)
        if self.synthetic and (synthesis is None or not synthesis.makes_triplets):
            raise InputError(
                "set.synthetic needs triplets; add [synthesis] without reject and accept, or leave "
                "set.synthetic out"
            )


class _Set(Stage):
    name = "set"
    file = "set_pairs.csv"
    key = "set"
    options = SetOptions

    def rows(self, plan: StudyPlan) -> int:
        options = plan.get(SetOptions)
        return 0 if options is None else options.n

    def words(self, plan: StudyPlan) -> str:
        options = plan.table(SetOptions)
        candidates = ", those of the triplets among them" if options.synthetic else ""
        margin = (
            f", with a margin of {options.rank_margin:g} in rank" if options.rank_margin else ""
        )
        return (
            f"{options.n} pairs{candidates} are chosen for all models at once by the criterion "
            f"{options.criterion!r}{margin}, so that the two models that are told apart least are "
            f"told apart as well as can be; a sentence is used {options.uses} time"
            f"{'s' * (options.uses != 1)} at most. "
            f"{rules_kept(options.distinct_words, options.constraints)}"
        ).rstrip()

    def needs(self, plan: StudyPlan) -> Collection[Stage]:
        options = plan.get(SetOptions)
        return (SCORE, SYNTHESIS) if options is not None and options.synthetic else (SCORE,)

    def tasks(self, run: Run) -> list[Task]:
        return list(score_tasks(list(run.models.values()), self._synthetic(run), run.versions))

    def inputs(self, run: Run) -> Any:
        features = run.features(run.plan.table(SetOptions).features)
        given = [] if features is None else [json_digest(features.to_csv())]
        tables = [run.table(stage).sha256 for stage in self.needs(run.plan)]
        if len(tables) > 1:
            scores = run.log_probs(self._synthetic(run))[len(run.sentences) :]
            given.append(json_digest(scores.to_csv()))
        return [*tables, run.plan.study.seed, sorted(run.vocabulary.repeatable), *given]

    def make(self, run: Run) -> tuple[str, dict[str, Any]]:
        options = run.plan.table(SetOptions)
        synthetic = self._synthetic(run)
        scores = run.log_probs(synthetic)
        eligible = ~pd.Series(scores.index.isin(synthetic), index=scores.index)
        if options.distinct_words:
            eligible &= has_distinct_words(scores.index, run.vocabulary.repeatable).to_numpy()
        pairs = select_set(
            scores,
            options.n,
            criterion=options.criterion,
            rank_margin=options.rank_margin,
            uses=options.uses,
            time_limit=options.time_limit,
            response_model=options.response_model,
            eligible=eligible,
            pairs=triplet_pairs(SYNTHESIS.of(run).triplets()) if options.synthetic else None,
            constraints=parse_constraints(
                options.constraints,
                scores.index,
                run.features(options.features),
                run.n_tokens(synthetic),
                run.language,
            ),
            seed=run.plan.study.seed,
        )
        return format_csv(pairs), notes_of(pairs)

    def _synthetic(self, run: Run) -> list[str]:
        """Return the synthetic sentences, once all syntheses are finished."""
        if not run.plan.table(SetOptions).synthetic or run.store.left(SYNTHESIS.tasks(run)):
            return []
        triplets = SYNTHESIS.of(run).triplets()
        written = triplets[["synthetic_1", "synthetic_2"]].to_numpy().ravel()
        return sorted(set(written) - set(run.sentences))


SET = _Set()
