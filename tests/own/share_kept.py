"""A constraint as a researcher adds it: a model's score may fall by a share of what it was."""

from __future__ import annotations

from dataclasses import dataclass

from contstim.synthesis.problem import Constraint

__all__ = ["ShareKept"]


@dataclass(frozen=True)
class ShareKept(Constraint):
    """The score may be lower than the natural sentence's by a share of it."""

    share: float = 0.1

    def minimum(self, natural: float, n_words: int) -> float:
        """Return the natural score less the share."""
        return natural - self.share * abs(natural)

    def __str__(self) -> str:
        return f"{self.model}>=share-kept:{self.share:g}"
