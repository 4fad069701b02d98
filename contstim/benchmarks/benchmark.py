"""Benchmarks: human judgements of sentences, and a criterion for scores of these sentences.

Every criterion returns the same table, `RESULTS`, so models can be compared across benchmarks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import pandas as pd

from contstim.benchmarks.estimates import with_shares
from contstim.display import displayable
from contstim.errors import InputError
from contstim.evaluation.result import Evaluation
from contstim.evaluation.scores import score_table

#: Columns of a benchmark's results, one row per analysis, measure and model. `share` is the model's
#: position between chance (0) and the lower noise ceiling (1); `source` names the publication, or
#: is `SCORED_HERE`.
RESULTS = (
    *("benchmark", "analysis", "measure", "model", "value", "ci_low", "ci_high"),
    *("ceiling_lower", "ceiling_upper", "share", "share_low", "share_high"),
    *("n_participants", "n_items", "source", "note"),
)
#: Columns of published figures. `quantity` is the column of `RESULTS` that contains the figure,
#: `place` its table or page in the publication.
FIGURE_COLUMNS = ("analysis", "measure", "model", "quantity", "value", "place")
#: The `source` of a model that was scored in this run.
SCORED_HERE = "scored here"
#: The `note` of a published figure whose scores are not public.
AS_PUBLISHED = "as published, no interval"

_KEYS = ["analysis", "measure", "model"]
# Columns that a criterion may fill, besides those of `RESULTS`.
_FILLED = (
    *("analysis", "measure", "model", "value", "ci_low", "ci_high", "chance"),
    *("ceiling_lower", "ceiling_lower_ci_low", "ceiling_lower_ci_high"),
    *("gap_ci_low", "gap_ci_high", "n_participants", "n_items", "source"),
)


def figure_table(rows: Iterable[tuple[object, ...]] = ()) -> pd.DataFrame:
    """Return a table of published figures from rows in the order of `FIGURE_COLUMNS`."""
    return pd.DataFrame(list(rows), columns=list(FIGURE_COLUMNS))


@displayable
@dataclass(frozen=True, eq=False)
class BenchmarkResult:
    """Evaluation of models on a benchmark.

    Attributes
    ----------
    results
        Table with the columns of `RESULTS`.
    detail_tables
        Further tables by name.
    evaluation
        Evaluation of the choices, for benchmarks of choices.
    """

    results: pd.DataFrame
    detail_tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    evaluation: Evaluation | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Benchmark(ABC):
    """Human judgements of sentences, with a criterion that is applied to one model at a time.

    Subclasses define the criterion by `sentences` and `estimate`. The values of a model that
    `estimate` needs are computed from scores by `extract_values`; `published_values` contains them
    for published models.

    Attributes
    ----------
    name
        Name in tables: ``DATA_SET/PART``.
    title
        One line of description.
    source
        Publication that the published models are from, such as ``Golan et al. (2023)``.
    primary_measure
        Analysis and measure by which models are compared across benchmarks.
    figures
        Published figures, with the columns `FIGURE_COLUMNS`. The published scores must reproduce
        them; models without published scores have only these.
    scored_unit
        What a model scores: the ``sentence``, or each ``word`` after the words before it.

    Examples
    --------
    >>> class Length(Benchmark):
    ...     sentences = ["A dog.", "A small dog."]
    ...
    ...     def estimate(self, values):
    ...         right = float(values["A dog."] > values["A small dog."])
    ...         yield {"analysis": "all", "measure": "accuracy", "value": right, "n_items": 1}
    >>> benchmark = Length(name="a/b", title="", source="", primary_measure=("all", "accuracy"))
    >>> table = pd.DataFrame({"sentence": Length.sentences, "m": [-5.0, -9.0]})
    >>> benchmark.evaluate(table).results[["model", "value", "source"]]
      model  value       source
    0     m    1.0  scored here
    """

    name: str
    title: str
    source: str
    primary_measure: tuple[str, str]
    published_figures: pd.DataFrame = field(default_factory=figure_table)
    scored_unit: ClassVar[str] = "sentence"

    @property
    @abstractmethod
    def sentences(self) -> list[str]:
        """The S distinct sentences that a model has to score."""

    @property
    def published_values(self) -> Mapping[str, pd.Series]:
        """Values for `estimate`, by the name of the published model."""
        return {}

    @property
    def published_models(self) -> list[str]:
        """Names of the published models, with scores or with figures only."""
        return list(
            dict.fromkeys([*self.published_values, *map(str, self.published_figures["model"])])
        )

    def extract_values(self, scores: pd.DataFrame) -> Mapping[str, pd.Series]:
        """Extract the values for `estimate` from a score table, by default scores by sentence."""
        wide = score_table(scores, self.sentences)
        return {str(model): wide[model] for model in wide}

    def estimate(self, values: pd.Series) -> Iterable[Mapping[str, object]]:
        """Estimate the criterion for one model, as rows with columns of `RESULTS`.

        Each row has `analysis`, `measure`, `value`, its interval and `n_items`. Benchmarks with a
        noise ceiling add `chance`, `ceiling_lower`, `ceiling_lower_ci_low`,
        `ceiling_lower_ci_high`, `gap_ci_low` and `gap_ci_high`.
        """
        raise NotImplementedError

    def detail_tables(self, values_by_model: Mapping[str, pd.Series]) -> Mapping[str, pd.DataFrame]:
        """Return further tables by name."""
        return {}

    def check_model_names(self, models: Iterable[str]) -> None:
        """Raise InputError if a model has the name of a published model."""
        published = self.published_models
        for model in models:
            if model in published:
                raise InputError(
                    f"{self.name} has a published model {model!r}; give yours another name, "
                    "--model NAME=SPEC"
                )

    def evaluate(self, scores: pd.DataFrame | None = None) -> BenchmarkResult:
        """Evaluate the published models and the models of a score table.

        Parameters
        ----------
        scores
            Table with all sentences, output of `contstim score`; by default only published models
            are evaluated.

        Raises
        ------
        InputError
            If a sentence has no score, or a model has the name of a published one.
        """
        values = dict(self.published_values)
        sources = dict.fromkeys(values, self.source)
        if scores is not None:
            new = self.extract_values(scores)
            self.check_model_names(new)
            values |= new
            sources |= dict.fromkeys(new, SCORED_HERE)
        rows = [
            {**row, "model": model, "source": source}
            for model, source in sources.items()
            for row in self.estimate(values[model])
        ]
        table = with_shares(pd.DataFrame(rows).reindex(columns=list(_FILLED)))
        return BenchmarkResult(self.add_published_figures(table), self.detail_tables(values))

    def compare_published_figures(self, results: pd.DataFrame) -> pd.DataFrame:
        """Return each published figure beside the value computed from published scores.

        Returns
        -------
        DataFrame
            The columns `FIGURE_COLUMNS`, `here` and `difference`, one row per figure.
        """
        quantities = list(self.published_figures["quantity"].unique())
        scored = results["source"].ne(SCORED_HERE) & results["note"].ne(AS_PUBLISHED)
        computed = results.loc[scored, [*_KEYS, *quantities]]
        long = computed.melt(_KEYS, var_name="quantity", value_name="here")
        table = self.published_figures.merge(long, on=[*_KEYS, "quantity"], how="left")
        return table.assign(difference=table["here"] - table["value"])

    def add_published_figures(self, results: pd.DataFrame) -> pd.DataFrame:
        """Return results with the columns `RESULTS` and the figures of models without scores."""
        computed = pd.MultiIndex.from_frame(results[_KEYS])
        alone = self.published_figures[self.published_figures["quantity"] == "value"]
        alone = alone[~pd.MultiIndex.from_frame(alone[_KEYS]).isin(computed)]
        alone = alone.rename(columns={"place": "source"}).assign(note=AS_PUBLISHED)
        filled = [part for part in (results, alone) if len(part)]
        if not filled:
            raise InputError(f"{self.name} has no published models; name one, --model SPEC")
        table = pd.concat(filled, ignore_index=True).reindex(columns=list(RESULTS))
        return table.assign(benchmark=self.name, note=table["note"].astype(object).fillna(""))
