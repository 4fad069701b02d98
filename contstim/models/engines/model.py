"""Causal models behind an engine, as sentence models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contstim.arrays import BoolArray
from contstim.errors import InputError, SpecError
from contstim.files import digest
from contstim.models import ModelSpec
from contstim.models.base import Event, SentenceModel, SentenceParts, as_sentences
from contstim.models.engines import Echo
from contstim.models.engines.completions import Completions
from contstim.models.engines.handshake import shake_hands
from contstim.progress import track
from contstim.text.language import tidy

#: Options of an engine's spec and their defaults; ``model`` has no default.
ENGINE_OPTIONS = {"prefix": "", "batch": "32", "key": "", "timeout": "600"}


@dataclass(frozen=True)
class EngineEvent(Event):
    """What an engine scores.

    Attributes
    ----------
    opening
        What it puts before every text by itself.
    """

    opening: str = "none"


class EngineModel(SentenceModel):
    """A causal model that an engine serves: ``openai:http://HOST:PORT/v1?model=NAME``.

    log P(s) = sum_t log p(t | prefix and tokens before t), as of a causal model computed here. What
    stands before the first word is ``prefix=TEXT``, after what the engine puts there by itself; if
    that is nothing, the first token cannot be predicted: the score is the log-probability of the
    others, the event says ``start none``, and the first word's entry of `score_words` is NaN.

    Before the first number is used the engine is tried (`shake_hands`), and the largest difference
    between two of its values of one thing is the model's `resolution`. Texts are asked about
    ``batch`` at a time; ``key`` names the environment variable that holds a key.

    Parameters
    ----------
    spec
        The spec, with the options of `ENGINE_OPTIONS` and ``model``.

    Raises
    ------
    SpecError
        For an unknown option or a bad value.
    EngineError
        If the engine does not answer, or fails a check.
    """

    def __init__(self, spec: ModelSpec) -> None:
        spec.check_options({*ENGINE_OPTIONS, "model"})
        super().__init__(spec.canonical(ENGINE_OPTIONS))
        if not spec.location.startswith(("http://", "https://")) or not spec.get("model", ""):
            raise SpecError(
                f"{str(spec)!r} does not say where the engine is and what it calls the model; "
                "write openai:http://HOST:PORT/v1?model=NAME"
            )
        numbers = {}
        for option in ("batch", "timeout"):
            text = spec.get(option, ENGINE_OPTIONS[option])
            if not text.isdecimal() or int(text) < 1:
                raise SpecError(
                    f"{option}={text!r} in {str(spec)!r}: give a whole number from 1 on"
                )
            numbers[option] = int(text)
        self.prefix, self._batch = spec.get("prefix", ""), numbers["batch"]
        self.engine = Completions(
            spec.location, spec.get("model", ""), spec.get("key", ""), numbers["timeout"]
        )
        self.findings = shake_hands(self.engine, self.prefix)

    @property
    def event(self) -> EngineEvent:
        """What is scored; how the engine treats case and unknown words it does not say."""
        opening = " ".join(self.findings.opening)
        return EngineEvent(
            units="tokens",
            start=" and ".join(filter(None, (opening, repr(self.prefix) if self.prefix else "")))
            or "none",
            end="none",
            punctuation="keep",
            opening=opening or "none",
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 of address and name: of the weights an engine says nothing."""
        return digest(self.engine.name)

    @property
    def resolution(self) -> float:
        """The largest difference that was found between two values of one thing, nats."""
        return self.findings.resolution

    def knows(self, words: Sequence[str]) -> BoolArray:
        """Return True for words: engines spell what they do not know."""
        return np.array([len(word.split()) == 1 for word in words], dtype=np.bool_)

    def parts(self, sentences: Sequence[str]) -> list[SentenceParts]:
        """Ask about each sentence, each text once.

        Raises
        ------
        InputError
            For a sentence without a word, or of which nothing can be predicted.
        EngineError
            If the engine does not answer, or not with what was asked for.
        """
        texts = [tidy(sentence) for sentence in as_sentences(sentences)]
        distinct = list(dict.fromkeys(texts))
        starts = range(0, len(distinct), self._batch)
        batches = [distinct[start : start + self._batch] for start in starts]
        parts: dict[str, SentenceParts] = {}
        for batch in track(batches, len(batches), f"asking {self.engine.name}"):
            echoes = self.engine.echo([self.prefix + text for text in batch])
            for text, echo in zip(batch, echoes, strict=True):
                parts[text] = self._of(text, echo)
        return [parts[text] for text in texts]

    def score_words(self, sentences: Sequence[str]) -> list[np.ndarray]:
        """Return S arrays (W,) in nats that sum to the scores; NaN for what is not predicted."""
        words = super().score_words(sentences)
        if self.event.start == "none":
            for values in words:
                values[0] = np.nan
        return words

    def _of(self, text: str, echo: Echo) -> SentenceParts:
        """Assign tokens to words by where they begin."""
        starts = echo.starts - len(self.prefix)
        ends = np.append(starts[1:], len(text))
        if ((starts < 0) & (ends > 0) & (echo.starts >= 0)).any():
            raise InputError(
                f"a token of {self.spec} spans the prefix {self.prefix!r} and {text!r}; give "
                "another prefix"
            )
        word_at = np.cumsum([0, *(character == " " for character in text)])
        units, values, word_of = [], [], []
        for token, start, log_prob in zip(
            echo.tokens, starts.tolist(), echo.log_probs, strict=True
        ):
            if start < 0:
                continue
            # A token that begins with white space is of the word after it.
            word = int(word_at[start + (text[start : start + 1] == " ")])
            if " " in token.strip(" "):
                raise InputError(
                    f"token {token!r} spans two words of {text!r}; {self.spec} cannot be scored "
                    "word by word"
                )
            units.append(token)
            values.append(log_prob)
            word_of.append(word)
        first = int(self.event.start == "none")
        if first:  # the whole first word is what the others are conditioned on
            first = sum(word == 0 for word in word_of)
        log_probs = np.array(values[first:], dtype=np.float64)
        if not len(log_probs):
            raise InputError(
                f"{text!r} has one word, and {self.spec} has nothing to predict it from; give a "
                "prefix"
            )
        if not (log_probs <= self.findings.resolution).all():
            raise InputError(
                f"{self.spec} gives no log-probability for a token of {text!r}; leave it out"
            )
        return SentenceParts(
            tuple(units[first:]),
            np.minimum(log_probs, 0.0),
            np.array(word_of[first:], dtype=np.int64),
            len(text.split()),
        )
