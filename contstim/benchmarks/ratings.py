"""Benchmarks of single sentences: ratings, mean judgements of pairs, and expert labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.benchmarks import estimates
from contstim.benchmarks.benchmark import Benchmark
from contstim.errors import InputError
from contstim.evaluation.inference.estimate import MeanEstimate
from contstim.evaluation.inference.quasi_f import MIN_UNITS


@dataclass(frozen=True, eq=False, kw_only=True)
class RatingBenchmark(Benchmark):
    """Benchmark of ratings of sentences: the correlation of scores with mean ratings.

    The noise ceiling is the expected correlation of a perfect model with the observed mean ratings:
    the square root of their reliability (Spearman 1904).

    Attributes
    ----------
    ratings
        Table with one row per rating: `sentence`, `rating`, and optionally `participant` and
        `item`. Sentences with the same item are versions of each other.
    scores
        Scores of published models: one row per sentence and one column per model.

    Notes
    -----
    Confidence intervals are Student's t intervals on Fisher's z scale. The variance is the sum of
    the jackknife variances over items and, if participants are known, over participants.

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
        # `answers` contains all ratings as arrays.
        participant = answers.participant
        n_participants = np.nan if participant is None else float(participant.max() + 1)
        yield {
            "analysis": "all",
            "measure": "correlation",
            "chance": 0.0,
            **answers.estimate(score),
            "n_participants": n_participants,
            "n_items": int(np.isfinite(score).sum()),
        }

    def detail_tables(self, values_by_model: Mapping[str, pd.Series]) -> Mapping[str, pd.DataFrame]:  # noqa: D102
        means = self._answers.average_ratings(np.ones(len(self.ratings), dtype=np.bool_))
        columns = {"mean_rating": means.mean, "n_ratings": means.n_ratings}
        return {"sentences": pd.DataFrame({"sentence": self.sentences, **columns})}


class _MeanRatings(NamedTuple):
    """Number of ratings, mean rating and its error variance for each of S sentences, shape (S,)."""

    n_ratings: FloatArray
    mean: FloatArray
    error_variance: FloatArray


