"""Stage that selects sentence pairs that discriminate between all models at once."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

import pandas as pd
from pydantic import Field

from contstim.errors import InputError
from contstim.files import json_digest
from contstim.pipeline.plan import StudyPlan
from contstim.pipeline.stages import Run, Stage
from contstim.pipeline.stages.score import SCORE_STAGE
from contstim.pipeline.stages.selection import (
    SelectionOptions,
    list_notes,
    load_log_probs,
    load_triplets,
)
from contstim.pipeline.stages.synthesis import SYNTHESIS_STAGE
from contstim.pipeline.synthesis_options import SynthesisOptions
from contstim.pipeline.tasks import Task, create_score_tasks
from contstim.response_model import ResponseModel
from contstim.selection.sets import SET_CRITERIA, select_set, triplet_pairs
from contstim.settings import PositiveInt, settings, validate_choice
from contstim.text.features import has_distinct_words
from contstim.text_files import format_csv


@settings
class SetOptions(SelectionOptions):
    """Table ``[set]`` of a study plan: selection of sentence pairs that compare all models at once.

    The options are parameters of `select_set`.

    Attributes
    ----------
    n
        Number of sentence pairs to select.
    criterion
        Measure of how well the selected sentence pairs distinguish two models: ``separation``, the
        number of sentence pairs of which the models prefer different sentences, or ``log-bf``, the
        expected logarithm of the Bayes factor between the models. The selection maximises the
        smallest value among all pairs of models.
    rank_margin
        Minimum difference in fractional rank between the sentences of a pair.
    uses
        Maximum number of pairs that may contain the same sentence.
    time_limit
        Time limit of the optimisation in seconds.
    response_model
        Model of participants' responses, for the criterion ``log-bf``. Default: the default model
        of `select_set`.
    synthetic
        Whether pairs with synthetic sentences may be selected. The table ``[synthesis]`` makes
        triplets of a natural and two synthetic sentences; any two sentences of a triplet are a
        pair.
    """

    n: PositiveInt = 360
    criterion: Annotated[str, validate_choice(SET_CRITERIA)] = "separation"
    rank_margin: Annotated[float, Field(ge=0, lt=1)] = 0.0
    uses: PositiveInt = 1
    time_limit: Annotated[float, Field(gt=0)] = 60.0
    response_model: ResponseModel | None = None
    synthetic: bool = False

    def check(self, plan: StudyPlan) -> None:
        """Raise an `InputError` if `synthetic` is set but the plan makes no triplets."""
        synthesis = plan.find_options(SynthesisOptions)
        if self.synthetic and (synthesis is None or not synthesis.makes_triplets):
            raise InputError(
                "set.synthetic needs triplets; add [synthesis] without reject and accept, or leave "
                "set.synthetic out"
            )


class _SetStage(Stage):
    name = "set"
    file = "set_pairs.csv"
    key = "set"
    options = SetOptions

    def count_rows(self, plan: StudyPlan) -> int:
        options = plan.find_options(SetOptions)
        return 0 if options is None else options.n

    def describe(self, plan: StudyPlan) -> str:
        # Describe the selection for a preregistration.
        options = plan.get_options(SetOptions)
        candidates = "natural and synthetic" if options.synthetic else "natural"
        margin = f", rank margin {options.rank_margin:g}" if options.rank_margin else ""
        return (
            f"{options.n} pairs of {candidates} sentences are selected for all models at once, by "
            f"the criterion {options.criterion!r}{margin}: the selection maximises the separation "
            f"of the two models that it separates least. A sentence occurs in at most "
            f"{options.uses} pair{'s' * (options.uses != 1)}. {options.describe_rules()}"
        ).rstrip()

    def requires(self, plan: StudyPlan) -> Collection[Stage]:
        options = plan.find_options(SetOptions)
        needs_synthesis = options is not None and options.synthetic
        return (SCORE_STAGE, SYNTHESIS_STAGE) if needs_synthesis else (SCORE_STAGE,)

    def tasks(self, run: Run) -> list[Task]:
        models = list(run.models.values())
        return list(create_score_tasks(models, self._list_synthetic_sentences(run), run.versions))

    def collect_inputs(self, run: Run) -> Any:
        options = run.plan.get_options(SetOptions)
        inputs: list[Any] = [run.get_table(stage).sha256 for stage in self.requires(run.plan)]
        if options.synthetic:
            log_probs = load_log_probs(run, self._list_synthetic_sentences(run))
            inputs.append(json_digest(log_probs[len(run.sentences) :].to_csv()))
        return [*inputs, run.plan.study.seed, *options.collect_inputs(run)]

    def make_table(self, run: Run) -> tuple[str, dict[str, Any]]:
        options = run.plan.get_options(SetOptions)
        synthetic = self._list_synthetic_sentences(run)
        log_probs = load_log_probs(run, synthetic)
        # Select sentence pairs that together distinguish all models of the study. A natural
        # sentence may form a pair with any other natural sentence (`eligible`), a synthetic
        # sentence only with the sentences of its triplet (`pairs`).
        eligible = ~pd.Series(log_probs.index.isin(synthetic), index=log_probs.index)
        if options.distinct_words:
            eligible &= has_distinct_words(log_probs.index, run.vocabulary.repeatable).to_numpy()
        pairs = select_set(
            log_probs,
            options.n,
            criterion=options.criterion,
            rank_margin=options.rank_margin,
            max_occurrences=options.uses,
            time_limit=options.time_limit,
            response_model=options.response_model,
            eligible=eligible,
            pairs=triplet_pairs(load_triplets(run)) if options.synthetic else None,
            constraints=options.load_constraints(run, log_probs.index, synthetic),
            seed=run.plan.study.seed,
        )
        return format_csv(pairs), list_notes(pairs)

    def _list_synthetic_sentences(self, run: Run) -> list[str]:
        """Return the synthetic sentences that may be selected, in sorted order.

        They are the sentences of all synthesized triplets. The list is empty until all tasks of the
        synthesis are done, and if the option `synthetic` is not set.
        """
        options = run.plan.get_options(SetOptions)
        if not options.synthetic or run.store.find_missing(SYNTHESIS_STAGE.tasks(run)):
            return []
        columns = load_triplets(run)[["synthetic_1", "synthetic_2"]]
        return sorted(set(columns.to_numpy().ravel()) - set(run.sentences))


SET_STAGE = _SetStage()
