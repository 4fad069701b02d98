"""Reductions: from the scored units of a sentence to one number, by name.

Most weight the log-probability LP of a sentence of T scored units by one factor (Lau, Clark &
Lappin 2017; Vaswani et al. 2017 for the length penalty). SLOR first takes off what the words'
frequencies explain (Pauls & Klein 2012; Lau et al. 2017, table 2). In all of these the words'
shares still sum to the score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError, require_known
from contstim.models import ModelSpec
from contstim.models.base import (
    Event,
    ReplacementScores,
    ScoreKind,
    SentenceModel,
    SentenceScores,
    TokenScores,
    check_sentences,
    dependency_names,
)
from contstim.plugins import Registry
from contstim.text import Sentence, WordList
from contstim.text.language import is_closing


@dataclass(frozen=True)
class Reduction:
    """How the scored units of a sentence become one number: ``factor(T) LP``.

    Attributes
    ----------
    formula
        What it computes, in one line.
    factor
        From the numbers T of scored units, shape (S,), float64, to what LP is multiplied by, shape
        (S,): at most 1, and no more for a longer sentence.
    kind
        From what the model's scores are to what the reduction makes of them.
    subtracts_unigram
        Whether what the words' frequencies explain is taken off LP first.
    of_parts
        What the score is of the units themselves and what the model scores, in place of all that;
        words have no share then. None: the score is as above.
    """

    formula: str
    factor: Callable[[FloatArray], FloatArray]
    kind: Callable[[ScoreKind], ScoreKind]
    subtracts_unigram: bool = False
    of_parts: Callable[[TokenScores, Event], float] | None = None

    @property
    def has_shares(self) -> bool:
        """Whether words have shares that sum to the score."""
        return self.of_parts is None


def _reading(parts: TokenScores, event: Event) -> float:
    """Return the mean log-probability of a word plus that of the final mark and end symbol."""
    n = len(parts.tokens)
    end = None if event.end == "none" else event.end  # "none" may be a word of the sentence
    while n and (parts.tokens[n - 1] == end or is_closing(parts.tokens[n - 1].strip("Ġ▁"))):
        n -= 1
    if n == len(parts.tokens):
        raise InputError(
            f"a sentence ends in {parts.tokens[-1]!r}, not in a scored punctuation mark, which "
            "reduction=reading needs; add one, such as a full stop"
        )
    return parts.log_prob / parts.n_words + float(parts.log_probs[n:].sum())


def _a_token(lengths: FloatArray) -> FloatArray:
    return 1.0 / lengths


#: The reductions by name.
REDUCTIONS = Registry[Reduction](
    "reduction",
    "contstim.reductions",
    {
        "sum": Reduction("LP, the log-probability", np.ones_like, lambda kind: kind),
        "mean": Reduction(
            "MeanLP = LP / T",
            _a_token,
            lambda kind: replace(kind, name="mean log-probability", unit="nats a token"),
        ),
        "pen": Reduction(
            "PenLP = LP / ((5 + T) / (5 + 1))^0.8",
            lambda lengths: (6.0 / (5.0 + lengths)) ** 0.8,
            lambda kind: replace(
                kind, name="length-penalised log-probability", unit="nats, length-penalised"
            ),
        ),
        "slor": Reduction(
            "SLOR = (LP - sum of the units' unigram log-probabilities) / T",
            _a_token,
            lambda kind: replace(kind, name="SLOR", unit="nats a token", highest=math.inf),
            subtracts_unigram=True,
        ),
        "reading": Reduction(
            "the mean log-probability of a word, plus that of the end",
            np.ones_like,
            lambda kind: replace(
                kind, name="reading score", unit="nats a word", splits_over_words=False
            ),
            of_parts=_reading,
        ),
    },
    Reduction,
)


class ReducedModel(SentenceModel):
    """A model whose score is a reduction of another's parts.

    Parameters
    ----------
    model
        The model that scores the units.
    name
        One of `REDUCTIONS`.
    spec
        The spec of the two together.
    unigram
        For ``slor``, a model without context whose word scores are taken off: of the same units
        (Kann et al. 2018), or of words.
    """

    def __init__(
        self,
        model: SentenceModel,
        name: str,
        spec: ModelSpec,
        unigram: SentenceModel | None = None,
    ) -> None:
        super().__init__(spec)
        self.reduction = REDUCTIONS[name]
        if self.reduction.subtracts_unigram != (unigram is not None):
            raise InputError(
                f"reduction {name!r} got the unigram model {unigram!r}; slor needs one, and the "
                "others take none"
            )
        self.model = model
        self.reduction_name = name
        self.unigram = unigram

    @property
    def event(self) -> Event:
        """The inner model's event, with this reduction and, for SLOR, its unigram model."""
        name = self.reduction_name
        if self.unigram is not None:
            name += f" over {self.unigram.spec}"
        return replace(self.model.event, reduction=name)

    @property
    def fingerprint(self) -> str:
        """The inner model's fingerprint, and the unigram model's where there is one."""
        if self.unigram is None:
            return self.model.fingerprint
        return f"{self.model.fingerprint}-{self.unigram.fingerprint}"

    @property
    def packages(self) -> tuple[str, ...]:
        """Those of the models, and the one that brings the reduction."""
        models = [self.model] if self.unigram is None else [self.model, self.unigram]
        names = [name for model in models for name in dependency_names(model)]
        return (*names, *REDUCTIONS.packages(self.reduction_name))

    @property
    def batch_tolerance(self) -> float:
        """The resolutions of the models: factors are at most 1."""
        return self.model.batch_tolerance + (
            0.0 if self.unigram is None else self.unigram.batch_tolerance
        )

    @property
    def card(self) -> str | None:
        """The inner model's."""
        card: str | None = getattr(self.model, "card", None)
        return card

    @property
    def kind(self) -> ScoreKind:
        """What the reduction makes of the inner model's score."""
        return self.reduction.kind(self.model.kind)

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return which words all models involved know; shape (V,)."""
        known = self.model.in_vocabulary(words)
        return known if self.unigram is None else known & self.unigram.in_vocabulary(words)

    def count_tokens(self, sentences: Sequence[str]) -> IntArray | None:
        """Return what the inner model does."""
        return self.model.count_tokens(sentences)

    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        """Return the inner parts, reduced so that they sum to the score.

        SLOR takes a word's unigram log-probability off its units in equal shares.

        Raises
        ------
        InputError
            For a score of which units have no share; else as the inner model does.
        """
        if not self.reduction.has_shares:
            raise InputError(
                f"{self.spec!r} is a {self.kind.name}, of which words have no share; ask for "
                "another reduction or for sentence scores"
            )
        inner = self.model.score_tokens(sentences)
        if self.unigram is not None:
            words = self.unigram.score_words(sentences)
            inner = [_above_unigram(p, u) for p, u in zip(inner, words, strict=True)]
        factors = self.reduction.factor(np.array([float(len(p.log_probs)) for p in inner]))
        return [
            replace(p, log_probs=p.log_probs * f, stderr=p.stderr * float(f))
            for p, f in zip(inner, factors, strict=True)
        ]

    def score_words(self, sentences: Sequence[str]) -> list[FloatArray]:
        """Return S arrays (W,) that sum to the score of each sentence; NaN where the model's are.

        Raises `InputError` for a score on a curve, of which words have no share.
        """
        words = super().score_words(sentences)
        for values, inner in zip(words, self.model.score_words(sentences), strict=True):
            values[np.isnan(inner)] = np.nan
        return words

    def score_with_counts(self, sentences: Sequence[str]) -> SentenceScores:
        """Score sentences, and count the units."""
        if self.unigram is not None:
            return super().score_with_counts(sentences)
        if (of_parts := self.reduction.of_parts) is not None:
            parts, event = self.model.score_tokens(sentences), self.model.event
            # The error of a part is no larger than that of the sum.
            return SentenceScores.from_rows(
                (of_parts(p, event), len(p.tokens), p.n_words, p.stderr) for p in parts
            )
        inner = _counted(self.model, sentences)
        factors = self.reduction.factor(inner.n_tokens.astype(np.float64))
        score, stderr = inner.score * factors, inner.stderr * factors
        return replace(inner, score=score, stderr=stderr)

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        """Score candidates; exact where all have as many units as the sentence itself."""
        general = super().score_replacements(sentence, position, words)
        if not self.reduction.has_shares:
            return general
        inner = self.model.score_replacements(sentence, position, words)
        example = str(sentence.replace(position, words.words[0]))
        n_tokens = self.model.score_with_counts([example]).n_tokens
        # Of sub-word units there is one a word at least; the first word may be left unscored.
        fewest = max(1, len(sentence) - 1)
        factor, largest = self.reduction.factor(np.array([float(n_tokens[0]), float(fewest)]))
        upper, estimate = inner.upper_bounds, inner.estimates
        if self.unigram is not None:
            table = self.unigram.score_replacements(sentence, position, words)
            unigram = table.estimates if table.is_exact else table.score(np.arange(len(words)))
            upper, estimate = upper - unigram, estimate - unigram
        if self.event.units.startswith("words"):
            # A candidate is one unit in place of one, so the number of units does not change.
            return replace(
                inner,
                upper_bounds=upper * factor,
                estimates=estimate * factor,
                score=general.score,
            )
        return replace(
            inner,
            upper_bounds=np.maximum(upper, 0.0) * largest,
            estimates=estimate * factor,
            is_exact=False,
            score=general.score,
            # Whole sentences are scored.
            cost=replace(inner.cost, n_inputs=np.maximum(inner.cost.n_inputs, 1.0)),
        )


def _counted(model: SentenceModel, sentences: Sequence[str]) -> SentenceScores:
    """Score sentences, and count their units; refuse a model that cannot tell them."""
    totals = model.score_with_counts(sentences)
    if not totals.n_tokens.all():
        raise InputError(
            f"{model.spec!r} does not tell how many units a sentence has, which reductions and "
            "perplexities need; take its scores as they are"
        )
    return totals


def _above_unigram(parts: TokenScores, unigram: FloatArray) -> TokenScores:
    """Take each scored word's unigram log-probability off its units, in equal shares."""
    counts = np.bincount(parts.word_indices, minlength=parts.n_words)
    shares = unigram[parts.word_indices] / counts[parts.word_indices]
    return replace(parts, log_probs=parts.log_probs - shares)


