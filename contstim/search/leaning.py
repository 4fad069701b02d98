"""The strategy that climbs with something to spare first, and spends it after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from contstim.arrays import FloatArray
from contstim.search.bounded import Bounded, Memory
from contstim.search.problem import Objective, Problem
from contstim.search.sweeps import Search
from contstim.settings import settings

__all__ = ["Lagrangian", "Leaning"]

# What a nat that constraints have to spare counts in nats of the loss.
_MULTIPLIER = 1.0
# The part of the inputs that the first climb may spend.
_FIRST_PART = 0.6


@settings
class Leaning(Bounded):
    """Climb as ``bounded`` by the loss less what the constraints have to spare, then by the loss.

    A climb by the loss alone spends what the constraints leave on its first words: the word of
    least loss is mostly one that the accepting model finds improbable as well. The first climb goes
    by `Lagrangian` in place of the loss; where it ends at a sentence of less loss than the natural
    one, the second goes on from there, and knows what is known there.
    """

    def run(self, search: Search) -> bool:
        """Climb twice."""
        memory = Memory(part=_FIRST_PART)
        # With one word that may change there is no second one to spare for.
        if search.problem.edits.most != 1:
            objective = Lagrangian.of(search.problem)
            if objective is not None:
                other = search.branch(search.sentence, objective)
                other.sweep(lambda candidates: self.look(candidates, memory), sifted=True)
                search.follow(other)
        memory.part, memory.complete = 1.0, True  # what was left out so far is no loss
        search.sweep(lambda candidates: self.look(candidates, memory), sifted=True)
        return memory.complete


@dataclass(frozen=True)
class Lagrangian(Objective):
    """A loss, less what constraints have to spare: a Lagrangian with fixed multipliers.

    Attributes
    ----------
    own
        The loss.
    multipliers
        By constrained model.
    """

    own: Objective
    multipliers: Mapping[str, float]

    @classmethod
    def of(cls, problem: Problem) -> Lagrangian | None:
        """Return that of a problem; None without constraints, or for a loss of unknown parts."""
        parts = problem.objective.parts
        constrained = tuple(dict.fromkeys(constraint.model for constraint in problem.constraints))
        if parts is None or not constrained:
            return None
        # A loss in standard deviations is weighed against as many.
        unit = float(np.mean([sum(part.values()) for part in parts]))
        multipliers = dict.fromkeys(constrained, _MULTIPLIER * unit / len(constrained))
        models = tuple(dict.fromkeys((*problem.objective.models, *constrained)))
        return cls(models, problem.objective, multipliers)

    def loss(self, scores: Mapping[str, FloatArray], natural: Mapping[str, float]) -> FloatArray:
        """Return loss - sum over constrained models of multiplier * (score(s) - score(n))."""
        spare = [m * (scores[name] - natural[name]) for name, m in self.multipliers.items()]
        return np.asarray(self.own.loss(scores, natural) - sum(spare))

    @property
    def weights(self) -> Mapping[str, float] | None:
        """Those of the loss, less the multipliers."""
        own = self.own.weights
        if own is None:
            return None
        return {name: own.get(name, 0.0) - self.multipliers.get(name, 0.0) for name in self.models}
