"""What students and classifiers share: a folder, and one pass a sentence for one number.

``contstim.json`` in the folder says what the model is and how it was made; ``encoder`` is a
checkpoint as transformers writes it; ``README.md`` is its card; ``NAME.safetensors`` holds a
member's head and those weights of the network in which it differs from the encoder. A folder
appears under its name when it is whole.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError, ModelFileError
from contstim.models import ModelSpec
from contstim.models.base import (
    ReplacementScores,
    SentenceModel,
    SentenceScores,
    TokenScores,
    check_sentences,
)
from contstim.models.hf.checkpoint import digest_weights
from contstim.models.hf.encoding import EncodedSentence, SubwordTokenizer, check_length
from contstim.models.hf.network import PACKAGES
from contstim.models.hf.options import SharedOptions
from contstim.text import Sentence, WordList
from contstim.training.encoders import CARD
from contstim.training.encoders.network import (
    Encoder,
    EncoderWithHead,
    TokenizedSentences,
    load_encoder,
)

#: The folder, in a model's, of the checkpoint that its members start from.
ENCODER = "encoder"


def _read_members(
    folder: Path, names: Sequence[str], device: str
) -> tuple[Encoder, tuple[EncoderWithHead, ...], str]:
    """Load the members `names` of a folder: tokenizer and limits, networks, and their SHA-256.

    The encoder's network is the last member's.
    """
    encoder = load_encoder(str(folder / ENCODER), device)
    members = []
    for name in names:
        path = folder / f"{name}.safetensors"
        try:
            weights = load_file(path)
        except (OSError, SafetensorError) as error:
            raise ModelFileError(
                f"cannot read {str(path)!r} ({error}); the folder is damaged"
            ) from None
        network = encoder.network if name == names[-1] else copy.deepcopy(encoder.network)
        members.append(_member(network, weights, encoder, path))
    tensors = {
        f"{name} {key}": tensor
        for name, member in zip(names, members, strict=True)
        for part in (member.network, member.head)
        for key, tensor in part.state_dict().items()
    }
    digest = digest_weights(tensors, encoder.tokenizer, encoder.network.config)
    return encoder, tuple(members), digest


def _member(
    network: Any, weights: Mapping[str, torch.Tensor], encoder: Encoder, path: Path
) -> EncoderWithHead:
    parameters = dict(network.named_parameters())
    try:
        head_weight, head_bias = weights["head.weight"], weights["head.bias"]
        head = nn.Linear(encoder.width, len(head_bias))
        head.load_state_dict({"weight": head_weight, "bias": head_bias})
        with torch.no_grad():
            for name, tensor in weights.items():
                if name.startswith("network."):
                    parameters[name.removeprefix("network.")].copy_(tensor)
    except (KeyError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelFileError(f"{str(path)!r} does not fit its encoder ({reason})") from None
    head.eval().requires_grad_(False).to(encoder.device)
    return EncoderWithHead(network, head)


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
    sentence.check_position(position)
    encoded = model.encode([str(sentence)])[0]
    places = encoded.scored_positions[encoded.word_indices == position]
    candidates = model.tokenizer.candidates(sentence, position, words).tokens
    counts = np.array([len(tokens) for tokens in candidates], dtype=np.int64)
    outputs = [
        _outputs(member, encoded.ids, places, candidates, counts) for member in model.members
    ]
    return model.combine(outputs, len(encoded.scored_positions) - len(places) + counts)


def _outputs(
    member: EncoderWithHead,
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
            outputs_now = member.outputs(torch.from_numpy(ids[None]).to(device))[0]
            slopes = [
                torch.autograd.grad(value, seen[0], retain_graph=True)[0][0]
                for value in outputs_now
            ]
    finally:
        handle.remove()
    outputs = np.empty((len(candidates), len(slopes)), dtype=np.float64)
    with torch.inference_mode():
        at = torch.from_numpy(places).to(device)
        tokens = torch.tensor([t for c in candidates for t in c], device=device)
        owner = np.repeat(np.arange(len(candidates)), counts)
        first = np.cumsum(counts) - counts
        for k, slope in enumerate(slopes):
            slope = slope[at]
            present = float(outputs_now[k]) - float((seen[0][0][at] * slope).sum())
            # The share of each token of each candidate, in every place of the open word.
            share = (table.weight @ slope.T)[tokens].double().cpu().numpy()
            total = np.zeros((len(candidates), len(places)))
            np.add.at(total, owner, share)
            outputs[:, k] = present + total.sum(axis=1) / counts
            same = np.flatnonzero(counts == len(places))
            steps = np.arange(len(places))
            outputs[same, k] = present + share[first[same][:, None] + steps, steps].sum(axis=1)
    return outputs


#: Options of both families and their defaults.
LEARNT_OPTIONS = {"device": "cpu", "unknown": "error"}

# How far a score may move with its batch: float32 sums over a few dozen tokens.
_RESOLUTION = 1e-4


def wrap_tokenizer(tokenizer: object, name: str, unknown: str) -> SubwordTokenizer:
    """Put a tokenizer under the contract's notion of words; `unknown` is ``error`` or ``unk``."""
    return SubwordTokenizer(
        tokenizer, SharedOptions("auto", "keep", unknown, None, "en"), name, special=True
    )


