"""Benchmarks of graded acceptability: the Acceptability Delta Criterion on pairs of sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from contstim.arrays import FloatArray
from contstim.evaluation.benchmarks import HERE, Benchmark, Judgement
from contstim.evaluation.scores import rising_table
from contstim.evaluation.suites import (
    LIAdger,
    acceptability_delta_criterion,
    blimp_criterion,
    z_scores,
)
from contstim.sampling import FEWEST, SampledMean

_LABELS = {
    "sentence_correlation": "correlation with people's judgements of sentences",
    "pair_correlation": "correlation with people's differences within pairs",
    "blimp": "share of pairs whose acceptable sentence scores higher",
}
_DELTAS = (0.5, 1.0, 5.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class DeltaBenchmark(Benchmark):
    """Sentences with mean judgements, in pairs of an acceptable and an unacceptable one.

    Measures are those of `LIAdger.evaluate`. There is no noise ceiling where single judgements were
    not published.

    Attributes
    ----------
    data
        Sentences and pairs.
    scores
        Of published models, by model: a series by the sentences' ids, which may lack some.

    Notes
    -----
    Intervals sample phenomena: sentences whose ids differ in their last number alone are of one.
    They are Student's, linearised, with the variance of sums by phenomenon; of correlations on
    Fisher's scale.

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
    def published_models(self) -> list[str]:  # noqa: D102
        return list(dict.fromkeys([*self.scores, *super().published_models]))

    def label(self, measure: str) -> str:  # noqa: D102
        delta = measure.removeprefix("adc_")
        return _LABELS.get(measure, f"Acceptability Delta Criterion, delta {delta}")

    def judge(self, scores: pd.DataFrame | None = None) -> Judgement:  # noqa: D102
        by_model = dict(self.scores)
        if scores is not None:
            wide = rising_table(scores, self.sentences)
            self.refuse_names(map(str, wide))
            for model in wide:
                values = wide[model].loc[self.data.sentences["sentence"].tolist()].to_numpy()
                by_model[str(model)] = pd.Series(values, index=self.data.sentences["id"])
        rows = []
        for model, score in by_model.items():
            source = self.source if model in self.scores else HERE
            for measure, n, numbers in self._measures(score):
                rows.append(("all", measure, model, *numbers, n, source))
        columns = [
            "analysis",
            "measure",
            "model",
            "value",
            "ci_low",
            "ci_high",
            "n_items",
            "source",
        ]
        return Judgement(self._finished(pd.DataFrame(rows, columns=columns)))

    def _measures(self, score: pd.Series) -> list[tuple[str, int, tuple[float, float, float]]]:
        """Return of a model each measure, on how many sentences or pairs, with its interval."""
        sentences = self.data.sentences.set_index("id")
        both = pd.concat([sentences["judgement"], score.rename("score")], axis=1, join="inner")
        both = both.dropna()
        people, model = self.data.human_deltas(), self.data.model_deltas(score)
        there = ~np.isnan(people) & ~np.isnan(model)
        people, model = people[there], model[there]
        of_pair = _phenomena(self.data.pairs.loc[there, "gramm_id"])
        judged, scored = both.to_numpy(dtype=float).T
        met = {"blimp": blimp_criterion(model)} | {
            f"adc_{delta:g}": acceptability_delta_criterion(people, model, delta)
            for delta in _DELTAS
        }
        return [
            (
                "sentence_correlation",
                len(both),
                _correlation(judged, scored, _phenomena(both.index)),
            ),
            ("pair_correlation", len(model), _correlation(people, model, of_pair)),
            *(
                (name, len(model), _share(right.astype(float), of_pair))
                for name, right in met.items()
            ),
        ]


def _phenomena(ids: pd.Index | pd.Series) -> FloatArray:
    """Return a code for each id: those that differ in their last number alone have one."""
    stems = pd.Index(ids).astype(str).str.replace(r"\.\d+$", "", regex=True)
    return np.asarray(pd.factorize(stems)[0])


def _clustered(influence: FloatArray, cluster: FloatArray) -> tuple[float, int]:
    """Return the standard error of a mean from each value's deviation, and degrees of freedom."""
    sums = np.bincount(cluster, influence)
    n = len(sums)
    if n < FEWEST:
        return np.nan, 1
    return float(np.sqrt(n / (n - 1) * (sums**2).sum()) / len(influence)), n - 1


def _share(right: FloatArray, cluster: FloatArray) -> tuple[float, float, float]:
    value = float(right.mean())
    stderr, df = _clustered(right - value, cluster)
    return value, *SampledMean(value, stderr, df).bounded_interval(0.5)


def _correlation(x: FloatArray, y: FloatArray, cluster: FloatArray) -> tuple[float, float, float]:
    first, second = z_scores(x), z_scores(y)
    value = float((first * second).mean())
    # The influence of a pair of values on a correlation (Hampel et al. 1986).
    stderr, df = _clustered(first * second - value / 2 * (first**2 + second**2), cluster)
    return value, *SampledMean(value, stderr, df).bounded_interval(0.0)
