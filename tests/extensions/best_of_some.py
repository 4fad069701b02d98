"""A custom strategy: the best of some candidates drawn at random."""

from __future__ import annotations

from contstim.settings import PositiveInt, settings
from contstim.synthesis.candidates import Candidates, propose_in_order
from contstim.synthesis.strategy import Strategy

__all__ = ["BestOfSome"]


@settings
class BestOfSome(Strategy):
    """Take the best of `draws` candidates."""

    draws: PositiveInt = 20

    def search_word(self, candidates: Candidates) -> bool:
        """Score some candidates and take the best."""
        some = candidates.rng.permutation(candidates.find_promising())[: self.draws]
        some = candidates.filter_feasible(some)
        propose_in_order(candidates, some, candidates.losses(some))
        return False