@dataclass(frozen=True, eq=False)
class _RatingData:
    """N ratings of S sentences as arrays, for the jackknife over participants and items.

    Attributes
    ----------
    sentence
        Index of the rated sentence, shape (N,).
    participant
        Index of the participant, shape (N,); None if the participants are unknown.
    rating
        Ratings, shape (N,).
    item
        Index of the item that each sentence is a version of, shape (S,).
    """

    sentence: IntArray
    participant: IntArray | None
    rating: FloatArray
    item: IntArray

    @classmethod
    def from_table(cls, ratings: pd.DataFrame, sentences: list[str]) -> _RatingData:
        """Convert a table of ratings to arrays.

        Parameters
        ----------
        ratings
            Table with the columns that `RatingBenchmark` describes.
        sentences
            The S distinct sentences. A sentence is represented by its index in this list.

        Raises
        ------
        InputError
            If a rating is missing.
        """
        rating = ratings["rating"].to_numpy(dtype=float)
        n_missing = int(np.isnan(rating).sum())
        if n_missing:
            raise InputError(f"{n_missing} ratings are missing; leave them out")
        # Convert sentences, participants and items to integer codes.
        sentence = pd.Index(sentences).get_indexer(pd.Index(ratings["sentence"]))
        participant = None
        if "participant" in ratings:
            participant = np.asarray(pd.factorize(ratings["participant"])[0])
        # Without a column of items, each sentence is a separate item.
        item = np.arange(len(sentences))
        if "item" in ratings:
            item_by_sentence = ratings.drop_duplicates("sentence")["item"]
            item = np.asarray(pd.factorize(item_by_sentence)[0])
        return cls(np.asarray(sentence), participant, rating, item)

    def average_ratings(self, is_included: BoolArray) -> _MeanRatings:
        """Compute the mean rating of each sentence and its error variance.

        The error variance is the delete-one jackknife variance (Efron 1982, The jackknife, the
        bootstrap and other resampling plans)

            (n - 1) / n · Σ_i d_i²,   d_i = (x_i - mean) / (n - 1),

        for the n ratings x_i of a sentence: d_i is the decrease in the mean if rating i is left
        out. A participant's mean decrease over all sentences is subtracted from d_i, because a
        shift of all means by the same amount does not affect a correlation.

        Parameters
        ----------
        is_included
            Mask of the ratings to use, shape (N,).

        Returns
        -------
        _MeanRatings
            Statistics of the S sentences; the mean is NaN for sentences without a rating.
        """
        weight, n_sentences = is_included.astype(float), len(self.item)
        # Sum the included ratings by sentence; a weight of 0 excludes a rating.
        n_ratings = np.bincount(self.sentence, weight, n_sentences).astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.bincount(self.sentence, self.rating * weight, n_sentences) / n_ratings

            # Decrease in the mean of the sentence if a rating is left out, shape (N,).
            n = n_ratings[self.sentence]
            decrease = weight * (self.rating - mean[self.sentence]) / (n - 1)
            decrease = np.where(n > 1, decrease, 0.0)
            if self.participant is not None:
                # Remove a participant's mean effect: equal shifts do not affect a correlation.
                n_rated_sentences = np.count_nonzero(n_ratings)
                mean_decrease = np.bincount(self.participant, decrease) / n_rated_sentences
                decrease = decrease - weight * mean_decrease[self.participant]

            # Delete-one jackknife: (n - 1) / n times the sum of squared decreases.
            sum_of_squares = np.bincount(self.sentence, decrease**2 * weight, n_sentences)
            jackknife_variance = (n_ratings - 1) / n_ratings * sum_of_squares
        error_variance = np.where(n_ratings > 1, jackknife_variance, np.nan)
        return _MeanRatings(n_ratings, mean, error_variance)

    @cached_property
    def _all_means(self) -> list[_MeanRatings]:
        """Mean ratings of all participants, and then without each participant in turn."""
        participants = () if self.participant is None else np.unique(self.participant)
        masks = [np.ones(len(self.rating), dtype=np.bool_)]
        masks += [self.participant != participant for participant in participants]
        return [self.average_ratings(mask) for mask in masks]

    def estimate(self, score: FloatArray) -> dict[str, float]:
        """Estimate the correlation of scores with ratings, and its noise ceiling.

        Confidence intervals for both and for their difference are computed by leaving out one item
        and one participant at a time (jackknife).

        Parameters
        ----------
        score
            Scores of the S sentences; NaN for sentences without a score.

        Returns
        -------
        dict
            Columns of a row of results, see `Benchmark.estimate`.
        """
        has_score = np.isfinite(score)
        means, *means_without_participant = self._all_means
        value, ceiling = _correlate_with_ratings(score, means, has_score)
        without_item = [
            _correlate_with_ratings(score, means, has_score & (self.item != item))
            for item in np.unique(self.item)
        ]
        without_participant = [
            _correlate_with_ratings(score, other_means, has_score)
            for other_means in means_without_participant
        ]
        # Jackknife variance over n units: (n - 1) / n times the sum of squared deviations, of the
        # correlation and the ceiling on Fisher's z scale, and of their difference.
        variances, dfs = [], []
        for replicates in (without_item, without_participant):
            n = len(replicates)
            if n >= MIN_UNITS:
                values, ceilings = np.array(replicates).T
                statistics = np.column_stack(
                    [np.arctanh(values), np.arctanh(ceilings), values - ceilings]
                )
                variances.append((n - 1) ** 2 / n * np.var(statistics, axis=0, ddof=1))
                dfs.append(n - 1)
        limits = [np.nan] * 6
        if variances:
            stderrs = np.sqrt(np.sum(variances, axis=0))
            centres = np.arctanh(value), np.arctanh(ceiling), value - ceiling
            z_value_interval, z_ceiling_interval, gap_interval = (
                MeanEstimate(float(centre), float(stderr), min(dfs)).interval()
                for centre, stderr in zip(centres, stderrs, strict=True)
            )
            bounded_limits = np.tanh([*z_value_interval, *z_ceiling_interval])
            limits = [*bounded_limits.tolist(), *gap_interval]
        names = (
            "ci_low", "ci_high", "ceiling_lower_ci_low", "ceiling_lower_ci_high",
            "gap_ci_low", "gap_ci_high",
        )  # fmt: skip
        return {"value": value, "ceiling_lower": ceiling, **dict(zip(names, limits, strict=True))}


