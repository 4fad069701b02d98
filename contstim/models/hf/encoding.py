"""From sentences to sub-word tokens, each belonging to a whitespace-separated word.

A sentence is tokenised once, whole. A token belongs to the word whose characters its offsets lie
in, so "don't" is one word whatever pieces a pre-tokenizer cuts it into, and final punctuation
belongs to the word it is attached to.

Whether a token begins a word shows in its form; four ways of writing are known. WordPiece marks
the tokens that continue a word (``##s``). Byte-level BPE and SentencePiece mark the white space
before a word on the token that begins it (``Ġdog``, ``▁dog``). XLM marks the token that ends a word
(``dog</w>``).
"""

from __future__ import annotations

import re
import unicodedata
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any

import numpy as np
from transformers.convert_slow_tokenizer import bytes_to_unicode

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError, SpecError, UnknownWordError
from contstim.models.hf.options import SharedOptions
from contstim.models.hf.trie import TokenTrie
from contstim.text import Sentence, WordList
from contstim.text.language import is_closing, split_word
from contstim.text.languages import LANGUAGES

_to_unicode: Callable[[], dict[int, str]] = bytes_to_unicode
# The byte that each character of a byte-level vocabulary stands for.
_BYTE_OF = {character: byte for byte, character in _to_unicode().items()}


def bytes_of(token: str, mark: str) -> bytes:
    """Return the bytes that a token of a vocabulary marked by ``Ġ`` or ``▁`` stands for.

    Tokens that were added later are written as they are.
    """
    if mark == "▁":
        byte = re.fullmatch(r"<0x([0-9A-F]{2})>", token)
        return bytes([int(byte[1], 16)]) if byte else token.replace("▁", " ").encode()
    if not all(character in _BYTE_OF for character in token):
        return token.encode()
    return bytes(_BYTE_OF[character] for character in token)


@dataclass(frozen=True, eq=False)
class TokenClasses:
    """The two classes of a vocabulary of V tokens.

    Attributes
    ----------
    mark
        ``##``, ``Ġ``, ``▁`` or ``</w>``; empty if the vocabulary has no such mark.
    is_starting, is_continuing
        Which tokens are of either class, shape (V,); special tokens are of neither. With
        ``</w>`` `starting` holds the tokens that end a word, the class of one-token words.
    is_special
        Which tokens are special, those without a role among them, shape (V,).
    """

    mark: str
    is_starting: BoolArray
    is_continuing: BoolArray
    is_special: BoolArray

    @classmethod
    def of(cls, tokenizer: Any) -> TokenClasses:
        """Read the forms off a tokenizer's vocabulary."""
        ids: dict[str, int] = tokenizer.get_vocab()
        special = np.zeros(max(ids.values()) + 1, dtype=np.bool_)
        control = [i for i, token in tokenizer.added_tokens_decoder.items() if token.special]
        special[[i for i in (*tokenizer.all_special_ids, *control) if i < len(special)]] = True
        counts: Counter[str] = Counter()
        for token in ids:
            counts["##"] += token.startswith("##") and len(token) > 2
            counts["</w>"] += token.endswith("</w>") and len(token) > 4
            counts["Ġ"] += token.startswith("Ġ")
            counts["▁"] += token.startswith("▁")
        mark, n = counts.most_common(1)[0]
        first = np.zeros(len(special), dtype=np.bool_)
        if n == 0:
            return cls("", first, first, special)
        for token, i in ids.items():
            first[i] = (
                not token.startswith("##")
                if mark == "##"
                else token.endswith("</w>")
                if mark == "</w>"
                else bytes_of(token, mark).decode("utf-8", "replace")[:1].isspace()
            )
        has_token = np.zeros(len(special), dtype=np.bool_)
        has_token[list(ids.values())] = True
        return cls(mark, first & has_token & ~special, ~first & has_token & ~special, special)

    @property
    def marks_space(self) -> bool:
        """Whether tokens carry the white space before them."""
        return self.mark in ("Ġ", "▁")

    def surface(self, token: str) -> str:
        """Return a token's text without its mark."""
        if self.mark == "##":
            return token.removeprefix("##")
        if self.mark == "</w>":
            return token.removesuffix("</w>")
        return token.removeprefix(self.mark) if self.mark else token


_SHOWN = 60  # characters of a sentence that is refused for its length


def check_length(sentence: str, n_tokens: int, limit: int | None, name: str) -> None:
    """Refuse a sentence of more tokens than the network takes."""
    if limit is None or n_tokens <= limit:
        return
    shown = sentence if len(sentence) <= _SHOWN else sentence[:_SHOWN] + "..."
    raise InputError(
        f"{shown!r} has {n_tokens} tokens, special tokens included, and {name} takes at most "
        f"{limit}; shorten or split the sentence"
    )


