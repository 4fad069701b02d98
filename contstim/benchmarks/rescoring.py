"""Rescoring of n-best lists of speech recognition or machine translation with sentence models.

A first-pass system proposes several hypotheses with scores for each utterance. Rescoring adds the
weighted log-probability of a sentence model and selects the best hypothesis (Salazar et al. 2020,
section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pandas as pd

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError, MissingExtraError, require_known
from contstim.evaluation.inference.signed_rank import percentile_intervals
from contstim.models.base import SentenceModel
from contstim.tables import require_columns

COLUMNS = ("utterance", "hypothesis", "score", "reference")
RESULT_COLUMNS = (
    *("language", "system", "weight", "length_weight", "n_test", "dev", "value", "ci_low"),
    *("ci_high", "change", "change_low", "change_high"),
)


@dataclass(frozen=True)
class CorpusMetric:
    """Metric of a corpus, computed from counts that are summed over utterances.

    Attributes
    ----------
    count
        Function that compares a hypothesis with its reference. It takes (reference, hypothesis) and
        returns K counts, for example of errors and words.
    compute
        Function that converts the K sums of counts to the metric.
    sign
        1 if higher values are better, -1 if lower values are better.
    """

    count: Callable[[str, str], Sequence[float]]
    compute: Callable[[FloatArray], float]
    sign: int


def word_error_rate() -> CorpusMetric:
    """Return the word error rate of `jiwer`: errors divided by words of the references."""
    jiwer = _import_extra("jiwer")

    def count(reference: str, hypothesis: str) -> list[float]:
        words = jiwer.process_words(reference, hypothesis)
        # Errors and words of the reference, which are summed over utterances.
        n_missed = words.substitutions + words.deletions
        return [n_missed + words.insertions, n_missed + words.hits]

    # The rate is total errors / total words; lower is better (-1).
    return CorpusMetric(count, lambda sums: float(sums[0] / sums[1]), -1)


def bleu() -> CorpusMetric:
    """Return the metric BLEU, computed by the package `sacrebleu`.

    It uses one reference per hypothesis and the default tokenization.
    """
    scorer = _import_extra("sacrebleu").BLEU(effective_order=True)

    # BLEU is computed from sums over utterances: matching and total n-grams of orders 1 to 4, and
    # the lengths of hypotheses and references.
    def count(reference: str, hypothesis: str) -> list[float]:
        score = scorer.sentence_score(hypothesis, [reference])
        return [*score.counts, *score.totals, score.sys_len, score.ref_len]

    def compute(sums: FloatArray) -> float:
        *n_grams, length, reference_length = map(int, sums)
        lengths = (length, reference_length)
        score = scorer.compute_bleu(n_grams[:4], n_grams[4:], *lengths, smooth_method="exp")
        return float(score.score)

    # Higher values are better (1).
    return CorpusMetric(count, compute, 1)


def _import_extra(package: str) -> ModuleType:
    """Import a package of the extra ``rescore``."""
    try:
        return import_module(package)
    except ImportError as error:
        message = f"rescoring needs {package}, which is not installed; pip install {package}"
        raise MissingExtraError(message) from error


CORPUS_METRICS = {"wer": word_error_rate, "bleu": bleu}


class Rescoring(NamedTuple):
    """One hypothesis per utterance, selected by a rescoring system.

    Attributes
    ----------
    system
        Name of the system, for example of a language model.
    weight, length_weight
        Weights of the model's log-probability and of the number of words in the total score.
    rows
        Row of the selected hypothesis of each utterance, shape (U,).
    """

    system: str
    weight: float
    length_weight: float
    rows: IntArray


class NBestLists:
    """N-best lists: the hypotheses that a first-pass system proposes for each of U utterances.

    Parameters
    ----------
    table
        Table with one row per hypothesis and all columns that `rescore` describes, including the
        optional ones. The hypotheses are sorted by utterance.
    metric
        Metric to optimise.

    Attributes
    ----------
    counts
        Counts from which the metric is computed, one row per hypothesis.
    codes
        Index of the utterance of each hypothesis.
    starts
        Row of the first hypothesis of each utterance, shape (U,).
    is_test
        Whether each utterance is in the test set, shape (U,).
    """

    def __init__(self, table: pd.DataFrame, metric: CorpusMetric) -> None:
        self.table = table.sort_values("utterance", kind="stable").reset_index(drop=True)
        self.metric = metric
        # The metric is computed from counts summed over utterances, so count once in advance.
        pairs = zip(self.table["reference"], self.table["hypothesis"], strict=True)
        self.counts = np.array([metric.count(*pair) for pair in pairs], dtype=np.float64)
        self.codes = pd.factorize(self.table["utterance"])[0]
        # Row of the first hypothesis of each utterance, where the code changes.
        self.starts = np.flatnonzero(np.diff(self.codes, prepend=-1))
        self.is_test: BoolArray = (self.table["split"] == "test").to_numpy()[self.starts]

    def select(self, totals: FloatArray) -> IntArray:
        """Return the row of each utterance's hypothesis with the highest total score, shape (U,).

        If several hypotheses have the highest total, the first one is selected.
        """
        # Sort by utterance, then by decreasing total. `starts` is then the position of the best.
        return np.lexsort((-totals, self.codes))[self.starts]

    def evaluate(self, rows: IntArray) -> float:
        """Return the metric for the hypotheses in the selected rows."""
        return self.metric.compute(self.counts[rows].sum(axis=0))

    def tune_weights(
        self,
        system: str,
        log_probs: FloatArray,
        weights: Sequence[float],
        length_weights: Sequence[float],
    ) -> Rescoring:
        """Find the weights with the best metric on the development set by grid search.

        Ties are resolved in favour of the smallest absolute length weight, then of the smallest
        weight.

        Parameters
        ----------
        system
            Name of the system in the result.
        log_probs
            Log-probability of each hypothesis in nats.
        weights, length_weights
            Grid of the weights of the log-probability and of the number of words.

        Returns
        -------
        Rescoring
            The best weights, and the hypotheses that are selected with them.
        """
        scores = self.table["score"].to_numpy()
        n_words = self.table["hypothesis"].map(lambda text: len(text.split())).to_numpy()
        # Grid search. Only a strictly better value replaces the best one, so that ties are resolved
        # by the order of the grid: small length weights first, then small weights.
        best = Rescoring(system, np.nan, np.nan, np.empty(0, dtype=np.int64))
        best_value = -np.inf
        length_weights = sorted({*length_weights}, key=lambda value: (abs(value), value))
        for length_weight, weight in product(length_weights, sorted(weights)):
            # Select one hypothesis per utterance; only the development set decides on the weights.
            rows = self.select(scores + weight * log_probs + length_weight * n_words)
            value = self.metric.sign * self.evaluate(rows[~self.is_test])
            if value > best_value:
                best, best_value = Rescoring(system, weight, length_weight, rows), value
        return best

    def iter_rescorings(
        self,
        models: Sequence[SentenceModel],
        weights: Sequence[float],
        length_weights: Sequence[float],
    ) -> Iterator[Rescoring]:
        """Select one hypothesis per utterance with each system, and yield the selections.

        The systems are the ``baseline`` (score of the first pass), the ``oracle`` (best metric),
        ``length`` (score and number of words), and each model together with score and length.

        Parameters
        ----------
        models
            Models whose log-probabilities are added to the score.
        weights, length_weights
            Grids of the weights of the log-probability and of the number of words.

        Yields
        ------
        Rescoring
            Name of a system, its weights (0 for the baseline and NaN for the oracle) and the
            selected hypotheses.
        """
        # The baseline uses the scores of the first-pass system alone: both weights are 0.
        yield Rescoring("baseline", 0.0, 0.0, self.select(self.table["score"].to_numpy()))
        # The oracle selects the hypothesis with the best metric, as an upper bound.
        quality = np.array([self.metric.compute(counts) for counts in self.counts])
        yield Rescoring("oracle", np.nan, np.nan, self.select(self.metric.sign * quality))
        # Tune the weight of the number of words without a language model.
        yield self.tune_weights("length", np.zeros(len(quality)), [0.0], length_weights)
        texts = self.table["sentence"].to_numpy()
        for model in models:
            # Score each distinct sentence once.
            unique_texts, inverse = np.unique(texts, return_inverse=True)
            scores = model.score(unique_texts.tolist())
            if not np.isfinite(scores).all():
                text = unique_texts[~np.isfinite(scores)][0]
                raise InputError(f"{model.name} has no finite score for {text!r}; remove it")
            yield self.tune_weights(model.name, scores[inverse], weights, length_weights)


def rescore(
    hypotheses: pd.DataFrame,
    models: Sequence[SentenceModel],
    metric: str = "wer",
    weights: Sequence[float] = tuple(np.linspace(0, 2, 41)),
    length_weights: Sequence[float] = tuple(np.linspace(-2, 2, 17)),
    *,
    n_bootstrap: int = 1000,
    seed: int = 0,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tune the weights of sentence models on n-best lists, and evaluate the selected hypotheses.

    The hypothesis with the highest score + weight * log-probability + length weight * number of
    words is selected. The two weights are tuned on the development set, separately for each model
    and language, and evaluated on the test set.

    Parameters
    ----------
    hypotheses
        Table with one row per hypothesis: `utterance`, `hypothesis`, `score` and `reference`.
        Optional columns: `split` (``dev`` or ``test``; without it, every other utterance is in the
        development set), `language`, and `sentence`, the hypothesis in the form that the models
        score, for example with a capital and a full stop.
    models
        Sentence models.
    metric
        ``wer`` or ``bleu``.
    weights, length_weights
        Grids of the two weights. With 0 as the only length weight, the length is not used.
    n_bootstrap
        Number of bootstrap samples of test utterances, which all systems share.
    seed
        Random seed of the bootstrap.

    Returns
    -------
    results : DataFrame
        One row per language and system: the tuned weights, the value on the development set
        (`dev`), and the value on the test set and its change from the baseline, with 95 %
        intervals. The systems are ``baseline`` (highest score), ``oracle`` (best hypothesis of each
        utterance by the metric), ``length`` (score and number of words only) and the models.
    selected : DataFrame
        Selected hypothesis of each test utterance, by system.
    """
    table = _check_hypotheses(hypotheses)
    require_known("metric", metric, CORPUS_METRICS)
    corpus_metric = CORPUS_METRICS[metric]()
    results, selected = [], []
    for language, group in table.groupby("language", sort=False):
        for split in ("dev", "test"):
            if not (group["split"] == split).any():
                of_language = f" of language {language!r}" if language else ""
                raise InputError(f"no utterance{of_language} has the split {split!r}; add some")
        lists = NBestLists(group, corpus_metric)
        n_test = int(lists.is_test.sum())
        # Number of times that each bootstrap sample contains each test utterance.
        resamples = np.random.default_rng(seed).multinomial(
            n_test, np.full(n_test, 1 / n_test), n_bootstrap
        )
        baseline: FloatArray | None = None  # values of the first system
        for rescoring in lists.iter_rescorings(models, weights, length_weights):
            system, weight, length_weight, rows = rescoring
            # Compute the value on the test set, then the value in each bootstrap sample.
            counts = lists.counts[rows[lists.is_test]]
            sums = [counts.sum(axis=0), *(resamples @ counts)]
            values = np.array([corpus_metric.compute(row) for row in sums])
            baseline = values if baseline is None else baseline
            columns = np.column_stack([values, values - baseline])
            low, high = percentile_intervals(columns[1:], n_test)
            estimates = np.column_stack([columns[0], low, high]).ravel()
            dev = lists.evaluate(rows[~lists.is_test])
            results.append((language, system, weight, length_weight, n_test, dev, *estimates))
            selected.append(lists.table.loc[rows[lists.is_test]].assign(system=system))
    return pd.DataFrame(results, columns=RESULT_COLUMNS), pd.concat(selected, ignore_index=True)


