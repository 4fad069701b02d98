"""Benchmarks: sentences that people judged, with the models that were tried on them before.

A benchmark knows which sentences a model has to score and how it is judged by them, its criterion:
people's choices (`choices`), which sentence of a pair is acceptable (`pairs`), ratings (`ratings`,
`deltas`), labels (`labels`), predictions about the surprisal of regions (`suites`), or how well
people foresee a word (`words`). Every one gives the same table, `RESULTS`, so that models can be
compared across benchmarks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import pandas as pd

from contstim.benchmarks.estimates import with_shares
from contstim.display import displayed
from contstim.errors import InputError
from contstim.evaluation.result import Evaluation
from contstim.evaluation.scores import score_table

#: Columns of a benchmark's results, one row per analysis, measure and model. `share` is how far the
#: model is on the way from chance to the lower noise ceiling; `source` says who scored it, or where
#: its figure stands.
RESULTS = (
    *("benchmark", "analysis", "measure", "model", "value", "ci_low", "ci_high"),
    *("ceiling_lower", "ceiling_upper", "share", "share_low", "share_high"),
    *("n_participants", "n_items", "source", "note"),
)
#: Columns of figures that a publication gives: `quantity` is the column of `RESULTS` that has it,
#: and `place` where it stands in the publication.
FIGURE_COLUMNS = ("analysis", "measure", "model", "quantity", "value", "place")
#: What `source` says of a model that was scored now.
HERE = "scored here"
#: What `note` says of a figure whose scores were not published with it.
AS_PUBLISHED = "as published, no interval"
# The columns that a criterion may fill, besides those of `RESULTS`.
_FILLED = (
    *("analysis", "measure", "model", "value", "ci_low", "ci_high", "chance"),
    *("ceiling_lower", "ceiling_lower_ci_low", "ceiling_lower_ci_high"),
    *("gap_ci_low", "gap_ci_high", "n_participants", "n_items", "source"),
)


def no_figures() -> pd.DataFrame:
    """Return a table of published figures without rows."""
    return pd.DataFrame(columns=list(FIGURE_COLUMNS))


@displayed
@dataclass(frozen=True, eq=False)
class Judgement:
    """How models do on a benchmark.

    Attributes
    ----------
    results
        See `RESULTS`.
    details
        Further tables by their names.
    evaluation
        The evaluation of people's choices, where the benchmark has them.
    notes
        Sentences on decisions taken on the way.
    """

    results: pd.DataFrame
    details: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    evaluation: Evaluation | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Benchmark(ABC):
    """Sentences that people judged, and how a model is judged by them.

    Attributes
    ----------
    name
        What tables call it, ``DATA_SET/PART``.
    title
        What it is, in a line.
    source
        Whose it is, for rows of models whose scores were published with it: ``Golan et al.
        (2023)``.
    headline
        Analysis and measure by which models are compared across benchmarks.
    by
        What has to have a score: a ``sentence``, or each ``word`` of it, as in `contstim score`.
    figures
        What the publication says, in the columns of `FIGURE_COLUMNS`; the results of models whose
        scores were published must give it, and of the others it is all there is.

    Examples
    --------
    >>> from contstim.benchmarks.datasets import fetch
    >>> benchmark = fetch("blimp").benchmark("pairs")  # doctest: +SKIP
    >>> len(benchmark.sentences)  # doctest: +SKIP
    133945
    """

    name: str
    title: str
    source: str
    headline: tuple[str, str]
    figures: pd.DataFrame = field(default_factory=no_figures)
    by: ClassVar[str] = "sentence"

    @property
    @abstractmethod
    def sentences(self) -> list[str]:
        """The S different sentences that a model has to score."""

    @property
    def published_models(self) -> list[str]:
        """The models that were published with it, by their scores or by figures alone."""
        return [str(model) for model in self.figures["model"].unique()]

    def label(self, measure: str) -> str:
        """Return what figures and sentences call a measure."""
        return measure.replace("_", " ")

    def refuse_names(self, models: Iterable[str]) -> None:
        """Refuse a model that is called as a published one.

        Raises
        ------
        InputError
            Naming it.
        """
        published = self.published_models
        for model in models:
            if model in published:
                raise InputError(
                    f"a model is called {model!r} as a published one of {self.name}; give yours "
                    "another name, --model NAME=SPEC"
                )

    @abstractmethod
    def judge(self, scores: pd.DataFrame | None = None) -> Judgement:
        """Return how models do, those that were published and those of `scores`.

        Parameters
        ----------
        scores
            A long table as `contstim score` writes it, of all sentences; None: the published models
            alone.

        Raises
        ------
        InputError
            If a sentence has no score, or a model is called as a published one.
        """

    def compared(self, results: pd.DataFrame) -> pd.DataFrame:
        """Return published figures beside what was computed of published scores.

        Parameters
        ----------
        results
            Of `judge`.

        Returns
        -------
        DataFrame
            The columns of `FIGURE_COLUMNS`, with `here` and `difference`; a row per figure.
        """
        keys = ["analysis", "measure", "model"]
        quantities = list(self.figures["quantity"].unique())
        scored = results["source"].ne(HERE) & results["note"].ne(AS_PUBLISHED)
        ours = results.loc[scored, [*keys, *quantities]]
        long = ours.melt(keys, var_name="quantity", value_name="here")
        both = self.figures.merge(long, on=[*keys, "quantity"], how="left")
        return both.assign(difference=both["here"] - both["value"])

    def _finished(self, results: pd.DataFrame) -> pd.DataFrame:
        """Return results in their columns, with the published models that have no scores."""
        keys = ["analysis", "measure", "model"]
        computed = pd.MultiIndex.from_frame(results[keys])
        alone = self.figures[self.figures["quantity"] == "value"]
        alone = alone[~pd.MultiIndex.from_frame(alone[keys]).isin(computed)]
        alone = alone.rename(columns={"place": "source"}).assign(note=AS_PUBLISHED)
        filled = [part for part in (results, alone) if len(part)]
        if not filled:
            raise InputError(f"{self.name} comes without models; name one, --model SPEC")
        table = pd.concat(filled, ignore_index=True).reindex(columns=list(RESULTS))
        return table.assign(benchmark=self.name, note=["" if n != n else n for n in table["note"]])


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoredBenchmark(Benchmark):
    """A benchmark whose criterion looks at the scores of one model at a time.

    A criterion says what it makes of scores (`of_scores`), what it has of that from published
    models (`published`), and how good that is (`rows`).

    Examples
    --------
    >>> class Length(ScoredBenchmark):
    ...     sentences = ["A dog.", "A small dog."]
    ...
    ...     def rows(self, values):
    ...         right = float(values["A dog."] > values["A small dog."])
    ...         yield {"analysis": "all", "measure": "accuracy", "value": right, "n_items": 1}
    >>> benchmark = Length(name="a/b", title="", source="", headline=("all", "accuracy"))
    >>> table = pd.DataFrame({"sentence": Length.sentences, "m": [-5.0, -9.0]})
    >>> benchmark.judge(table).results[["model", "value", "source"]]
      model  value       source
    0     m    1.0  scored here
    """

    @property
    def published(self) -> Mapping[str, pd.Series]:
        """Of published models, by name, what `rows` takes."""
        return {}

    def of_scores(self, scores: pd.DataFrame) -> Mapping[str, pd.Series]:
        """Return of each model in a table of scores what `rows` takes: by sentence, its score."""
        wide = score_table(scores, self.sentences)
        return {str(model): wide[model] for model in wide}

    @abstractmethod
    def rows(self, values: pd.Series) -> Iterable[Mapping[str, object]]:
        """Return how good a model is: rows with columns of `RESULTS`.

        `analysis`, `measure`, `value` and its interval, `n_items`; with a noise ceiling also
        `chance`, `ceiling_lower`, `ceiling_lower_ci_low` and `ceiling_lower_ci_high`, `gap_ci_low`
        and `gap_ci_high`.
        """

    def details(self, by_model: Mapping[str, pd.Series]) -> Mapping[str, pd.DataFrame]:
        """Return further tables by their names."""
        return {}

    @property
    def published_models(self) -> list[str]:  # noqa: D102 - as Benchmark
        return list(dict.fromkeys([*self.published, *super().published_models]))

    def judge(self, scores: pd.DataFrame | None = None) -> Judgement:  # noqa: D102
        by_model = dict.fromkeys(self.published, self.source)
        values = dict(self.published)
        if scores is not None:
            new = self.of_scores(scores)
            self.refuse_names(new)
            by_model |= dict.fromkeys(new, HERE)
            values |= new
        rows = [
            {**row, "model": model, "source": source}
            for model, source in by_model.items()
            for row in self.rows(values[model])
        ]
        table = pd.DataFrame(rows).reindex(columns=list(_FILLED))
        return Judgement(self._finished(with_shares(table)), self.details(values))