def _correlate_with_ratings(
    score: FloatArray, ratings: _MeanRatings, is_included: BoolArray
) -> tuple[float, float]:
    """Compute the correlation of scores with mean ratings, and its noise ceiling.

    Parameters
    ----------
    score
        Scores of S sentences, shape (S,).
    ratings
        Number of ratings, mean rating and error variance of each sentence.
    is_included
        Mask of the sentences to use, shape (S,).

    Returns
    -------
    correlation, ceiling : float
        Both are NaN if they are undefined, for example for fewer than three sentences.
    """
    is_used = is_included & (ratings.n_ratings > 0)
    x, y = score[is_used], ratings.mean[is_used]
    if len(x) < MIN_UNITS or np.ptp(x) == 0 or np.ptp(y) == 0:
        return np.nan, np.nan
    # Mean squared standard error of the mean ratings; unknown if no sentence has two ratings.
    used_variances = ratings.error_variance[is_used]
    is_undefined = np.isnan(used_variances).all()
    error_variance = np.nan if is_undefined else float(np.nanmean(used_variances))
    # The reliability is the share of the variance of mean ratings that is not error.
    reliability = 1 - error_variance / y.var(ddof=1)
    # Expected correlation of a perfect model with the observed mean ratings (Spearman 1904).
    ceiling = np.sqrt(reliability) if reliability > 0 else np.nan
    return float(np.corrcoef(x, y)[0, 1]), float(ceiling)


