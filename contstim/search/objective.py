"""What a synthetic sentence is wanted for: a loss to lower and a bound to keep (Eq. 2).

Golan et al. (2023), section 4.6, Eq. 2: minimise log p_reject(s) subject to
log p_accept(s) >= log p_accept(n), for a natural sentence n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from contstim.arrays import BoolArray, FloatArray

__all__ = ["Constraint", "Objective"]

Scores = TypeVar("Scores", float, FloatArray)


@dataclass(frozen=True)
class Objective:
    """How far the rejecting model's score has fallen; lower is better.

    Attributes
    ----------
    natural
        log p_reject(n), nats.
    """

    natural: float

    def loss(self, reject: Scores) -> Scores:
        """Return log p_reject(s) - log p_reject(n), nats, elementwise."""
        return reject - self.natural


@dataclass(frozen=True)
class Constraint:
    """The accepting model finds the sentence no less probable than the natural one.

    Attributes
    ----------
    natural
        log p_accept(n), nats.
    margin
        By how much more a changed sentence must be accepted, nats. Scores of a network move in
        the last digits with the batch they stand in; a margin of the model's resolution makes
        the constraint hold in any batch.
    """

    natural: float
    margin: float = 0.0

    @property
    def minimum(self) -> float:
        """The least accepted score, nats."""
        return self.natural + self.margin

    def admits(self, accept: FloatArray) -> BoolArray:
        """Say for each score log p_accept(s) whether the sentence is admitted."""
        return np.asarray(accept >= self.minimum)
