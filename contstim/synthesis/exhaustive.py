"""The strategy that always takes the best word."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from contstim.synthesis.candidates import Candidates, batches, propose_in_order
from contstim.synthesis.sweeps import Search, Strategy


@dataclass(frozen=True)
class Exhaustive(Strategy):
    """Take the candidate of least loss that keeps the constraints.

    Always the best word, whatever the models: where losses are known at once, candidates are
    tried from the lowest upwards and the first that keeps the constraints is the best; otherwise
    every candidate that the constrained models' bounds admit is scored.

    Examples
    --------
    >>> from contstim import synthesize
    >>> found = synthesize(
    ...     "The dog slept in the old house.",
    ...     reject="contstim:trigram",
    ...     accept="contstim:bigram",
    ...     strategy=Exhaustive(),
    ... )
    >>> round(found.loss, 1)
    -10.8
    """

    @property
    def complete(self) -> bool:
        """Whether no single replacement improves a result: always."""
        return True

    def run(self, search: Search) -> bool:
        """Search by sweeps."""
        search.sweep(self.look, sifted=True)
        return True

    def look(self, candidates: Candidates) -> bool:
        """Score every candidate that no bound rules out."""
        index = candidates.open()
        if candidates.losses_known:
            index = index[np.argsort(candidates.losses(index), kind="stable")]
            for batch in batches(index):
                for i in candidates.admitted(batch):
                    if candidates.propose(int(i)):
                        return False
            return False
        none = np.empty(0, dtype=np.int64)
        index = np.concatenate([none, *map(candidates.admitted, batches(index))])
        losses = np.concatenate([np.empty(0), *map(candidates.losses, batches(index))])
        propose_in_order(candidates, index, losses)
        return False
