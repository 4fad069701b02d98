"""A model of what anybody has: a causal network's logits, and the tokenizer that cuts its text."""

from __future__ import annotations

from bisect import bisect_right
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
from contstim.models.base import Event, SentenceModel, TokenScores, check_sentences
from contstim.text.languages import ENGLISH
from contstim.text.normalise import normalise_sentence

# Numbers of one call of the network: sentences in it times tokens times vocabulary.
_AT_ONCE = 8_000_000
_PROBE = 8  # tokens
# Causal networks give the places before a token the same logits whatever it is, but for rounding.
_ROUNDING = 1e-2

#: The ids of a text's T tokens, and the characters each stands for, (T, 2), from and up to.
Cut = tuple[Sequence[int], Sequence[tuple[int, int]]]


class LogitsModel(SentenceModel):
    """log P(s) = sum of log p(token | those before it), by a causal network of any library.

    Sentences of one call have the same number of tokens, so that nothing is padded.

    Parameters
    ----------
    spec
        What the model is to be called, ``mine:weights.pt``; with `register_family` it can be loaded
        by that.
    logits
        A function of token ids, shape (B, L), to logits of the next token, shape (B, L, V), as an
        array, a tensor, or whatever has them as its ``logits``: of the place t for what comes
        after the tokens up to t.
    tokenizer
        One of transformers (a fast one) or of tokenizers; or a function of a sentence that returns
        the ids of its tokens and for each from which character up to which it goes. Special tokens
        are not asked for.
    start
        The id of the token that stands before a sentence; by default the tokenizer's own.
    end
        The id of the token after a sentence whose probability is part of the score; None for none.
    unk
        The id that stands for what the tokenizer does not know, which is refused; by default the
        tokenizer's own.
    packages
        What the logits depend on, by pip's names, such as ``("torch",)``.

    Raises
    ------
    InputError
        If no token is known that begins a sentence, the tokenizer says no places, logits have
        another shape, or those of a place change with what comes after it, as those of masked
        models do.

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
        self._logits, self._packages = logits, tuple(packages)
        self._cut = _cutter(tokenizer, self.spec)
        asked = getattr(tokenizer, "bos_token_id", None) if start is None else start
        if asked is None:
            raise InputError(
                f"{self.spec}: the tokenizer names no token that begins a sentence; say its id: "
                "start="
            )
        self._start, self._end = int(asked), end
        self._unk = getattr(tokenizer, "unk_token_id", None) if unk is None else unk
        self._event = Event(
            units="tokens",
            start=_written(tokenizer, self._start),
            end="none" if end is None else _written(tokenizer, end),
            punctuation="keep",
        )
        self._fingerprint = self._probed()

    @property
    def event(self) -> Event:
        """Tokens after the one that begins the sentence."""
        return self._event

    @property
    def fingerprint(self) -> str:
        """Digest of some logits, in hundredths: the weights themselves are not to be seen."""
        return self._fingerprint

    @property
    def packages(self) -> tuple[str, ...]:
        """As they were given."""
        return self._packages

    @property
    def batch_tolerance(self) -> float:
        """1e-3 nats: most networks compute in single precision, in blocks that batches share."""
        return 1e-3

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return which words hold nothing that the tokenizer does not know, shape (V,)."""
        return np.array([self._unk not in self._cut(word)[0] for word in words], dtype=np.bool_)

    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        """Score each token, given the start and those before it."""
        texts = [normalise_sentence(sentence) for sentence in check_sentences(sentences)]
        cuts = [self._tokens(text) for text in texts]
        scored: dict[int, FloatArray] = {}
        by_length = defaultdict(list)
        for number, (ids, _, _) in enumerate(cuts):
            by_length[len(ids)].append(number)
        for length, numbers in by_length.items():
            size = max(1, _AT_ONCE // (length * self._n_vocabulary))
            for first in range(0, len(numbers), size):
                batch = numbers[first : first + size]
                given = np.array([cuts[number][0] for number in batch], dtype=np.int64)
                every = zip(batch, given, self._of(given[:, :-1]), strict=True)
                for number, tokens, logits in every:
                    rows = log_softmax(logits.astype(np.float64), axis=1)
                    scored[number] = rows[np.arange(length - 1), tokens[1:]]
        return [
            TokenScores(units, scored[number], word_indices, len(texts[number].split()))
            for number, (_, units, word_indices) in enumerate(cuts)
        ]

    @cached_property
    def _n_vocabulary(self) -> int:
        return int(self._of(np.array([[self._start]]))[0].shape[1])

    def _of(self, ids: IntArray) -> list[FloatArray]:
        """Return the logits of each of B sequences, (L, V)."""
        given = self._logits(ids)
        given = getattr(given, "logits", given)
        if hasattr(given, "detach"):  # a tensor, of which NumPy takes no gradients and no bfloat16
            given = given.detach().cpu().float()
        logits = np.asarray(given)
        if logits.ndim != 3 or logits.shape[:2] != ids.shape:
            raise InputError(
                f"{self.spec}: logits of {ids.shape[0]} sequences of {ids.shape[1]} tokens have "
                f"the shape {logits.shape}; give ({ids.shape[0]}, {ids.shape[1]}, vocabulary)"
            )
        return list(logits)

    def _probed(self) -> str:
        """Return a digest of some logits; refuse those that see what comes after."""
        ids = np.append(self._start, np.arange(_PROBE) % self._n_vocabulary)[None]
        other = ids.copy()
        other[0, -1] = (ids[0, -1] + 1) % self._n_vocabulary
        here, there = self._of(ids)[0], self._of(other)[0]
        if np.abs(here[:-1] - there[:-1]).max() > _ROUNDING:
            raise InputError(
                f"{self.spec}: logits change with the tokens that come after, or by chance; a "
                "causal network in evaluation mode is needed"
            )
        return digest(repr((log_softmax(here, axis=1).round(2) + 0.0).tolist()))

    def _tokens(self, text: str) -> tuple[list[int], tuple[str, ...], IntArray]:
        """Return the ids with start and end, the scored units and the word that each belongs to."""
        ids, places = self._cut(text)
        ends = [end for _, end in ENGLISH.word_spans(text)]
        units, word_indices = [], []
        for token, (first, last) in zip(ids, places, strict=True):
            # White space before a word goes with it, whatever the tokenizer makes of it.
            units.append(text[first:last])
            word_indices.append(min(bisect_right(ends, first), len(ends) - 1))
            if token == self._unk:
                word = text.split()[word_indices[-1]]
                raise UnknownWordError(
                    f"{self.spec}: the tokenizer does not know {text[first:last]!r} of {word!r} in "
                    f"{text!r}; leave the sentence out"
                )
        if not units:
            raise InputError(f"{self.spec}: the tokenizer finds no token in {text!r}")
        whole = [self._start, *map(int, ids)]
        if self._end is not None:
            whole.append(self._end)
            units.append(self._event.end)
            word_indices.append(word_indices[-1])
        return whole, tuple(units), np.array(word_indices, dtype=np.int64)


def _cutter(tokenizer: Any, name: str) -> Callable[[str], Cut]:
    """Return a function that cuts a text, by what a tokenizer can do."""
    if hasattr(tokenizer, "is_fast"):  # of transformers
        if not tokenizer.is_fast:
            raise InputError(
                f"{name}: {type(tokenizer).__name__} does not say where its tokens lie; give the "
                "fast one, or a function that returns ids and places"
            )

        def cut(text: str) -> Cut:
            cut_up = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
            return cut_up["input_ids"], cut_up["offset_mapping"]

        return cut
    if hasattr(tokenizer, "encode"):  # of tokenizers

        def encode(text: str) -> Cut:
            encoding = tokenizer.encode(text, add_special_tokens=False)
            return encoding.ids, encoding.offsets

        return encode
    if not callable(tokenizer):
        raise InputError(f"{name}: {tokenizer!r} is no tokenizer and no function of a sentence")
    function: Callable[[str], Cut] = tokenizer
    return function


def _written(tokenizer: Any, token: int) -> str:
    """Return a token as the vocabulary writes it, or its id."""
    for way in ("convert_ids_to_tokens", "id_to_token"):
        if hasattr(tokenizer, way):
            return str(getattr(tokenizer, way)(token))
    return str(token)
