"""Benchmarks of labels: sentences that experts called acceptable or not, as those of CoLA."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from contstim.arrays import FloatArray
from contstim.benchmarks import ScoredBenchmark
from contstim.benchmarks.estimates import (
    Estimate,
    area_under_curve,
    clustered_correlation,
)
from contstim.errors import InputError
from contstim.text.cola import LabelledSentences

_LABELS = {
    "mcc": "Matthews' correlation with the labels",
    "auc": "share of acceptable and unacceptable sentences in the right order",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelBenchmark(ScoredBenchmark):
    """Sentences with labels, and others with labels by which a threshold is set.

    `mcc` is Matthews' correlation with the labels if what scores above a threshold counts as
    acceptable; the threshold is the one with the best correlation on `train`. `auc`, the area under
    the curve, is the share of (acceptable, unacceptable) sentences in the right order and needs no
    threshold.

    Attributes
    ----------
    train
        The sentences by which the threshold is set.
    parts
        Those by which models are judged, each part an analysis of its own and all together.

    Notes
    -----
    Intervals sample sentences, with the threshold as it is. A threshold that all sentences of a
    part are above, or none, gives a correlation of 0 without an interval.

    Source
    ------
    Warstadt, Singh and Bowman (2019), doi 10.1162/tacl_a_00290, who judge models without training
    on the labels by a threshold as well; theirs is set by cross-validation.

    Examples
    --------
    >>> texts = ["The dog slept.", "A cat ran.", "Dog the slept.", "Cat ran a."]
    >>> data = LabelledSentences(texts, np.array([1, 1, 0, 0]))
    >>> benchmark = LabelBenchmark(
    ...     name="mine/labels", title="Orders", source="Nobody", train=data, parts={"a": data}
    ... )
    >>> table = pd.DataFrame({"sentence": texts, "m": [-9.0, -12.0, -11.0, -15.0]})
    >>> benchmark.judge(table).results[["analysis", "measure", "value"]].round(2)
      analysis measure  value
    0      all     mcc   0.58
    1      all     auc   0.75
    2        a     mcc   0.58
    3        a     auc   0.75
    """

    train: LabelledSentences
    parts: Mapping[str, LabelledSentences]
    headline: tuple[str, str] = ("all", "mcc")

    @property
    def sentences(self) -> list[str]:  # noqa: D102 - as Benchmark
        every = (data.sentences for data in (self.train, *self.parts.values()))
        return list(dict.fromkeys(sentence for sentences in every for sentence in sentences))

    def label(self, measure: str) -> str:  # noqa: D102
        return _LABELS[measure]

    def rows(self, values: pd.Series) -> Iterator[Mapping[str, object]]:  # noqa: D102
        threshold = best_threshold(self.train.labels, values.loc[self.train.sentences].to_numpy())
        texts = [text for data in self.parts.values() for text in data.sentences]
        labels = np.concatenate([data.labels for data in self.parts.values()])
        together = LabelledSentences(texts, labels)
        for analysis, data in {"all": together, **self.parts}.items():
            scores = values.loc[data.sentences].to_numpy(dtype=float)
            truth = data.labels > 0
            for measure, (value, low, high) in {
                "mcc": _matthews(truth, scores > threshold),
                "auc": area_under_curve(truth, scores),
            }.items():
                numbers = {"value": value, "ci_low": low, "ci_high": high, "n_items": len(data)}
                yield {"analysis": analysis, "measure": measure, **numbers}


def _matthews(truth: ArrayLike, guesses: ArrayLike) -> Estimate:
    """Return the correlation of two binary vectors; 0 if one is constant, as of scikit-learn."""
    first, second = (np.asarray(values, dtype=np.float64) for values in (truth, guesses))
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0, np.nan, np.nan
    return clustered_correlation(first, second, np.arange(len(first)))


def best_threshold(labels: ArrayLike, scores: FloatArray) -> float:
    """Return the threshold with the best Matthews' correlation, the least such if several are.

    Parameters
    ----------
    labels, scores
        Of S sentences, (S,); what scores above the threshold counts as acceptable.

    Raises
    ------
    InputError
        If all labels are alike.

    Examples
    --------
    >>> best_threshold([0, 1, 0, 1], np.array([-9.0, -7.0, -8.0, -5.0]))
    -7.5
    """
    truth = np.asarray(labels) > 0
    if truth.all() or not truth.any():
        raise InputError("a threshold needs acceptable and unacceptable sentences")
    order = np.argsort(scores, kind="stable")
    ranked, ordered = truth[order], scores[order]
    n, n_true = len(truth), int(truth.sum())
    above = n - np.arange(1, n + 1)  # cut after each score, all up to it rejected
    true_above = n_true - np.cumsum(ranked)
    spread = np.sqrt(above * (n - above) * float(n_true) * float(n - n_true))
    with np.errstate(invalid="ignore", divide="ignore"):
        mcc = (n * true_above - above * n_true) / spread
    # Equal scores cannot be cut apart, and a cut above all rejects everything.
    mcc[np.append(ordered[1:] == ordered[:-1], True)] = -np.inf
    mcc[np.isnan(mcc)] = -np.inf
    best = int(np.argmax(mcc))
    if best + 1 == n:
        return float(ordered[-1])
    return float((ordered[best] + ordered[best + 1]) / 2)
