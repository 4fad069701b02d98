"""Whether a token begins a word, by its form in the vocabulary.

Four ways of writing are known. WordPiece marks the tokens that continue a word (``##s``).
Byte-level BPE and SentencePiece mark the white space before a word on the token that begins it
(``Ġdog``, ``▁dog``). XLM marks the token that ends a word (``dog</w>``).
"""

from __future__ import annotations

import string
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from contstim.arrays import BoolArray

__all__ = ["TokenForms"]

# What a token's first character looks like when the token begins with white space: byte-level
# BPE's space, new line, tab and return, SentencePiece's space, and, in tokens added later, white
# space itself.
_SPACES = ("Ġ", "Ċ", "ĉ", "č", "▁", *string.whitespace)


@dataclass(frozen=True, eq=False)
class TokenForms:
    """The two classes of a vocabulary of V tokens.

    Attributes
    ----------
    mark
        ``##``, ``Ġ``, ``▁`` or ``</w>``; empty if the vocabulary has no such mark.
    starting, continuing
        Which tokens are of either class, shape (V,); special tokens are of neither. With
        ``</w>`` `starting` holds the tokens that end a word, the class of one-token words.
    special
        Which tokens are special, those without a role among them, shape (V,).
    """

    mark: str
    starting: BoolArray
    continuing: BoolArray
    special: BoolArray

    @classmethod
    def of(cls, tokenizer: Any) -> TokenForms:
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
                else token.startswith(_SPACES)
            )
        known = np.zeros(len(special), dtype=np.bool_)
        known[list(ids.values())] = True
        return cls(mark, first & known & ~special, ~first & known & ~special, special)

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