def _check_hypotheses(hypotheses: pd.DataFrame) -> pd.DataFrame:
    """Check a table of hypotheses, and add the optional columns that it lacks.

    Without a column `split`, every other utterance is in the development set.

    Raises
    ------
    InputError
        If a column or cell is missing, a score is not a finite number, or an utterance has several
        references or splits.
    """
    require_columns(hypotheses, COLUMNS, "the table of hypotheses")
    key = ["language", "utterance"]
    table = hypotheses.reset_index(drop=True)
    for name, default in (("language", ""), ("sentence", table["hypothesis"])):
        if name not in table:
            table[name] = default
    # By default, every other utterance is in the development set.
    if "split" not in table:
        numbers = table.groupby(key, sort=False).ngroup()
        table["split"] = np.where(numbers % 2, "test", "dev")
    scores = pd.to_numeric(table["score"], errors="coerce")
    # For each column, which cells are missing or invalid.
    invalid = {
        **{name: table[name].isna() for name in ("utterance", "language", "sentence")},
        "score": ~np.isfinite(scores),
        "split": ~table["split"].isin(("dev", "test")),
        **{name: table[name].fillna("").str.strip() == "" for name in ("hypothesis", "reference")},
    }
    for name, is_invalid in invalid.items():
        if is_invalid.any():
            row = table[is_invalid].iloc[0]
            raise InputError(
                f"utterance {row['utterance']!r} has the {name} {row[name]!r}; correct or remove it"
            )
    for name in ("reference", "split"):
        # An utterance must have one reference and belong to one split.
        variants = table.drop_duplicates([*key, name])
        repeated = variants["utterance"][variants.duplicated(key)]
        if len(repeated):
            raise InputError(f"utterance {repeated.iloc[0]!r} has several {name} values; keep one")
    return table.assign(score=scores)