_UNITS = {"nats": 1.0, "bits": float(np.log(2.0))}


def surprisal(
    model: SentenceModel, sentences: Sequence[str], unit: str = "nats"
) -> list[FloatArray]:
    """Return each word's surprisal, -log p(word | its context).

    Parameters
    ----------
    model
        The model; its event says what a word's context is.
    sentences
        S sentences.
    unit
        ``nats`` (natural logarithm) or ``bits`` (base 2).

    Returns
    -------
    list of arrays
        S arrays (W,); NaN where the model does not predict a word.

    Raises
    ------
    UnknownNameError
        For another unit.
    InputError
        As the model's `score_words`, and for a model with a reduction.
    """
    require_known("unit", unit, _UNITS)
    _check_plain(model)
    # The sign of a zero is of no interest.
    return [0.0 - words / _UNITS[unit] for words in model.score_words(sentences)]


def corpus_perplexity(model: SentenceModel, sentences: Sequence[str], per: str = "token") -> float:
    """Return exp(-sum of LP / N) over a corpus, N the number of scored tokens or of words.

    For a masked model it is the pseudo-perplexity of Salazar et al. (2020), section 2.3. Per
    token, only models with one vocabulary can be compared; per word, any (ibid.).

    Parameters
    ----------
    model
        The model.
    sentences
        The S sentences of the corpus.
    per
        ``token`` or ``word``.

    Raises
    ------
    UnknownNameError
        If `per` is neither.
    InputError
        As the model's own scores, for an empty corpus, and for a model with a reduction.

    Examples
    --------
    >>> import contstim
    >>> model = contstim.load_model("contstim:trigram")
    >>> round(corpus_perplexity(model, contstim.pool()[:100], per="word"))
    621
    """
    require_known("unit of perplexity", per, ("token", "word"))
    _check_plain(model)
    listed = check_sentences(sentences)
    if not listed:
        raise InputError("a corpus needs at least one sentence, got none")
    if per == "token":
        totals = _counted(model, listed)
        return float(np.exp(-totals.score.sum() / totals.n_tokens.sum()))
    # A word that is not predicted counts neither above nor below.
    words = np.concatenate(model.score_words(listed))
    return float(np.exp(-np.nanmean(words)))


def _check_plain(model: SentenceModel) -> None:
    if model.event.reduction != "sum":
        raise InputError(
            f"{model.spec!r} gives reduced scores; take the model without its reduction"
        )
