"""Benchmarks of ratings: how a model's scores go with what people make of single sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.benchmarks import ScoredBenchmark
from contstim.errors import InputError
from contstim.sampling import FEWEST, SampledMean

# What `_Answers.numbers` gives, in its order.
_NUMBERS = (
    *("value", "ci_low", "ci_high", "ceiling_lower", "ceiling_lower_ci_low"),
    *("ceiling_lower_ci_high", "gap_ci_low", "gap_ci_high"),
)


@dataclass(frozen=True, eq=False, kw_only=True)
class RatingBenchmark(ScoredBenchmark):
    """Single ratings of sentences, with the scores of the models that were published with them.

    The value is Pearson's correlation over sentences of a model's score with the mean rating. The
    noise ceiling is what the score would have if it were what people in the mean of ever so many
    ratings say: the square root of the mean ratings' reliability (Spearman 1904), whose error
    variance is that with other people.

    Attributes
    ----------
    ratings
        A row per answer: `sentence`, `rating`; `participant` where it is known who answered, and
        `item` where sentences are of one item.
    scores
        Of published models, shape (S, M): index the sentence.

    Notes
    -----
    Intervals are Student's on Fisher's scale. The variance is the jackknife's over items, which is
    all there is where answers are not known by who gave them, plus the jackknife's over
    participants.

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
    headline: tuple[str, str] = ("all", "correlation")

    @property
    def sentences(self) -> list[str]:  # noqa: D102 - as Benchmark
        return [str(sentence) for sentence in pd.unique(self.ratings["sentence"])]

    @property
    def published(self) -> Mapping[str, pd.Series]:  # noqa: D102
        wide = self.scores.reindex(self.sentences)
        return {str(model): wide[model] for model in wide}

    def label(self, measure: str) -> str:  # noqa: D102
        return "correlation with people's mean ratings"

    @cached_property
    def _answers(self) -> _Answers:
        return _Answers.of(self.ratings, self.sentences)

    def rows(self, values: pd.Series) -> Iterator[Mapping[str, object]]:  # noqa: D102
        score = values.to_numpy(dtype=float)
        yield {
            "analysis": "all",
            "measure": "correlation",
            "chance": 0.0,
            **dict(zip(_NUMBERS, self._answers.numbers(score), strict=True)),
            "n_participants": self._answers.n_participants,
            "n_items": int(np.isfinite(score).sum()),
        }

    def details(self, by_model: Mapping[str, pd.Series]) -> Mapping[str, pd.DataFrame]:  # noqa: D102
        answers = self._answers
        means = {"sentence": self.sentences, "mean_rating": answers.mean, "n_ratings": answers.n}
        return {"sentences": pd.DataFrame(means)}


