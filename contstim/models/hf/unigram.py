"""Unigram probabilities of a transformer's tokens, for the reduction SLOR."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.files import file_digest
from contstim.models import ModelSpec
from contstim.models.base import Event, ReplacementScores, SentenceModel, TokenScores
from contstim.models.registry import bundled_folder
from contstim.text import Sentence, WordList
from contstim.text_files import read_lines

if TYPE_CHECKING:
    from contstim.models.hf.transformer import TransformerModel

#: Words and counts of the training text of the bundled models (recipe: models/unigram.py).
WORD_COUNTS = "word_counts.tsv.gz"


def read_word_counts(path: Path) -> tuple[list[str], IntArray, IntArray]:
    """Read a tab-separated table of word frequencies with the columns `word`, `n` and `n_first`.

    Returns
    -------
    words : list of str
        V words with attached punctuation.
    n_occurrences : array
        Number of occurrences of each word, shape (V,).
    n_initial : array
        Number of occurrences of each word at the beginning of a sentence, shape (V,).

    Raises
    ------
    InputError
        If the file cannot be read or a line does not have this format.
    """
    words: list[str] = []
    counts: list[tuple[int, int]] = []  # occurrences in the text, and at the start of a sentence
    for number, line in read_lines(path):
        word, *fields = line.split("\t")
        if number == 1:  # header
            continue
        if len(fields) != 2 or not all(field.isdecimal() for field in fields):
            raise InputError(
                f"{path}, line {number}: {line!r} is not a word and two counts, separated by tabs"
            )
        words.append(word)
        counts.append((int(fields[0]), int(fields[1])))
    # The shape is given for tables without words.
    n_occurrences, n_initial = np.array(counts, dtype=np.int64).reshape(-1, 2).T
    return words, n_occurrences, n_initial


class TokenUnigram(SentenceModel):
    """Unigram model over the tokens of a transformer, needed to compute the score SLOR.

    SLOR, the syntactic log-odds ratio, corrects log-probabilities for rare words: it subtracts the
    unigram log-probability of a sentence from its log-probability. As in Kann et al. (2018), the
    unigrams are the subword tokens of the transformer.

    The training text of a checkpoint is rarely available, so the tokens are counted in the training
    text of the bundled models. With Laplace smoothing, the probability of a token is
    p = (c + 1) / (N + V), where c is the count of the token, N the sum of all counts and V the size
    of the vocabulary.

    Parameters
    ----------
    model
        Transformer with the same tokens as the unigram model.
    path
        Table of word counts; None for the table of the bundled models.

    Attributes
    ----------
    log_probs
        Log-probability in nats of each token of the vocabulary.
    """

    def __init__(self, model: TransformerModel, path: Path | None = None) -> None:
        super().__init__(ModelSpec("contstim", "unigram", (("units", "tokens"),)))
        self.model = model
        self.path = path or bundled_folder() / WORD_COUNTS
        # Count the model's tokens in a text of which the counts of the words are known.
        words, n_occurrences, n_initial = read_word_counts(self.path)
        counts = model.tokenizer.count_tokens(words, n_occurrences, n_initial)
        # Each sentence has one first word and, if the model scores it, one end token.
        counts[model.end] += n_initial.sum()
        # Laplace smoothing: p = (count + 1) / (sum of counts + number of tokens).
        self.log_probs: FloatArray = np.log((counts + 1.0) / (counts.sum() + len(counts)))

    @property
    def event(self) -> Event:
        """Definition of the score: unigram probability of the tokens of the transformer."""
        return self.model.event

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages of the transformer, on which tokenisation depends."""
        return self.model.packages

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the word counts; the fingerprint of the transformer covers the tokenizer."""
        return file_digest(self.path)

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return whether the transformer knows each of V words, shape (V,)."""
        return self.model.in_vocabulary(words)

    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        """Return the unigram log-probabilities of the tokens that the transformer scores."""
        scores = []
        for encoded in self.model.encode(sentences):
            token_ids = encoded.ids[encoded.scored_positions]
            scores.append(encoded.with_log_probs(self.log_probs[token_ids]))
        return scores

    @property
    def scores_vocabulary(self) -> bool:
        """True, because exact scores of all candidate words cost little."""
        return True

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        """Score a sentence with one word replaced by each of V candidates.

        Under a unigram model, the log-probabilities of all other tokens stay the same. The scores
        are therefore exact.

        Parameters
        ----------
        sentence
            Original sentence.
        position
            Index of the word to replace, counted from 0.
        words
            The V candidates.
        """
        sentence.check_position(position)
        # Sum over the tokens of all other words, which do not depend on the replaced word.
        scores = self.score_tokens([str(sentence)])[0]
        is_replaced = scores.word_indices == position
        other_log_prob = scores.log_probs[~is_replaced].sum()
        if position == scores.n_words - 1:
            # The end of the sentence is assigned to the last word but not replaced.
            other_log_prob += self.log_probs[self.model.end].sum()
        # Add the tokens of each candidate. Models without a prefix do not score the first word.
        is_scored = is_replaced.any()
        candidates = self.model.tokenizer.candidates(sentence, position, words).tokens
        log_probs = [self.log_probs[list(ids)].sum() if is_scored else 0.0 for ids in candidates]
        total = other_log_prob + np.array(log_probs, dtype=np.float64)
        return ReplacementScores.from_exact_scores(total)