@dataclass(frozen=True, eq=False, kw_only=True)
class DeltaBenchmark(Benchmark):
    """Benchmark of mean acceptability judgements for sentences and for minimal pairs.

    There are four kinds of measures:

    - ``sentence_correlation``: Pearson's correlation of scores with judgements;
    - ``pair_correlation``: Pearson's correlation of their differences within pairs (deltas);
    - ``blimp``: the proportion of pairs in which the acceptable sentence has the higher score;
    - ``adc_D``: the proportion of pairs that satisfy the Acceptability Delta Criterion (Vazquez
      Martinez 2021) with delta D = 0.5, 1 or 5.

    Confidence intervals treat phenomena as a random sample. Sentences whose ids differ only in the
    last number belong to the same phenomenon.

    Attributes
    ----------
    judgements
        Table with one row per sentence: `id`, `sentence`, `judgement` (mean z-score).
    pairs
        Table with one row per pair: `gramm_id` and `ungramm_id`, the ids of the acceptable and the
        unacceptable sentence.
    scores
        Scores of published models by sentence id, for each model.

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
        """Return the human delta of each pair: acceptable minus unacceptable sentence, (P,)."""
        return self._deltas(self.judgements.set_index("id")["judgement"])

    def model_deltas(self, scores: pd.Series) -> FloatArray:
        """Return the model's delta of each pair in SD of the scores, (P,), from scores by id.

        Scores are z-scored first. Pairs without both scores are NaN.
        """
        return self._deltas(pd.Series(estimates.z_scores(scores), index=scores.index))

    def _deltas(self, by_id: pd.Series) -> FloatArray:
        """Return acceptable minus unacceptable sentence of each pair, from values by id."""
        acceptable = by_id.reindex(self.pairs["gramm_id"]).to_numpy(float)
        unacceptable = by_id.reindex(self.pairs["ungramm_id"]).to_numpy(float)
        return np.asarray(acceptable - unacceptable)

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
        judged, scored = joined.to_numpy(dtype=float).T
        # Sentences of one phenomenon may be dependent; they form a cluster.
        correlation = estimates.clustered_correlation(judged, scored, _phenomena(joined.index))
        yield estimates.result_row("all", "sentence_correlation", correlation, len(joined))

        # Deltas: differences between the acceptable and the unacceptable sentence of each pair.
        human, model = self.human_deltas(), self.model_deltas(values)
        has_both = ~np.isnan(human) & ~np.isnan(model)
        human, model = human[has_both], model[has_both]
        phenomena = _phenomena(self.pairs.loc[has_both, "gramm_id"])
        correlation = estimates.clustered_correlation(human, model, phenomena)
        yield estimates.result_row("all", "pair_correlation", correlation, len(model))
        # Criterion of BLiMP: the acceptable sentence has the higher score.
        proportion = estimates.clustered_proportion(model > 0, phenomena)
        yield estimates.result_row("all", "blimp", proportion, len(model))
        # Acceptability Delta Criterion: equal signs, and a difference of less than `delta`.
        for delta in (0.5, 1.0, 5.0):
            is_satisfied = estimates.acceptability_delta_criterion(human, model, delta)
            proportion = estimates.clustered_proportion(is_satisfied, phenomena)
            yield estimates.result_row("all", f"adc_{delta:g}", proportion, len(model))


def _phenomena(ids: pd.Index | pd.Series) -> IntArray:
    """Return the index of each sentence's phenomenon: its id without the last number."""
    phenomenon = pd.Index(ids).astype(str).str.replace(r"\.\d+$", "", regex=True)
    return np.asarray(pd.factorize(phenomenon)[0])


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelBenchmark(Benchmark):
    """Benchmark of sentences that experts labelled as acceptable (1) or unacceptable (0).

    The measure `mcc` is the Matthews correlation between labels and predictions. A sentence is
    predicted to be acceptable if its score is above a threshold, which is chosen to maximise the
    correlation on the sentences of `train`. The measure `auc` is the area under the ROC curve,
    which needs no threshold; see `area_under_curve`.

    Confidence intervals treat sentences as a random sample and the threshold as fixed. If all
    predictions are equal, the correlation is 0 and has no interval.

    Attributes
    ----------
    train
        Table with the columns `sentence` and `label`, used to choose the threshold.
    parts
        Tables with the columns `sentence` and `label`, used to evaluate models, by name. Each part
        is analysed separately, and all of them together.

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
        # Sentences with scores above the threshold are predicted to be acceptable.
        threshold = estimates.best_threshold(self.train["label"], train_scores)
        all_parts = pd.concat(list(self.parts.values()), ignore_index=True)
        # Analyse all parts together, then each part separately.
        for analysis, table in {"all": all_parts, **self.parts}.items():
            scores = values.loc[table["sentence"]].to_numpy(dtype=float)
            labels = table["label"].to_numpy() > 0
            predictions = scores > threshold
            # The correlation of a constant variable is set to 0, without an interval.
            mcc = (0.0, np.nan, np.nan)
            if np.ptp(labels.astype(int)) and np.ptp(predictions.astype(int)):
                # The Matthews correlation is Pearson's correlation of two binary variables. Each
                # sentence is a separate cluster.
                clusters = np.arange(len(labels))
                mcc = estimates.clustered_correlation(
                    labels.astype(float), predictions.astype(float), clusters
                )
            yield estimates.result_row(analysis, "mcc", mcc, len(table))
            auc = estimates.area_under_curve(labels, scores)
            yield estimates.result_row(analysis, "auc", auc, len(table))
