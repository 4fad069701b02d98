"""Benchmarks: human judgements of sentences, and a criterion for scores of these sentences.

Every criterion returns the same table, `RESULTS`, so models can be compared across benchmarks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import pandas as pd

from contstim.benchmarks.estimates import add_ceiling_shares
from contstim.display import displayable
from contstim.errors import InputError
from contstim.evaluation.result import Evaluation
from contstim.evaluation.scores import score_table

#: Columns of a benchmark's results, one row per analysis, measure and model. `share` is the model's
#: position between chance (0) and the lower noise ceiling (1); `source` names the publication, or
#: is `SCORED_HERE`.
RESULTS = (
    "benchmark", "analysis", "measure", "model", "value", "ci_low", "ci_high",
    "ceiling_lower", "ceiling_upper", "share", "share_low", "share_high",
    "n_participants", "n_items", "source", "note",
)  # fmt: skip
#: Columns of a table of published results, that is, numbers printed in a publication, one per row.
#: `quantity` is the column of `RESULTS` that the number belongs to, such as ``value``, and `place`
#: the table or page where it is printed.
PUBLISHED_RESULT_COLUMNS = ("analysis", "measure", "model", "quantity", "value", "place")
#: The `source` of a model that was scored in this run.
SCORED_HERE = "scored here"
#: The `note` of a result that is printed in a publication without the scores behind it.
AS_PUBLISHED = "as published, no interval"

_KEYS = ["analysis", "measure", "model"]
# Columns that the criterion of a benchmark may compute; `add_ceiling_shares` adds further ones.
_COMPUTED_COLUMNS = (
    "analysis", "measure", "model", "value", "ci_low", "ci_high", "chance",
    "ceiling_lower", "ceiling_lower_ci_low", "ceiling_lower_ci_high",
    "gap_ci_low", "gap_ci_high", "n_participants", "n_items", "source",
)  # fmt: skip


def published_table(rows: Iterable[tuple[object, ...]] = ()) -> pd.DataFrame:
    """Build a table of published results from rows in the order of `PUBLISHED_RESULT_COLUMNS`."""
    return pd.DataFrame(list(rows), columns=list(PUBLISHED_RESULT_COLUMNS))


@displayable
@dataclass(frozen=True, eq=False)
class BenchmarkResult:
    """Results of published and new models on one benchmark.

    Attributes
    ----------
    results
        Table with the columns of `RESULTS`, one row per analysis, measure and model.
    detail_tables
        Further tables by name.
    evaluation
        Evaluation of the choices, for benchmarks of choices between two sentences.
    """

    results: pd.DataFrame
    detail_tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    evaluation: Evaluation | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Benchmark(ABC):
    """Human judgements of sentences, and a criterion of how well a model agrees with them.

    Models are evaluated one at a time, in two steps. `extract_values` reduces the model's scores to
    one number per judged unit; by default the units are sentences, and the numbers are their
    scores. `estimate` then computes the criterion, for example an accuracy or a correlation, from
    these numbers and the judgements. Subclasses define `estimate` and the `sentences` that models
    score. `published_values` contains the numbers of published models.

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
    published_results
        Numbers printed in publications, with the columns `PUBLISHED_RESULT_COLUMNS`. They are
        compared with results computed from published scores. For models without published scores,
        they are the only results.
    scored_unit
        Unit that a model scores: ``sentence``, or ``word`` given the preceding words.

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
    published_results: pd.DataFrame = field(default_factory=published_table)
    scored_unit: ClassVar[str] = "sentence"

    @property
    @abstractmethod
    def sentences(self) -> list[str]:
        """The S distinct sentences that a model has to score."""

    @property
    def published_values(self) -> Mapping[str, pd.Series]:
        """Mapping from each published model with public scores to its values for `estimate`."""
        return {}

    @property
    def published_models(self) -> list[str]:
        """Names of all published models, including those without public scores."""
        return list(
            dict.fromkeys([*self.published_values, *map(str, self.published_results["model"])])
        )

    def extract_values(self, scores: pd.DataFrame) -> Mapping[str, pd.Series]:
        """Extract the values to which the criterion is applied from a table of scores.

        By default the values are the scores of the sentences. Subclasses may return other values,
        such as accuracies by paradigm.

        Parameters
        ----------
        scores
            Table of scores, output of `contstim score`.

        Returns
        -------
        mapping
            Values by name of the model, each an input of `estimate`.
        """
        wide = score_table(scores, self.sentences)
        return {str(model): wide[model] for model in wide}

    def estimate(self, values: pd.Series) -> Iterable[Mapping[str, object]]:
        """Compute the criterion, for example a correlation with the judgements, for one model.

        Parameters
        ----------
        values
            Values of the model, from `extract_values` or `published_values`.

        Returns
        -------
        iterable of mapping
            One row of results per analysis and measure: `analysis`, `measure`, `value`, its
            confidence interval (`ci_low`, `ci_high`) and `n_items`. Benchmarks with a noise ceiling
            add `chance` (value of a model that guesses), `ceiling_lower` (lower noise ceiling) with
            its interval (`ceiling_lower_ci_low`, `ceiling_lower_ci_high`), and the interval of the
            difference between value and ceiling (`gap_ci_low`, `gap_ci_high`).
        """
        raise NotImplementedError  # Each kind of benchmark defines its criterion.

    def detail_tables(self, values_by_model: Mapping[str, pd.Series]) -> Mapping[str, pd.DataFrame]:
        """Return tables with details of the results, by name of the CSV file without its suffix."""
        return {}

    def check_model_names(self, models: Iterable[str]) -> None:
        """Raise InputError if a model has the name of a published model."""
        published = self.published_models
        # Results are identified by the name of the model, so names must differ.
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
        values_by_model = dict(self.published_values)
        sources = dict.fromkeys(values_by_model, self.source)
        # Add the models of the score table to the published models.
        if scores is not None:
            new_values = self.extract_values(scores)
            self.check_model_names(new_values)
            values_by_model.update(new_values)
            sources.update(dict.fromkeys(new_values, SCORED_HERE))
        # One row per model, analysis and measure.
        rows = []
        for model, values in values_by_model.items():
            for row in self.estimate(values):
                rows.append({**row, "model": model, "source": sources[model]})
        # Add the position of each value between chance and the noise ceiling.
        table = add_ceiling_shares(pd.DataFrame(rows).reindex(columns=list(_COMPUTED_COLUMNS)))
        results = self.add_published_results(table)
        return BenchmarkResult(results, self.detail_tables(values_by_model))

    def compare_published_results(self, results: pd.DataFrame) -> pd.DataFrame:
        """Compare results printed in a publication with results computed from published scores.

        Parameters
        ----------
        results
            Results of `evaluate`, with the columns `RESULTS`.

        Returns
        -------
        DataFrame
            One row per printed number, with the columns `PUBLISHED_RESULT_COLUMNS`, `here` (the
            value computed from the published scores of the same model, NaN if they were not
            published) and `difference` (computed minus printed value).
        """
        quantities = list(self.published_results["quantity"].unique())
        has_public_scores = results["source"].ne(SCORED_HERE) & results["note"].ne(AS_PUBLISHED)
        computed = results.loc[has_public_scores, [*_KEYS, *quantities]]
        long = computed.melt(_KEYS, var_name="quantity", value_name="here")
        table = self.published_results.merge(long, on=[*_KEYS, "quantity"], how="left")
        return table.assign(difference=table["here"] - table["value"])

    def add_published_results(self, results: pd.DataFrame) -> pd.DataFrame:
        """Add results printed in a publication, for models without published scores.

        Parameters
        ----------
        results
            Computed results, with at least the columns `analysis`, `measure` and `model`.

        Returns
        -------
        DataFrame
            All results with the columns `RESULTS`. For a printed result, `source` is its place in
            the publication and `note` is `AS_PUBLISHED`.
        """
        computed_keys = pd.MultiIndex.from_frame(results[_KEYS])
        # A printed number is a result only if no scores were published from which it can be
        # computed.
        printed = self.published_results[self.published_results["quantity"] == "value"]
        is_computed = pd.MultiIndex.from_frame(printed[_KEYS]).isin(computed_keys)
        without_scores = printed[~is_computed].rename(columns={"place": "source"})
        without_scores = without_scores.assign(note=AS_PUBLISHED)
        nonempty = [table for table in (results, without_scores) if len(table)]
        if not nonempty:
            raise InputError(f"{self.name} has no published models; name one, --model SPEC")
        table = pd.concat(nonempty, ignore_index=True).reindex(columns=list(RESULTS))
        return table.assign(benchmark=self.name, note=table["note"].astype(object).fillna(""))
