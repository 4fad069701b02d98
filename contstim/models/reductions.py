"""Reductions of the token log-probabilities of a sentence to one score, and perplexity.

Most reductions multiply the log-probability LP of a sentence by a factor that depends on its number
of tokens T (Lau, Clark & Lappin 2017; length penalty of Vaswani et al. 2017). SLOR first subtracts
the unigram log-probabilities of the words (Pauls & Klein 2012; Lau et al. 2017, table 2).
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
)
from contstim.models.cache import dependency_names
from contstim.plugins import Registry
from contstim.text import Sentence, WordList
from contstim.text.language import is_closing
from contstim.text.normalise import check_sentences


@dataclass(frozen=True)
class Reduction:
    """A method that reduces the token log-probabilities of a sentence to one score.

    The default formula is ``length_factor(T) · LP``, where LP is the sum of the log-probabilities
    of the T tokens.

    Attributes
    ----------
    formula
        The formula of the score in one line.
    length_factor
        Function that maps token counts T, shape (S,), float64, to factors, shape (S,). Factors are
        at most 1 and do not increase with T.
    kind
        Function that returns the quantity and unit of the reduced scores, given the quantity and
        unit of the original scores, for example nats per word instead of nats.
    subtracts_unigram
        Whether the unigram log-probabilities of the words are subtracted from LP first.
    custom_score
        Function that computes the score of a sentence from its scored tokens and from the `Event`
        of the model, in place of the default formula. Words then have no scores.
    """

    formula: str
    length_factor: Callable[[FloatArray], FloatArray]
    kind: Callable[[ScoreKind], ScoreKind]
    subtracts_unigram: bool = False
    custom_score: Callable[[TokenScores, Event], float] | None = None


def reading_score(scores: TokenScores, event: Event) -> float:
    """Return the reading score (nats per word), which rewards a complete sentence.

    The score is LP / W + LP_end, where LP is the log-probability of the sentence, W its number of
    words and LP_end the log-probability of the final punctuation and of the end symbol. These are
    thus counted twice.

    Parameters
    ----------
    scores
        Scored tokens of a sentence.
    event
        Definition of the model's score. It states whether there is an end symbol, and which.

    Raises
    ------
    InputError
        If the sentence does not end in a scored punctuation mark.
    """
    end_symbol = None if event.end == "none" else event.end  # for example "</s>"
    # Find the tokens after the last word: final punctuation and, if it is scored, the end symbol.
    # Tokenizers mark a preceding space by "Ġ" or "▁".
    n_before_end = len(scores.tokens)
    for token in reversed(scores.tokens):
        if token != end_symbol and not is_closing(token.strip("Ġ▁")):
            break
        n_before_end -= 1
    if n_before_end == len(scores.tokens):
        raise InputError(
            f"a sentence ends in {scores.tokens[-1]!r}, not in a scored punctuation mark; add a "
            "full stop or another mark, which reduction=reading needs"
        )
    # `log_prob` includes the tokens after the last word. They are added a second time, so that an
    # incomplete sentence gets a low score.
    return scores.log_prob / scores.n_words + float(scores.log_probs[n_before_end:].sum())


#: Reductions by name. Other packages add theirs by the entry-point group ``contstim.reductions``.
REDUCTIONS = Registry[Reduction](
    "reduction",
    "contstim.reductions",
    {
        "sum": Reduction("LP, the log-probability", np.ones_like, lambda kind: kind),
        "mean": Reduction(
            "MeanLP = LP / T",
            lambda lengths: 1.0 / lengths,
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
            "SLOR = (LP - sum of the tokens' unigram log-probabilities) / T",
            lambda lengths: 1.0 / lengths,
            lambda kind: replace(kind, name="SLOR", unit="nats a token", highest=math.inf),
            subtracts_unigram=True,
        ),
        "reading": Reduction(
            "mean log-probability of a word, plus the log-probability of the end",
            np.ones_like,
            lambda kind: replace(
                kind, name="reading score", unit="nats a word", splits_over_words=False
            ),
            custom_score=reading_score,
        ),
    },
    Reduction,
)


class ReducedModel(SentenceModel):
    """A model that reduces the token log-probabilities of an underlying model to one score.

    Parameters
    ----------
    model
        Model that scores the tokens.
    name
        Name of the reduction in `REDUCTIONS`.
    spec
        Specification of the model with the reduction, for example ``hf:gpt2?reduction=mean``.
    unigram
        Unigram model with the word scores to subtract, for ``slor`` only. It scores the same tokens
        as `model` (Kann et al. 2018), or words.

    Raises
    ------
    InputError
        If the reduction needs a unigram model and none is given, or if it needs none and one is
        given.
    """

    def __init__(
        self, model: SentenceModel, name: str, spec: ModelSpec, unigram: SentenceModel | None = None
    ) -> None:
        super().__init__(spec)
        # A reduction, for example "mean", converts token log-probabilities to one number. The
        # reduction "slor" also subtracts the log-probability of a unigram model.
        self.reduction = REDUCTIONS[name]
        if self.reduction.subtracts_unigram != (unigram is not None):
            raise InputError(
                f"reduction {name!r} got the unigram model {unigram!r}; pass one for slor, and "
                "none for other reductions"
            )
        self.model = model
        self.reduction_name = name
        self.unigram = unigram

    @property
    def event(self) -> Event:
        """Definition of the underlying model's score, with the name of the reduction."""
        name = self.reduction_name
        if self.unigram is not None:
            name += f" over {self.unigram.spec}"
        return replace(self.model.event, reduction=name)

    @property
    def fingerprint(self) -> str:
        """Fingerprints of the underlying model and the unigram model, joined by a hyphen."""
        if self.unigram is None:
            return self.model.fingerprint
        return f"{self.model.fingerprint}-{self.unigram.fingerprint}"

    @property
    def packages(self) -> tuple[str, ...]:
        """Names of the packages that provide the models and the reduction."""
        models = [self.model] if self.unigram is None else [self.model, self.unigram]
        names = [name for model in models for name in dependency_names(model)]
        return (*names, *REDUCTIONS.packages(self.reduction_name))

    @property
    def batch_tolerance(self) -> float:
        """Sum of the tolerances of both models, because reductions multiply by at most 1."""
        unigram = 0.0 if self.unigram is None else self.unigram.batch_tolerance
        return self.model.batch_tolerance + unigram

    @property
    def card(self) -> str | None:
        """Model card of the underlying model, if it has one."""
        card: str | None = getattr(self.model, "card", None)
        return card

    @property
    def kind(self) -> ScoreKind:
        """Quantity and unit of the reduced scores."""
        return self.reduction.kind(self.model.kind)

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return whether the model and the unigram model know each of V words, shape (V,)."""
        is_known = self.model.in_vocabulary(words)
        return is_known if self.unigram is None else is_known & self.unigram.in_vocabulary(words)

    def count_tokens(self, sentences: Sequence[str]) -> IntArray | None:
        """Count the tokens of each sentence under the underlying model, shape (S,)."""
        return self.model.count_tokens(sentences)

    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        """Return token scores that sum to the reduced score.

        For SLOR, the unigram log-probability of a word is divided equally among its tokens and
        subtracted from their scores.

        Raises
        ------
        InputError
            If the reduced score is not a sum over tokens; otherwise as the underlying model.
        """
        if self.reduction.custom_score is not None:
            raise InputError(
                f"{self.spec!r} has no word scores, since a {self.kind.name} is not a sum over "
                "words; use another reduction or sentence scores"
            )
        scores = self.model.score_tokens(sentences)
        # SLOR: subtract the log-probabilities of a unigram model, which is given by word.
        if self.unigram is not None:
            unigram_scores = self.unigram.score_words(sentences)
            for i, (token_scores, by_word) in enumerate(zip(scores, unigram_scores, strict=True)):
                # Each token gets the unigram score of its word, divided by the word's tokens.
                indices = token_scores.word_indices
                unigram_shares = by_word[indices] / np.bincount(indices)[indices]
                log_probs = token_scores.log_probs - unigram_shares
                scores[i] = replace(token_scores, log_probs=log_probs)
        # The reduction multiplies the score by a factor that depends on the number of tokens T, for
        # example 1 / T for the mean. Multiply each token's score, so that they sum to the score.
        factors = self.reduction.length_factor(np.array([float(len(s.log_probs)) for s in scores]))
        pairs = zip(scores, factors.tolist(), strict=True)
        return [replace(s, log_probs=s.log_probs * f, stderr=s.stderr * f) for s, f in pairs]

    def score_words(self, sentences: Sequence[str]) -> list[FloatArray]:
        """Return S arrays (W,) of reduced word scores, NaN for words that are not scored.

        Raises `InputError` if the reduced score is not a sum over words.
        """
        reduced = super().score_words(sentences)
        for values, unreduced in zip(reduced, self.model.score_words(sentences), strict=True):
            values[np.isnan(unreduced)] = np.nan
        return reduced

    def score_with_counts(self, sentences: Sequence[str]) -> SentenceScores:
        """Score sentences, and count their tokens and words.

        The score is the reduction of the token log-probabilities, for example their mean. The
        counts are those of the underlying model.
        """
        if self.unigram is not None:
            # SLOR needs the scores of single tokens, which the base class adds up.
            return super().score_with_counts(sentences)
        # Some reductions compute the score of a sentence from its tokens by a function.
        custom_score = self.reduction.custom_score
        if custom_score is not None:
            event = self.model.event  # definition of the score, for example with the end symbol
            # The standard error of the log-probability is an upper bound of the standard error.
            return SentenceScores.from_rows(
                (custom_score(s, event), len(s.tokens), s.n_words, s.stderr)
                for s in self.model.score_tokens(sentences)
            )
        # Others multiply the log-probability by a factor that depends on the number of tokens.
        scores = _score_with_token_counts(self.model, sentences)
        factors = self.reduction.length_factor(scores.n_tokens.astype(np.float64))
        return replace(scores, score=scores.score * factors, stderr=scores.stderr * factors)

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        """Score a sentence with one word replaced by each of V candidates.

        The score is log P times f(T), where log P is the log-probability of the sentence under the
        underlying model, T its number of tokens and f the factor of the reduction, for example 1 /
        T. If the model's tokens are whole words, T is the same for all candidates. If they are
        parts of words, T differs between candidates, so the scores in the result are approximate:

        - upper bounds use the largest f(T) that any candidate can have;
        - estimates use f(T) of the first candidate.

        The method `score` of the result computes the exact scores of selected candidates.
        """
        # Without bounds: exact scores are computed on demand, when `score` is called.
        on_demand = super().score_replacements(sentence, position, words)
        if self.reduction.custom_score is not None:
            return on_demand
        unreduced = self.model.score_replacements(sentence, position, words)
        upper_bounds, estimates = unreduced.upper_bounds, unreduced.estimates
        # SLOR: subtract the exact unigram log-probability of the sentence with each candidate.
        if self.unigram is not None:
            unigram = self.unigram.score_replacements(sentence, position, words)
            baseline = unigram.estimates
            if not unigram.is_exact:
                baseline = unigram.score(np.arange(len(words)))
            upper_bounds, estimates = upper_bounds - baseline, estimates - baseline
        # The score is multiplied by a factor that decreases with the number of tokens. For the
        # estimates, use the factor of the first candidate for all candidates.
        example = str(sentence.replace(position, words.words[0]))
        n_tokens = float(self.model.score_with_counts([example]).n_tokens[0])
        # Sub-word models score at least one token per word, except perhaps the first word.
        min_tokens = float(max(1, len(sentence) - 1))
        factor, max_factor = self.reduction.length_factor(np.array([n_tokens, min_tokens]))
        reduced = replace(unreduced, estimates=estimates * factor, score=on_demand.score)
        if self.event.units.startswith("words"):
            # Every candidate is one token, so the number of tokens is constant.
            return replace(reduced, upper_bounds=upper_bounds * factor)
        # A negative score times an unknown factor is bounded by 0 only.
        upper_bounds = np.maximum(upper_bounds, 0.0) * max_factor
        # Each exact score requires scoring at least one whole sentence.
        cost = replace(unreduced.cost, n_inputs=np.maximum(unreduced.cost.n_inputs, 1.0))
        return replace(reduced, upper_bounds=upper_bounds, is_exact=False, cost=cost)


def _score_with_token_counts(model: SentenceModel, sentences: Sequence[str]) -> SentenceScores:
    """Score sentences and count their tokens.

    `InputError` is raised if the model, for example a table of scores, cannot count tokens.
    """
    scores = model.score_with_counts(sentences)
    # A model that does not know its tokens, such as a table of scores, states 0 tokens.
    if not scores.n_tokens.all():
        raise InputError(
            f"{model.spec!r} does not count tokens, which reductions and perplexities need; use "
            "its scores unreduced"
        )
    return scores


_NATS_PER_UNIT = {"nats": 1.0, "bits": float(np.log(2.0))}


def surprisal(
    model: SentenceModel, sentences: Sequence[str], unit: str = "nats"
) -> list[FloatArray]:
    """Return the surprisal of each word, -log p(word | context).

    Parameters
    ----------
    model
        The model. The context of a word depends on the model, see ``model.event``.
    sentences
        The S sentences.
    unit
        ``nats`` (natural logarithm) or ``bits`` (base 2).

    Returns
    -------
    list of arrays
        One array for each sentence, with one element per word; NaN for words without a score.

    Raises
    ------
    UnknownNameError
        If the unit is unknown.
    InputError
        If the model has a reduction; otherwise as the model's `score_words`.
    """
    require_known("unit", unit, _NATS_PER_UNIT)
    _require_unreduced(model)
    # Subtracting from 0 avoids negative zeros.
    return [0.0 - words / _NATS_PER_UNIT[unit] for words in model.score_words(sentences)]


def corpus_perplexity(model: SentenceModel, sentences: Sequence[str], per: str = "token") -> float:
    """Return the perplexity of a corpus, exp(-ΣLP / N) for N scored tokens or words.

    For a masked model it is the pseudo-perplexity of Salazar et al. (2020), section 2.3. The
    perplexity per token is comparable only between models with the same vocabulary, and the
    perplexity per word between all models.

    Parameters
    ----------
    model
        Model to evaluate.
    sentences
        The S sentences of the corpus.
    per
        ``token`` or ``word``.

    Raises
    ------
    UnknownNameError
        If `per` is neither ``token`` nor ``word``.
    InputError
        If the corpus is empty, the model has a reduction or the model cannot score a sentence.

    Examples
    --------
    >>> import contstim
    >>> model = contstim.load_model("contstim:trigram")
    >>> round(corpus_perplexity(model, contstim.pool()[:100], per="word"))
    621
    """
    require_known("unit of perplexity", per, ("token", "word"))
    _require_unreduced(model)
    sentences = check_sentences(sentences)
    if not sentences:
        raise InputError("a corpus needs at least one sentence, got none")
    # Perplexity: exp(-sum of log-probabilities / N), with the number N of tokens or of words.
    if per == "token":
        scores = _score_with_token_counts(model, sentences)
        return float(np.exp(-scores.score.sum() / scores.n_tokens.sum()))
    # Words without a score (NaN) count neither in the sum nor in N.
    return float(np.exp(-np.nanmean(np.concatenate(model.score_words(sentences)))))


def _require_unreduced(model: SentenceModel) -> None:
    """Raise `InputError` unless the score is the log-probability of the sentence."""
    # `model.event` defines the score. The reduction "sum" adds the log-probabilities of all tokens.
    if model.event.reduction != "sum":
        raise InputError(
            f"{model.spec!r} gives reduced scores; use the model without its reduction"
        )
