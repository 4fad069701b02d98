"""From sentences to token ids for word-level models, one policy for every such family."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from contstim.arrays import BoolArray, IntArray
from contstim.errors import InputError, UnknownWordError
from contstim.models import ModelSpec
from contstim.models.base import Event
from contstim.text import (
    PUNCTUATION_POLICIES,
    Sentence,
    WordList,
    strip_no_break_spaces,
    tokenize_word,
)
from contstim.text.language import Language, split_word
from contstim.text.languages import ENGLISH, LANGUAGES

#: Symbols of the beginning and the end of a sentence, and of unknown words.
START, END, UNKNOWN = "<s>", "</s>", "<unk>"
#: Spec options of word-level models and their defaults.
WORD_OPTIONS = {
    "punctuation": "keep",
    "case": "keep",
    "unknown": "error",
    "end": "scored",
    "language": "en",
}

_PLACEHOLDER = "x"


@dataclass(frozen=True)
class TokenizedSentence:
    """A sentence as ids: `ids` (T,), the word index `word_indices` each (T,), `tokens`, and W."""

    ids: IntArray
    word_indices: IntArray
    tokens: tuple[str, ...]
    n_words: int


@dataclass(frozen=True)
class MaskedSentence:
    """A sentence with one open token: `ids` (T,), the open `index`, ids of V `candidates`.

    ``ids[index]`` is meaningless; put a candidate there.
    """

    ids: IntArray
    index: int
    candidates: IntArray


@dataclass(frozen=True, eq=False)
class WordTokenizer:
    """Maps words to ids under a stated policy for punctuation, case and unknown words.

    Attributes
    ----------
    ids
        Token to id, without the sentence-boundary symbols: they are not words of a sentence.
    unknown_id
        Id of the unknown-word class, or None where the model has none.
    punctuation, case, unknown
        As in :class:`~contstim.models.base.Event`.
    name
        The model's spec, for error messages.
    language
        What cuts sentences into words, and says which letters are one but for their case.
    """

    ids: Mapping[str, int]
    unknown_id: int | None
    punctuation: str = "keep"
    case: str = "keep"
    unknown: str = "error"
    name: str = "the model"
    language: Language = ENGLISH
    _candidates: weakref.WeakKeyDictionary[WordList, dict[tuple[str, str], IntArray]] = field(
        default_factory=weakref.WeakKeyDictionary, repr=False
    )

    @classmethod
    def from_spec(
        cls, ids: Mapping[str, int], unknown_id: int | None, spec: ModelSpec
    ) -> WordTokenizer:
        """Build from the options of `spec` (see `WORD_OPTIONS`)."""
        unknown = spec.get_choice("unknown", ("error", "unk"), WORD_OPTIONS["unknown"])
        if unknown == "unk" and unknown_id is None:
            raise InputError(
                f"{str(spec)!r} asks for unknown=unk, but the model has no unknown-word class; "
                "leave the option out"
            )
        return cls(
            ids,
            unknown_id,
            spec.get_choice("punctuation", PUNCTUATION_POLICIES, WORD_OPTIONS["punctuation"]),
            spec.get_choice("case", ("keep", "lower"), WORD_OPTIONS["case"]),
            unknown,
            str(spec.canonical(WORD_OPTIONS)),
            LANGUAGES[spec.get_choice("language", LANGUAGES, WORD_OPTIONS["language"])],
        )

    def event(self, start: str, end: str) -> Event:
        """State the event, given the model's boundary symbols."""
        units = self.language.unit_name("words")
        return Event(units, start, end, self.punctuation, case=self.case, unknown=self.unknown)

    def _id(self, token: str) -> int | None:
        number = self.ids.get(self.language.lower(token) if self.case == "lower" else token)
        return self.unknown_id if number is None and self.unknown == "unk" else number

    def _known_id(self, token: str, sentence: str) -> int:
        number = self._id(token)
        if number is None:
            message = f"{self.name} does not know {token!r} in {sentence!r}"
            core = split_word(token)[1]
            if core != token and self._id(core) is not None:
                raise UnknownWordError(
                    f"{message}, but {core!r}; ask for punctuation=split or punctuation=drop, as "
                    "the model was trained"
                )
            raise UnknownWordError(
                f"{message}; leave the sentence out, use a model trained with the word, or ask for "
                "unknown=unk"
            )
        return number

    def encode(self, sentence: str) -> TokenizedSentence:
        """Turn a sentence into ids.

        Raises
        ------
        UnknownWordError
            Naming the word and the sentence, if a word is unknown and that is an error.
        InputError
            If nothing in the sentence is scored.
        """
        words = self.language.split(sentence)
        ids: list[int] = []
        word_indices: list[int] = []
        tokens: list[str] = []
        for number, word in enumerate(words):
            for token in tokenize_word(word, self.punctuation):
                ids.append(self._known_id(token, sentence))
                word_indices.append(number)
                tokens.append(token)
        if not ids:
            raise InputError(f"nothing in {sentence!r} is a word to {self.name}")
        return TokenizedSentence(
            np.array(ids, dtype=np.int64),
            np.array(word_indices, dtype=np.int64),
            tuple(tokens),
            len(words),
        )

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return whether all tokens of each of V words have ids of their own; shape (V,)."""
        lower = self.case == "lower"
        is_known = np.zeros(len(words), dtype=np.bool_)
        for i, word in enumerate(words):
            cased = self.language.lower(word) if lower else word
            tokens = tokenize_word(cased, self.punctuation)
            is_known[i] = bool(tokens) and all(map(self.ids.__contains__, tokens))
        return is_known

    def encode_words(self, words: Iterable[str]) -> IntArray:
        """Return the ids of words without marks, all known, shape (V,)."""
        return np.array([self._known_id(word, word) for word in words], dtype=np.int64)

    def encode_mark(self, mark: str) -> list[int]:
        """Return the ids of a mark behind a word, where marks are tokens; else none."""
        split = mark and self.punctuation == "split"
        return [self._known_id(mark, mark)] if split else []

    def mask_word(self, sentence: Sentence, position: int, words: WordList) -> MaskedSentence:
        """Encode `sentence` with the word at `position` open for each of `words`.

        A candidate is always one token, since punctuation around the position stays.

        Raises
        ------
        InputError
            If `position` is outside the sentence.
        UnknownWordError
            If a word of the sentence or a candidate is unknown.
        """
        sentence.check_position(position)
        keeps = self.punctuation == "keep"
        marks = (sentence.before[position], sentence.after[position]) if keeps else ("", "")
        left, right = map(strip_no_break_spaces, marks)
        by_affix = self._candidates.setdefault(words, {})
        candidates = by_affix.get((left, right))
        if candidates is None:
            word_ids = [self._id(left + word + right) for word in words]
            if None in word_ids:
                word = words.words[word_ids.index(None)]
                raise UnknownWordError(
                    f"{self.name} does not know the candidate {left + word + right!r}; "
                    "restrict the vocabulary to words every model knows"
                )
            candidates = np.array(word_ids, dtype=np.int64)
            by_affix[left, right] = candidates
        ids: list[int] = []
        index = -1
        for number in range(len(sentence)):
            open_here = number == position
            surface = sentence.surface(number, _PLACEHOLDER if open_here else None)
            for token in tokenize_word(surface, self.punctuation):
                if open_here and token == left + _PLACEHOLDER + right:
                    index = len(ids)
                    ids.append(0)
                    continue
                ids.append(self._known_id(token, str(sentence)))
        return MaskedSentence(np.array(ids, dtype=np.int64), index, candidates)
