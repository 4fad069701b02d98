"""Base class of models that score the first token of an encoder.

The folder of a model contains

- ``contstim.json``: the training record;
- ``README.md``: the model card;
- ``encoder/``: the pretrained encoder as a checkpoint of the package `transformers`;
- ``NAME.safetensors``: the head and the trained encoder weights of each member.

Folders are written atomically.
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
from contstim.models.base import ReplacementScores, SentenceModel, SentenceScores, TokenScores
from contstim.models.hf.checkpoint import digest_weights
from contstim.models.hf.encoding import EncodedSentence, SubwordTokenizer, check_length
from contstim.models.hf.network import PACKAGES
from contstim.models.hf.options import SharedOptions
from contstim.text import Sentence, WordList
from contstim.text.normalise import check_sentences
from contstim.training.encoders import CARD
from contstim.training.encoders.network import (
    Encoder,
    EncoderWithHead,
    TokenizedSentences,
    load_encoder,
)

#: Subfolder of the checkpoint that the members were trained from.
ENCODER = "encoder"

#: Options of students and classifiers and their defaults.
ENCODER_OPTIONS = {"device": "cpu", "unknown": "error"}

# Maximum difference between the scores of a sentence in different batches, due to float32.
_BATCH_TOLERANCE = 1e-4


def wrap_tokenizer(tokenizer: object, name: str, unknown: str) -> SubwordTokenizer:
    """Wrap a tokenizer of the package `transformers` as a `SubwordTokenizer` for English.

    Parameters
    ----------
    tokenizer
        Tokenizer of the package `transformers`.
    name
        Name of the model, for messages.
    unknown
        Treatment of unknown words: ``error`` or ``unk``.
    """
    options = SharedOptions(
        first="auto", punctuation="keep", unknown=unknown, batch_tokens=None, language="en"
    )
    return SubwordTokenizer(tokenizer, options, name, special=True)


def _load_members(
    folder: Path, names: Sequence[str], device: str
) -> tuple[Encoder, tuple[EncoderWithHead, ...], str]:
    """Load a student or classifier from its folder.

    A *member* is a network that was trained from the encoder. Its file ``NAME.safetensors``
    contains the head and the encoder weights that were trained. To save memory, the last member
    uses the network of the encoder itself, and the others use copies.

    Parameters
    ----------
    folder
        Folder of the model.
    names
        Names of the members to load.
    device
        PyTorch name of the device.

    Returns
    -------
    encoder : Encoder
        The encoder with its tokenizer.
    members : tuple of EncoderWithHead
        The members in the order of `names`.
    digest : str
        SHA-256 digest of all weights and of the tokenizer.
    """
    encoder = load_encoder(str(folder / ENCODER), device)
    members = []
    tensors: dict[str, torch.Tensor] = {}
    for name in names:
        path = folder / f"{name}.safetensors"
        try:
            weights = load_file(path)
        except (OSError, SafetensorError) as error:
            raise ModelFileError(f"cannot read {str(path)!r} ({error}); it is damaged") from None
        # The last member may modify the shared encoder; the others need a copy of it.
        network = encoder.network if name == names[-1] else copy.deepcopy(encoder.network)
        parameters = dict(network.named_parameters())
        # Restore the linear head, and the layers of the encoder that were trained.
        try:
            head = nn.Linear(encoder.width, len(weights["head.bias"]))
            head.load_state_dict({key: weights[f"head.{key}"] for key in ("weight", "bias")})
            with torch.no_grad():
                for key, tensor in weights.items():
                    if key.startswith("network."):
                        parameters[key.removeprefix("network.")].copy_(tensor)
        except (KeyError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ModelFileError(f"{str(path)!r} does not fit its encoder ({reason})") from None
        head.eval().requires_grad_(False).to(encoder.device)
        members.append(EncoderWithHead(network, head))
        for part in (network, head):
            tensors |= {f"{name} {key}": tensor for key, tensor in part.state_dict().items()}
    digest = digest_weights(tensors, encoder.tokenizer, encoder.network.config)
    return encoder, tuple(members), digest


class FirstTokenModel(SentenceModel):
    """Base class of models that compute a sentence score from the output of the first token.

    The score is not a sum over words: `score_tokens` and `score_words` raise `InputError`.

    Parameters
    ----------
    spec
        Parsed model specification; its location is the folder of the model.
    members
        Names of the networks in the folder to load.
    defaults
        Options of the specification and their defaults.

    Raises
    ------
    ModelFileError
        If a file is missing or damaged.
    """

    def __init__(
        self, spec: ModelSpec, members: Sequence[str], defaults: Mapping[str, str] = ENCODER_OPTIONS
    ) -> None:
        super().__init__(spec.canonical(defaults))
        self.folder = spec.path
        # Members are the trained networks in the folder, for example those that vote on a label.
        self.encoder, self.members, self._fingerprint = _load_members(
            self.folder, members, spec.get("device", defaults["device"])
        )
        unknown = spec.get_choice("unknown", ("error", "unk"), defaults["unknown"])
        self.tokenizer = wrap_tokenizer(self.encoder.tokenizer, self.spec, unknown)

    @abstractmethod
    def combine(self, outputs: Sequence[FloatArray], n_tokens: IntArray) -> FloatArray:
        """Convert the outputs of the members to scores.

        Parameters
        ----------
        outputs
            Outputs of each member, each of shape (S, K).
        n_tokens
            Number of tokens per sentence without special tokens, shape (S,).

        Returns
        -------
        array
            Scores, shape (S,).
        """

    @property
    def fingerprint(self) -> str:
        """SHA-256 digest of the weights and the tokenizer."""
        return self._fingerprint

    @property
    def card(self) -> str | None:
        """Model card from the model's folder, if there is one."""
        path = self.folder / CARD
        return path.read_text("utf-8") if path.is_file() else None

    @property
    def packages(self) -> tuple[str, ...]:
        """PyTorch, transformers and tokenizers."""
        return PACKAGES

    @property
    def batch_tolerance(self) -> float:
        """1e-4, because the network computes in float32."""
        return _BATCH_TOLERANCE

    def _define_score(self, metric: str, reduction: str) -> dict[str, str]:
        """Return the fields of the `Event`, the definition of this model's score.

        The start symbol is the sequence of special tokens before the sentence, such as ``[CLS]``.

        Parameters
        ----------
        metric
            Name of the quantity that is computed for a sentence.
        reduction
            Name of the conversion of this quantity to a score.
        """
        start_tokens = self.encoder.tokenizer.convert_ids_to_tokens(
            list(self.tokenizer.leading_special_ids)
        )
        # These fields of `Event` document what is scored: whole sentences and not words, after the
        # start symbol and without an end symbol, with punctuation, and by which metric.
        return {
            "units": "sentences",
            "start": " ".join(start_tokens) or "none",
            "end": "none",
            "punctuation": "keep",
            "case": self.tokenizer.case,
            "unknown": self.tokenizer.options.unknown,
            "metric": metric,
            "reduction": reduction,
        }

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return whether the tokenizer can represent each of V words, shape (V,)."""
        return self.tokenizer.in_vocabulary(words)

    def encode(self, sentences: Sequence[str]) -> list[EncodedSentence]:
        """Tokenise sentences.

        Raises
        ------
        InputError
            If a sentence is empty or has more tokens than the network accepts.
        """
        sentences = check_sentences(sentences)
        encoded = self.tokenizer.encode(sentences)
        for sentence, tokens in zip(sentences, encoded, strict=True):
            check_length(sentence, len(tokens.ids), self.encoder.max_tokens, self.spec)
        return encoded

    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        """Raise `InputError`, because the score is not a sum over tokens."""
        raise InputError(
            f"{self.spec!r} scores a sentence as a whole and has no scores per word; use sentence "
            "scores"
        )

    def score_with_counts(self, sentences: Sequence[str]) -> SentenceScores:
        """Score sentences and count their tokens and words.

        Raises
        ------
        InputError
            If a sentence is empty or has more tokens than the network accepts.
        UnknownWordError
            If the tokenizer cannot represent a word, unless the spec says ``unknown=unk``.
        """
        encoded = self.encode(sentences)
        tokenized = TokenizedSentences([tokens.ids for tokens in encoded])
        # Members are the trained networks, for example those that vote. One array per member.
        outputs = [tokenized.outputs(member) for member in self.members]
        n_tokens = np.array([len(tokens.scored_positions) for tokens in encoded], dtype=np.int64)
        n_words = np.array([tokens.n_words for tokens in encoded], dtype=np.int64)
        # The scores are not sampled, so their standard errors are 0.
        standard_errors = np.zeros(len(encoded), dtype=np.float64)
        return SentenceScores(self.combine(outputs, n_tokens), n_tokens, n_words, standard_errors)

    def score_replacements(
        self, sentence: Sentence, position: int, words: WordList
    ) -> ReplacementScores:
        """Estimate the scores of a sentence with one word replaced by each candidate.

        The estimates are linear approximations, see `estimate_replacements`. Exact scores of
        selected candidates are computed on demand by the method `score` of the result.

        Parameters
        ----------
        sentence
            Sentence to change.
        position
            Index of the word to replace.
        words
            Candidate words.
        """
        exact = super().score_replacements(sentence, position, words)
        estimates = estimate_replacements(self, sentence, position, words)
        return ReplacementScores(exact.upper_bounds, estimates, is_exact=False, score=exact.score)


def estimate_replacements(
    model: FirstTokenModel, sentence: Sentence, position: int, words: WordList
) -> FloatArray:
    """Estimate the score of a sentence with one word replaced by V candidates.

    The outputs of a network are linearised in the embeddings e_j of the tokens of the present
    word (HotFlip, Ebrahimi et al. 2018). The estimate for candidate c is

        o(c) = o + Σ_j (e(c)_j - e_j) · ∂o/∂e_j.

    If the candidate has a different number of tokens, each e(c)_j is the mean of its embeddings.
    One forward and one backward pass per output suffice for all candidates.

    Parameters
    ----------
    model
        Model that scores the sentences.
    sentence
        Sentence in which the word is replaced.
    position
        Index of the word to replace.
    words
        Candidate words.

    Returns
    -------
    array
        Estimates in the unit of the scores, shape (V,). They are not bounds.

    Raises
    ------
    InputError
        If `position` is outside the sentence.
    """
    sentence.check_position(position)
    encoded = model.encode([str(sentence)])[0]
    # Positions of the tokens of the word to replace.
    positions = encoded.scored_positions[encoded.word_indices == position]
    candidates = model.tokenizer.candidates(sentence, position, words).tokens
    # For each network of the model, outputs of shape (candidates, outputs of the head), from a
    # linear approximation in the token embeddings.
    outputs = [
        _linearised_outputs(member, encoded.ids, positions, candidates) for member in model.members
    ]
    # The score may depend on the length of the sentence, which differs between candidates.
    n_candidate_tokens = np.array([len(tokens) for tokens in candidates], dtype=np.int64)
    n_other_tokens = len(encoded.scored_positions) - len(positions)
    return model.combine(outputs, n_other_tokens + n_candidate_tokens)


def _linearised_outputs(
    member: EncoderWithHead, ids: IntArray, positions: IntArray, candidates: list[tuple[int, ...]]
) -> FloatArray:
    """Estimate a network's outputs if the tokens of one word are replaced by other tokens.

    The outputs are linearised in the embeddings, see `estimate_replacements`.

    Parameters
    ----------
    member
        Network with a head of K outputs.
    ids
        Token ids of the sentence.
    positions
        Positions of the tokens of the word.
    candidates
        Token ids of each of V candidate words.

    Returns
    -------
    (V, K) array
        First-order estimates of the outputs.
    """
    # Compute the outputs and their gradients with respect to the embeddings of the sentence.
    embedding = member.network.get_input_embeddings()
    device = member.head.weight.device
    captured: list[torch.Tensor] = []

    def capture(module: Any, args: Any, embedded: torch.Tensor) -> torch.Tensor:
        captured[:] = [embedded.detach().clone().requires_grad_()]
        return captured[0]

    handle = embedding.register_forward_hook(capture)
    try:
        with torch.enable_grad():
            present_outputs = member.outputs(torch.from_numpy(ids[None]).to(device))[0]
            embedded = captured[0]
            gradients = []
            for output in present_outputs:
                (gradient,) = torch.autograd.grad(output, embedded, retain_graph=True)
                gradients.append(gradient[0])  # of the only sentence
    finally:
        handle.remove()

    # Index of the first token of each candidate in the concatenated tokens of all candidates.
    counts = np.array([len(tokens) for tokens in candidates], dtype=np.int64)
    first_indices = np.cumsum(counts) - counts
    candidate_by_token = np.repeat(np.arange(len(candidates)), counts)
    is_same_count = counts == len(positions)
    steps = np.arange(len(positions))
    estimates = np.empty((len(candidates), len(gradients)), dtype=np.float64)
    with torch.inference_mode():
        word_positions = torch.from_numpy(positions).to(device)
        tokens = torch.tensor([t for candidate in candidates for t in candidate], device=device)
        for k, gradient in enumerate(gradients):
            slopes = gradient[word_positions]
            present = float((embedded[0][word_positions] * slopes).sum())
            constant = float(present_outputs[k]) - present
            # Contribution of each token of each candidate at each position of the word.
            contributions = (embedding.weight @ slopes.T)[tokens].double().cpu().numpy()
            # In general, the mean embedding of a candidate takes every position of the word.
            sums = np.zeros((len(candidates), len(positions)))
            np.add.at(sums, candidate_by_token, contributions)
            estimates[:, k] = constant + sums.sum(axis=1) / counts
            # Candidates with as many tokens as the word are aligned with it token by token.
            aligned = contributions[first_indices[is_same_count][:, None] + steps, steps]
            estimates[is_same_count, k] = constant + aligned.sum(axis=1)
    return estimates
