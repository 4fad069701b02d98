"""Tokenizer of word-level models, with options for punctuation, case and unknown words."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError, UnknownWordError
from contstim.models import ModelSpec
from contstim.models.base import Event, TokenScores
from contstim.text import (
    PUNCTUATION_POLICIES,
    Sentence,
    WordList,
    strip_no_break_spaces,
    tokenize_word,
)
from contstim.text.language import Language, split_word
from contstim.text.languages import ENGLISH, LANGUAGES

#: Symbols for the start and the end of a sentence, and for unknown words.
START, END, UNKNOWN = "<s>", "</s>", "<unk>"
#: Options of word-level models, with their defaults, for example ``ngram:PATH?case=lower``.
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
    """A sentence of T tokens and W words.

    Attributes
    ----------
    ids
        Token ids, shape (T,).
    word_indices
        Index of the word that each token belongs to, shape (T,).
    tokens
        The T tokens as text.
    n_words
        Number W of words.
    """

    ids: IntArray
    word_indices: IntArray
    tokens: tuple[str, ...]
    n_words: int

    def with_log_probs(self, log_probs: FloatArray, end: str | None) -> TokenScores:
        """Combine the tokens with their log-probabilities in nats.

        If the end symbol `end` is scored, it becomes the last token of the last word, so that
        `log_probs` has T + 1 elements. If it is None, `log_probs` has T elements.
        """
        tokens, word_indices = self.tokens, self.word_indices
        if end is not None:
            tokens = (*tokens, end)
            word_indices = np.append(word_indices, self.n_words - 1)
        return TokenScores(tokens, log_probs, word_indices, self.n_words)


@dataclass(frozen=True)
class MaskedSentence:
    """A tokenised sentence with one masked word and V candidates for it.

    Attributes
    ----------
    ids
        Token ids, shape (T,). The id of the masked word has no meaning.
    index
        Index of the masked word in `ids`.
    candidates
        Ids of the candidates, shape (V,).
    """

    ids: IntArray
    index: int
    candidates: IntArray


@dataclass(frozen=True, eq=False)
class WordTokenizer:
    """Tokenizer that splits sentences into words and punctuation marks and looks up their ids.

    Attributes
    ----------
    ids
        Mapping from token to id, without the start and end symbols.
    unknown_id
        Id of the unknown-word symbol; None if the model has none.
    punctuation, case, unknown
        Treatment of punctuation marks, letter case and unknown words, as in
        :class:`~contstim.models.base.Event`.
    name
        Name of the model, for error messages.
    language
        Language that defines the words of a sentence and their lower case.
    """

    ids: Mapping[str, int]
    unknown_id: int | None
    punctuation: str = "keep"
    case: str = "keep"
    unknown: str = "error"
    name: str = "the model"
    language: Language = ENGLISH
    # Candidate ids by word list and by the punctuation around the word.
    _candidate_ids: weakref.WeakKeyDictionary[WordList, dict[tuple[str, str], IntArray]] = field(
        default_factory=weakref.WeakKeyDictionary, repr=False
    )

    @classmethod
    def from_spec(
        cls, ids: Mapping[str, int], unknown_id: int | None, spec: ModelSpec
    ) -> WordTokenizer:
        """Create the tokenizer with the options of a model specification.

        Parameters
        ----------
        ids
            Mapping from token to id, without the start and end symbols.
        unknown_id
            Id of the unknown-word symbol; None if the model has none.
        spec
            Model specification, for example ``ngram:PATH?case=lower``, with options from
            `WORD_OPTIONS`.

        Raises
        ------
        SpecError, InputError
            If an option has an invalid value, or if ``unknown=unk`` is set and `unknown_id` is
            None.
        """
        unknown = spec.get_choice("unknown", ("error", "unk"), WORD_OPTIONS["unknown"])
        # Unknown words raise an error or are scored as the unknown-word symbol, if there is one.
        if unknown == "unk" and unknown_id is None:
            raise InputError(
                f"{str(spec)!r} sets unknown=unk, but the model has no unknown-word symbol; remove "
                "the option"
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
        """Return the definition of the score: probability of the words after the start symbol."""
        units = self.language.unit_name("words")
        return Event(units, start, end, self.punctuation, case=self.case, unknown=self.unknown)

    def _find_id(self, token: str) -> int | None:
        """Return the id of a token, or None if the token is unknown.

        If the option ``unknown`` is ``unk``, unknown tokens have the id of the unknown-word symbol.
        """
        cased = self.language.lower(token) if self.case == "lower" else token
        default = self.unknown_id if self.unknown == "unk" else None
        return self.ids.get(cased, default)

    def _require_id(self, token: str, sentence: str) -> int:
        """Return the id of a token. Unknown tokens raise an error that names the sentence."""
        token_id = self._find_id(token)
        if token_id is not None:
            return token_id
        # If the vocabulary has the word without its punctuation marks, suggest to split them off.
        message = f"{self.name} does not know {token!r} in {sentence!r}"
        core = split_word(token)[1]
        if core != token and self._find_id(core) is not None:
            raise UnknownWordError(
                f"{message}, but it knows {core!r}; set punctuation=split or punctuation=drop, as "
                "in the model's training"
            )
        raise UnknownWordError(
            f"{message}; leave the sentence out, use a model trained with the word, or set "
            "unknown=unk"
        )

    def encode(self, sentence: str) -> TokenizedSentence:
        """Tokenise a sentence.

        Raises
        ------
        UnknownWordError
            If a word is unknown and unknown words are errors.
        InputError
            If the sentence contains no token to score.
        """
        words = self.language.split(sentence)
        # Tokens are words with or without punctuation marks, or marks, depending on the option.
        tokens: list[str] = []
        word_indices: list[int] = []  # index of the word to which each token belongs
        for index, word in enumerate(words):
            for token in tokenize_word(word, self.punctuation):
                tokens.append(token)
                word_indices.append(index)
        if not tokens:
            raise InputError(f"{sentence!r} contains no word of {self.name}; leave it out")
        ids = [self._require_id(token, sentence) for token in tokens]
        return TokenizedSentence(
            np.array(ids, dtype=np.int64),
            np.array(word_indices, dtype=np.int64),
            tuple(tokens),
            len(words),
        )

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return whether all tokens of each of V words are in the vocabulary, shape (V,)."""
        is_known = np.zeros(len(words), dtype=np.bool_)
        for i, word in enumerate(words):
            cased = self.language.lower(word) if self.case == "lower" else word
            tokens = tokenize_word(cased, self.punctuation)
            is_known[i] = bool(tokens) and all(map(self.ids.__contains__, tokens))
        return is_known

    def encode_words(self, words: Iterable[str]) -> IntArray:
        """Return the ids of V words without punctuation, shape (V,)."""
        return np.array([self._require_id(word, word) for word in words], dtype=np.int64)

    def encode_mark(self, mark: str) -> list[int]:
        """Return the ids of a punctuation mark: one id, or none if marks are not tokens."""
        is_token = mark and self.punctuation == "split"
        return [self._require_id(mark, mark)] if is_token else []

    def mask_word(self, sentence: Sentence, position: int, words: WordList) -> MaskedSentence:
        """Tokenise a sentence with one word masked, and look up the ids of candidates for it.

        Parameters
        ----------
        sentence
            Sentence in which the word is masked.
        position
            Index of the word to mask.
        words
            The V candidates.

        Raises
        ------
        InputError
            If `position` is outside the sentence.
        UnknownWordError
            If another word of the sentence or a candidate is unknown.
        """
        sentence.check_position(position)
        # If punctuation is kept, the marks around the word are part of its token.
        left = right = ""
        if self.punctuation == "keep":
            left = strip_no_break_spaces(sentence.before[position])
            right = strip_no_break_spaces(sentence.after[position])
        ids_by_marks = self._candidate_ids.setdefault(words, {})
        if (left, right) not in ids_by_marks:
            candidate_ids = [self._find_id(left + word + right) for word in words]
            if None in candidate_ids:
                word = words.words[candidate_ids.index(None)]
                raise UnknownWordError(
                    f"{self.name} does not know the candidate {left + word + right!r}; "
                    "restrict the vocabulary to words that every model knows"
                )
            ids_by_marks[left, right] = np.array(candidate_ids, dtype=np.int64)
        # Tokenise the sentence with a placeholder, and record the index of its token.
        ids: list[int] = []
        masked_index = -1
        for i in range(len(sentence)):
            surface = sentence.surface(i, _PLACEHOLDER if i == position else None)
            for token in tokenize_word(surface, self.punctuation):
                if i == position and token == left + _PLACEHOLDER + right:
                    masked_index = len(ids)
                    ids.append(0)
                else:
                    ids.append(self._require_id(token, str(sentence)))
        return MaskedSentence(
            np.array(ids, dtype=np.int64), masked_index, ids_by_marks[left, right]
        )
