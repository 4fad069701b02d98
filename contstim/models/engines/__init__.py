"""Causal models computed by another program: a server of completions, or llama.cpp."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError, SpecError
from contstim.models import ModelSpec
from contstim.models.base import Event, SentenceModel, TokenScores, check_sentences
from contstim.progress import track
from contstim.text.languages import ENGLISH
from contstim.text.normalise import normalise_sentence


@dataclass(frozen=True, eq=False)
class PromptLogprobs:
    """Tokens of a text with their log-probabilities.

    Attributes
    ----------
    tokens
        The T tokens, including those that the program puts before the text.
    starts
        Index of the character at which each token starts, shape (T,); -1 before the text.
    log_probs
        Log-probability of each token given those before it, nats, shape (T,); NaN for the first.
    """

    tokens: tuple[str, ...]
    starts: IntArray
    log_probs: FloatArray

    @property
    def opening(self) -> tuple[str, ...]:
        """The tokens before the text."""
        return tuple(t for t, start in zip(self.tokens, self.starts, strict=True) if start < 0)


class EngineModel(SentenceModel):
    """A causal model whose log-probabilities come from another program.

    log P(s) = sum_t log p(t | prefix and tokens before t). The prefix follows the tokens that the
    program itself puts before a text. If nothing precedes the text, the first word is not
    predicted: the score is the log-probability of the other words, the event says ``start none``,
    and the first word's entry of `score_words` is NaN.

    Attributes
    ----------
    name
        Name of the program and its model in messages.
    prefix
        Text put before every sentence.
    opening
        Tokens that the program puts before every text.
    batch
        Number of texts of one request.
    """

    name: str
    prefix: str = ""
    opening: tuple[str, ...] = ()
    batch: int = 1

    @abstractmethod
    def prompt_logprobs(self, texts: Sequence[str]) -> list[PromptLogprobs]:
        """Return the log-probabilities of the tokens of S texts.

        Raises
        ------
        InputError
            For a text that is too long.
        EngineError
            If the program does not answer, or its answer is not valid.
        """

    @property
    def event(self) -> Event:
        """Tokens; how the program treats case and unknown words is not known."""
        before = [" ".join(self.opening), repr(self.prefix) if self.prefix else ""]
        return Event(
            units="tokens",
            start=" and ".join(filter(None, before)) or "none",
            end="none",
            punctuation="keep",
        )

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return True for words: tokenizers of such models split unknown words."""
        return np.array([len(word.split()) == 1 for word in words], dtype=np.bool_)

    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        """Score the tokens of each sentence. Raises as `prompt_logprobs` does."""
        texts = [normalise_sentence(sentence) for sentence in check_sentences(sentences)]
        distinct = sorted(dict.fromkeys(texts))
        batches = [distinct[i : i + self.batch] for i in range(0, len(distinct), self.batch)]
        parts: dict[str, TokenScores] = {}
        for batch in track(batches, len(batches), f"scoring with {self.name}"):
            answers = self.prompt_logprobs([self.prefix + text for text in batch])
            for text, answer in zip(batch, answers, strict=True):
                parts[text] = self._parts_of(text, answer)
        return [parts[text] for text in texts]

    def _parts_of(self, text: str, answer: PromptLogprobs) -> TokenScores:
        """Assign each token to the word in which it starts; white space belongs to the next."""
        starts = answer.starts - len(self.prefix)
        ends = np.append(starts[1:], len(text))
        if ((starts < 0) & (ends > 0) & (answer.starts >= 0)).any():
            raise InputError(
                f"a token of {self.spec} spans the prefix {self.prefix!r} and {text!r}; give "
                "another prefix"
            )
        word_ends = [end for _, end in ENGLISH.word_spans(text)]
        word_indices = np.array([bisect_right(word_ends, start) for start in starts])
        word_indices = np.minimum(word_indices, len(word_ends) - 1)
        scored = starts >= 0
        for token in np.array(answer.tokens, dtype=object)[scored]:
            if len(token.split()) > 1:
                raise InputError(
                    f"token {token!r} spans two words of {text!r}; {self.spec} cannot be scored "
                    "word by word"
                )
        if self.event.start == "none":
            scored &= word_indices > 0
            if not scored.any():
                raise InputError(
                    f"{text!r} has one word, and {self.spec} has nothing to predict it from; "
                    "give a prefix"
                )
        return TokenScores(
            tuple(
                token for token, is_scored in zip(answer.tokens, scored, strict=True) if is_scored
            ),
            np.minimum(answer.log_probs[scored], 0.0),
            word_indices[scored],
            len(text.split()),
        )

    def score_words(self, sentences: Sequence[str]) -> list[FloatArray]:
        """Return S arrays (W,) in nats that sum to the scores; NaN where nothing is predicted."""
        words = super().score_words(sentences)
        if self.event.start == "none":
            for values in words:
                values[0] = np.nan
        return words


def integer_option(spec: ModelSpec, key: str, default: str, minimum: int = 1) -> int:
    """Return an integer option of a spec.

    Raises
    ------
    SpecError
        If it is not an integer, or is below `minimum`.
    """
    text = spec.get(key, default)
    try:
        value = int(text)
    except ValueError:
        value = minimum - 1
    if value < minimum:
        raise SpecError(f"{key}={text!r} in {str(spec)!r}: give a whole number from {minimum} on")
    return value
