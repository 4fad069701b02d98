"""Models that run elsewhere: an engine serves them, and says how probable a text's tokens are.

`ServingEngine` is what is asked of an engine, and `Echo` what it says of a text. An engine that is
wrong says nothing of it, so none is used before `contstim.models.engines.handshake` has tried it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from contstim.arrays import FloatArray, IntArray

__all__ = ["Echo", "ServingEngine"]


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


class ServingEngine(ABC):
    """Something that says how probable the tokens of texts are.

    Attributes
    ----------
    name
        What messages call it.
    """

    name: str

    @abstractmethod
    def echo(self, texts: Sequence[str]) -> list[Echo]:
        """Ask about S texts in one request.

        Raises
        ------
        EngineError
            If it does not answer, or answers what cannot be read.
        """
