"""Benchmarks of single sentences: ratings, mean judgements of pairs, and expert labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.benchmarks.benchmark import Benchmark
from contstim.benchmarks.estimates import (
    Estimate,
    area_under_curve,
    clustered_correlation,
    clustered_proportion,
    z_scores,
)
from contstim.errors import InputError
from contstim.evaluation.inference.estimate import MeanEstimate
from contstim.evaluation.inference.quasi_f import MIN_UNITS


@dataclass(frozen=True, eq=False, kw_only=True)
class RatingBenchmark(Benchmark):
    """Ratings of sentences: the correlation of scores with mean ratings.

    The noise ceiling is the expected correlation of the true mean ratings with the observed ones:
    the square root of the reliability of the mean ratings (Spearman 1904).

    Attributes
    ----------
    ratings
        Table with one row per rating: `sentence`, `rating`, and optionally `participant` and
        `item` (several sentences may be versions of one item).
    scores
        Scores of published models, shape (S, M), index: the sentence.

    Notes
    -----
    Intervals are Student's on Fisher's scale. The variance is the sum of the jackknife variances
    over items and, if participants are known, over participants.

    Examples
    --------
    >>> ratings = pd.DataFrame(
    ...     {"sentence": ["He ate.", "He the."] * 4, "rating": [4, 1, 3, 2, 4, 1, 4, 2]}
    ... )
    >>> benchmark = RatingBenchmark(
    ...     name="mine/ratings", title="Two sentences", source="Nobody (2026)", ratings=ratings
    ... )
    >>> benchmark.sentences
    ['He ate.', 'He the.']
    """

    ratings: pd.DataFrame
    scores: pd.DataFrame = field(default_factory=pd.DataFrame)
    primary_measure: tuple[str, str] = ("all", "correlation")

    @property
    def sentences(self) -> list[str]:  # noqa: D102 - as Benchmark
        return [str(sentence) for sentence in pd.unique(self.ratings["sentence"])]

    @property
    def published_values(self) -> Mapping[str, pd.Series]:  # noqa: D102
        wide = self.scores.reindex(self.sentences)
        return {str(model): wide[model] for model in wide}

    @cached_property
    def _answers(self) -> _RatingData:
        return _RatingData.from_table(self.ratings, self.sentences)

    def estimate(self, values: pd.Series) -> Iterator[Mapping[str, object]]:  # noqa: D102
        answers, score = self._answers, values.to_numpy(dtype=float)
        n_participants = (
            np.nan if answers.participant is None else float(answers.participant.max() + 1)
        )
        yield {
            "analysis": "all",
            "measure": "correlation",
            "chance": 0.0,
            **answers.estimate(score),
            "n_participants": n_participants,
            "n_items": int(np.isfinite(score).sum()),
        }

    def detail_tables(self, values_by_model: Mapping[str, pd.Series]) -> Mapping[str, pd.DataFrame]:  # noqa: D102
        n, mean, _ = self._answers.moments(np.ones(len(self.ratings), dtype=np.bool_))
        means = {"sentence": self.sentences, "mean_rating": mean, "n_ratings": n}
        return {"sentences": pd.DataFrame(means)}


@dataclass(frozen=True, eq=False)
class _RatingData:
    """Sentence, participant (if known) and rating of each answer, and item of each sentence."""

    sentence: IntArray
    participant: IntArray | None
    rating: FloatArray
    item: IntArray

    @classmethod
    def from_table(cls, ratings: pd.DataFrame, sentences: list[str]) -> _RatingData:
        rating = ratings["rating"].to_numpy(dtype=float)
        if np.isnan(rating).any():
            raise InputError(f"{int(np.isnan(rating).sum())} ratings are missing; leave them out")
        participant = item = None
        if "participant" in ratings:
            participant = np.asarray(pd.factorize(ratings["participant"])[0])
        if "item" in ratings:
            item = pd.factorize(ratings.drop_duplicates("sentence")["item"])[0]
        sentence = pd.Index(sentences).get_indexer(pd.Index(ratings["sentence"]))
        items = np.arange(len(sentences)) if item is None else item
        return cls(np.asarray(sentence), participant, rating, np.asarray(items))

    def moments(self, chosen: BoolArray) -> FloatArray:
        """Return number, mean and error variance of the chosen answers by sentence, (3, S).

        The error variance is the jackknife variance over participants. The mean change over all
        sentences is subtracted, because it does not affect a correlation.
        """
        weight, n_sentences = chosen.astype(float), len(self.item)
        n = np.bincount(self.sentence, weight, n_sentences)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.bincount(self.sentence, self.rating * weight, n_sentences) / n
            change = weight * (self.rating - mean[self.sentence]) / (n[self.sentence] - 1)
            change = np.where(n[self.sentence] > 1, change, 0.0)
            if self.participant is not None:
                common = np.bincount(self.participant, change) / np.count_nonzero(n)
                change = change - weight * common[self.participant]
            error = (n - 1) / n * np.bincount(self.sentence, change**2 * weight, n_sentences)
        return np.array([n, mean, np.where(n > 1, error, np.nan)])

    @cached_property
    def _all_moments(self) -> list[FloatArray]:
        """Moments of all answers, then without the answers of each participant."""
        participants = () if self.participant is None else np.unique(self.participant)
        masks = [np.ones(len(self.rating), dtype=np.bool_)]
        masks += [self.participant != participant for participant in participants]
        return [self.moments(mask) for mask in masks]

    def estimate(self, score: FloatArray) -> dict[str, float]:
        """Estimate the value, the noise ceiling and their difference with intervals."""
        scored = np.isfinite(score)
        moments, *without_participant = self._all_moments
        value, ceiling = _correlation(score, moments, scored)
        left_out = [
            [_correlation(score, moments, scored & (self.item != i)) for i in np.unique(self.item)],
            [
                _correlation(score, moments_without, scored)
                for moments_without in without_participant
            ],
        ]
        variances, dfs = [], []
        for pairs in map(np.array, left_out):
            if (n := len(pairs)) >= MIN_UNITS:
                three = np.column_stack([np.arctanh(pairs), pairs[:, 0] - pairs[:, 1]])
                variances.append((n - 1) ** 2 / n * np.var(three, axis=0, ddof=1))
                dfs.append(n - 1)
        limits = [np.nan] * 6
        if variances:
            stderrs = np.sqrt(np.sum(variances, axis=0))
            centres = np.arctanh(value), np.arctanh(ceiling), value - ceiling
            intervals = [
                MeanEstimate(float(centre), float(stderr), min(dfs)).interval()
                for centre, stderr in zip(centres, stderrs, strict=True)
            ]
            limits = [*np.tanh(intervals[:2]).ravel().tolist(), *intervals[2]]
        names = (
            *("ci_low", "ci_high", "ceiling_lower_ci_low", "ceiling_lower_ci_high"),
            *("gap_ci_low", "gap_ci_high"),
        )
        return {"value": value, "ceiling_lower": ceiling, **dict(zip(names, limits, strict=True))}


def _correlation(score: FloatArray, moments: FloatArray, items: BoolArray) -> tuple[float, float]:
    """Return the correlation and the ceiling over some sentences; NaN if undefined."""
    n, mean, errors = moments
    rated = items & (n > 0)
    x, y = score[rated], mean[rated]
    if len(x) < MIN_UNITS or np.ptp(x) == 0 or np.ptp(y) == 0:
        return np.nan, np.nan
    finite_errors = errors[rated]
    error = np.nan if np.isnan(finite_errors).all() else float(np.nanmean(finite_errors))
    reliability = 1 - error / y.var(ddof=1)
    ceiling = np.sqrt(reliability) if reliability > 0 else np.nan
    return float(np.corrcoef(x, y)[0, 1]), float(ceiling)


def acceptability_delta_criterion(human: ArrayLike, model: ArrayLike, delta: float) -> BoolArray:
    """Return which pairs satisfy the Acceptability Delta Criterion.

    A pair satisfies it if the model's delta has the sign of the human delta and differs from it by
    less than `delta`.

    Parameters
    ----------
    human, model : (P,) arrays
        Differences within pairs in standard deviations.
    delta
        Exclusive bound on the deviation; infinity compares the signs alone.

    Raises
    ------
    InputError
        If `delta` is not positive.

    Source
    ------
    Vazquez Martinez (2021), Eq. 1.1 and 1.2.
    """
    if not delta > 0:
        raise InputError(f"delta must be positive, not {delta}")
    human, model = (np.asarray(deltas, dtype=np.float64) for deltas in (human, model))
    return np.asarray((np.sign(human) == np.sign(model)) & (np.abs(human - model) < delta))


@dataclass(frozen=True, eq=False, kw_only=True)
class DeltaBenchmark(Benchmark):
    """Mean judgements of sentences, and pairs of an acceptable and an unacceptable sentence.

    The measures are Pearson's correlations with judgements of sentences and with their differences
    within pairs, and the shares of pairs that meet the BLiMP criterion and the Acceptability Delta
    Criterion (Vazquez Martinez 2021) with delta 0.5, 1 and 5. Phenomena are random: ids that differ
    only in their last number belong to one phenomenon.

    Attributes
    ----------
    judgements
        Table with one row per sentence: `id`, `sentence`, `judgement` (mean z-score).
    pairs
        Table with one row per pair: `gramm_id`, `ungramm_id`.
    scores
        Scores of published models, each by sentence id.

    Examples
    --------
    >>> judgements = pd.DataFrame({"id": ["a", "b"], "sentence": ["He ran.", "Ran he."]})
    >>> benchmark = DeltaBenchmark(
    ...     name="mine/deltas",
    ...     title="One pair",
    ...     source="Nobody (2026)",
    ...     judgements=judgements.assign(judgement=[1.2, -0.8]),
    ...     pairs=pd.DataFrame({"gramm_id": ["a"], "ungramm_id": ["b"]}),
    ... )
    >>> benchmark.human_deltas()
    array([2.])
    """

    judgements: pd.DataFrame
    pairs: pd.DataFrame
    scores: Mapping[str, pd.Series] = field(default_factory=dict)
    primary_measure: tuple[str, str] = ("all", "adc_1")

    @property
    def sentences(self) -> list[str]:  # noqa: D102 - as Benchmark
        return [str(sentence) for sentence in pd.unique(self.judgements["sentence"])]

    @property
    def published_values(self) -> Mapping[str, pd.Series]:  # noqa: D102
        return self.scores

    def human_deltas(self) -> FloatArray:
        """Return the differences of judgements, acceptable minus unacceptable sentence, (P,)."""
        return self._deltas(self.judgements.set_index("id")["judgement"])

    def model_deltas(self, scores: pd.Series) -> FloatArray:
        """Return the deltas of z-scored scores by sentence id, (P,); NaN if one is missing."""
        return self._deltas(pd.Series(z_scores(scores), index=scores.index))

    def _deltas(self, by_id: pd.Series) -> FloatArray:
        sides = [by_id.reindex(self.pairs[c]).to_numpy(float) for c in ("gramm_id", "ungramm_id")]
        return np.asarray(sides[0] - sides[1])

    def extract_values(self, scores: pd.DataFrame) -> Mapping[str, pd.Series]:
        """Return the scores by sentence id."""
        ids, sentences = self.judgements["id"], self.judgements["sentence"]
        return {
            model: pd.Series(score.loc[sentences].to_numpy(), ids)
            for model, score in super().extract_values(scores).items()
        }

    def estimate(self, values: pd.Series) -> Iterator[Mapping[str, object]]:  # noqa: D102
        judgements = self.judgements.set_index("id")["judgement"]
        joined = pd.concat([judgements, values.rename("score")], axis=1, join="inner").dropna()
        human, model = self.human_deltas(), self.model_deltas(values)
        has_both = ~np.isnan(human) & ~np.isnan(model)
        human, model = human[has_both], model[has_both]
        phenomena = _phenomena(self.pairs.loc[has_both, "gramm_id"])
        judged, scored = joined.to_numpy(dtype=float).T
        criteria = {"blimp": model > 0} | {
            f"adc_{delta:g}": acceptability_delta_criterion(human, model, delta)
            for delta in (0.5, 1.0, 5.0)
        }
        estimates = {
            "sentence_correlation": clustered_correlation(judged, scored, _phenomena(joined.index)),
            "pair_correlation": clustered_correlation(human, model, phenomena),
            **{name: clustered_proportion(met, phenomena) for name, met in criteria.items()},
        }
        for measure, estimate in estimates.items():
            n = len(joined) if measure == "sentence_correlation" else len(model)
            yield _row("all", measure, estimate, n)


def _phenomena(ids: pd.Index | pd.Series) -> IntArray:
    stems = pd.Index(ids).astype(str).str.replace(r"\.\d+$", "", regex=True)
    return np.asarray(pd.factorize(stems)[0])


def _row(analysis: str, measure: str, estimate: Estimate, n_items: int) -> dict[str, object]:
    names = ("analysis", "measure", "value", "ci_low", "ci_high", "n_items")
    return dict(zip(names, (analysis, measure, *estimate, n_items), strict=True))


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelBenchmark(Benchmark):
    """Sentences that experts labelled as acceptable (1) or not (0), in several parts.

    `mcc` is Matthews' correlation with the labels if scores above a threshold count as acceptable.
    The threshold is the best one on `train`. `auc` is the share of (acceptable, unacceptable)
    sentences in the right order and needs no threshold. Intervals treat sentences as random and
    the threshold as fixed; predictions that are all equal give a correlation of 0 without an
    interval.

    Attributes
    ----------
    train
        Table of `sentence` and `label` that the threshold is set on.
    parts
        Tables of `sentence` and `label` that models are judged on, by name.

    Source
    ------
    Warstadt, Singh and Bowman (2019), doi 10.1162/tacl_a_00290, who set the threshold by
    cross-validation.

    Examples
    --------
    >>> texts = ["The dog slept.", "A cat ran.", "Dog the slept.", "Cat ran a."]
    >>> data = pd.DataFrame({"sentence": texts, "label": [1, 1, 0, 0]})
    >>> benchmark = LabelBenchmark(
    ...     name="mine/labels", title="Orders", source="Nobody", train=data, parts={"a": data}
    ... )
    >>> table = pd.DataFrame({"sentence": texts, "m": [-9.0, -12.0, -11.0, -15.0]})
    >>> benchmark.evaluate(table).results[["analysis", "measure", "value"]].round(2)
      analysis measure  value
    0      all     mcc   0.58
    1      all     auc   0.75
    2        a     mcc   0.58
    3        a     auc   0.75
    """

    train: pd.DataFrame
    parts: Mapping[str, pd.DataFrame]
    primary_measure: tuple[str, str] = ("all", "mcc")

    @property
    def sentences(self) -> list[str]:  # noqa: D102 - as Benchmark
        tables = [self.train, *self.parts.values()]
        return [str(s) for s in pd.unique(pd.concat([table["sentence"] for table in tables]))]

    def estimate(self, values: pd.Series) -> Iterator[Mapping[str, object]]:  # noqa: D102
        train_scores = values.loc[self.train["sentence"]].to_numpy(dtype=float)
        threshold = best_threshold(self.train["label"], train_scores)
        all_parts = pd.concat(list(self.parts.values()), ignore_index=True)
        for analysis, table in {"all": all_parts, **self.parts}.items():
            scores = values.loc[table["sentence"]].to_numpy(dtype=float)
            labels = table["label"].to_numpy() > 0
            above = scores > threshold
            mcc = (0.0, np.nan, np.nan)
            if np.ptp(labels.astype(int)) and np.ptp(above.astype(int)):
                clusters = np.arange(len(labels))
                mcc = clustered_correlation(labels.astype(float), above.astype(float), clusters)
            yield _row(analysis, "mcc", mcc, len(table))
            yield _row(analysis, "auc", area_under_curve(labels, scores), len(table))


def best_threshold(labels: ArrayLike, scores: FloatArray) -> float:
    """Return the threshold with the best Matthews' correlation, the lowest one if several are.

    Parameters
    ----------
    labels, scores
        Labels and scores of S sentences; scores above the threshold count as acceptable.

    Raises
    ------
    InputError
        If all labels are equal.

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
    above = n - np.arange(1, n + 1)  # the cut is after each score
    true_above = n_true - np.cumsum(ranked)
    spread = np.sqrt(above * (n - above) * float(n_true) * float(n - n_true))
    with np.errstate(invalid="ignore", divide="ignore"):
        mcc = (n * true_above - above * n_true) / spread
    # No cut separates equal scores, and the last cut rejects every sentence.
    mcc[np.append(ordered[1:] == ordered[:-1], True)] = -np.inf
    mcc[np.isnan(mcc)] = -np.inf
    best = int(np.argmax(mcc))
    if best + 1 == n:
        return float(ordered[-1])
    return float((ordered[best] + ordered[best + 1]) / 2)
