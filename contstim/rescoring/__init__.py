"""Rescoring: choosing among a first pass's hypotheses with the scores of sentence models.

Here: how good a choice is, as word error rate or BLEU, from sums over utterances.

Each measure keeps K sufficient statistics of a hypothesis, whose sums over a corpus give the
corpus's value. So corpus values under any weights, and in any resample, cost additions alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from contstim.arrays import FloatArray
from contstim.errors import MissingExtraError, require_known


class TranscriptMeasure(ABC):
    """A corpus-level measure over sums of statistics.

    Attributes
    ----------
    name
        What tables call it.
    columns
        Names of the K statistics.
    sign
        1 where less is better, -1 where more is.
    """

    name: str
    columns: tuple[str, ...]
    sign: float

    @abstractmethod
    def statistics(self, reference: str, hypotheses: Sequence[str]) -> FloatArray:
        """Return the statistics of H hypotheses of one utterance, shape (H, K)."""

    @abstractmethod
    def value(self, sums: FloatArray) -> FloatArray:
        """Return the measure of each of N sums of statistics, (N, K) to (N,)."""

    @abstractmethod
    def best(self, statistics: FloatArray) -> int:
        """Return the best of the H hypotheses of one utterance, the first among equals."""

    def loss(self, sums: FloatArray) -> FloatArray:
        """Return what is to be made small: the measure, or its negative, (N, K) to (N,)."""
        return self.sign * self.value(sums)


class WordErrorRate(TranscriptMeasure):
    """Word error rate: substitutions, deletions and insertions per word of the references.

    Words are what stands between white space, compared as they are; `jiwer` aligns them.

    Raises
    ------
    MissingExtraError
        If `jiwer` is not installed.
    """

    name = "wer"
    columns = ("substitutions", "deletions", "insertions", "words")
    sign = 1.0

    def __init__(self) -> None:
        try:
            from jiwer import process_words
        except ImportError as error:
            raise _missing("jiwer", "word error rates") from error
        self._align = process_words

    def statistics(self, reference: str, hypotheses: Sequence[str]) -> FloatArray:
        """Return numbers of substitutions, deletions, insertions and reference words, (H, 4)."""
        n_words = len(reference.split())
        rows = []
        for hypothesis in hypotheses:
            alignment = self._align(reference, hypothesis)
            rows.append(
                (alignment.substitutions, alignment.deletions, alignment.insertions, n_words)
            )
        return np.array(rows, dtype=np.float64)

    def value(self, sums: FloatArray) -> FloatArray:
        """Return errors per reference word."""
        return np.asarray(sums[:, :3].sum(axis=1) / sums[:, 3])

    def best(self, statistics: FloatArray) -> int:
        """Return the hypothesis with fewest errors; over a corpus the choice is the oracle."""
        return int(statistics[:, :3].sum(axis=1).argmin())


class Bleu(TranscriptMeasure):
    """BLEU of a corpus, 0 to 100, with the tokens and the smoothing that `sacrebleu` defaults to.

    Raises
    ------
    MissingExtraError
        If `sacrebleu` is not installed.
    """

    name = "bleu"
    columns = (
        *("hypothesis_length", "reference_length"),
        *(f"matches_{n}" for n in range(1, 5)),
        *(f"ngrams_{n}" for n in range(1, 5)),
    )
    sign = -1.0

    def __init__(self) -> None:
        try:
            from sacrebleu.metrics.bleu import BLEU
        except ImportError as error:
            raise _missing("sacrebleu", "BLEU") from error
        self._bleu = BLEU
        # Of single sentences, with the orders that they are long enough for.
        self._sentence = BLEU(effective_order=True)

    def statistics(self, reference: str, hypotheses: Sequence[str]) -> FloatArray:
        """Return lengths, matching n-grams and n-grams of each hypothesis, shape (H, 10)."""
        scores = [self._sentence.sentence_score(h, [reference]) for h in hypotheses]
        return np.array(
            [(s.sys_len, s.ref_len, *s.counts, *s.totals) for s in scores], dtype=np.float64
        )

    def value(self, sums: FloatArray) -> FloatArray:
        """Return the BLEU of each sum."""
        return np.array([self._compute(row, effective=False) for row in sums])

    def best(self, statistics: FloatArray) -> int:
        """Return the hypothesis of highest sentence BLEU.

        Corpus BLEU is no sum over sentences, so a corpus of these choices bounds the best that
        could be chosen from below.
        """
        return int(np.argmax([self._compute(row, effective=True) for row in statistics]))

    def _compute(self, row: FloatArray, *, effective: bool) -> float:
        numbers = [int(number) for number in row]
        bleu = self._bleu.compute_bleu(
            correct=numbers[2:6],
            total=numbers[6:10],
            sys_len=numbers[0],
            ref_len=numbers[1],
            smooth_method="exp",
            effective_order=effective,
        )
        return float(bleu.score)


#: Measures by name.
RESCORING_MEASURES: dict[str, type[TranscriptMeasure]] = {"wer": WordErrorRate, "bleu": Bleu}


def measure_named(name: str) -> TranscriptMeasure:
    """Return the measure called `name`.

    Raises
    ------
    UnknownNameError
        If there is none.
    MissingExtraError
        If the package it needs is not installed.
    """
    require_known("measure", name, RESCORING_MEASURES)
    return RESCORING_MEASURES[name]()


def _missing(package: str, what: str) -> MissingExtraError:
    return MissingExtraError(
        f"{what} need the package {package}, which is not installed; "
        "pip install 'contstim[rescore]'"
    )
