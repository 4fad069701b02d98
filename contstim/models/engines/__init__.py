"""Causal models computed by another program: a completion server, or llama.cpp."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError, SpecError
from contstim.models import ModelSpec
from contstim.models.base import Event, SentenceModel, TokenScores
from contstim.progress import track
from contstim.text.languages import ENGLISH
from contstim.text.normalise import check_sentences, normalise_sentence


@dataclass(frozen=True, eq=False)
class PromptLogprobs:
    """The tokens of a text with their log-probabilities, as computed by another program.

    Attributes
    ----------
    tokens
        The T tokens, including tokens that the program inserts before the text.
    starts
        Offset of the first character of each token in the text, shape (T,); -1 for inserted tokens.
    log_probs
        Log-probability of each token given the tokens before it, in nats, shape (T,); NaN for the
        first token.
    """

    tokens: tuple[str, ...]
    starts: IntArray
    log_probs: FloatArray

    @property
    def leading_tokens(self) -> tuple[str, ...]:
        """Tokens before the text."""
        return tuple(t for t, start in zip(self.tokens, self.starts, strict=True) if start < 0)


class EngineModel(SentenceModel):
    """Base class of causal models that run in another program.

    The score is log P(s) = Σ_t log p(t | inserted tokens, prefix, tokens before t), where the
    program inserts tokens, for example a start token, before each text. With neither inserted
    tokens nor a prefix, the first word cannot be predicted. The score is then the log-probability
    of the other words, and the score of the first word is NaN.

    Attributes
    ----------
    name
        Label of the program and its model in messages. It is not sent to the program.
    prefix
        Context: a text that is placed before every sentence and is not scored.
    leading_tokens
        Tokens that the program inserts before every text.
    batch
        Number of texts that are sent to the program in one request.
    """

    name: str
    prefix: str = ""
    leading_tokens: tuple[str, ...] = ()
    batch: int = 1

    @abstractmethod
    def prompt_logprobs(self, texts: Sequence[str]) -> list[PromptLogprobs]:
        """Return the log-probabilities of the tokens of S texts.

        Raises
        ------
        InputError
            If a text is too long.
        EngineError
            If the program does not answer, or its answer is invalid.
        """

    @property
    def event(self) -> Event:
        """Definition of the score: probability of the tokens of a sentence after the context."""
        # Context before the first word, for example "<s> and 'Once upon a time'".
        context = [" ".join(self.leading_tokens), repr(self.prefix) if self.prefix else ""]
        return Event(
            units="tokens",
            start=" and ".join(filter(None, context)) or "none",
            end="none",
            punctuation="keep",
        )

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return True for single words, since sub-word tokenizers split unknown words."""
        return np.array([len(word.split()) == 1 for word in words], dtype=np.bool_)

    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        """Score the tokens of each sentence. Raises the errors of `prompt_logprobs`."""
        texts = [normalise_sentence(sentence) for sentence in check_sentences(sentences)]
        # Score each distinct sentence once. Sorted sentences share first words, so that an engine
        # can cache them, and give the same batches in any order of the input.
        distinct = sorted(dict.fromkeys(texts))
        batches = [distinct[i : i + self.batch] for i in range(0, len(distinct), self.batch)]
        scores: dict[str, TokenScores] = {}
        for batch in track(batches, len(batches), f"scoring with {self.name}"):
            # The engine returns the log-probability of each token of the text.
            answers = self.prompt_logprobs([self.prefix + text for text in batch])
            for text, answer in zip(batch, answers, strict=True):
                scores[text] = self._align(text, answer)
        return [scores[text] for text in texts]

    def _align(self, text: str, answer: PromptLogprobs) -> TokenScores:
        """Convert the answer of the program to the scored tokens of a sentence.

        Each token is assigned to the word in which it starts; white space belongs to the next word.
        The tokens before the sentence are removed.

        Parameters
        ----------
        text
            The sentence.
        answer
            Tokens of the prefix and the sentence, with their log-probabilities.
        """
        # Offsets in the sentence; negative for tokens before it.
        starts = answer.starts - len(self.prefix)
        ends = np.append(starts[1:], len(text))
        is_in_text = answer.starts >= 0
        if (is_in_text & (starts < 0) & (ends > 0)).any():
            raise InputError(
                f"a token of {self.spec} spans the prefix {self.prefix!r} and {text!r}; use "
                "another prefix"
            )
        word_ends = [end for _, end in ENGLISH.word_spans(text)]
        word_indices = np.searchsorted(word_ends, starts, side="right")
        word_indices = np.minimum(word_indices, len(word_ends) - 1)
        is_scored = starts >= 0
        for token in np.array(answer.tokens, dtype=object)[is_scored]:
            if len(token.split()) > 1:
                raise InputError(
                    f"token {token!r} spans two words of {text!r}; {self.spec} cannot be scored "
                    "word by word"
                )
        if self.event.start == "none":
            is_scored &= word_indices > 0
            if not is_scored.any():
                raise InputError(
                    f"{text!r} has one word, and {self.spec} has nothing to predict it from; "
                    "add a prefix"
                )
        return TokenScores(
            tuple(answer.tokens[i] for i in np.flatnonzero(is_scored)),
            np.minimum(answer.log_probs[is_scored], 0.0),
            word_indices[is_scored],
            len(text.split()),
        )


def integer_option(spec: ModelSpec, key: str, default: str, minimum: int = 1) -> int:
    """Return the value of an integer option in a model specification.

    Raises
    ------
    SpecError
        If the value is not an integer of at least `minimum`.
    """
    text = spec.get(key, default)
    if not text.isdecimal() or int(text) < minimum:
        raise SpecError(f"{key}={text!r} in {str(spec)!r}: give a whole number >= {minimum}")
    return int(text)
