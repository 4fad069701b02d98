"""The strategy that takes the first word that is better."""

from __future__ import annotations

from dataclasses import dataclass

from contstim.search.candidates import SLACK, Candidates, batches
from contstim.search.sweeps import Strategy


@dataclass(frozen=True)
class FirstImprovement(Strategy):
    """Take the first candidate, in random order, that keeps the constraints and lowers the loss.

    Examples
    --------
    >>> from contstim import synthesize
    >>> found = synthesize(
    ...     "The dog slept in the old house.",
    ...     reject="contstim:trigram",
    ...     accept="contstim:bigram",
    ...     strategy=FirstImprovement(),
    ... )
    >>> round(found.loss, 1)
    -8.6
    """

    @property
    def complete(self) -> bool:
        """Whether no single replacement improves a result: always."""
        return True

    def look(self, candidates: Candidates) -> bool:
        """Score candidates at random until one improves."""
        index = candidates.open()
        for batch in batches(index[candidates.rng.permutation(len(index))]):
            admitted = candidates.admitted(batch)
            losses = candidates.losses(admitted)
            for i in admitted[losses < candidates.target + SLACK]:
                if candidates.propose(int(i)):
                    return False
        return False