@dataclass(frozen=True)
class EncodedSentence:
    """A sentence as token ids.

    Attributes
    ----------
    ids
        Ids of all L tokens, special tokens included, shape (L,).
    scored_positions
        Positions of the T scored tokens among them, ascending, shape (T,).
    word_indices
        The word each scored token belongs to, ascending, shape (T,).
    units
        The scored tokens as the vocabulary writes them.
    n_words
        W.
    """

    ids: IntArray
    scored_positions: IntArray
    word_indices: IntArray
    units: tuple[str, ...]
    n_words: int

    @property
    def layout(self) -> tuple[int, ...]:
        """Number of scored tokens of each word, W numbers."""
        return tuple(np.bincount(self.word_indices, minlength=self.n_words).tolist())


@dataclass(frozen=True, eq=False)
class CandidateTokens:
    """Candidate words as V tuples of token ids."""

    tokens: list[tuple[int, ...]]

    @cached_property
    def trie(self) -> TokenTrie:
        """The words as a trie."""
        return TokenTrie.of(self.tokens)

    @cached_property
    def n_tokens(self) -> IntArray:
        """Number of tokens of each word, shape (V,)."""
        return np.array([len(ids) for ids in self.tokens], dtype=np.int64)

    @cached_property
    def first(self) -> IntArray:
        """The first token of each word, shape (V,)."""
        return np.array([ids[0] for ids in self.tokens], dtype=np.int64)

    @cached_property
    def by_length(self) -> dict[int, tuple[IntArray, IntArray]]:
        """For each number n of tokens the words that have so many, (k,), and their ids, (k, n)."""
        found = {}
        for n in np.unique(self.n_tokens).tolist():
            members = np.flatnonzero(self.n_tokens == n)
            found[n] = members, np.array([self.tokens[i] for i in members], dtype=np.int64)
        return found


