"""What causal and masked transformers have in common as sentence models."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from contstim.arrays import BoolArray, IntArray
from contstim.models.base import SentenceModel
from contstim.models.hf.checkpoint import Checkpoint
from contstim.models.hf.encoding import SubwordTokenizer
from contstim.models.hf.limits import PACKAGES, resolution
from contstim.models.hf.options import SharedOptions
from contstim.models.hf.unigram import ScoredTokens, TokenUnigram
from contstim.models.spec import ModelSpec

__all__ = ["TransformerModel"]


class TransformerModel(SentenceModel):
    """A transformer whose units are the tokens of its tokenizer.

    Parameters
    ----------
    spec
        The spec.
    checkpoint
        The network and its tokenizer.
    defaults
        The options that a spec of its kind may have, and their defaults.
    special
        Whether the tokenizer puts its special tokens around a sentence.
    """

    def __init__(
        self,
        spec: ModelSpec,
        checkpoint: Checkpoint,
        defaults: Mapping[str, str],
        *,
        special: bool,
    ) -> None:
        super().__init__(spec.canonical(defaults))
        shared = SharedOptions.read(spec)
        self.checkpoint = checkpoint
        self.network = checkpoint.network
        self.tokenizer = SubwordTokenizer(checkpoint.tokenizer, shared, self.spec, special=special)
        self.budget = shared.batch_tokens

    @abstractmethod
    def scored_tokens(self, sentences: Sequence[str]) -> list[ScoredTokens]:
        """Return the tokens of each sentence that are scored."""

    @property
    def end_ids(self) -> Sequence[int]:
        """Ids of the end symbol where it is scored."""
        return ()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of weights and tokenizer."""
        return self.checkpoint.fingerprint

    @property
    def packages(self) -> tuple[str, ...]:
        """PyTorch, transformers and tokenizers."""
        return PACKAGES

    @property
    def resolution(self) -> float:
        """1e-4 nats; half a nat where the network computes in 16 bits."""
        return resolution(self.network)

    def knows(self, words: Sequence[str]) -> BoolArray:
        """Return for each of V words whether the tokenizer can write it; shape (V,)."""
        return self.tokenizer.knows(words)

    def groups(self, sentences: Sequence[IntArray], n_rows: Sequence[int]) -> Iterator[list[int]]:
        """Yield the indices of sentences of one length, in groups of a few batches' tokens.

        Parameters
        ----------
        sentences
            The ids of each sentence.
        n_rows
            How many inputs each sentence takes.
        """
        most = 4 * (self.budget or self.network.token_budget)
        group: list[int] = []
        tokens = 0
        for i in sorted(range(len(sentences)), key=lambda i: len(sentences[i])):
            length = len(sentences[i])
            if group and (length != len(sentences[group[0]]) or tokens >= most):
                yield group
                group, tokens = [], 0
            group.append(i)
            tokens += length * n_rows[i]
        if group:
            yield group

    def own_unigram(self) -> SentenceModel:
        """Return the unigram probabilities of this model's own tokens."""
        return TokenUnigram(self)
