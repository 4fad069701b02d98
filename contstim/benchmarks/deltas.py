"""Benchmarks of graded acceptability: the Acceptability Delta Criterion on pairs of sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from contstim.arrays import IntArray
from contstim.benchmarks import ScoredBenchmark
from contstim.benchmarks.estimates import clustered_correlation, clustered_share
from contstim.benchmarks.suites import LIAdger, acceptability_delta_criterion, blimp_criterion

_LABELS = {
    "sentence_correlation": "correlation with people's judgements of sentences",
    "pair_correlation": "correlation with people's differences within pairs",
    "blimp": "share of pairs whose acceptable sentence scores higher",
}
_DELTAS = (0.5, 1.0, 5.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class DeltaBenchmark(ScoredBenchmark):
    """Sentences with mean judgements, in pairs of an acceptable and an unacceptable one.

    Measured are Pearson's correlations with people's judgements and differences, and the shares of
    pairs that meet each criterion (Vazquez Martinez 2021). There is no noise ceiling where single
    judgements were not published.

    Attributes
    ----------
    data
        Sentences and pairs.
    scores
        Of published models, by model: a series by the sentences' ids, which may lack some.

    Notes
    -----
    Intervals sample phenomena, see `clustered_correlation`: sentences whose ids differ in their
    last number alone are of one.

    Examples
    --------
    >>> rows = [("a.g.01", "He ate.", 1.0), ("a.*.01", "He the.", -1.0)]
    >>> sentences = pd.DataFrame(rows, columns=["id", "sentence", "judgement"])
    >>> pairs = pd.DataFrame({"gramm_id": ["a.g.01"], "ungramm_id": ["a.*.01"]})
    >>> benchmark = DeltaBenchmark(
    ...     name="mine/deltas",
    ...     title="One pair",
    ...     source="Nobody (2026)",
    ...     data=LIAdger(sentences, pairs),
    ...     scores={},
    ... )
    >>> benchmark.sentences
    ['He ate.', 'He the.']
    """

    data: LIAdger
    scores: Mapping[str, pd.Series]
    headline: tuple[str, str] = ("all", "adc_1")

    @property
    def sentences(self) -> list[str]:  # noqa: D102 - as Benchmark
        return [str(sentence) for sentence in pd.unique(self.data.sentences["sentence"])]

    @property
    def published(self) -> Mapping[str, pd.Series]:  # noqa: D102
        return self.scores

    def label(self, measure: str) -> str:  # noqa: D102
        delta = measure.removeprefix("adc_")
        return _LABELS.get(measure, f"Acceptability Delta Criterion, delta {delta}")

    def of_scores(self, scores: pd.DataFrame) -> Mapping[str, pd.Series]:
        """Return the scores by the sentences' ids."""
        sentences = self.data.sentences
        return {
            model: pd.Series(of_sentence.loc[sentences["sentence"]].to_numpy(), sentences["id"])
            for model, of_sentence in super().of_scores(scores).items()
        }

    def rows(self, values: pd.Series) -> Iterator[Mapping[str, object]]:  # noqa: D102
        sentences = self.data.sentences.set_index("id")
        both = pd.concat([sentences["judgement"], values.rename("score")], axis=1, join="inner")
        both = both.dropna()
        people, model = self.data.human_deltas(), self.data.model_deltas(values)
        there = ~np.isnan(people) & ~np.isnan(model)
        people, model = people[there], model[there]
        of_pair = _phenomena(self.data.pairs.loc[there, "gramm_id"])
        judged, scored = both.to_numpy(dtype=float).T
        met = {"blimp": blimp_criterion(model)} | {
            f"adc_{delta:g}": acceptability_delta_criterion(people, model, delta)
            for delta in _DELTAS
        }
        estimates = {
            "sentence_correlation": clustered_correlation(judged, scored, _phenomena(both.index)),
            "pair_correlation": clustered_correlation(people, model, of_pair),
            **{name: clustered_share(right, of_pair) for name, right in met.items()},
        }
        for measure, (value, low, high) in estimates.items():
            n = len(both) if measure == "sentence_correlation" else len(model)
            numbers = {"value": value, "ci_low": low, "ci_high": high, "n_items": n}
            yield {"analysis": "all", "measure": measure, **numbers}


def _phenomena(ids: pd.Index | pd.Series) -> IntArray:
    """Return a code for each id: those that differ in their last number alone have one."""
    stems = pd.Index(ids).astype(str).str.replace(r"\.\d+$", "", regex=True)
    return np.asarray(pd.factorize(stems)[0])