class SubwordTokenizer:
    """A tokenizer of transformers under the contract's notion of words.

    Parameters
    ----------
    tokenizer
        The tokenizer as transformers loads it.
    options
        Policy for the first word, final punctuation and unknown words.
    name
        The model's spec, for messages.
    is_special
        Whether ids include the special tokens that the tokenizer adds by itself.
    """

    def __init__(self, tokenizer: Any, options: SharedOptions, name: str, *, special: bool) -> None:
        self.tokenizer = tokenizer
        self.options = options
        self.name = name
        self.special = special
        self.language = LANGUAGES[options.language]
        self._lead = " " if options.first == "spaced" else ""
        self.token_classes = TokenClasses.of(tokenizer)
        self._words: weakref.WeakKeyDictionary[WordList, dict[object, CandidateTokens]] = (
            weakref.WeakKeyDictionary()
        )
        if options.unknown == "unk" and (tokenizer.unk_token_id is None or not tokenizer.is_fast):
            raise SpecError(
                f"{name!r} asks for unknown=unk, but its tokenizer has no unknown-word token whose "
                "place in a sentence it reports; leave the option out"
            )
        self._special_ids = frozenset(np.flatnonzero(self.token_classes.is_special).tolist())
        self.first = self._first_form()

    def _first_form(self) -> str:
        """Return how the first word is written; refuse a form that cannot be had."""
        asked = self.options.first
        if not self.token_classes.marks_space:
            if asked != "auto":
                raise SpecError(
                    f"first={asked!r} in {self.name!r}: its vocabulary does not mark white space; "
                    "leave the option out"
                )
            return "unmarked"
        ids = self.tokenizer(self.sample_word, add_special_tokens=False)["input_ids"]
        by_itself = bool(self.token_classes.is_starting[ids[0]])
        if asked == "unspaced" and by_itself:
            raise SpecError(
                f"first='unspaced' in {self.name!r}: its tokenizer puts a space before every "
                "sentence by itself; leave the option out"
            )
        return "spaced" if by_itself or asked == "spaced" else "unspaced"

    @property
    def case(self) -> str:
        """``lower`` if the tokenizer makes no difference between cases, else ``keep``."""
        word = self.sample_word
        forms = [word.lower(), word.upper()]
        ids = self.tokenizer(forms, add_special_tokens=False)["input_ids"]
        return "lower" if ids[0] == ids[1] else "keep"

    @cached_property
    def sample_word(self) -> str:
        """Return some word of letters that the vocabulary holds, lower case where there is one."""
        tokens = self.tokenizer.convert_ids_to_tokens(
            np.flatnonzero(~self.token_classes.is_special).tolist()
        )
        surfaces = [self.token_classes.surface(token) for token in tokens if token]
        words = [s for s in surfaces if s.isalpha() and s.isascii()]
        words.sort(key=lambda word: not word.islower())
        return next((word for word in words if self.in_vocabulary([word])[0]), "a")

    @cached_property
    def closing_mark_ids(self) -> list[int]:
        """The tokens that continue a word with a closing mark."""
        ids = np.flatnonzero(self.token_classes.is_continuing).tolist()
        units = self.tokenizer.convert_ids_to_tokens(ids)
        pairs = zip(ids, units, strict=True)
        return [i for i, unit in pairs if is_closing(self.token_classes.surface(unit)[:1])]

    @cached_property
    def leading_special_ids(self) -> tuple[int, ...]:
        """The special tokens that the tokenizer puts before a sentence by itself."""
        found = self.tokenizer(self.sample_word, return_special_tokens_mask=True)
        pairs = zip(found["input_ids"], found["special_tokens_mask"], strict=True)
        return tuple(token for token, _ in takewhile(lambda pair: pair[1], pairs))

    def encode(self, sentences: Sequence[str]) -> list[EncodedSentence]:
        """Tokenise sentences, S of them.

        White space between words counts as one space.

        Raises
        ------
        UnknownWordError
            Naming a word for which the vocabulary has only its unknown-word token.
        InputError
            If a sentence spells a special token, if a token spans two words or if tokens cannot
            be traced back to words.
        """
        texts = [self._lead + self.language.normalise_spacing(sentence) for sentence in sentences]
        if not texts:
            # Some tokenizers fail on nothing.
            return []
        batch = self.tokenizer(
            texts,
            add_special_tokens=self.special,
            return_special_tokens_mask=True,
            return_offsets_mapping=self.tokenizer.is_fast,
            return_attention_mask=False,
            return_token_type_ids=False,
            padding=False,
            truncation=False,
        )
        encoded = []
        for i, text in enumerate(texts):
            ids = batch["input_ids"][i]
            inside = [p for p, flag in enumerate(batch["special_tokens_mask"][i]) if not flag]
            units = self.tokenizer.convert_ids_to_tokens([ids[p] for p in inside])
            if self.tokenizer.is_fast:
                spans = [batch["offset_mapping"][i][p] for p in inside]
            else:
                spans = self._trace(text, [ids[p] for p in inside], units)
            encoded.append(self._grouped(text, ids, inside, units, spans))
        return encoded

    def _grouped(
        self,
        text: str,
        ids: list[int],
        inside: list[int],
        units: list[str],
        spans: list[tuple[int, int]],
    ) -> EncodedSentence:
        """Assign tokens to words by their spans of characters."""
        words, word_at = [], [-1] * len(text)
        for number, (start, end) in enumerate(self.language.word_spans(text)):
            words.append(text[start:end])
            word_at[start:end] = [number] * (end - start)
        mark = len(split_word(words[-1])[2]) if self.options.punctuation == "context" else 0
        # Characters from here on are context; a last word of marks alone is its own core.
        last_scored = len(text) - mark
        scored, word_indices, kept_units = [], [], []
        for place, unit, (start, end) in zip(inside, units, spans, strict=True):
            covered = {w for w in word_at[start:end] if w >= 0}
            if len(covered) > 1:
                raise InputError(
                    f"token {unit!r} spans two words of {text.strip()!r}; {self.name} cannot be "
                    "scored word by word"
                )
            # A token of white space alone opens the word that follows.
            word = covered.pop() if covered else next((w for w in word_at[start:] if w >= 0), -1)
            word = len(words) - 1 if word < 0 else word
            self._check_token(ids[place], words[word], text)
            if start >= last_scored and mark:
                continue
            scored.append(place)
            word_indices.append(word)
            kept_units.append(unit)
        missing = set(range(len(words))).difference(word_indices)
        if missing:
            raise InputError(
                f"the tokenizer of {self.name} has no token for {words[min(missing)]!r} in "
                f"{text.strip()!r}; leave the sentence out"
            )
        if word_indices != sorted(word_indices):
            raise InputError(
                f"the tokenizer of {self.name} changes the order of words in {text.strip()!r}"
            )
        return EncodedSentence(
            np.array(ids, dtype=np.int64),
            np.array(scored, dtype=np.int64),
            np.array(word_indices, dtype=np.int64),
            tuple(kept_units),
            len(words),
        )

    def _check_token(self, token: int, word: str, text: str) -> None:
        """Refuse unknown words, unless they stand as unk, and special tokens spelt out."""
        if token not in self._special_ids:
            return
        if token == self.tokenizer.unk_token_id and self.tokenizer.unk_token not in word:
            if self.options.unknown == "unk":
                return
            raise UnknownWordError(
                f"{self.name} does not know {word!r} in {text.strip()!r}; leave the sentence out, "
                "or ask for unknown=unk"
            )
        spelt = self.tokenizer.convert_ids_to_tokens(token)
        raise InputError(
            f"{word!r} in {text.strip()!r} spells {spelt!r}, a special token of {self.name}; "
            "leave the sentence out"
        )

    def _trace(self, text: str, ids: list[int], units: list[str]) -> list[tuple[int, int]]:
        """Find the characters of each token, for tokenizers that do not report them.

        Both sides are compared without case and accents, which such tokenizers take away.
        """
        letters: list[tuple[str, int]] = [
            (c, i) for i, character in enumerate(text) for c in _plain(character)
        ]
        spans = []
        at = 0
        for token, unit in zip(ids, units, strict=True):
            if token == self.tokenizer.unk_token_id:
                word = text[letters[min(at, len(letters) - 1)][1] :].split()[0]
                self._check_token(token, word, text)
            surface = _plain(self.token_classes.surface(unit))
            here = letters[at : at + len(surface)]
            if [c for c, _ in here] != list(surface) or not surface:
                raise InputError(
                    f"token {unit!r} of {self.name} cannot be traced back to a word of "
                    f"{text.strip()!r}; leave the sentence out or use plain punctuation marks"
                )
            spans.append((here[0][1], here[-1][1] + 1))
            at += len(surface)
        return spans

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Return whether each of V words can be written in tokens; shape (V,)."""
        writable = np.zeros(len(words), dtype=np.bool_)
        split = str.split if self.language.is_space_delimited else self.language.split
        single = [i for i, word in enumerate(words) if len(split(word)) == 1]
        for i, ids in zip(single, self._ids([words[i] for i in single]), strict=True):
            writable[i] = bool(ids) and not self._special_ids.intersection(ids)
        return writable

    def count_tokens(self, words: Sequence[str], n: IntArray, n_first: IntArray) -> FloatArray:
        """Count tokens over words that occur `n` times, `n_first` times first in a sentence.

        Returns
        -------
        array
            How often each token of the vocabulary occurs, shape (V,).
        """
        head = self._lead + self.sample_word
        before = self._ids([head])[0]
        counts = np.zeros(len(self.token_classes.is_special), dtype=np.float64)
        for start, times, skip in (
            (self._lead, n_first, 0),
            (head + " ", n - n_first, len(before)),
        ):
            counted = np.flatnonzero(times).tolist()
            texts = [start + words[i] for i in counted]
            for i, ids in zip(counted, self._ids(texts), strict=True):
                # Some tokenizers cut a word differently beside other words.
                if ids[:skip] == before[:skip]:
                    np.add.at(counts, ids[skip:], times[i])
        return counts

    def tokenize(self, texts: list[str]) -> list[list[int]]:
        """Return the token ids of sentences with single spaces, unchecked, as `encode` has them."""
        return self._ids([self._lead + text for text in texts], special=self.special)

    def tokenize_text(self, text: str) -> list[int]:
        """Return the token ids of a text as it is."""
        return self._ids([text])[0]

    def _ids(self, texts: list[str], *, special: bool = False) -> list[list[int]]:
        """Return the token ids of each text as it is."""
        if not texts:
            return []
        ids: list[list[int]] = self.tokenizer(
            texts,
            add_special_tokens=special,
            return_attention_mask=False,
            return_token_type_ids=False,
        )["input_ids"]
        return ids

    def candidates(self, sentence: Sentence, position: int, words: WordList) -> CandidateTokens:
        """Return the tokens of each candidate as they stand at `position`.

        Looked up once for a list and the marks around the position. The tokens hold for
        tokenizers that cut at white space; whoever needs certainty compares with the tokens of
        the whole sentence.

        Raises
        ------
        InputError
            If the words of the language do not stand between spaces.
        """
        last = position == len(sentence) - 1
        if not self.language.is_space_delimited:
            raise InputError(
                f"{self.name} looks candidates up by the spaces around them, which "
                f"{self.language.name} does not have; choose metric=chain or a metric of pll"
            )
        key = (sentence.before[position], sentence.after[position], position == 0, last)
        by_form = self._words.setdefault(words, {})
        if key not in by_form:
            surfaces = [sentence.surface(position, word) for word in words]
            # Neighbours that the tokenizer has accepted; which they are makes no difference.
            head = "" if position == 0 else sentence.surface(position - 1) + " "
            tail = "" if last else " " + sentence.surface(position + 1)
            place = 0 if position == 0 else 1
            encoded = self.encode([head + surface + tail for surface in surfaces])
            tokens = [
                tuple(e.ids[e.scored_positions[e.word_indices == place]].tolist()) for e in encoded
            ]
            by_form[key] = CandidateTokens(tokens)
        return by_form[key]


def _plain(text: str) -> str:
    """Return `text` without case, accents and white space."""
    decomposed = unicodedata.normalize("NFKD", text.lower())
    return "".join(c for c in decomposed if not unicodedata.combining(c) and not c.isspace())
