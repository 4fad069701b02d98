"""Intervals of corpus-level measures by resampling utterances, or the groups they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contstim.arrays import FloatArray
from contstim.evaluation.bootstrap import intervals
from contstim.rescoring.measures import Measure

__all__ = ["Resamples"]


@dataclass(frozen=True, eq=False)
class Resamples:
    """How often each of U utterances counts in each of B resamples; the same for all systems.

    So differences between systems are paired (Bisani & Ney 2004, doi
    10.1109/ICASSP.2004.1326009).

    Attributes
    ----------
    counts
        Shape (B, U).
    n_groups
        Number of groups that were resampled.
    """

    counts: FloatArray
    n_groups: int

    @classmethod
    def draw(cls, groups: Sequence[str], n_draws: int, seed: int) -> Resamples:
        """Draw groups with replacement, as many as there are; an utterance goes with its group.

        Parameters
        ----------
        groups
            The group of each of U utterances.
        n_draws
            B.
        seed
            Seed of the draws.
        """
        names, group_of = np.unique(np.asarray(groups), return_inverse=True)
        rng = np.random.default_rng(seed)
        n = len(names)
        drawn = rng.multinomial(n, np.full(n, 1 / n), size=n_draws)
        return cls(drawn[:, group_of].astype(np.float64), n)

    def values(self, measure: Measure, statistics: FloatArray) -> FloatArray:
        """Return the corpus-level measure in each resample, (U, K) to (B,)."""
        return measure.value(self.counts @ statistics)

    def interval(self, samples: FloatArray) -> tuple[float, float]:
        """Return the ends of the 95 % percentile interval of B values, expanded for few groups.

        NaN with one group alone. See :func:`contstim.evaluation.bootstrap.intervals`.
        """
        low, high = intervals(samples[:, None], self.n_groups)
        return float(low[0]), float(high[0])
