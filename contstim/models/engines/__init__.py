"""Models that run elsewhere: an engine serves them, and says how probable a text's tokens are.

`ServingEngine` is what is asked of an engine, and `Echo` what it says of a text. An engine that is
wrong says nothing of it, so none is used before `contstim.models.engines.handshake` has tried it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.errors import SpecError
from contstim.models import ModelSpec

__all__ = ["Cost", "Echo", "ServingEngine", "whole_option"]


@dataclass(frozen=True, eq=False)
class Echo:
    """What an engine says of a text of T tokens.

    Attributes
    ----------
    tokens
        The tokens, those that it puts before the text by itself included.
    starts
        Where in the text each begins, shape (T,); -1 for those before it.
    log_probs
        Log-probability of each given those before it, nats, shape (T,); NaN where it says none.
    best
        Log-probability of the most probable token in each place, nats, shape (T,); NaN likewise.
    mass
        Sum of the probabilities that it lists for each place, shape (T,); NaN likewise.
    """

    tokens: tuple[str, ...]
    starts: IntArray
    log_probs: FloatArray
    best: FloatArray
    mass: FloatArray

    @classmethod
    def spelled(
        cls,
        text: str,
        tokens: Sequence[str],
        log_probs: Sequence[float | None],
        listed: Sequence[Sequence[float] | None],
    ) -> Echo | None:
        """Put tokens in their places in a text; None if they do not spell it.

        Parameters
        ----------
        text
            The text.
        tokens
            The tokens in their order; those before the text, and those beyond it, are no part of
            it.
        log_probs
            Log-probability of each, nats.
        listed
            Log-probabilities of the tokens that are listed for each place.
        """
        for before in range(len(tokens) + 1):
            starts = list(accumulate(map(len, tokens[before:]), initial=0))
            if "".join(tokens[before:]).startswith(text) and len(text) in starts:
                break
        else:
            return None
        n = before + starts.index(len(text))
        best, mass = np.full(n, np.nan), np.full(n, np.nan)
        for place, likely in enumerate(listed[:n]):
            if likely:
                values = np.array(likely, dtype=np.float64)
                best[place], mass[place] = values.max(), np.exp(values).sum()
        return cls(
            tuple(tokens[:n]),
            np.array([-1] * before + starts[: n - before], dtype=np.int64),
            np.array([np.nan if value is None else float(value) for value in log_probs[:n]]),
            best,
            mass,
        )


@dataclass
class Cost:
    """What has been asked of an engine: requests that were not turned away, and tokens."""

    requests: int = 0
    tokens: int = 0

    def __str__(self) -> str:
        return f"{self.requests:,} requests, {self.tokens:,} tokens"


class ServingEngine(ABC):
    """Something that says how probable the tokens of texts are.

    Attributes
    ----------
    name
        What messages call it.
    options
        The options that a spec of it may have and their defaults; None for one without default.
    unseen
        Those among them that its answers do not depend on, and that no spec of a score names.
    fresh, room
        Settings with which it computes every text afresh, and has memory for log-probabilities.
    prefix
        What whoever asks is to put before every text.
    batch
        How many texts are asked about at once.
    packages
        Names of the packages that its answers depend on.
    spent
        What has been asked of it so far; None where that costs nothing.
    """

    options: ClassVar[Mapping[str, str | None]]
    unseen: ClassVar[tuple[str, ...]] = ()
    fresh: ClassVar[str] = ""
    room: ClassVar[str] = ""
    packages: ClassVar[tuple[str, ...]] = ()
    name: str
    prefix: str = ""
    batch: int = 32
    spent: Cost | None = None

    @abstractmethod
    def __init__(self, spec: ModelSpec) -> None:
        """Reach the engine that `spec` names, whose options are known to be among `options`."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Hexadecimal digest of what its answers depend on, as far as that is known."""

    @abstractmethod
    def echo(self, texts: Sequence[str]) -> list[Echo]:
        """Ask about S texts at once.

        Raises
        ------
        EngineError
            If it does not answer, or answers what cannot be read.
        """


def whole_option(spec: ModelSpec, key: str, default: str, least: int = 1) -> int:
    """Return a whole number among the options of a spec.

    Raises
    ------
    SpecError
        If it is none, or below `least`.
    """
    text = spec.get(key, default)
    sign, digits = text[:1] == "-", text.removeprefix("-")
    if not digits.isdecimal() or (-int(digits) if sign else int(digits)) < least:
        raise SpecError(f"{key}={text!r} in {str(spec)!r}: give a whole number from {least} on")
    return int(text)