@dataclass(frozen=True, eq=False)
class _Answers:
    """Ratings as arrays: sentence, person (-1 if unknown) and rating of each; item of sentences."""

    sentence: IntArray
    person: IntArray
    rating: FloatArray
    item: IntArray

    @classmethod
    def of(cls, ratings: pd.DataFrame, sentences: list[str]) -> _Answers:
        sentence = pd.Index(sentences).get_indexer(pd.Index(ratings["sentence"]))
        person = np.full(len(ratings), -1)
        if "participant" in ratings:
            person = pd.factorize(ratings["participant"])[0]
        item = np.arange(len(sentences))
        if "item" in ratings:
            first = ratings.drop_duplicates("sentence")["item"]
            item = pd.factorize(first)[0]
        rating = ratings["rating"].to_numpy(dtype=float)
        if np.isnan(rating).any():
            raise InputError(f"{int(np.isnan(rating).sum())} ratings are missing; leave them out")
        return cls(np.asarray(sentence), np.asarray(person), rating, np.asarray(item))

    @property
    def n_participants(self) -> float:
        """How many people answered; NaN if that is not known."""
        return float(self.person.max() + 1) if self.person.max(initial=-1) >= 0 else np.nan

    def _sums(self, values: FloatArray, weight: FloatArray) -> FloatArray:
        sums = np.bincount(self.sentence, values * weight, len(self.item))
        return sums.astype(np.float64)

    @property
    def n(self) -> FloatArray:
        """How many answers each sentence has, (S,)."""
        return self._sums(np.ones_like(self.rating), np.ones_like(self.rating))

    @property
    def mean(self) -> FloatArray:
        """The mean rating of each sentence, (S,)."""
        return self._sums(self.rating, np.ones_like(self.rating)) / self.n

    def moments(self, answers: BoolArray) -> FloatArray:
        """Return of the chosen answers to each sentence number, mean and its error, (3, S).

        The error is the variance with other people, as the jackknife has it: what a mean changes by
        without a person, beside the change of all sentences' mean, which no correlation sees.
        """
        weight = answers.astype(float)
        n = self._sums(np.ones_like(self.rating), weight)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = self._sums(self.rating, weight) / n
            change = weight * (self.rating - mean[self.sentence]) / (n[self.sentence] - 1)
            change = np.where(n[self.sentence] > 1, change, 0.0)
            if self.person.max(initial=-1) >= 0:
                lean = np.bincount(self.person, change) / np.count_nonzero(n)
                change = change - weight * lean[self.person]
            error = (n - 1) / n * self._sums(change**2, weight)
        return np.array([n, mean, np.where(n > 1, error, np.nan)])

    @cached_property
    def _moments(self) -> list[FloatArray]:
        """Those of all answers, then those without each person."""
        people = np.unique(self.person[self.person >= 0])
        chosen = [np.ones(len(self.rating), dtype=np.bool_), *(self.person != p for p in people)]
        return [self.moments(answers) for answers in chosen]

    def numbers(self, score: FloatArray) -> tuple[float, ...]:
        """Return the value, the ceiling and the gap, each with the ends of its interval."""
        scored = np.isfinite(score)
        moments, *without_person = self._moments
        value, ceiling = _estimate(score, moments, scored)
        without = [
            [_estimate(score, moments, scored & (self.item != i)) for i in np.unique(self.item)],
            [_estimate(score, others, scored) for others in without_person],
        ]
        parts = []
        for left_out in without:
            if (n := len(left_out)) >= FEWEST:
                pairs = np.array(left_out)
                three = np.column_stack([np.arctanh(pairs), pairs[:, 0] - pairs[:, 1]])
                parts.append(((n - 1) ** 2 / n * np.var(three, axis=0, ddof=1), n - 1))
        if not parts:
            missing = (np.nan, np.nan)
            return (value, *missing, ceiling, *missing, *missing)
        variance = np.sum([part for part, _ in parts], axis=0)
        df = min(n for _, n in parts)
        ends: list[float] = []
        centres = np.arctanh(value), np.arctanh(ceiling), value - ceiling
        for place, (centre, spread) in enumerate(zip(centres, variance, strict=True)):
            both = np.array(SampledMean(float(centre), float(np.sqrt(spread)), df).interval())
            ends += (both if place == 2 else np.tanh(both)).tolist()  # the gap is as it is
        return value, *ends[:2], ceiling, *ends[2:4], *ends[4:]


def _estimate(score: FloatArray, moments: FloatArray, items: BoolArray) -> tuple[float, float]:
    """Return the correlation and the ceiling over some of the sentences; both may be NaN."""
    n, mean, errors = moments
    there = items & (n > 0)
    x, y = score[there], mean[there]
    if len(x) < FEWEST or np.ptp(x) == 0 or np.ptp(y) == 0:
        return np.nan, np.nan
    of_each = errors[there]
    error = np.nan if np.isnan(of_each).all() else float(np.nanmean(of_each))
    reliability = 1 - error / y.var(ddof=1)
    ceiling = np.sqrt(reliability) if reliability > 0 else np.nan
    return float(np.corrcoef(x, y)[0, 1]), float(ceiling)
