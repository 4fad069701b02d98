"""Test that the probabilities of a model sum to 1, in a language of a few words.

With few words, all strings can be enumerated. A language with an end symbol has infinitely many
strings, so probabilities are summed over one length at a time. A string of L words either ends or
continues with one more word,

    Σ_{s of length L} P(s) = Σ_{s of length L} P(s, end) + Σ_{s of length L+1} P(s),

where P(s) does not include the end of the string. The identity is exact for every model that is
normalised at each step.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from contstim.arrays import BoolArray
from contstim.errors import ValidationError
from contstim.files import digest
from contstim.models import ModelSpec
from contstim.models.base import Event, ReplacementScores, SentenceModel, TokenScores
from contstim.models.prefixes import PrefixModel
from contstim.models.word_tokenizer import WordTokenizer
from contstim.text import Sentence, WordList


def total_probability(model: SentenceModel, words: Sequence[str], length: int) -> float:
    """Return the sum of the probabilities of all strings of `length` words.

    Parameters
    ----------
    model
        Model that assigns a probability to each string.
    words
        Words of the strings. With V words, there are V ** length strings.
    length
        Number of words of each string.
    """
    strings = [" ".join(string) for string in itertools.product(words, repeat=length)]
    return float(np.exp(model.score(strings)).sum())


def check_normalisation(
    closed: SentenceModel,
    opened: SentenceModel,
    words: Sequence[str],
    length: int = 3,
    tolerance: float = 1e-5,
) -> None:
    """Check that the probabilities of all strings of words sum to 1.

    Parameters
    ----------
    closed, opened
        The same model with two settings: `closed` scores the end of a sentence, `opened` does not.
    words
        All words that the model can predict.
    length
        Maximum length of the strings, at least 1.
    tolerance
        Maximum error of each sum.

    Raises
    ------
    ValidationError
        If a sum is wrong. The message states the sum and its error.

    Examples
    --------
    >>> words = ["a", "b", "c"]
    >>> closed, opened = (RandomBigramModel(words, 1, end=end) for end in (True, False))
    >>> check_normalisation(closed, opened, words)
    """
    p_open = total_probability(opened, words, 1)
    # After n words, a string either ends or continues with a further word:
    # P(n words, end open) = P(exactly n words) + P(n + 1 words, end open).
    for n in range(1, length + 1):
        p_end = total_probability(closed, words, n)
        p_continue = total_probability(opened, words, n + 1)
        if abs(p_open - p_end - p_continue) > tolerance:
            raise ValidationError(
                f"{closed.spec}: strings of {n} words have total probability {p_open:.8f}, but "
                f"ending ({p_end:.8f}) and continuing ({p_continue:.8f}) sum to "
                f"{p_end + p_continue:.8f}"
            )
        p_open = p_continue


class RandomBigramModel(SentenceModel, PrefixModel):
    """A bigram model with random probabilities, for tests.

    Parameters
    ----------
    words
        The vocabulary.
    seed
        Seed of the random probabilities.
    end
        Whether the end of a sentence is scored.
    exact
        Result of `score_replacements`: ``all`` (exact scores), ``bound`` (upper bounds and
        estimates, as computed by a network) or ``none`` (the default of `SentenceModel`).
    sharpness
        Standard deviation of the random logits.
    """

    def __init__(
        self,
        words: Sequence[str],
        seed: int,
        *,
        end: bool = True,
        exact: str = "all",
        sharpness: float = 2.0,
    ) -> None:
        super().__init__(ModelSpec("table", f"{seed}", (("exact", exact),)))
        self.words = list(words)
        self.end = end
        self.exact = exact
        n_words = len(self.words)
        rng = np.random.default_rng(seed)
        # Random logits. Rows are previous words (the last row is the start of a sentence); columns
        # are next words (the last column is the end of the sentence).
        logits = rng.normal(scale=sharpness, size=(n_words + 1, n_words + 1))
        # Log-softmax of each row.
        self.log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        ids = {word: i for i, word in enumerate(self.words)}
        self.tokenizer = WordTokenizer(ids, None, "drop", name=self.spec)
        self.n_scored = 0  # number of sentences scored so far

    @property
    def event(self) -> Event:
        """Definition of the score: probability of the words and, optionally, of ``</s>``."""
        # The tokenizer adds how words, punctuation and case are treated.
        return self.tokenizer.event("<s>", "</s>" if self.end else "none")

    @property
    def fingerprint(self) -> str:
        """Digest of the log-probabilities."""
        return digest(self.log_probs.tobytes())

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return whether each of V words is in the vocabulary, shape (V,)."""
        return self.tokenizer.in_vocabulary(words)

    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        """Look up the log-probability of every token, and count the sentences in `n_scored`."""
        scores = []
        for sentence in sentences:
            self.n_scored += 1
            encoded = self.tokenizer.encode(sentence)
            ids = encoded.ids
            if self.end:
                ids = np.append(ids, len(self.words))  # id of the end symbol
            # Previous token of each token; the first one follows the start symbol.
            contexts = np.append(len(self.words), ids[:-1])
            log_probs = self.log_probs[contexts, ids]
            scores.append(encoded.with_log_probs(log_probs, "</s>" if self.end else None))
        return scores

    @property
    def scores_vocabulary(self) -> bool:
        """Whether `score_replacements` returns exact scores."""
        return self.exact == "all"

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        """Score a sentence with one word replaced by each candidate.

        The attribute `exact` states whether the scores are exact or only bounded.
        """
        on_demand = super().score_replacements(sentence, position, words)
        # These scores are computed on demand, that is, when their method `score` is called. The
        # option `exact` states which scores are computed at once: none, all, or only bounds.
        if self.exact == "none":
            return on_demand
        if self.exact == "all":
            scores = on_demand.score(np.arange(len(words), dtype=np.int64))
            return ReplacementScores(scores, scores, is_exact=True, score=on_demand.score)
        # Like a network: bound a score by the tokens up to the candidate, and estimate the
        # remaining tokens from the original sentence.
        texts = [str(sentence.replace(position, word)) for word in words]
        log_probs = [scores.log_probs for scores in self.score_tokens(texts)]
        upper_bounds = np.array([values[: position + 1].sum() for values in log_probs])
        (original,) = self.score_tokens([str(sentence)])
        remainder = original.log_probs[position + 1 :].sum()
        estimates = upper_bounds + remainder
        return ReplacementScores(upper_bounds, estimates, is_exact=False, score=on_demand.score)
