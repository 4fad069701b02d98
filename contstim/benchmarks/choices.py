"""Benchmarks of people's choices between two sentences: the evaluation as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from contstim.benchmarks import HERE, Benchmark, Judgement
from contstim.benchmarks.estimates import with_shares
from contstim.evaluation.choices import HumanData
from contstim.evaluation.evaluate import evaluate
from contstim.evaluation.inference.contrasts import CEILING_INTERVALS
from contstim.evaluation.measures import MEASURES
from contstim.evaluation.scores import joined_scores, score_table


@dataclass(frozen=True, eq=False, kw_only=True)
class ChoiceBenchmark(Benchmark):
    """People's choices, with the scores of the models that were published with them.

    Attributes
    ----------
    human
        The choices, and the published scores.
    options
        Fields of `EvaluationOptions` that differ from the default; ``preset`` and ``plan`` too.
    sources
        Of published models by their names, where each is from, if that is not `source`.

    Examples
    --------
    >>> from contstim import datasets, read_choices
    >>> choices = datasets.simulated_choices().query("condition == 'natural_controversial'")
    >>> benchmark = ChoiceBenchmark(
    ...     name="mine/pairs",
    ...     title="Natural pairs",
    ...     source="Nobody (2026)",
    ...     human=read_choices(choices),
    ... )
    >>> len(benchmark.sentences)
    72
    """

    human: HumanData
    options: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    headline: tuple[str, str] = ("all", "accuracy")

    @property
    def sentences(self) -> list[str]:  # noqa: D102 - as Benchmark
        choices = self.human.choices
        return [
            str(s) for s in pd.unique(pd.concat([choices["sentence_1"], choices["sentence_2"]]))
        ]

    @property
    def published_models(self) -> list[str]:  # noqa: D102
        source = self.human.scores
        scored = [] if source is None else [str(model) for model in score_table(source, [])]
        return list(dict.fromkeys([*scored, *super().published_models]))

    def label(self, measure: str) -> str:  # noqa: D102
        return MEASURES[measure].label

    def judge(self, scores: pd.DataFrame | None = None) -> Judgement:  # noqa: D102
        source = self.human.scores
        if scores is not None:
            self.refuse_names(map(str, scores["model"].unique()))
            source = scores if source is None else joined_scores(source, scores)
        result = evaluate(self.human, source, **self.options)
        table = result.models.rename(columns={"n_trials": "n_items"})
        table = table.reindex(columns=[*table, *(c for c in CEILING_INTERVALS if c not in table)])
        chance = {name: MEASURES[name].chance for name in table["measure"].unique()}
        table = with_shares(table.assign(chance=table["measure"].map(chance)))
        whence = dict.fromkeys(self.published_models, self.source) | dict(self.sources)
        table["source"] = table["model"].map(whence).fillna(HERE)
        return Judgement(self._finished(table), evaluation=result, notes=result.provenance.notes)
