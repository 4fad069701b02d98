"""The contract every sentence model keeps: sentences in, log-probabilities in nats out.

Notation: S sentences, T scored units (tokens) of a sentence, W words, V candidate words.
All results are float64 and in nats; a log-probability is never above 0.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from html import escape

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.display import displayed
from contstim.errors import InputError
from contstim.files import digest
from contstim.models import ModelSpec
from contstim.text import Sentence, WordList
from contstim.text.language import Language
from contstim.text.languages import get_language
from contstim.text.normalise import normalise_sentence

#: What an event says where only whoever made a table of scores could. Its model knows whole
#: sentences, and no others than those it holds.
UNSTATED = "not stated"


@dataclass(frozen=True)
class Event:
    """What exactly a model gives the probability of; two scores compare only over like events.

    Attributes
    ----------
    units
        What is scored one by one: ``words``, ``tokens`` ...
    start
        What stands before the first word: a symbol such as ``<s>``, or ``none``.
    end
        The end symbol whose probability is part of the score, or ``none``.
    punctuation
        ``keep`` (part of its word), ``split`` (units of their own, scored), ``drop`` (not
        scored) or ``context`` (seen, not scored).
    case
        ``keep`` or ``lower``.
    unknown
        ``error`` (a sentence with an unknown word is refused, naming the word) or ``unk`` (the
        model's unknown-word class stands in).
    metric
        How the parts become a score, where a family has several ways: ``chain`` is the chain
        rule from left to right.
    reduction
        How the parts are made one number (``sum`` is the log-probability).

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
        return ", ".join(f"{key} {value}" for key, value in asdict(self).items())

    @property
    def skips_first_word(self) -> bool:
        """Whether the first word has no probability, for want of a start token before it."""
        return (self.units, self.start, self.metric) == ("tokens", "none", "chain")

    @property
    def digest(self) -> str:
        """First 16 hexadecimal digits of the SHA-256 of the event's fields."""
        return digest(json.dumps(asdict(self), sort_keys=True))[:16]


@dataclass(frozen=True)
class ScoreKind:
    """What a model's score is: by default a log-probability. The higher score is the better.

    Attributes
    ----------
    name
        What it is, in a few words.
    unit
        Its unit; ``score`` for a number without a unit in common with other models'.
    highest
        No score exceeds this.
    splits_over_words
        Whether a score is the sum of the words' shares; where it is not, `score_tokens` and
        `score_words` of the model raise `InputError`.
    differs_in_nats
        Whether differences of scores are (estimated, maybe weighted) log-ratios, which can be
        added to those of another model.

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


@displayed
@dataclass(frozen=True)
class TokenScores:
    """The scored units of one sentence.

    Attributes
    ----------
    tokens
        The T scored units as text, the end symbol included where it is scored.
    log_probs
        Their log-probabilities in nats, shape (T,).
    word_indices
        For each unit the index of the word it belongs to, shape (T,). The end symbol belongs to
        the last word.
    n_words
        W, the number of whitespace-separated words.
    stderr
        Standard error of the sum in nats where it is an estimate, else 0.

    Examples
    --------
    >>> from contstim import load_model
    >>> (parts,) = load_model("contstim:trigram").score_tokens(["The dog slept."])
    >>> parts.tokens
    ('The', 'dog', 'slept', '.', '</s>')
    >>> parts.log_probs.round(1)
    array([ -2.7,  -6.7, -10.4,  -2.4,  -0. ])
    >>> parts.sum_by_word().round(1)
    array([ -2.7,  -6.7, -12.9])
    """

    tokens: tuple[str, ...]
    log_probs: FloatArray
    word_indices: IntArray
    n_words: int
    stderr: float = 0.0

    @property
    def log_prob(self) -> float:
        """The sum over units, nats."""
        return float(self.log_probs.sum())

    def sum_by_word(self) -> FloatArray:
        """Sum the units of each word: shape (W,), nats."""
        sums = np.zeros(self.n_words, dtype=np.float64)
        np.add.at(sums, self.word_indices, self.log_probs)
        return sums


@displayed
@dataclass(frozen=True)
class SentenceScores:
    """One row per sentence: what the `scores` table holds.

    Attributes
    ----------
    score
        The scores, shape (S,), in the unit of the model's `ScoreKind`; the table's column
        `log_prob`.
    n_tokens, n_words
        Numbers of scored units and of words, shape (S,).
    stderr
        Standard errors of `score`, shape (S,); 0 where it is exact.

    Examples
    --------
    >>> from contstim import load_model
    >>> model = load_model("contstim:trigram")
    >>> totals = model.score_with_counts(["The dog slept.", "It was late."])
    >>> totals.score.round(1), totals.n_words
    (array([-22.2, -12.1]), array([3, 3]))
    """

    score: FloatArray
    n_tokens: IntArray
    n_words: IntArray
    stderr: FloatArray

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[float, int, int, float]]) -> SentenceScores:
        """Put together what is known of one sentence after another, in the order above."""
        score, n_tokens, n_words, stderr = np.array(list(rows), dtype=np.float64).reshape(-1, 4).T
        return cls(score.copy(), n_tokens.astype(np.int64), n_words.astype(np.int64), stderr.copy())


@dataclass(frozen=True)
class ScoringCost:
    """What a model may say of its exact scores of V candidates, for searches that use it.

    Attributes
    ----------
    cost
        How many inputs the model computes for one exact score, a part of one where what stands
        before is computed once: one number, or one a candidate, shape (V,).
    multiply_adds
        Multiply-additions of one such input, to compare the costs of two models; None where not
        known.
    n_tokens
        Number of tokens of each candidate, shape (V,), under models that cut words; else None.

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
    """Scores of one sentence with the word at one position replaced by each of V candidates.

    Attributes
    ----------
    upper
        No candidate's score exceeds this, shape (V,), nats.
    estimate
        Best guess of each candidate's score, shape (V,), nats; orders what to score first.
    exact
        True if `upper` and `estimate` are the scores themselves.
    score
        Function from indices of candidates (k,) to their exact scores (k,), nats.
    hints
        What exact scores cost, and what else some searches use.

    Examples
    --------
    >>> import numpy as np
    >>> known = ReplacementScores.from_exact_scores(np.array([-22.2, -25.0]))
    >>> known.is_exact, known.score(np.array([1]))
    (True, array([-25.]))
    """

    upper_bounds: FloatArray
    estimates: FloatArray
    is_exact: bool
    score: Callable[[IntArray], FloatArray]
    cost: ScoringCost = field(default_factory=ScoringCost)

    @classmethod
    def from_exact_scores(cls, scores: FloatArray) -> ReplacementScores:
        """Return exact scores, shape (V,), that are all known at once."""
        return cls(scores, scores, is_exact=True, score=scores.__getitem__)


# One of the two numbers by which UTF-16 writes a character of the higher planes.
_HALF = re.compile("[\ud800-\udfff]")


def check_sentences(sentences: Sequence[str]) -> list[str]:
    """Return `sentences` in canonical form, refusing a lone string and what is no text."""
    if isinstance(sentences, str):
        raise InputError(f"give a list of sentences, not the one string {sentences!r}")
    listed = list(sentences)
    for number, sentence in enumerate(listed, start=1):
        if not isinstance(sentence, str):
            raise InputError(f"sentence {number} is not text but {sentence!r}")
        if not sentence.split():
            raise InputError(f"sentence {number} is empty; a sentence needs at least one word")
        if not sentence.isascii() and _HALF.search(sentence):
            raise InputError(
                f"sentence {number} is {sentence!r}, which holds half of a character; write it "
                "whole"
            )
    return [text if text.isascii() else normalise_sentence(text) for text in listed]


class SentenceModel(ABC):
    """A model that says how probable a sentence is.

    A family implements `event`, `fingerprint`, `in_vocabulary` and `score_tokens`; it overrides
    `score` and `score_replacements` where it can do better than the versions here, which define
    what those must return.

    Parameters
    ----------
    spec
        The canonical spec of the model: ``load_model(model.spec)`` gives an equal model.

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
        """What tables, figures and texts call the model: its spec, unless it was given a name."""
        return self._name or self.spec

    @name.setter
    def name(self, name: str) -> None:
        self._name = name

    @property
    def spec(self) -> str:
        """The canonical spec, a string."""
        return str(self._spec)

    @property
    @abstractmethod
    def event(self) -> Event:
        """What is scored."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Hexadecimal digest of the weights, for caches and provenance."""

    @property
    def batch_tolerance(self) -> float:
        """How far, in nats, scores of one sentence may differ with the batch it stands in.

        0 where arithmetic does not depend on the batch.
        """
        return 0.0

    @property
    def language(self) -> Language:
        """What cuts sentences into words, as the spec's option ``language`` says."""
        return get_language(self._spec.get("language", "en"))

    @property
    def kind(self) -> ScoreKind:
        """What a score is: a log-probability, unless a family says otherwise.

        A class whose models all have one kind may say ``kind = ScoreKind(...)``, which tables can
        name without loading a model.
        """
        return ScoreKind()

    @abstractmethod
    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return for each of V words whether the model knows it; shape (V,).

        A word may carry punctuation, which the model treats as in a sentence. An unknown word is
        not known even where the event lets ``unk`` stand in.
        """

    @abstractmethod
    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        """Score every unit of each sentence.

        Raises
        ------
        InputError
            For a sentence without words, or one that cannot be scored; never a made-up value.
        UnknownWordError
            For a word the model does not know, unless its event says ``unknown unk``.
        """

    def score_with_counts(self, sentences: Sequence[str]) -> SentenceScores:
        """Score sentences and count their units. Raises as `score_tokens` does."""
        return SentenceScores.from_rows(
            (p.log_prob, len(p.log_probs), p.n_words, p.stderr)
            for p in self.score_tokens(sentences)
        )

    def score(self, sentences: Sequence[str]) -> FloatArray:
        """Return one number per sentence: shape (S,), float64, nats."""
        return self.score_with_counts(sentences).score

    def score_words(self, sentences: Sequence[str]) -> list[FloatArray]:
        """Return S arrays (W,) in nats that sum to the score of each sentence."""
        return [p.sum_by_word() for p in self.score_tokens(sentences)]

    def count_tokens(self, sentences: Sequence[str]) -> IntArray | None:
        """Return into how many tokens the model cuts each of S sentences, without scoring: (S,).

        None where it scores words as they are, or only scoring tells.
        """
        return None

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        """Score `sentence` with the word at `position` replaced by each of `words`.

        Every word must be one that the model knows. This general version bounds every candidate
        by the highest score, estimates all alike, and scores on demand.

        Raises
        ------
        InputError
            If `position` is outside the sentence.
        """
        sentence.check_position(position)

        def score(index: IntArray) -> FloatArray:
            return self.score([str(sentence.replace(position, words.words[i])) for i in index])

        upper = np.full(len(words), self.kind.highest, dtype=np.float64)
        flat = np.zeros(len(words), dtype=np.float64)
        return ReplacementScores(upper_bounds=upper, estimates=flat, is_exact=False, score=score)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.spec}>"

    def _repr_html_(self) -> str:
        """Return what the model is and what it scores, which notebooks show."""
        fields = {"score": f"{self.kind.name}, {self.kind.unit}", **asdict(self.event)}
        stated = "".join(
            f"<tr><th>{escape(key)}</th><td style='text-align:left'>{escape(str(value))}</td></tr>"
            for key, value in fields.items()
        )
        return f"<p><b>{escape(self.spec)}</b></p><table>{stated}</table>"


def check_sentence_language(
    model: SentenceModel, language: Language, sentences: Sequence[str]
) -> None:
    """Refuse sentences whose words are not the model's, before anything is scored.

    Raises
    ------
    InputError
        If the language does not separate words by white space and the model is not set to it, or
        if the model's units cannot be assigned to the words of a sentence.
    """
    if (
        not (language.is_space_delimited and model.language.is_space_delimited)
        and model.language is not language
    ):
        raise InputError(
            f"{model.spec!r} cuts sentences into words of {model.language.name}, and these are "
            f"{language.name}; write its spec with language={language.code}, or take a model of a "
            "family that has this option"
        )
    if not language.is_space_delimited:
        model.count_tokens(sentences)


def scores_vocabulary(model: SentenceModel) -> bool:
    """Return whether `score_replacements` of a model returns all exact scores, and at little cost.

    Searches ask such models first. They have an attribute of this name, which is true.
    """
    return bool(getattr(model, "scores_vocabulary", False))


@lru_cache(maxsize=1)
def _distributions() -> Mapping[str, list[str]]:
    """Return which installed packages provide each top-level module; reading them all is slow."""
    return importlib.metadata.packages_distributions()


def dependency_names(model: SentenceModel) -> tuple[str, ...]:
    """Return the installed packages that a model's scores depend on, sorted.

    Those of its class, and those that its attribute `packages` names, if it has one. Python,
    contstim, NumPy and SciPy are recorded anyway.
    """
    modules = {cls.__module__.partition(".")[0] for cls in type(model).__mro__}
    foreign = modules - sys.stdlib_module_names - {"contstim", "__main__"}
    own = [name for module in foreign for name in _distributions().get(module, [])]
    return tuple(sorted({*getattr(model, "packages", ()), *own}))
