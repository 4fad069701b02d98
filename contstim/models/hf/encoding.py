"""Tokenisation of sentences into subword tokens, each assigned to a word.

A sentence is tokenised once, as a whole. A token belongs to the word that contains its characters.
Thus "don't" is one word even if it has several tokens, and a punctuation mark belongs to the word
to which it is attached.
"""

from __future__ import annotations

import unicodedata
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError, SpecError, UnknownWordError
from contstim.models.base import TokenScores
from contstim.models.hf.options import SharedOptions
from contstim.models.hf.token_classes import TokenClasses
from contstim.models.hf.trie import TokenTrie
from contstim.text import Sentence, WordList
from contstim.text.language import is_closing, split_word
from contstim.text.languages import LANGUAGES

# Maximum length of a sentence in error messages, in characters.
_MAX_SHOWN = 60


def check_length(sentence: str, n_tokens: int, max_tokens: int | None, name: str) -> None:
    """Raise an error if a sentence has more tokens than a model accepts.

    Parameters
    ----------
    sentence
        Text of the sentence, for the error message.
    n_tokens
        Number of tokens of the sentence, special tokens included.
    max_tokens
        Maximum number of input tokens; None if there is no limit.
    name
        Name of the model, for the error message.

    Raises
    ------
    InputError
        If the sentence is too long.
    """
    if max_tokens is None or n_tokens <= max_tokens:
        return
    excerpt = sentence if len(sentence) <= _MAX_SHOWN else sentence[:_MAX_SHOWN] + "..."
    raise InputError(
        f"{excerpt!r} has {n_tokens} tokens, special tokens included, and {name} accepts at most "
        f"{max_tokens}; shorten or split the sentence"
    )


@dataclass(frozen=True)
class EncodedSentence:
    """Tokens of a sentence of W words, and the word to which each token belongs.

    Scored tokens are the tokens that the score of the sentence predicts. Special tokens and, on
    request, the final punctuation mark are visible to the network but not scored.

    Attributes
    ----------
    ids
        Ids of all L tokens, special tokens included, shape (L,).
    scored_positions
        Positions of the T scored tokens in `ids`, in ascending order, shape (T,).
    word_indices
        Index of the word of each scored token, in ascending order, shape (T,).
    units
        Scored tokens as written in the vocabulary.
    n_words
        Number of words W.
    """

    ids: IntArray
    scored_positions: IntArray
    word_indices: IntArray
    units: tuple[str, ...]
    n_words: int

    @property
    def word_lengths(self) -> tuple[int, ...]:
        """Number of scored tokens of each of the W words."""
        return tuple(np.bincount(self.word_indices, minlength=self.n_words).tolist())

    def with_log_probs(self, log_probs: FloatArray, stderr: float = 0.0) -> TokenScores:
        """Return the scored tokens of the sentence with their log-probabilities.

        Parameters
        ----------
        log_probs
            Log-probability in nats of each scored token, shape (T,).
        stderr
            Standard error in nats of the sum of the log-probabilities; 0 if it is exact.
        """
        return TokenScores(self.units, log_probs, self.word_indices, self.n_words, stderr)


@dataclass(frozen=True, eq=False)
class CandidateTokens:
    """Token ids of each of V candidate words, with a trie (prefix tree) and arrays made of them."""

    tokens: list[tuple[int, ...]]

    @cached_property
    def trie(self) -> TokenTrie:
        """Trie (prefix tree) of the token sequences of all words."""
        return TokenTrie.from_words(self.tokens)

    @cached_property
    def n_tokens(self) -> IntArray:
        """Number of tokens of each word, shape (V,)."""
        return np.array([len(ids) for ids in self.tokens], dtype=np.int64)

    @cached_property
    def first_tokens(self) -> IntArray:
        """Id of the first token of each word, shape (V,)."""
        return np.array([ids[0] for ids in self.tokens], dtype=np.int64)

    @cached_property
    def by_length(self) -> dict[int, tuple[IntArray, IntArray]]:
        """Words grouped by their number of tokens, n.

        For each n, a tuple contains the indices of the k words with n tokens, shape (k,), and their
        token ids, shape (k, n).
        """
        groups = {}
        for n in np.unique(self.n_tokens).tolist():
            members = np.flatnonzero(self.n_tokens == n)
            groups[n] = members, np.array([self.tokens[i] for i in members], dtype=np.int64)
        return groups


