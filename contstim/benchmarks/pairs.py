"""Benchmarks of paradigms, each with a share of right items; minimal pairs are such."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pandas as pd

from contstim.benchmarks import ScoredBenchmark
from contstim.benchmarks.estimates import mean_over_items

_CHANCE = 0.5


@dataclass(frozen=True, eq=False, kw_only=True)
class ParadigmBenchmark(ScoredBenchmark):
    """Items of which a model is right or wrong, several of each paradigm.

    A model's value is the mean over paradigms of its share of right items, and paradigms are the
    sample.

    Attributes
    ----------
    accuracies
        Of published models, shape (paradigms, M): index the paradigm.
    people
        Share of people's choices that are right, by paradigm: the noise ceiling.
    """

    accuracies: pd.DataFrame = field(default_factory=pd.DataFrame)
    people: pd.Series = field(default_factory=lambda: pd.Series(dtype=float))
    headline: tuple[str, str] = ("all", "accuracy")

    @property
    @abstractmethod
    def kinds(self) -> pd.Series:
        """What each paradigm is of, an analysis of its own: index the paradigm."""

    @property
    def published(self) -> Mapping[str, pd.Series]:  # noqa: D102 - as ScoredBenchmark
        return {str(model): self.accuracies[model] for model in self.accuracies}

    def rows(self, values: pd.Series) -> Iterator[Mapping[str, object]]:  # noqa: D102
        kinds = self.kinds
        right = values.reindex(kinds.index).to_numpy(dtype=float)
        ceiling = self.people.reindex(kinds.index).to_numpy(dtype=float)
        for analysis in ("all", *kinds.unique()):
            within = (kinds == analysis).to_numpy() | (analysis == "all")
            estimates = {
                "value": mean_over_items(right[within], _CHANCE),
                "ceiling_lower": mean_over_items(ceiling[within], _CHANCE),
                "gap": mean_over_items((right - ceiling)[within], 0.0),
            }
            numbers: dict[str, object] = {}
            for name, estimate in estimates.items():
                prefix = "" if name == "value" else f"{name}_"
                columns = (name, f"{prefix}ci_low", f"{prefix}ci_high")
                numbers |= dict(zip(columns, estimate, strict=True))
            n_items = int(within.sum())
            numbers |= {"analysis": analysis, "measure": "accuracy", "n_items": n_items}
            yield numbers | {"chance": _CHANCE}

    def details(self, by_model: Mapping[str, pd.Series]) -> Mapping[str, pd.DataFrame]:  # noqa: D102
        kinds = self.kinds
        table = pd.DataFrame({m: values.reindex(kinds.index) for m, values in by_model.items()})
        if len(self.people):
            table["people"] = self.people.reindex(kinds.index)
        table["kind"] = kinds
        return {"paradigms": table.rename_axis("paradigm").reset_index()}


@dataclass(frozen=True, eq=False, kw_only=True)
class PairBenchmark(ParadigmBenchmark):
    """Pairs of an acceptable and an unacceptable sentence, several of each paradigm.

    A pair is right if the acceptable sentence has the strictly higher score.

    Attributes
    ----------
    pairs
        A row per pair: `paradigm`, `kind`, `sentence_good`, `sentence_bad`.

    Examples
    --------
    >>> pairs = pd.DataFrame(
    ...     {
    ...         "paradigm": ["number", "person"],
    ...         "kind": "agreement",
    ...         "sentence_good": ["The dogs run.", "I am here."],
    ...         "sentence_bad": ["The dogs runs.", "I is here."],
    ...     }
    ... )
    >>> benchmark = PairBenchmark(
    ...     name="mine/pairs", title="Agreement", source="Nobody (2026)", pairs=pairs
    ... )
    >>> scores = {"The dogs run.": -9, "The dogs runs.": -12, "I am here.": -8, "I is here.": -8}
    >>> table = pd.DataFrame({"sentence": list(scores), "m": list(scores.values())})
    >>> benchmark.judge(table).results[["analysis", "model", "value"]]
        analysis model  value
    0        all     m    0.5
    1  agreement     m    0.5
    """

    pairs: pd.DataFrame

    @property
    def kinds(self) -> pd.Series:  # noqa: D102 - as ParadigmBenchmark
        return self.pairs.drop_duplicates("paradigm").set_index("paradigm")["kind"]

    @property
    def sentences(self) -> list[str]:  # noqa: D102 - as Benchmark
        both = pd.concat([self.pairs["sentence_good"], self.pairs["sentence_bad"]])
        return [str(sentence) for sentence in pd.unique(both)]

    def of_scores(self, scores: pd.DataFrame) -> Mapping[str, pd.Series]:
        """Return each model's share of right pairs by paradigm."""
        right = {}
        for model, of_sentence in super().of_scores(scores).items():
            good, bad = (
                of_sentence.loc[self.pairs[column].tolist()].to_numpy()
                for column in ("sentence_good", "sentence_bad")
            )
            right[model] = pd.Series(good > bad, self.pairs["paradigm"]).groupby(level=0).mean()
        return right
