"""The interface of sentence models, which map sentences to log-probabilities in nats.

Notation: S sentences, T scored tokens of a sentence, W words, V candidate words. All results are
float64, and log-probabilities are at most 0.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from html import escape

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.display import displayable
from contstim.errors import InputError
from contstim.files import digest
from contstim.models import ModelSpec
from contstim.text import Sentence, WordList
from contstim.text.language import Language
from contstim.text.languages import get_language

#: Value of unknown fields of an `Event`, for example if scores are read from a table.
UNSTATED = "not stated"


@dataclass(frozen=True)
class Event:
    """Definition of what a model computes as the score of a sentence.

    The score is the log-probability of an event in the sense of probability theory, for example
    that the words of the sentence and the end symbol ``</s>`` follow the start symbol ``<s>``.
    Scores of two models are comparable only if these definitions are equal.

    Attributes
    ----------
    units
        Units that are scored separately: ``words``, ``tokens`` and others.
    start
        Context before the first word: a start symbol, for example ``<s>``, or ``none``.
    end
        End symbol included in the score, or ``none``.
    punctuation
        Treatment of punctuation marks: ``keep`` (part of the word), ``split`` (separate, scored
        tokens), ``context`` (visible but not scored) or ``drop`` (removed).
    case
        Treatment of letter case: ``keep`` or ``lower``.
    unknown
        Treatment of unknown words: ``error`` (refuse the sentence and name the word) or ``unk``
        (score the model's unknown-word symbol instead).
    metric
        Method that decomposes the sentence into scored predictions. ``chain`` is the chain rule
        from left to right.
    reduction
        Method that combines the token log-probabilities into one number. ``sum`` gives the
        log-probability of the sentence.

    Examples
    --------
    >>> import contstim
    >>> str(contstim.load_model("contstim:trigram").event).split(", ")[:3]
    ['units words', 'start <s>', 'end </s>']
    """

    units: str
    start: str
    end: str
    punctuation: str
    case: str = "keep"
    unknown: str = "error"
    metric: str = "chain"
    reduction: str = "sum"

    def __str__(self) -> str:
        return ", ".join(f"{key} {value}" for key, value in asdict(self).items() if value != "")

    @property
    def skips_first_word(self) -> bool:
        """Whether the first word is not scored because the model has no start symbol."""
        return (self.units, self.start, self.metric) == ("tokens", "none", "chain")

    @property
    def digest(self) -> str:
        """First 16 hexadecimal digits of the SHA-256 hash of the fields."""
        return digest(json.dumps(asdict(self), sort_keys=True))[:16]


@dataclass(frozen=True)
class ScoreKind:
    """Quantity and unit of a model's scores; by default log-probabilities in nats.

    Higher scores are better for every quantity.

    Attributes
    ----------
    name
        Name of the quantity, for example ``log-probability``.
    unit
        Unit of the scores; ``score`` for scores that are not comparable with other models.
    highest
        Upper bound of all scores.
    splits_over_words
        Whether the score of a sentence is a sum of word scores. If not, the model's methods
        `score_tokens` and `score_words` raise `InputError`.
    differs_in_nats
        Whether differences between scores are log-probability ratios in nats (possibly estimated
        or weighted), so that differences under several models can be added.

    Examples
    --------
    >>> from contstim import load_model
    >>> load_model("contstim:trigram").kind.unit
    'nats'
    >>> load_model("contstim:trigram?reduction=mean").kind.unit
    'nats a token'
    """

    name: str = "log-probability"
    unit: str = "nats"
    highest: float = 0.0
    splits_over_words: bool = True
    differs_in_nats: bool = True


@displayable
@dataclass(frozen=True)
class TokenScores:
    """Scored tokens of a sentence with their log-probabilities in nats.

    Attributes
    ----------
    tokens
        The T scored tokens as text, including the end symbol if it is scored.
    log_probs
        Log-probability of each token in nats, shape (T,).
    word_indices
        Index of the word that each token belongs to, shape (T,). The end symbol belongs to the
        last word.
    n_words
        Number W of words, separated by whitespace.
    stderr
        Standard error of the sum of `log_probs` in nats; 0 if the sum is exact.

    Examples
    --------
    >>> from contstim import load_model
    >>> (scores,) = load_model("contstim:trigram").score_tokens(["The dog slept."])
    >>> scores.tokens
    ('The', 'dog', 'slept', '.', '</s>')
    >>> scores.log_probs.round(1)
    array([ -2.7,  -6.7, -10.4,  -2.4,  -0. ])
    >>> scores.sum_by_word().round(1)
    array([ -2.7,  -6.7, -12.9])
    """

    tokens: tuple[str, ...]
    log_probs: FloatArray
    word_indices: IntArray
    n_words: int
    stderr: float = 0.0

    @property
    def log_prob(self) -> float:
        """Sum of the log-probabilities of the tokens, in nats."""
        return float(self.log_probs.sum())

    def sum_by_word(self) -> FloatArray:
        """Return the summed log-probability of the tokens of each word, shape (W,), in nats."""
        sums = np.zeros(self.n_words, dtype=np.float64)
        np.add.at(sums, self.word_indices, self.log_probs)
        return sums


@displayable
@dataclass(frozen=True)
class SentenceScores:
    """Scores, lengths and standard errors of S sentences, the rows of the `scores` table.

    Attributes
    ----------
    score
        Scores in the unit of the model's `ScoreKind`, shape (S,).
    n_tokens, n_words
        Numbers of scored tokens and of words, each of shape (S,).
    stderr
        Standard errors of the scores, shape (S,); 0 for exact scores.

    Examples
    --------
    >>> from contstim import load_model
    >>> model = load_model("contstim:trigram")
    >>> scores = model.score_with_counts(["The dog slept.", "It was late."])
    >>> scores.score.round(1), scores.n_words
    (array([-22.2, -12.1]), array([3, 3]))
    """

    score: FloatArray
    n_tokens: IntArray
    n_words: IntArray
    stderr: FloatArray

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[float, int, int, float]]) -> SentenceScores:
        """Convert one tuple (score, n_tokens, n_words, stderr) per sentence to four arrays."""
        score, n_tokens, n_words, stderr = np.array(list(rows), dtype=np.float64).reshape(-1, 4).T
        return cls(score.copy(), n_tokens.astype(np.int64), n_words.astype(np.int64), stderr.copy())


@dataclass(frozen=True)
class ScoringCost:
    """Computational cost of scoring a sentence exactly with each of V candidate words.

    Attributes
    ----------
    n_inputs
        Number of model inputs per exact score: one number, or an array of shape (V,). Fractions
        are possible because computations for a common prefix are shared.
    multiply_adds
        Multiply-add operations per input, for comparing models; None if unknown.
    n_tokens
        Number of tokens of each candidate, shape (V,); None for models that score whole words.

    Examples
    --------
    >>> import numpy as np
    >>> ReplacementScores.from_exact_scores(np.array([-22.2, -25.0])).cost.n_inputs
    1.0
    """

    n_inputs: float | FloatArray = 1.0
    multiply_adds: float | None = None
    n_tokens: IntArray | None = None


@dataclass(frozen=True)
class ReplacementScores:
    """Scores of a sentence with one word replaced by each of V candidates.

    Attributes
    ----------
    upper_bounds
        Upper bound of each candidate's score, shape (V,), in nats.
    estimates
        Estimate of each candidate's score, shape (V,), in nats. A search scores the candidates
        with the best estimates first.
    is_exact
        Whether the upper bounds and the estimates are the exact scores.
    score
        Function that maps candidate indices, shape (k,), to their exact scores, shape (k,).
    cost
        Computational cost of calling `score`.

    Examples
    --------
    >>> import numpy as np
    >>> replacements = ReplacementScores.from_exact_scores(np.array([-22.2, -25.0]))
    >>> replacements.is_exact, replacements.score(np.array([1]))
    (True, array([-25.]))
    """

    upper_bounds: FloatArray
    estimates: FloatArray
    is_exact: bool
    score: Callable[[IntArray], FloatArray]
    cost: ScoringCost = field(default_factory=ScoringCost)

    @classmethod
    def from_exact_scores(cls, scores: FloatArray) -> ReplacementScores:
        """Create the object from exact scores of all V candidates, shape (V,)."""
        return cls(scores, scores, is_exact=True, score=scores.__getitem__)


class SentenceModel(ABC):
    """Base class of models that assign log-probabilities, or other scores, to sentences.

    A subclass implements `event`, `fingerprint`, `in_vocabulary` and `score_tokens`. It may
    override the other methods with faster versions that return the same values.

    Parameters
    ----------
    spec
        Specification in its shortest form: ``load_model(model.spec)`` loads an equal model.

    Examples
    --------
    >>> import contstim
    >>> model = contstim.load_model("contstim:trigram")
    >>> model.score(["The dog slept."]).round(1)
    array([-22.2])
    >>> [words.round(1) for words in model.score_words(["The dog slept."])]
    [array([ -2.7,  -6.7, -12.9])]
    """

    _name = ""

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec

    @property
    def name(self) -> str:
        """Display name in tables and figures; by default the model specification."""
        return self._name or self.spec

    @name.setter
    def name(self, name: str) -> None:
        self._name = name

    @property
    def spec(self) -> str:
        """Canonical specification of the model as text, for example ``contstim:gpt``."""
        return str(self._spec)

    @property
    @abstractmethod
    def event(self) -> Event:
        """Definition of the score: units, start and end symbols, treatment of punctuation."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Hexadecimal digest of the model's weights, for caches and provenance records."""

    @property
    def batch_tolerance(self) -> float:
        """Maximum difference, in nats, between scores of one sentence in different batches.

        It is 0 for models that compute the same result in every batch.
        """
        return 0.0

    @property
    def language(self) -> Language:
        """Language that defines the words of a sentence, from the option ``language``."""
        return get_language(self._spec.get("language", "en"))

    @property
    def kind(self) -> ScoreKind:
        """Quantity and unit of the scores, log-probabilities by default.

        If all models of a class have the same kind, define it as the class attribute
        ``kind = ScoreKind(...)``. It can then be read without loading a model.
        """
        return ScoreKind()

    @abstractmethod
    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return whether each of V words is in the vocabulary, shape (V,).

        A word may include punctuation, which is treated as in a sentence. A word that the model
        replaces by its unknown-word symbol is not in the vocabulary.
        """

    @abstractmethod
    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        """Score every token of each sentence.

        Raises
        ------
        InputError
            If a sentence contains no word, or cannot be scored.
        UnknownWordError
            If a word is unknown and ``event.unknown`` is ``error``.
        """

    def score_with_counts(self, sentences: Sequence[str]) -> SentenceScores:
        """Score sentences and count their tokens and words. Raises as `score_tokens`."""
        scores = self.score_tokens(sentences)
        rows = [(s.log_prob, len(s.log_probs), s.n_words, s.stderr) for s in scores]
        return SentenceScores.from_rows(rows)

    def score(self, sentences: Sequence[str]) -> FloatArray:
        """Return the score of each sentence, shape (S,), in nats. Raises as `score_tokens`."""
        return self.score_with_counts(sentences).score

    def score_words(self, sentences: Sequence[str]) -> list[FloatArray]:
        """Return the scores of the W words of each of S sentences, in nats.

        The word scores of a sentence sum to its score. The first word has the score NaN if the
        model cannot predict it because it has no start symbol.

        Returns
        -------
        list of array
            S arrays of shape (W,).
        """
        word_scores = [scores.sum_by_word() for scores in self.score_tokens(sentences)]
        if self.event.skips_first_word:
            for scores in word_scores:
                scores[0] = np.nan
        return word_scores

    def count_tokens(self, sentences: Sequence[str]) -> IntArray | None:
        """Count the tokens of each sentence without scoring it, shape (S,).

        Returns None if the model scores whole words or can count only while scoring.
        """
        return None

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        """Score a sentence with one word replaced by each of V candidates.

        This default implementation computes exact scores only when they are requested. Until then,
        all candidates have the same upper bound and the same estimate.

        Parameters
        ----------
        sentence
            Original sentence.
        position
            Index of the word to replace.
        words
            The V candidate words, all in the vocabulary.

        Raises
        ------
        InputError
            If `position` is outside the sentence.
        """
        sentence.check_position(position)

        # Score whole sentences, and only those with selected candidates.
        def score(indices: IntArray) -> FloatArray:
            return self.score([str(sentence.replace(position, words.words[i])) for i in indices])

        # Without further knowledge, each bound is the highest score, 0 for log-probabilities.
        upper_bounds = np.full(len(words), self.kind.highest, dtype=np.float64)
        estimates = np.zeros(len(words))
        return ReplacementScores(upper_bounds, estimates, is_exact=False, score=score)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.spec}>"

    def _repr_html_(self) -> str:
        """Return an HTML table that describes the model and its score, for notebooks."""
        fields = {"score": f"{self.kind.name}, {self.kind.unit}", **asdict(self.event)}
        rows = "".join(
            f"<tr><th>{escape(key)}</th><td style='text-align:left'>{escape(str(value))}</td></tr>"
            for key, value in fields.items()
        )
        return f"<p><b>{escape(self.spec)}</b></p><table>{rows}</table>"


def check_sentence_language(
    model: SentenceModel, language: Language, sentences: Sequence[str]
) -> None:
    """Check that a model splits sentences of a language into the correct words.

    Parameters
    ----------
    model
        Model that scores the sentences.
    language
        Language of the sentences.
    sentences
        Sentences that are tokenised as a test if the language does not separate words by spaces.

    Raises
    ------
    InputError
        If the language of the model splits a sentence into different words, or if a token of the
        model extends over two words.
    """
    needs_segmentation = not (language.is_space_delimited and model.language.is_space_delimited)
    # Languages with spaces are split in the same way. Otherwise the languages must be the same.
    if needs_segmentation and model.language is not language:
        raise InputError(
            f"{model.spec!r} splits sentences into words of {model.language.name}, but the "
            f"sentences are {language.name}; add language={language.code} to its spec, or use a "
            "model with this option"
        )
    if not language.is_space_delimited:
        # Ignore the counts. Tokenisation raises the error if a token extends over two words.
        model.count_tokens(sentences)


def scores_vocabulary(model: SentenceModel) -> bool:
    """Return whether a model can score all candidate words for one position at low cost.

    Models state this by the attribute `scores_vocabulary`. Searches query these models first.
    """
    return bool(getattr(model, "scores_vocabulary", False))