class SubwordTokenizer:
    """Tokenizer that splits a sentence into subword tokens and assigns each token to a word.

    Parameters
    ----------
    tokenizer
        Tokenizer loaded by the package `transformers`.
    options
        Treatment of the first word, final punctuation and unknown words.
    name
        Name of the model, for error messages.
    special
        Whether to add the special tokens of the tokenizer.

    Attributes
    ----------
    first
        Token of the first word: ``spaced`` if it includes a space, ``unspaced`` if not, or
        ``unmarked`` if no token of the vocabulary includes white space.
    """

    def __init__(self, tokenizer: Any, options: SharedOptions, name: str, *, special: bool) -> None:
        self.tokenizer = tokenizer
        self.options = options
        self.name = name
        self.special = special
        self.language = LANGUAGES[options.language]
        self.token_classes = TokenClasses.from_tokenizer(tokenizer)
        # A space before a sentence gives the first word the same token as later words.
        self._initial_space = " " if options.first == "spaced" else ""
        self._special_ids = frozenset(np.flatnonzero(self.token_classes.is_special).tolist())
        # Cache of `candidates`. An entry is deleted when its word list is no longer used.
        self._candidates: weakref.WeakKeyDictionary[WordList, dict[object, CandidateTokens]] = (
            weakref.WeakKeyDictionary()
        )
        # Unknown words can be scored only if the tokenizer finds their characters in the text.
        if options.unknown == "unk" and (tokenizer.unk_token_id is None or not tokenizer.is_fast):
            raise SpecError(
                f"unknown='unk' in {name!r}: its tokenizer has no unknown-word token with known "
                "character offsets; leave the option out"
            )
        self.first = self._determine_first_word_form()

    def _determine_first_word_form(self) -> str:
        """Return whether the token of the first word includes a space, see the attribute `first`.

        Many tokenizers have two tokens for a word, with and without a space before it. The option
        ``first`` selects one of them, or leaves the choice to the tokenizer (``auto``).

        Raises
        ------
        SpecError
            If the tokenizer cannot produce the token that the option selects.
        """
        option = self.options.first
        # If tokens do not mark white space, a word has the same token everywhere.
        if not self.token_classes.marks_space:
            if option != "auto":
                raise SpecError(
                    f"first={option!r} in {self.name!r}: its vocabulary does not mark white space; "
                    "leave the option out"
                )
            return "unmarked"
        # Test whether the tokenizer adds a space before the first word. Tokens with a space are the
        # tokens that start a word.
        ids = self.tokenizer(self.sample_word, add_special_tokens=False)["input_ids"]
        adds_space = bool(self.token_classes.is_starting[ids[0]])
        if option == "unspaced" and adds_space:
            raise SpecError(
                f"first='unspaced' in {self.name!r}: its tokenizer adds a space before every "
                "sentence; leave the option out"
            )
        return "spaced" if adds_space or option == "spaced" else "unspaced"

    @property
    def case(self) -> str:
        """``lower`` if the tokenizer ignores case, else ``keep``."""
        word = self.sample_word
        forms = [word.lower(), word.upper()]
        ids = self.tokenizer(forms, add_special_tokens=False)["input_ids"]
        return "lower" if ids[0] == ids[1] else "keep"

    @cached_property
    def sample_word(self) -> str:
        """A word of ASCII letters that the tokenizer can encode, in lower case if possible."""
        ordinary = np.flatnonzero(~self.token_classes.is_special).tolist()
        tokens = self.tokenizer.convert_ids_to_tokens(ordinary)
        surfaces = [self.token_classes.surface(token) for token in tokens if token]
        words = [text for text in surfaces if text.isalpha() and text.isascii()]
        lower_case_first = sorted(words, key=str.islower, reverse=True)
        return next((word for word in lower_case_first if self.in_vocabulary([word])[0]), "a")

    @cached_property
    def closing_mark_ids(self) -> list[int]:
        """Ids of the word-continuing tokens that start with a closing punctuation mark."""
        ids = np.flatnonzero(self.token_classes.is_continuing).tolist()
        tokens = self.tokenizer.convert_ids_to_tokens(ids)
        surfaces = [self.token_classes.surface(token) for token in tokens]
        pairs = zip(ids, surfaces, strict=True)
        return [token_id for token_id, surface in pairs if is_closing(surface[:1])]

    @cached_property
    def leading_special_ids(self) -> tuple[int, ...]:
        """Ids of the special tokens that the tokenizer adds before a sentence."""
        encoding = self.tokenizer(self.sample_word, return_special_tokens_mask=True)
        pairs = zip(encoding["input_ids"], encoding["special_tokens_mask"], strict=True)
        return tuple(token for token, _ in takewhile(lambda pair: pair[1], pairs))

    def encode(self, sentences: Sequence[str]) -> list[EncodedSentence]:
        """Tokenise S sentences and assign each token to a word.

        Repeated spaces between words are first replaced by one space.

        Raises
        ------
        UnknownWordError
            If a word is encoded as the unknown-word token; the message names the word.
        InputError
            If a sentence contains a special token, if a token spans two words, or if tokens
            cannot be aligned with the text.
        """
        normalised = map(self.language.normalise_spacing, sentences)
        texts = [self._initial_space + text for text in normalised]
        if not texts:  # Some tokenizers raise an error for an empty list.
            return []
        batch = self.tokenizer(
            texts,
            add_special_tokens=self.special,
            return_special_tokens_mask=True,
            return_offsets_mapping=self.tokenizer.is_fast,
        )
        encoded_sentences = []
        for i, text in enumerate(texts):
            ids = batch["input_ids"][i]
            is_special = batch["special_tokens_mask"][i]
            # Positions of the ordinary tokens, which are scored.
            positions = [position for position, flag in enumerate(is_special) if not flag]
            ordinary_ids = [ids[position] for position in positions]
            tokens = self.tokenizer.convert_ids_to_tokens(ordinary_ids)
            # Characters (start, end) of each token. Slow tokenizers do not return them.
            if self.tokenizer.is_fast:
                spans = [batch["offset_mapping"][i][position] for position in positions]
            else:
                spans = self._align_tokens(text, ordinary_ids, tokens)
            encoded_sentences.append(self._assign_words(text, ids, positions, tokens, spans))
        return encoded_sentences

    def _assign_words(
        self,
        text: str,
        ids: list[int],
        positions: list[int],
        tokens: list[str],
        spans: list[tuple[int, int]],
    ) -> EncodedSentence:
        """Assign each token of a text to the word that contains its characters.

        `ids` include special tokens. `positions` in `ids`, `tokens` as written in the vocabulary,
        and `spans` of characters in the text refer to the ordinary tokens only.
        """
        words, word_by_character = [], [-1] * len(text)
        for number, (start, end) in enumerate(self.language.word_spans(text)):
            words.append(text[start:end])
            word_by_character[start:end] = [number] * (end - start)
        # Find the final punctuation marks of the sentence, if they are not scored.
        n_marks = 0
        if self.options.punctuation == "context":
            n_marks = len(split_word(words[-1])[2])
        marks_start = len(text) - n_marks

        scored_positions, word_indices, units = [], [], []
        for position, token, (start, end) in zip(positions, tokens, spans, strict=True):
            covered = {word for word in word_by_character[start:end] if word >= 0}
            if len(covered) > 1:
                raise InputError(
                    f"token {token!r} spans two words of {text.strip()!r}; {self.name} cannot be "
                    "scored word by word"
                )
            if covered:
                word = covered.pop()
            else:  # A token of white space belongs to the next word.
                following = (w for w in word_by_character[start:] if w >= 0)
                word = next(following, len(words) - 1)
            self._check_token(ids[position], words[word], text)
            if start >= marks_start and n_marks:
                continue
            scored_positions.append(position)
            word_indices.append(word)
            units.append(token)

        missing = set(range(len(words))).difference(word_indices)
        if missing:
            raise InputError(
                f"the tokenizer of {self.name} has no token for {words[min(missing)]!r} in "
                f"{text.strip()!r}; leave the sentence out"
            )
        if word_indices != sorted(word_indices):
            raise InputError(
                f"the tokenizer of {self.name} changes the order of words in {text.strip()!r}; "
                "leave the sentence out"
            )
        return EncodedSentence(
            ids=np.array(ids, dtype=np.int64),
            scored_positions=np.array(scored_positions, dtype=np.int64),
            word_indices=np.array(word_indices, dtype=np.int64),
            units=tuple(units),
            n_words=len(words),
        )

    def _check_token(self, token_id: int, word: str, text: str) -> None:
        """Check that a token of a word is neither a special token nor the unknown-word token.

        Unknown words are accepted if the option ``unknown`` is ``unk``.
        """
        if token_id not in self._special_ids:
            return
        # The unknown-word token replaces the word, unless the text literally contains "[UNK]".
        if token_id == self.tokenizer.unk_token_id and self.tokenizer.unk_token not in word:
            if self.options.unknown == "unk":
                return
            raise UnknownWordError(
                f"{self.name} does not know {word!r} in {text.strip()!r}; leave the sentence out, "
                "or ask for unknown=unk"
            )
        token = self.tokenizer.convert_ids_to_tokens(token_id)
        raise InputError(
            f"{word!r} in {text.strip()!r} contains {token!r}, a special token of {self.name}; "
            "leave the sentence out"
        )

    def _align_tokens(self, text: str, ids: list[int], tokens: list[str]) -> list[tuple[int, int]]:
        """Find the characters (start, end) of each token in a text, without the tokenizer.

        The tokens are compared with the text from left to right, ignoring case, accents and spaces.
        """
        characters: list[tuple[str, int]] = []
        for index, character in enumerate(text):
            # Without case, accents and white space, but with the index in the original text.
            characters += [(folded, index) for folded in _fold(character)]
        spans = []
        start = 0  # number of characters that the tokens so far contain
        for token_id, token in zip(ids, tokens, strict=True):
            # The unknown-word token matches no text: refuse the word that begins here.
            if token_id == self.tokenizer.unk_token_id:
                offset = characters[min(start, len(characters) - 1)][1]
                self._check_token(token_id, text[offset:].split()[0], text)
            # The next characters must be the characters of the token.
            surface = _fold(self.token_classes.surface(token))
            matched = characters[start : start + len(surface)]
            if [character for character, _ in matched] != list(surface) or not surface:
                raise InputError(
                    f"token {token!r} of {self.name} cannot be aligned with a word of "
                    f"{text.strip()!r}; leave the sentence out or use plain punctuation marks"
                )
            spans.append((matched[0][1], matched[-1][1] + 1))
            start += len(surface)
        return spans

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return whether each of V words can be encoded without special tokens, shape (V,)."""
        can_encode = np.zeros(len(words), dtype=np.bool_)
        split = str.split if self.language.is_space_delimited else self.language.split
        single = [i for i, word in enumerate(words) if len(split(word)) == 1]
        for i, ids in zip(single, self._tokenize([words[i] for i in single]), strict=True):
            can_encode[i] = bool(ids) and not self._special_ids.intersection(ids)
        return can_encode

    def count_tokens(
        self, words: Sequence[str], n_occurrences: IntArray, n_initial: IntArray
    ) -> FloatArray:
        """Count how often each token occurs in a text, given the counts of its words.

        Each word is tokenised only twice: at the beginning of a sentence and after another word.

        Parameters
        ----------
        words
            The V different words of the text.
        n_occurrences
            Number of occurrences of each word, shape (V,).
        n_initial
            Number of occurrences at the beginning of a sentence, shape (V,).

        Returns
        -------
        array
            Number of occurrences of each token of the vocabulary.
        """
        preceding_word = self._initial_space + self.sample_word
        # Words in the middle of a sentence are tokenised after this example word.
        preceding_ids = self._tokenize([preceding_word])[0]
        counts = np.zeros(len(self.token_classes.is_special), dtype=np.float64)
        # Text before a word, tokens of this text, and number of times that each word occurs there.
        at_start: tuple[str, list[int], IntArray] = (self._initial_space, [], n_initial)
        after_word = (preceding_word + " ", preceding_ids, n_occurrences - n_initial)
        for context, context_ids, frequencies in (at_start, after_word):
            occurring = np.flatnonzero(frequencies).tolist()
            texts = [context + words[i] for i in occurring]
            for i, ids in zip(occurring, self._tokenize(texts), strict=True):
                # Skip words that change the tokens of the word before them.
                if ids[: len(context_ids)] == context_ids:
                    np.add.at(counts, ids[len(context_ids) :], frequencies[i])
        return counts

    def tokenize(self, texts: list[str]) -> list[list[int]]:
        """Return the token ids of sentences with single spaces between words, without checks."""
        return self._tokenize([self._initial_space + text for text in texts], special=self.special)

    def tokenize_text(self, text: str) -> list[int]:
        """Return the token ids of a text without adding spaces or special tokens."""
        return self._tokenize([text])[0]

    def _tokenize(self, texts: list[str], *, special: bool = False) -> list[list[int]]:
        """Return the token ids of texts, with or without the special tokens of the tokenizer."""
        if not texts:
            return []
        ids: list[list[int]] = self.tokenizer(texts, add_special_tokens=special)["input_ids"]
        return ids

    def candidates(self, sentence: Sentence, position: int, words: WordList) -> CandidateTokens:
        """Return the tokens of candidate words that replace one word of a sentence.

        The result is cached for each word list and the punctuation marks around the word. It is
        correct for tokenizers that split texts at white space. For other tokenizers, the caller
        must compare it with the tokens of the whole sentence.

        Raises
        ------
        InputError
            If the language does not separate words by spaces.
        """
        if not self.language.is_space_delimited:
            raise InputError(
                f"{self.name} tokenises candidates between spaces, which {self.language.name} does "
                "not have; choose metric=chain or a metric of pll"
            )
        is_last = position == len(sentence) - 1
        # The tokens depend on the punctuation marks and on whether the word is first or last.
        key = (sentence.before[position], sentence.after[position], position == 0, is_last)
        cached = self._candidates.setdefault(words, {})
        if key not in cached:
            # Encode each candidate between its neighbours in this sentence, which the tokenizer
            # can certainly encode. Other neighbours would give the same tokens.
            left = "" if position == 0 else sentence.surface(position - 1) + " "
            right = "" if is_last else " " + sentence.surface(position + 1)
            texts = [left + sentence.surface(position, word) + right for word in words]
            word_index = 0 if position == 0 else 1  # index of the candidate in its text
            tokens = []
            for encoded in self.encode(texts):
                positions = encoded.scored_positions[encoded.word_indices == word_index]
                tokens.append(tuple(encoded.ids[positions].tolist()))
            cached[key] = CandidateTokens(tokens)
        return cached[key]


def _fold(text: str) -> str:
    """Return `text` in lower case, without accents and white space."""
    decomposed = unicodedata.normalize("NFKD", text.lower())
    return "".join(c for c in decomposed if not unicodedata.combining(c) and not c.isspace())
