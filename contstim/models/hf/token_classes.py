"""Word-starting and word-continuing tokens of a vocabulary.

Vocabularies mark word boundaries in four ways. WordPiece marks tokens that continue a word
(``##s``). Byte-level BPE and SentencePiece mark white space before a word (``Ġdog``, ``▁dog``).
XLM marks tokens that end a word (``dog</w>``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from transformers.convert_slow_tokenizer import bytes_to_unicode

from contstim.arrays import BoolArray

_to_unicode: Callable[[], dict[int, str]] = bytes_to_unicode
# Byte that each character of a byte-level vocabulary represents.
_BYTE_BY_CHARACTER = {character: byte for byte, character in _to_unicode().items()}


def decode_token(token: str, space_marker: str) -> bytes:
    """Return the text of a token as UTF-8 bytes.

    Parameters
    ----------
    token
        Token as written in the vocabulary.
    space_marker
        Character that stands for a space in the vocabulary. With ``Ġ`` (byte-level BPE), each byte
        is written as one printable character. With ``▁`` (SentencePiece), some bytes are written in
        the form ``<0x0A>``. Tokens that were added later are plain text.
    """
    if space_marker == "▁":
        byte = re.fullmatch(r"<0x([0-9A-F]{2})>", token)
        return bytes([int(byte[1], 16)]) if byte else token.replace("▁", " ").encode()
    if not all(character in _BYTE_BY_CHARACTER for character in token):
        return token.encode()
    return bytes(_BYTE_BY_CHARACTER[character] for character in token)


@dataclass(frozen=True, eq=False)
class TokenClasses:
    """Word-starting, word-continuing and special tokens of a vocabulary of V tokens.

    Attributes
    ----------
    marker
        Marker of word boundaries: ``##``, ``Ġ``, ``▁`` or ``</w>``; empty if there is none.
    is_starting, is_continuing
        Whether each token starts or continues a word, shape (V,). With the marker ``</w>``, which
        marks the end of a word, `is_starting` states whether the token ends a word.
    is_special
        Whether each token is a special token, shape (V,). Special tokens neither start nor continue
        a word.
    """

    marker: str
    is_starting: BoolArray
    is_continuing: BoolArray
    is_special: BoolArray

    @classmethod
    def from_tokenizer(cls, tokenizer: Any) -> TokenClasses:
        """Classify all tokens of a vocabulary by its marker of word boundaries.

        The marker is the most frequent of ``##``, ``</w>``, ``Ġ`` and ``▁`` in the vocabulary.
        """
        ids: dict[str, int] = tokenizer.get_vocab()
        is_special = np.zeros(max(ids.values()) + 1, dtype=np.bool_)
        control = [i for i, token in tokenizer.added_tokens_decoder.items() if token.special]
        special_ids = [*tokenizer.all_special_ids, *control]
        is_special[[i for i in special_ids if i < len(is_special)]] = True

        counts: Counter[str] = Counter()
        for token in ids:
            counts["##"] += token.startswith("##") and len(token) > len("##")
            counts["</w>"] += token.endswith("</w>") and len(token) > len("</w>")
            counts["Ġ"] += token.startswith("Ġ")
            counts["▁"] += token.startswith("▁")
        marker, count = counts.most_common(1)[0]
        is_starting = np.zeros(len(is_special), dtype=np.bool_)
        if count == 0:
            return cls("", is_starting, is_starting, is_special)

        for token, i in ids.items():
            if marker == "##":
                is_starting[i] = not token.startswith("##")
            elif marker == "</w>":
                is_starting[i] = token.endswith("</w>")
            else:
                text = decode_token(token, marker).decode("utf-8", "replace")
                is_starting[i] = text[:1].isspace()
        # Unused ids between the ids of the vocabulary belong to no class.
        is_ordinary = np.zeros(len(is_special), dtype=np.bool_)
        is_ordinary[list(ids.values())] = True
        is_ordinary &= ~is_special
        return cls(marker, is_starting & is_ordinary, ~is_starting & is_ordinary, is_special)

    @property
    def marks_space(self) -> bool:
        """Whether tokens include the white space before them."""
        return self.marker in ("Ġ", "▁")

    def surface(self, token: str) -> str:
        """Return the text of a token without its marker."""
        if self.marker == "</w>":
            return token.removesuffix("</w>")
        return token.removeprefix(self.marker)
