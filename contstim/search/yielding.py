"""The strategy whose constraints yield at first, under a penalty that rises with each nat lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from contstim.arrays import FloatArray
from contstim.search.bounded import Bounded, Memory
from contstim.search.problem import Objective
from contstim.search.sweeps import Search
from contstim.settings import Count, option, settings

__all__ = ["Penalised", "Yielding"]

# What a nat counts, in nats of the loss, where a constraint is just kept, and within how many nats
# that changes by a factor of e, in the passes of a turn.
_PENALTY, _SOFTNESS = 1.5, (10.0, 5.0, 2.5)
# What a missing nat counts at the end of a turn, and as how many nats more it counts that a
# constraint is broken at all.
_REPAIR, _BROKEN = 4.0, 5.0
# The budget at a position while constraints yield, and the part of the inputs that turns may spend.
_BUDGET, _PART = 8, 0.8
# Passes of a turn's last climb.
_REPAIRS = 3
# So far below its constraint a score counts no more than that, for numbers to stay finite.
_FARTHEST = 50.0


@settings
class Yielding(Bounded):
    """Climb with constraints that yield under a penalty, then repair, then climb as ``bounded``.

    A climb that keeps the constraints at every step ends where each of them is just kept and no
    single word does better. Here the first passes through the sentence go by `Penalised` in place
    of the loss: what a constraint has to spare lowers it, little if it is much, and what it lacks
    raises it more and more, as in the method of exponential penalties (Cominetti & San Martin
    1994, doi 10.1007/BF01582220). So a word may break a constraint and another mend it, or spare
    what the next one spends. From pass to pass the penalty comes nearer to the constraint itself.
    A last climb mends what is still broken; `turns` such turns begin from the natural sentence,
    each in another order, and the search goes on from the best of them as ``bounded``.

    Attributes
    ----------
    turns
        How often the sentence is written anew.
    """

    budget: Count | None = option(
        16,
        "exact scores that may be asked, at one position, of the model whose scores cost most",
        metavar="N",
    )
    turns: Count = option(2, "times that the sentence is written anew", metavar="N")

    def run(self, search: Search) -> bool:
        """Write the sentence `turns` times, then search from the best by sweeps."""
        memory = Memory(part=_PART)
        # One word that may change leaves no other to mend what it breaks.
        if search.minimum and search.problem.edits.most != 1:
            start = search.sentence
            for _ in range(self.turns):
                self._turn(search, search.branch(start), memory)
        memory.part, memory.complete = 1.0, True  # what was left out so far is no loss
        search.sweep(lambda candidates: self.look(candidates, memory), sifted=True)
        return memory.complete

    def _turn(self, search: Search, here: Search, memory: Memory) -> None:
        """Write the sentence anew, from where a branch stands; keep what is better and may be."""
        own = search.problem.objective
        parts = own.parts or [{}]
        # A loss in standard deviations is weighed against as many.
        unit = float(np.mean([sum(part.values()) or 1.0 for part in parts])) / len(search.minimum)
        penalised = [Penalised.of(search, unit, softness) for softness in _SOFTNESS]
        few = _BUDGET if self.budget is None else min(self.budget, _BUDGET)
        hasty = replace(self, budget=few, first=min(self.first, few))
        for objective in (*penalised, Penalised.of(search, unit, None)):
            here = here.branch(here.sentence, objective, free=True)
            # What was found to improve one objective says little of the next.
            memory.n_scores = 0.0
            here.sweep(
                lambda candidates: hasty.look(candidates, memory),
                passes=_REPAIRS if objective.softness is None else 1,
            )
            kept = all(here.now[name] >= least for name, least in search.minimum.items())
            if kept and search.loss(here.now) < search.loss(search.now):
                search.follow(here)


@dataclass(frozen=True)
class Penalised(Objective):
    """A loss with penalties for what constraints lack, less for what they have to spare.

    Attributes
    ----------
    own
        The loss.
    minimum
        By constrained model, the least score, nats.
    penalty
        What a nat counts where a constraint is just kept, in units of the loss.
    softness
        Nats within which that changes by a factor of e; None: only what is missing counts, the same
        for each nat, and that anything is.
    """

    own: Objective
    minimum: Mapping[str, float]
    penalty: float
    softness: float | None

    @classmethod
    def of(cls, search: Search, unit: float, softness: float | None) -> Penalised:
        """Return the objective of a search; a nat of a constraint counts as `unit` of its loss."""
        own = search.problem.objective
        models = tuple(dict.fromkeys((*own.models, *search.minimum)))
        penalty = unit * (_REPAIR * len(search.minimum) if softness is None else _PENALTY)
        return cls(models, own, search.minimum, penalty, softness)

    def loss(self, scores: Mapping[str, FloatArray], natural: Mapping[str, float]) -> FloatArray:
        """Return the loss with the penalties.

        These are the sum over constraints of penalty * softness * exp(-room / softness), or, at
        the end of a turn, of penalty * (what is missing + 5) where anything is.
        """
        total = self.own.loss(scores, natural)
        for name, minimum in self.minimum.items():
            missing = minimum - scores[name]
            if self.softness is None:
                total = total + self.penalty * np.where(missing > 0, missing + _BROKEN, 0.0)
            else:
                by = np.minimum(missing / self.softness, _FARTHEST)
                total = total + self.penalty * self.softness * np.exp(by)
        return np.asarray(total)
