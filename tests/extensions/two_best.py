"""A custom policy: the disagreement of the two models that lead so far."""

from __future__ import annotations

import numpy as np

from contstim.adaptive import Policy, PolicyState
from contstim.arrays import FloatArray

__all__ = ["TWO_BEST"]


class _TwoBest(Policy):
    criterion_text = "by how far the two models of largest posterior disagree"

    def pair_values(self, state: PolicyState) -> FloatArray:
        """Return the two models' difference in preference, in standard deviations."""
        first, second = np.argsort(-state.weights, kind="stable")[:2]
        return np.abs(state.preferences[:, first] - state.preferences[:, second])


TWO_BEST = _TwoBest()
