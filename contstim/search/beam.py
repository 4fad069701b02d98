"""The default strategy for models of n-grams: whole sentences from the left, then a climb."""

from __future__ import annotations

from contstim.search.bounded import Bounded
from contstim.search.options import BeamOptions
from contstim.search.sweeps import Search
from contstim.settings import settings


@settings
class Beam(BeamOptions, Bounded):
    """Write sentences from the left, keep the `width` beginnings that promise most, then climb.

    Models of n-grams, which look a few words back, give every beginning a bound on the loss of the
    sentences that begin so, by the weights under which the bound of all sentences is highest; the
    beginnings of least bound are kept. The best sentence of all that keeps the constraints is
    taken, and its words are then replaced one at a time, as by ``bounded``, until none improves.
    Another attempt writes with a random half of the words.

    Other models have no such bounds: with them it is ``bounded`` alone.
    """

    def run(self, search: Search) -> bool:
        """Take the best sentence of the beam, then search by sweeps."""
        # One word that may change is best found by trying all.
        if search.problem.edits.most != 1 and search.problem.at_once:
            from contstim.search.ngrams.beam import written  # of no use to networks

            for sentence in written(search, self.width):
                if search.take(sentence):
                    break
        return super().run(search)
