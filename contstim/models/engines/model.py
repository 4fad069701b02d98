"""Causal models behind an engine, as sentence models."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import numpy as np

from contstim.arrays import BoolArray, FloatArray
from contstim.errors import InputError
from contstim.models import ModelSpec
from contstim.models.base import Event, SentenceModel, SentenceParts, as_sentences
from contstim.models.engines import Echo, ServingEngine
from contstim.models.engines.answers import Answers
from contstim.models.engines.handshake import CLOSE, Findings, shake_hands, trial_texts
from contstim.plugins import imported
from contstim.progress import note, track
from contstim.text.languages import ENGLISH
from contstim.text.normalise import normalise_sentence

# Engines by the family of their specs.
_ENGINES = {
    "openai": "completions:Completions",
    "vllm": "vllm:VllmServer",
    "sglang": "sglang:SglangServer",
    "gguf": "llama:LlamaFile",
}


def load_engine(spec: ModelSpec) -> EngineModel:
    """Load the model of an engine, once that has passed its trial.

    Raises
    ------
    SpecError
        For an unknown option or a bad value.
    EngineError
        If the engine does not answer, or fails a check.
    """
    address = f"contstim.models.engines.{_ENGINES[spec.family]}"
    engine: type[ServingEngine] = imported(address, f"the model family {spec.family!r}")
    spec.check_options(engine.options)
    return EngineModel(spec, engine(spec))


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
    """A causal model that an engine computes.

    log P(s) = sum_t log p(t | prefix and tokens before t), as of a causal model computed here. What
    stands before the first word is ``prefix=TEXT``, after what the engine puts there by itself; if
    that is nothing, the first token cannot be predicted: the score is the log-probability of the
    others, the event says ``start none``, and the first word's entry of `score_words` is NaN.

    Before the first number is used the engine is tried (`shake_hands`), and the largest difference
    between two of its scores of one text is the model's `resolution`. Texts are asked about
    ``batch`` at a time, those that begin alike together, and each once: answers are kept, with
    ``answers=FOLDER`` on the disk.

    Parameters
    ----------
    spec
        The spec.
    engine
        The engine that it names.

    Raises
    ------
    EngineError
        If the engine does not answer, or fails a check.
    """

    def __init__(self, spec: ModelSpec, engine: ServingEngine) -> None:
        shown = spec.canonical({k: v for k, v in engine.options.items() if v is not None})
        # What is asked for, and how, is no part of what is said.
        options = tuple(pair for pair in shown.options if pair[0] not in engine.unseen)
        super().__init__(ModelSpec(shown.family, shown.location, options))
        self.engine = engine
        folder = spec.get("answers", "")
        self._answers = Answers(Path(folder) if folder else None, engine.name)
        self.findings = self._tried()

    def _tried(self) -> Findings:
        """Try the engine; where answers of an earlier trial are kept, whether it still holds."""
        texts, answers = trial_texts(self.engine.prefix), self._answers
        if answers.resolution is not None and all(text in answers for text in texts):
            earlier = [answers[text] for text in texts]
            return shake_hands(self.engine, earlier, answers.resolution)
        findings = shake_hands(self.engine)
        answers.add(texts, findings.echoes, resolution=findings.resolution)
        return findings

    @property
    def event(self) -> EngineEvent:
        """What is scored; how the engine treats case and unknown words it does not say."""
        opening = " ".join(self.findings.opening)
        return EngineEvent(
            units="tokens",
            start=" and ".join(
                filter(None, (opening, repr(self.engine.prefix) if self.engine.prefix else ""))
            )
            or "none",
            end="none",
            punctuation="keep",
            opening=opening or "none",
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 of a file, or of address and name: of its weights a server says nothing."""
        return self.engine.fingerprint

    @property
    def packages(self) -> tuple[str, ...]:
        """Those that compute, where they do so here."""
        return self.engine.packages

    @property
    def resolution(self) -> float:
        """By how much two scores of one text were found to differ at most, nats."""
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
        texts = [normalise_sentence(sentence) for sentence in as_sentences(sentences)]
        distinct = list(dict.fromkeys(texts))
        parts: dict[str, SentenceParts] = {}
        for text, echo in self._echoes(distinct):
            parts[text] = self._of(text, echo)
        return [parts[text] for text in texts]

    def _echoes(self, texts: Sequence[str]) -> Iterator[tuple[str, Echo]]:
        """Yield each text and its echo: those that are kept, and then those that are asked for."""
        prefix, asked = self.engine.prefix, []
        for text in texts:
            if prefix + text in self._answers:
                yield text, self._answers[prefix + text]
            else:
                asked.append(text)
        asked.sort()  # an engine computes what two texts begin with once, if it comes twice at once
        size = self.engine.batch
        batches = [asked[start : start + size] for start in range(0, len(asked), size)]
        if len(batches) > 1 and (costs := self._costs(asked)):
            note(costs)
        for batch in track(batches, len(batches), f"asking {self.engine.name}"):
            wanted = [prefix + text for text in batch]
            echoes = self.engine.echo(wanted)
            self._answers.add(wanted, echoes)
            yield from zip(batch, echoes, strict=True)

    def _costs(self, texts: Sequence[str]) -> str:
        """Say what it costs to ask about texts, by the tokens of those that it was tried on."""
        spent = self.engine.spent
        if spent is None:
            return ""
        tried = trial_texts(self.engine.prefix)
        per_character = sum(len(e.tokens) for e in self.findings.echoes) / sum(map(len, tried))
        tokens = per_character * sum(len(self.engine.prefix) + len(text) for text in texts)
        return (
            f"{self.engine.name}: {len(texts):,} texts in {ceil(len(texts) / self.engine.batch):,} "
            f"requests, about {tokens:,.0f} tokens; {spent} so far"
        )

    def score_words(self, sentences: Sequence[str]) -> list[FloatArray]:
        """Return S arrays (W,) in nats that sum to the scores; NaN for what is not predicted."""
        words = super().score_words(sentences)
        if self.event.start == "none":
            for values in words:
                values[0] = np.nan
        return words

    def _of(self, text: str, echo: Echo) -> SentenceParts:
        """Assign tokens to words by where they begin."""
        starts = echo.starts - len(self.engine.prefix)
        ends = np.append(starts[1:], len(text))
        if ((starts < 0) & (ends > 0) & (echo.starts >= 0)).any():
            raise InputError(
                f"a token of {self.spec} spans the prefix {self.engine.prefix!r} and {text!r}; "
                "give another prefix"
            )
        word_ends = [end for _, end in ENGLISH.spans(text)]
        units, values, word_of = [], [], []
        for token, start, log_prob in zip(
            echo.tokens, starts.tolist(), echo.log_probs, strict=True
        ):
            if start < 0:
                continue
            # A token that begins with white space is of the word after it.
            word = min(bisect_right(word_ends, start), len(word_ends) - 1)
            if len(token.split()) > 1:
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
        if not (log_probs <= CLOSE).all():
            raise InputError(
                f"{self.spec} gives no log-probability for a token of {text!r}; leave it out"
            )
        return SentenceParts(
            tuple(units[first:]),
            np.minimum(log_probs, 0.0),
            np.array(word_of[first:], dtype=np.int64),
            len(text.split()),
        )
