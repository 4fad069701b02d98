"""The strategy that leaves a local optimum at random and climbs again."""

from __future__ import annotations

import numpy as np

from contstim.search.bounded import Bounded, Memory
from contstim.search.sweeps import Search
from contstim.settings import Count, option, settings


@settings
class Restarts(Bounded):
    """Iterated local search (Lourenco, Martin & Stutzle 2003): climb, step aside, climb again.

    Climbs as ``bounded`` to a sentence that no single word improves; puts random words that keep
    the constraints at some positions of the best sentence found, climbs from there, and keeps what
    is better, `restarts` times.

    Attributes
    ----------
    restarts
        How often it climbs again.
    aside
        Words replaced at random before each.
    """

    restarts: Count = option(10, "climbs after the first, each from some random words", metavar="N")
    aside: Count = 2

    def run(self, search: Search) -> bool:
        """Climb, and climb again from sentences near the best."""
        memory = Memory()
        search.sweep(lambda candidates: self.look(candidates, memory), sifted=True)
        for _ in range(self.restarts):
            if self._spent(search, memory):
                break
            other = self._aside(search, memory)
            other.sweep(lambda candidates: self.look(candidates, memory), sifted=True)
            if other.loss(other.now) < search.loss(search.now):
                search.take(other.sentence)
        return memory.complete

    def _spent(self, search: Search, memory: Memory) -> bool:
        """Return whether the inputs of the sentence are spent, where its scores cost any."""
        return memory.inputs is not None and search.spent.cost >= memory.inputs

    def _aside(self, search: Search, memory: Memory) -> Search:
        """Return a search at a sentence near the best that keeps the constraints."""
        sentence = search.sentence
        for position in search.shuffled(len(search.positions))[: self.aside]:
            here = search.branch(sentence).candidates(search.positions[position])
            index = here.rng.permutation(np.flatnonzero(here.allowed))
            at_once = all(table.exact for table in here.tables.values())
            for batch in np.array_split(index, max(1, len(index) // (256 if at_once else 8))):
                if self._spent(search, memory):
                    break
                changes = (
                    sentence.replace(here.position, here.words.words[i])
                    for i in here.admitted(batch)
                )
                found = next(filter(search.may, changes), None)
                if found is not None:
                    sentence = found
                    break
        return search.branch(sentence)
