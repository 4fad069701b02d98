"""Causal models from any library, defined by a function that computes logits and a tokenizer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import log_softmax

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError, UnknownWordError
from contstim.files import digest
from contstim.models import ModelSpec
from contstim.models.base import Event, SentenceModel, TokenScores
from contstim.text.languages import ENGLISH
from contstim.text.normalise import check_sentences, normalise_sentence

# Maximum size of the logits of one batch: sentences times tokens times vocabulary.
_MAX_LOGITS = 8_000_000
# Number of tokens of the sequence that tests the network.
_N_TEST_TOKENS = 8
# Maximum effect of a later token on a causal network's logits, due to rounding.
_ROUNDING_ERROR = 1e-2

#: Ids of the T tokens of a text, and the start and end character of each, shape (T, 2).
Encoding = tuple[Sequence[int], Sequence[tuple[int, int]]]


class LogitsModel(SentenceModel):
    """A causal model defined by a tokenizer and a function that computes logits.

    The score is log P(s) = Σ_t log p(t | start, tokens before t). Only sentences with the same
    number of tokens are batched, so the function need not support padding.

    Parameters
    ----------
    spec
        Specification of the model, FAMILY:LOCATION, for example ``mine:weights.pt``. To load the
        model by this string, register the family with `register_family`.
    logits
        Function that maps the token ids of B sequences of L tokens, shape (B, L), to the logits of
        the next token at each position, shape (B, L, V), for a vocabulary of V tokens. It returns
        an array, a tensor, or an object with the attribute ``logits``.
    tokenizer
        A fast tokenizer of the package `transformers`, a tokenizer of the package `tokenizers`, or
        a function that maps a sentence to its token ids and their character offsets. No special
        tokens are added.
    start
        Id of the token before the sentence. The default is the tokenizer's BOS token.
    end
        Id of the end token included in the score; None to leave the end unscored.
    unk
        Id of the unknown token, which is refused. The default is the tokenizer's unknown token.
    packages
        Names of the packages that compute the logits, for example ``("torch",)``.

    Raises
    ------
    InputError
        If there is no start token, the tokenizer gives no offsets, the logits have another shape,
        or the logits of a position depend on later tokens, as in masked models.

    Examples
    --------
    >>> letters = "abcdefghijklmnopqrstuvwxyz '.,ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    >>> def cut(text):
    ...     return [1 + letters.index(c) for c in text], [(i, i + 1) for i in range(len(text))]
    >>> def logits(ids):
    ...     return np.zeros((*ids.shape, 1 + len(letters)))  # knows nothing
    >>> model = LogitsModel("mine:letters", logits, cut, start=0)
    >>> bool(np.isclose(model.score(["Go on"])[0], -5 * np.log(1 + len(letters))))
    True
    """

    #: 1e-3 nats, since most networks compute in single precision.
    batch_tolerance = 1e-3

    def __init__(
        self,
        spec: str | ModelSpec,
        logits: Callable[[IntArray], Any],
        tokenizer: Any,
        *,
        start: int | None = None,
        end: int | None = None,
        unk: int | None = None,
        packages: Sequence[str] = (),
    ) -> None:
        super().__init__(ModelSpec.parse(spec) if isinstance(spec, str) else spec)
        self._logits, self.packages = logits, tuple(packages)
        self._encode = _make_encoder(tokenizer, self.spec)
        start = getattr(tokenizer, "bos_token_id", None) if start is None else start
        if start is None:
            raise InputError(
                f"{self.spec}: the tokenizer has no start token; set its id with start="
            )
        self._start, self._end = int(start), end
        self._unk = getattr(tokenizer, "unk_token_id", None) if unk is None else unk
        self._event = Event(
            units="tokens",
            start=_token_text(tokenizer, self._start),
            end="none" if end is None else _token_text(tokenizer, end),
            punctuation="keep",
        )
        # Check that the network is causal: a change of the last token must not affect the logits
        # of earlier positions.
        ids = np.append(self._start, np.arange(_N_TEST_TOKENS) % self._n_vocabulary)[None]
        changed_ids = ids.copy()
        changed_ids[0, -1] = (ids[0, -1] + 1) % self._n_vocabulary
        (original,), (changed,) = self._compute_logits(ids), self._compute_logits(changed_ids)
        if np.abs(original[:-1] - changed[:-1]).max() > _ROUNDING_ERROR:
            raise InputError(
                f"{self.spec}: the logits depend on later tokens or on chance; use a causal "
                "network in evaluation mode"
            )
        rounded = log_softmax(original, axis=1).round(2) + 0.0  # Without negative zeros.
        self._fingerprint = digest(repr(rounded.tolist()))

    @property
    def event(self) -> Event:
        """Definition of the score: probability of tokens and, optionally, of the end symbol."""
        return self._event

    @property
    def fingerprint(self) -> str:
        """Digest of log-probabilities of a test sequence, rounded to 0.01 nats.

        It replaces a digest of the weights, which are not accessible.
        """
        return self._fingerprint

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return whether each of V words has no unknown token, shape (V,)."""
        return np.array([self._unk not in self._encode(word)[0] for word in words], dtype=np.bool_)

    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        """Score each token given the start token and the tokens before it."""
        texts = [normalise_sentence(sentence) for sentence in check_sentences(sentences)]
        encoded = [self._align(text) for text in texts]
        # Sentences with the same number of tokens form batches, which need no padding.
        indices_by_length = defaultdict(list)
        for i, (ids, _, _) in enumerate(encoded):
            indices_by_length[len(ids)].append(i)
        log_probs: dict[int, FloatArray] = {}
        for length, indices in indices_by_length.items():
            batch_size = max(1, _MAX_LOGITS // (length * self._n_vocabulary))
            for first in range(0, len(indices), batch_size):
                batch = indices[first : first + batch_size]
                rows = np.array([encoded[i][0] for i in batch], dtype=np.int64)
                # The logits at each token but the last predict the next token.
                batch_logits = self._compute_logits(rows[:, :-1])
                for i, targets, logits in zip(batch, rows[:, 1:], batch_logits, strict=True):
                    distributions = log_softmax(logits.astype(np.float64), axis=1)
                    log_probs[i] = distributions[np.arange(length - 1), targets]
        return [
            TokenScores(tokens, log_probs[i], word_indices, len(texts[i].split()))
            for i, (_, tokens, word_indices) in enumerate(encoded)
        ]

    @cached_property
    def _n_vocabulary(self) -> int:
        """Number of logits per position."""
        return int(self._compute_logits(np.array([[self._start]]))[0].shape[1])

    def _compute_logits(self, ids: IntArray) -> list[FloatArray]:
        """Compute the logits of the next token after every prefix of B sequences.

        Parameters
        ----------
        ids
            Token ids of sequences of L tokens, shape (B, L).

        Returns
        -------
        list of array
            Logits over the vocabulary of V tokens for each sequence, shape (L, V).
        """
        result = self._logits(ids)
        # The user's function returns an array, or an output object of transformers.
        result = getattr(result, "logits", result)
        if hasattr(result, "detach"):
            # Make a PyTorch tensor convertible: without gradients, on the CPU, not in bfloat16.
            result = result.detach().cpu().float()
        logits = np.asarray(result)
        if logits.ndim != 3 or logits.shape[:2] != ids.shape:
            raise InputError(
                f"{self.spec}: logits of {ids.shape[0]} sequences of {ids.shape[1]} tokens have "
                f"shape {logits.shape}; return ({ids.shape[0]}, {ids.shape[1]}, vocabulary size)"
            )
        return list(logits)

    def _align(self, text: str) -> tuple[list[int], tuple[str, ...], IntArray]:
        """Tokenise a sentence, and assign each token to a word.

        Returns
        -------
        ids : list of int
            Token ids, including the start token and, if it is scored, the end token.
        tokens : tuple of str
            The T scored tokens as text.
        word_indices : array
            Index of the word of each scored token, shape (T,).
        """
        ids, offsets = self._encode(text)
        if not len(ids):
            raise InputError(f"{self.spec}: {text!r} has no token; leave it out")
        tokens = [text[first:last] for first, last in offsets]
        # A token belongs to the first word that ends after the start of the token. White space
        # before a word therefore belongs to the word, and white space at the end to the last word.
        word_ends = [end for _, end in ENGLISH.word_spans(text)]
        starts = [first for first, _ in offsets]
        word_indices = np.searchsorted(word_ends, starts, side="right")
        word_indices = np.minimum(word_indices, len(word_ends) - 1).tolist()
        for token_id, token, word_index in zip(ids, tokens, word_indices, strict=True):
            if token_id == self._unk:
                raise UnknownWordError(
                    f"{self.spec}: the tokenizer does not know {token!r} of "
                    f"{text.split()[word_index]!r} in {text!r}; leave the sentence out"
                )
        # Add the start symbol, which is not scored, and the end symbol, if it is scored.
        all_ids = [self._start, *map(int, ids)]
        if self._end is not None:
            all_ids.append(self._end)
            tokens.append(self._event.end)
            word_indices.append(word_indices[-1])
        return all_ids, tuple(tokens), np.array(word_indices, dtype=np.int64)


def _make_encoder(tokenizer: Any, name: str) -> Callable[[str], Encoding]:
    """Return a function that maps a text to its token ids and their character offsets.

    Parameters
    ----------
    tokenizer
        Tokenizer of the package `transformers` or `tokenizers`, or a function with this result.
    name
        Name of the model, for error messages.
    """
    if hasattr(tokenizer, "is_fast"):  # a tokenizer of the package transformers
        if not tokenizer.is_fast:
            raise InputError(
                f"{name}: {type(tokenizer).__name__} gives no character offsets; use the fast "
                "tokenizer, or a function that returns ids and offsets"
            )

        def encode_fast(text: str) -> Encoding:
            encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
            return encoding["input_ids"], encoding["offset_mapping"]

        return encode_fast
    if hasattr(tokenizer, "encode"):  # a tokenizer of the package tokenizers

        def encode(text: str) -> Encoding:
            encoding = tokenizer.encode(text, add_special_tokens=False)
            return encoding.ids, encoding.offsets

        return encode
    # Any function from a text to token ids and character offsets (start, end).
    if not callable(tokenizer):
        raise InputError(f"{name}: {tokenizer!r} is neither a tokenizer nor a function")
    function: Callable[[str], Encoding] = tokenizer
    return function


def _token_text(tokenizer: Any, token_id: int) -> str:
    """Return a token as text, or its id if the tokenizer cannot decode it."""
    for method in ("convert_ids_to_tokens", "id_to_token"):
        if hasattr(tokenizer, method):
            return str(getattr(tokenizer, method)(token_id))
    return str(token_id)
