"""What students and classifiers share: one pass a sentence, one number, no share of the words."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.models.base import Replacements, SentenceModel, SentenceParts, Totals, as_sentences
from contstim.models.hf.encoding import Encoded, SubwordTokenizer, check_length
from contstim.models.hf.network import PACKAGES
from contstim.models.hf.options import SharedOptions
from contstim.models.learnt.folder import Learnt
from contstim.models.learnt.member import TokenRows
from contstim.models.spec import ModelSpec
from contstim.text.sentence import Sentence, WordList

__all__ = ["LEARNT_OPTIONS", "FirstTokenModel", "tokenizer_of"]

#: Options of both families and their defaults.
LEARNT_OPTIONS = {"device": "cpu", "unknown": "error"}

# How far a score may move with its batch: float32 sums over a few dozen tokens.
_RESOLUTION = 1e-4


def tokenizer_of(tokenizer: object, name: str, unknown: str) -> SubwordTokenizer:
    """Put a tokenizer under the contract's notion of words; `unknown` is ``error`` or ``unk``."""
    return SubwordTokenizer(
        tokenizer, SharedOptions("auto", "keep", unknown, None), name, special=True
    )


class FirstTokenModel(SentenceModel):
    """A model whose score is read off the first token's vector.

    Words have no share of such a score: `parts` and `score_words` raise `InputError`.

    Parameters
    ----------
    spec
        The canonical spec.
    learnt
        What the folder holds.
    unknown
        ``error`` or ``unk``.
    """

    def __init__(self, spec: ModelSpec, learnt: Learnt, unknown: str) -> None:
        super().__init__(spec)
        self.learnt = learnt
        self.tokenizer = tokenizer_of(learnt.encoder.tokenizer, self.spec, unknown)

    @abstractmethod
    def combine(self, outputs: Sequence[FloatArray], n_tokens: IntArray) -> FloatArray:
        """Turn each member's outputs (S, K) and the numbers of tokens into scores (S,)."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of weights and tokenizer."""
        return self.learnt.fingerprint

    @property
    def packages(self) -> tuple[str, ...]:
        """PyTorch, transformers and tokenizers."""
        return PACKAGES

    @property
    def resolution(self) -> float:
        """1e-4: the network computes in 32 bits."""
        return _RESOLUTION

    @property
    def opening(self) -> str:
        """The special tokens before a sentence, or ``none``."""
        convert = self.learnt.encoder.tokenizer.convert_ids_to_tokens
        return " ".join(convert(list(self.tokenizer.opening))) or "none"

    def knows(self, words: Sequence[str]) -> BoolArray:
        """Return for each of V words whether the tokenizer can write it; shape (V,)."""
        return self.tokenizer.knows(words)

    def encode(self, sentences: Sequence[str]) -> list[Encoded]:
        """Tokenise sentences, refusing those the network is too short for."""
        listed = as_sentences(sentences)
        encoded = self.tokenizer.encode(listed)
        for sentence, e in zip(listed, encoded, strict=True):
            check_length(sentence, len(e.ids), self.learnt.encoder.max_tokens, self.spec)
        return encoded

    def parts(self, sentences: Sequence[str]) -> list[SentenceParts]:
        """Raise `InputError`: words have no share of the score."""
        raise InputError(
            f"{self.spec!r} scores a sentence as a whole, so words have no share of it; ask for "
            "sentence scores"
        )

    def totals(self, sentences: Sequence[str]) -> Totals:
        """Score sentences and count their tokens.

        Raises
        ------
        InputError
            For a sentence without words, or of more tokens than the network takes.
        UnknownWordError
            For a word the tokenizer cannot write, unless the event says ``unknown unk``.
        """
        encoded = self.encode(sentences)
        rows = TokenRows([e.ids for e in encoded])
        n_tokens = np.array([len(e.scored) for e in encoded], dtype=np.int64)
        outputs = [rows.outputs(member) for member in self.learnt.members]
        return Totals(
            self.combine(outputs, n_tokens),
            n_tokens,
            np.array([e.n_words for e in encoded], dtype=np.int64),
            np.zeros(len(encoded), dtype=np.float64),
        )

    def replacements(self, sentence: Sentence, position: int, words: WordList) -> Replacements:
        """Score candidates on demand.

        The estimate is the score to first order in the embedding of the open word (as HotFlip,
        Ebrahimi et al. 2018), from one pass forward and one back for all candidates.
        """
        from contstim.models.learnt.gradient import first_order_estimate

        table = super().replacements(sentence, position, words)
        estimate = first_order_estimate(self, sentence, position, words)
        return Replacements(table.upper, estimate, exact=False, score=table.score)
