"""A model family that raises errors or kills its process when it scores listed sentences."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from contstim.arrays import BoolArray
from contstim.models import ModelSpec
from contstim.models.base import Event, ReplacementScores, SentenceModel, TokenScores
from contstim.models.registry import load_model, register_family
from contstim.text import Sentence, WordList


class FaultyModel(SentenceModel):
    """The model ``ngram:PATH?punctuation=split`` with faults, as ``faulty:PATH``.

    If a sentence is scored alone, a sentence in ``fails.txt`` raises an error and a sentence in
    ``dies.txt`` kills the process. Each fault adds a line to ``tries.log``.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.inner = load_model(replace(spec, family="ngram", options=(("punctuation", "split"),)))

    @property
    def event(self) -> Event:
        return self.inner.event

    @property
    def fingerprint(self) -> str:
        return self.inner.fingerprint

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        return self.inner.in_vocabulary(words)

    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        if len(sentences) == 1:
            for name in ("fails", "dies"):
                path = Path(f"{name}.txt")
                if path.exists() and sentences[0] in path.read_text("utf-8").splitlines():
                    with Path("tries.log").open("a", encoding="utf-8") as log:
                        log.write(f"{name}\n")
                    if name == "dies":
                        os.kill(os.getpid(), signal.SIGKILL)
                    raise RuntimeError("as the test\nasked")
        return self.inner.score_tokens(sentences)

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        return self.inner.score_replacements(sentence, position, words)


def register() -> None:
    register_family("faulty", "for tests", FaultyModel)
