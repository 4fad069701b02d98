"""Benchmarks of minimal pairs: which of two sentences is acceptable is known."""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

from contstim.evaluation.benchmarks import (
    HERE,
    Benchmark,
    Judgement,
    mean_over_items,
    with_shares,
)
from contstim.evaluation.scores import rising_table

_CHANCE = 0.5
_COLUMNS = (
    *("analysis", "measure", "model", "value", "ci_low", "ci_high"),
    *("ceiling_lower", "ceiling_lower_ci_low", "ceiling_lower_ci_high"),
    *("gap_ci_low", "gap_ci_high", "n_items", "source"),
)


@dataclass(frozen=True, eq=False, kw_only=True)
class PairBenchmark(Benchmark):
    """Pairs of an acceptable and an unacceptable sentence, several of each paradigm.

    A pair is right if the acceptable sentence has the strictly higher score. A model's value is
    the mean over paradigms of its share of right pairs, and paradigms are the sample.

    Attributes
    ----------
    pairs
        A row per pair: `paradigm`, `kind` (what paradigms are of, each an analysis of its own),
        `sentence_good`, `sentence_bad`.
    accuracies
        Of published models, shape (paradigms, M): index the paradigm.
    people
        Share of people's choices that are right, by paradigm: the noise ceiling.

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
    accuracies: pd.DataFrame = field(default_factory=pd.DataFrame)
    people: pd.Series = field(default_factory=lambda: pd.Series(dtype=float))
    headline: tuple[str, str] = ("all", "accuracy")

    @property
    def sentences(self) -> list[str]:  # noqa: D102 - as Benchmark
        both = pd.concat([self.pairs["sentence_good"], self.pairs["sentence_bad"]])
        return [str(sentence) for sentence in pd.unique(both)]

    @property
    def published_models(self) -> list[str]:  # noqa: D102
        scored = [str(model) for model in self.accuracies]
        return list(dict.fromkeys([*scored, *super().published_models]))

    def judge(self, scores: pd.DataFrame | None = None) -> Judgement:  # noqa: D102
        paradigms = self.pairs.drop_duplicates("paradigm").set_index("paradigm")["kind"]
        by_model = {str(m): self.accuracies[m].reindex(paradigms.index) for m in self.accuracies}
        if scores is not None:
            wide = rising_table(scores, self.sentences)
            self.refuse_names(map(str, wide))
            for model in wide:
                by_model[str(model)] = self._accuracy(wide[model]).reindex(paradigms.index)
        ceiling = self.people.reindex(paradigms.index).to_numpy(dtype=float)
        rows = []
        for analysis in ("all", *paradigms.unique()):
            within = (paradigms == analysis).to_numpy() | (analysis == "all")
            people = mean_over_items(ceiling[within], _CHANCE)
            for model, accuracy in by_model.items():
                values = accuracy.to_numpy(dtype=float)[within]
                mean = mean_over_items(values, _CHANCE)
                gap = mean_over_items(values - ceiling[within], 0.0)
                numbers = (*mean, *people, *gap[1:], int(within.sum()))
                source = self.source if model in self.accuracies else HERE
                rows.append((analysis, "accuracy", model, *numbers, source))
        results = with_shares(pd.DataFrame(rows, columns=list(_COLUMNS)), {"accuracy": _CHANCE})
        detail = pd.DataFrame(by_model).assign(people=ceiling, kind=paradigms)
        return Judgement(
            self._finished(results), {"paradigms": detail.rename_axis("paradigm").reset_index()}
        )

    def _accuracy(self, score: pd.Series) -> pd.Series:
        """Return a model's share of right pairs by paradigm, from its scores by sentence."""
        good, bad = (
            score.loc[self.pairs[column].tolist()].to_numpy()
            for column in ("sentence_good", "sentence_bad")
        )
        return pd.Series(good > bad, self.pairs["paradigm"]).groupby(level=0).mean()
