"""A researcher's own objective over three models, in one file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from contstim import Accepted, Objective, Problem, SentenceModel
from contstim.arrays import FloatArray


@dataclass(frozen=True)
class SmallestDrop(Objective):
    """Every rejecting model must fall: the loss is the change of the one that falls least."""

    def loss(self, scores: Mapping[str, FloatArray], natural: Mapping[str, float]) -> FloatArray:
        """Return max over models of score(s) - score(n), nats."""
        return np.max([scores[name] - natural[name] for name in self.models], axis=0)


def against_both(accept: SentenceModel, *reject: SentenceModel) -> Problem:
    """Return the problem of sentences that `accept` alone finds probable."""
    objective = SmallestDrop(tuple(model.spec for model in reject))
    return Problem((accept, *reject), objective, (Accepted(accept.spec),))
