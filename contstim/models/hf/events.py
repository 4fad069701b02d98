"""The events of transformer models: the contract's fields and those that sub-words add."""

from __future__ import annotations

from dataclasses import dataclass

from contstim.models.base import Event

__all__ = ["CausalEvent", "MaskedEvent"]


@dataclass(frozen=True)
class MaskedEvent(Event):
    """What a masked model scores.

    Attributes
    ----------
    first
        Form of the first word: ``spaced``, ``unspaced``, or ``unmarked`` where the vocabulary
        does not mark white space.
    normalised
        ``vocabulary``, or ``class``: each position over word-starting or word-continuing tokens
        alone.
    orders
        For ``permutation``: up to how many words all orders are averaged exactly, and the number
        and seed of the sampled orders beyond; else empty.
    """

    first: str = "unmarked"
    normalised: str = "vocabulary"
    orders: str = ""


@dataclass(frozen=True)
class CausalEvent(Event):
    """What a causal model scores.

    Attributes
    ----------
    first
        Form of the first word: ``spaced``, ``unspaced``, or ``unmarked`` where the vocabulary
        does not mark white space.
    words
        ``tokens``: a word's probability is the product of its tokens'. ``corrected``: it is also
        the probability that the word ends there.
    """

    first: str = "unmarked"
    words: str = "tokens"
