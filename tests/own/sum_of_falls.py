"""A loss as a researcher adds it: the sum of what rejecting models' scores fall by, in nats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from contstim.arrays import FloatArray
from contstim.synthesis.problem import Objective

__all__ = ["SumOfFalls"]


@dataclass(frozen=True)
class SumOfFalls(Objective):
    """The sum of the changes of its models' scores."""

    def loss(self, scores: Mapping[str, FloatArray], natural: Mapping[str, float]) -> FloatArray:
        """Return the sum over models of score(s) - score(n)."""
        return np.asarray(sum(scores[name] - natural[name] for name in self.models))