class FirstTokenModel(SentenceModel):
    """A model whose score is read off the first token's vector.

    Words have no share of such a score: `score_tokens` and `score_words` raise `InputError`.

    Parameters
    ----------
    spec
        The spec, whose location is the folder.
    members
        Names of the networks to load, one or those that vote.
    defaults
        The options it may have and their defaults.

    Raises
    ------
    ModelFileError
        If a file is missing or damaged.
    """

    def __init__(
        self, spec: ModelSpec, members: Sequence[str], defaults: Mapping[str, str] = LEARNT_OPTIONS
    ) -> None:
        super().__init__(spec.canonical(defaults))
        self.folder = spec.path
        self.encoder, self.members, self._fingerprint = _read_members(
            self.folder, members, spec.get("device", defaults["device"])
        )
        unknown = spec.get_choice("unknown", ("error", "unk"), defaults["unknown"])
        self.tokenizer = wrap_tokenizer(self.encoder.tokenizer, self.spec, unknown)

    @abstractmethod
    def combine(self, outputs: Sequence[FloatArray], n_tokens: IntArray) -> FloatArray:
        """Turn each member's outputs (S, K) and the numbers of tokens into scores (S,)."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of weights and tokenizer."""
        return self._fingerprint

    @property
    def card(self) -> str | None:
        """The card in the model's folder."""
        path = self.folder / CARD
        return path.read_text("utf-8") if path.is_file() else None

    @property
    def packages(self) -> tuple[str, ...]:
        """PyTorch, transformers and tokenizers."""
        return PACKAGES

    @property
    def batch_tolerance(self) -> float:
        """1e-4: the network computes in 32 bits."""
        return _RESOLUTION

    def _event(self, metric: str, reduction: str) -> dict[str, str]:
        """Return the fields of an `Event`; the sentence starts with the special tokens."""
        convert = self.encoder.tokenizer.convert_ids_to_tokens
        return {
            "units": "sentences",
            "start": " ".join(convert(list(self.tokenizer.leading_special_ids))) or "none",
            "end": "none",
            "punctuation": "keep",
            "case": self.tokenizer.case,
            "unknown": self.tokenizer.options.unknown,
            "metric": metric,
            "reduction": reduction,
        }

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return for each of V words whether the tokenizer can write it; shape (V,)."""
        return self.tokenizer.in_vocabulary(words)

    def encode(self, sentences: Sequence[str]) -> list[EncodedSentence]:
        """Tokenise sentences, refusing those the network is too short for."""
        listed = check_sentences(sentences)
        encoded = self.tokenizer.encode(listed)
        for sentence, e in zip(listed, encoded, strict=True):
            check_length(sentence, len(e.ids), self.encoder.max_tokens, self.spec)
        return encoded

    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        """Raise `InputError`: words have no share of the score."""
        raise InputError(
            f"{self.spec!r} scores a sentence as a whole, so words have no share of it; ask for "
            "sentence scores"
        )

    def score_with_counts(self, sentences: Sequence[str]) -> SentenceScores:
        """Score sentences and count their tokens.

        Raises
        ------
        InputError
            For a sentence without words, or of more tokens than the network takes.
        UnknownWordError
            For a word the tokenizer cannot write, unless the event says ``unknown unk``.
        """
        encoded = self.encode(sentences)
        rows = TokenizedSentences([e.ids for e in encoded])
        n_tokens = np.array([len(e.scored_positions) for e in encoded], dtype=np.int64)
        outputs = [rows.outputs(member) for member in self.members]
        return SentenceScores(
            self.combine(outputs, n_tokens),
            n_tokens,
            np.array([e.n_words for e in encoded], dtype=np.int64),
            np.zeros(len(encoded), dtype=np.float64),
        )

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        """Score candidates on demand.

        The estimate is the score to first order in the embedding of the open word (as HotFlip,
        Ebrahimi et al. 2018), from one pass forward and one back for all candidates.
        """
        table = super().score_replacements(sentence, position, words)
        estimate = first_order_estimate(self, sentence, position, words)
        return ReplacementScores(table.upper_bounds, estimate, is_exact=False, score=table.score)
