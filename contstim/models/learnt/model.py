"""What students and classifiers share: one pass a sentence, one number, no share of the words."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.models.base import Replacements, SentenceModel, SentenceParts, Totals, as_sentences
from contstim.models.hf.encoding import Encoded, SubwordTokenizer, check_length
from contstim.models.hf.network import PACKAGES
from contstim.models.hf.options import SharedOptions
from contstim.models.learnt import CARD
from contstim.models.learnt.encoder import Member, TokenRows
from contstim.models.learnt.folder import Learnt
from contstim.models.spec import ModelSpec
from contstim.text.sentence import Sentence, WordList


def first_order_estimate(
    model: FirstTokenModel, sentence: Sentence, position: int, words: WordList
) -> FloatArray:
    """Estimate the score of `sentence` with the word at `position` replaced by each of `words`.

    Each output of a network is taken as linear in the embeddings of the open word's tokens
    around the present word: o(c) = o + sum_j (e(c)_j - e_j) do/de_j. A candidate of another
    number of tokens counts with the mean of its tokens' embeddings in each place.

    Returns
    -------
    array
        Shape (V,), in the unit of the scores. An estimate, not a bound: it orders candidates.

    Raises
    ------
    InputError
        If `position` is outside the sentence.
    """
    if not 0 <= position < len(sentence):
        raise InputError(
            f"position {position} is outside the {len(sentence)} words of {str(sentence)!r}"
        )
    encoded = model.encode([str(sentence)])[0]
    places = encoded.scored[encoded.word_of == position]
    candidates = model.tokenizer.candidates(sentence, position, words).tokens
    counts = np.array([len(tokens) for tokens in candidates], dtype=np.int64)
    outputs = [
        _outputs(member, encoded.ids, places, candidates, counts) for member in model.learnt.members
    ]
    return model.combine(outputs, len(encoded.scored) - len(places) + counts)


def _outputs(
    member: Member,
    ids: np.ndarray,
    places: np.ndarray,
    candidates: list[tuple[int, ...]],
    counts: np.ndarray,
) -> FloatArray:
    """Return the outputs of one member for all candidates, (V, K), to first order."""
    table = member.network.get_input_embeddings()
    seen: list[torch.Tensor] = []

    def open_up(module: Any, args: Any, embedded: torch.Tensor) -> torch.Tensor:
        seen[:] = [embedded.detach().clone().requires_grad_()]
        return seen[0]

    handle = table.register_forward_hook(open_up)
    device = member.head.weight.device
    try:
        with torch.enable_grad():
            now = member.outputs(torch.from_numpy(ids[None]).to(device))[0]
            slopes = [torch.autograd.grad(value, seen[0], retain_graph=True)[0][0] for value in now]
    finally:
        handle.remove()
    found = np.empty((len(candidates), len(slopes)), dtype=np.float64)
    with torch.inference_mode():
        at = torch.from_numpy(places).to(device)
        tokens = torch.tensor([t for c in candidates for t in c], device=device)
        owner = np.repeat(np.arange(len(candidates)), counts)
        first = np.cumsum(counts) - counts
        for k, slope in enumerate(slopes):
            slope = slope[at]
            present = float(now[k]) - float((seen[0][0][at] * slope).sum())
            # The share of each token of each candidate, in every place of the open word.
            share = (table.weight @ slope.T)[tokens].double().cpu().numpy()
            total = np.zeros((len(candidates), len(places)))
            np.add.at(total, owner, share)
            found[:, k] = present + total.sum(axis=1) / counts
            same = np.flatnonzero(counts == len(places))
            steps = np.arange(len(places))
            found[same, k] = present + share[first[same][:, None] + steps, steps].sum(axis=1)
    return found


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
        The spec.
    learnt
        What the folder holds.
    defaults
        The options it may have and their defaults.
    """

    def __init__(
        self, spec: ModelSpec, learnt: Learnt, defaults: Mapping[str, str] = LEARNT_OPTIONS
    ) -> None:
        super().__init__(spec.canonical(defaults))
        self.learnt = learnt
        unknown = spec.choice("unknown", ("error", "unk"), defaults["unknown"])
        self.tokenizer = tokenizer_of(learnt.encoder.tokenizer, self.spec, unknown)

    @abstractmethod
    def combine(self, outputs: Sequence[FloatArray], n_tokens: IntArray) -> FloatArray:
        """Turn each member's outputs (S, K) and the numbers of tokens into scores (S,)."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of weights and tokenizer."""
        return self.learnt.fingerprint

    @property
    def card(self) -> str | None:
        """The card in the model's folder."""
        path = Path(self._spec.location).expanduser() / CARD
        return path.read_text("utf-8") if path.is_file() else None

    @property
    def packages(self) -> tuple[str, ...]:
        """PyTorch, transformers and tokenizers."""
        return PACKAGES

    @property
    def resolution(self) -> float:
        """1e-4: the network computes in 32 bits."""
        return _RESOLUTION

    def _event(self, metric: str, reduction: str) -> dict[str, str]:
        """Return the fields of an `Event`; the sentence starts with the special tokens."""
        convert = self.learnt.encoder.tokenizer.convert_ids_to_tokens
        return {
            "units": "sentences",
            "start": " ".join(convert(list(self.tokenizer.opening))) or "none",
            "end": "none",
            "punctuation": "keep",
            "case": self.tokenizer.case,
            "unknown": self.tokenizer.options.unknown,
            "metric": metric,
            "reduction": reduction,
        }

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
        from contstim.models.learnt.model import first_order_estimate

        table = super().replacements(sentence, position, words)
        estimate = first_order_estimate(self, sentence, position, words)
        return Replacements(table.upper, estimate, exact=False, score=table.score)
