"""The choices that an analysis rests on, and the predictions of models that share them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.evaluation.inference.quasi_f import CrossedDesign
from contstim.evaluation.ranks import SegmentRanks
from contstim.evaluation.trials import TrialData


@dataclass(frozen=True, eq=False)
class PairSets:
    """The distinct sets of pairs that participants saw; those of one set share the models' ranks.

    Attributes
    ----------
    pair, number
        Pair of each of D rows, set after set, and the set that it belongs to, shape (D,).
    row_indices
        Where each row of the subset lies among the D, shape (R,).
    set_indices
        The set that each participant saw, shape (N,).
    n
        How many there are.
    """

    pair: IntArray
    number: IntArray
    row_indices: IntArray
    set_indices: IntArray
    n: int


class Subset:
    """The rows of some pairs, and the predictions of some models on them.

    Parameters
    ----------
    data
        All trials.
    rows
        The rows of `data` that take part, in order.
    models
        Indices of the models evaluated.
    """

    def __init__(self, data: TrialData, rows: IntArray, models: IntArray) -> None:
        self.data = data
        self.rows = rows
        self.pair = data.pair[self.rows]
        self.rating = data.rating[self.rows]
        self.models = models
        self.participants, self.person = np.unique(data.participant[self.rows], return_inverse=True)
        self.n_participants = len(self.participants)
        self.n_rows = len(self.rows)
        self.n_pairs = len(np.unique(self.pair))
        self._designs: dict[bytes, CrossedDesign] = {}
        self._starts = np.searchsorted(self.person, np.arange(self.n_participants + 1))

    @cached_property
    def pair_sets(self) -> PairSets:
        """The distinct sets of pairs."""
        blocks: dict[bytes, IntArray] = {}
        seen = []
        for start, end in zip(self._starts[:-1], self._starts[1:], strict=True):
            block = self.pair[start:end]
            seen.append(block.tobytes())
            blocks.setdefault(seen[-1], block)
        number = {key: i for i, key in enumerate(blocks)}
        set_indices = np.array([number[key] for key in seen], dtype=np.int64)
        sizes = np.array([len(block) for block in blocks.values()], dtype=np.int64)
        within = np.arange(self.n_rows) - self._starts[self.person]
        return PairSets(
            pair=np.concatenate([np.zeros(0, dtype=np.int64), *blocks.values()]),
            number=np.repeat(np.arange(len(blocks)), sizes),
            row_indices=(np.cumsum(sizes) - sizes)[set_indices[self.person]] + within,
            set_indices=set_indices,
            n=len(blocks),
        )

    def design(self, rows: BoolArray) -> CrossedDesign:
        """Return who judged which items, of those rows (R,) that are chosen."""
        key = rows.tobytes()
        if key not in self._designs:
            self._designs[key] = CrossedDesign(self.person[rows], self.data.item[self.pair[rows]])
        return self._designs[key]

    def iterate_pair_sets(
        self, values: FloatArray
    ) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
        """Yield the participants of each set of pairs, the k pairs, and the values as a table.

        Parameters
        ----------
        values
            One number per choice, shape (R,).

        Yields
        ------
        participants, pairs : array
            Indices of n participants who judged the same k pairs, and of the pairs.
        table : array
            Values of these participants, shape (n, k).
        """
        shared = self.pair_sets
        for number in range(shared.n):
            members = np.flatnonzero(shared.set_indices == number)
            rows = [np.arange(self._starts[i], self._starts[i + 1]) for i in members]
            yield members, shared.pair[shared.number == number], values[np.stack(rows)]

    @cached_property
    def human_ranks(self) -> SegmentRanks:
        """Signed ranks of the ratings of each participant."""
        return self.rank_within_participants(self.rating)

    def rank_within_participants(self, values: FloatArray) -> SegmentRanks:
        """Return signed ranks of a number of each row, (R,), within participants."""
        return SegmentRanks(values, self.person, self.n_participants)

    @cached_property
    def signs(self) -> FloatArray:
        """The signs of the models' log-ratios, shape (P, M here)."""
        return np.sign(self.data.log_ratio[:, self.models])

    def count_tied_predictions(self) -> IntArray:
        """Return for each model on how many of the pairs it has no preference, shape (M,)."""
        tied = self.signs[np.unique(self.pair)] == 0
        return np.asarray(tied.sum(axis=0), dtype=np.int64)

    @classmethod
    def from_pairs(cls, data: TrialData, pairs: BoolArray, models: IntArray) -> Subset:
        """Return all rows of the pairs that a mask of shape (P,) chooses."""
        return cls(data, np.flatnonzero(pairs[data.pair]), models)

    def count_tied_ratings(self) -> int:
        """Return how many ratings prefer neither sentence."""
        return int((self.rating == 0).sum())

    def model_ranks(self) -> tuple[FloatArray, FloatArray]:
        """Return signed ranks of log-ratios in each set of pairs, (D, M), and counts, (N, M)."""
        shared = self.pair_sets
        ratio = self.data.log_ratio[shared.pair]
        ranked = [SegmentRanks(ratio[:, m], shared.number, shared.n) for m in self.models]
        if not ranked:
            return np.empty((len(shared.pair), 0)), np.empty((self.n_participants, 0))
        counts = np.stack([model.counts for model in ranked], axis=1)
        return np.stack([model.ranks for model in ranked], axis=1), counts[shared.set_indices]

    def participant_matrix(
        self, values: FloatArray, columns: IntArray, n_columns: int
    ) -> sparse.csr_array[np.float64]:
        """Return a number of each row, (R,), as a sparse matrix of N participants and columns."""
        shape = (self.n_participants, n_columns)
        return sparse.csr_array((values, columns, self._starts), shape=shape)

    @cached_property
    def n_judges(self) -> FloatArray:
        """How many participants saw the pair of each row, shape (R,)."""
        return self.sum_by_pair(np.ones(self.n_rows))

    @cached_property
    def n_trials(self) -> IntArray:
        """How many trials each participant has, shape (N,)."""
        return np.bincount(self.person, minlength=self.n_participants)

    def sum_by_pair(self, values: FloatArray) -> FloatArray:
        """Return for each row the sum of a number of each, (R,), over the rows of its pair."""
        sums = np.bincount(self.pair, values, self.data.n_pairs)
        return np.asarray(sums, dtype=np.float64)[self.pair]

    def sum_by_participant(self, values: FloatArray) -> FloatArray:
        """Return the sum of a number of each row, (R,), over those of each participant, (N,)."""
        return np.asarray(np.bincount(self.person, values, self.n_participants), dtype=np.float64)

    def mean_by_participant(self, values: FloatArray) -> FloatArray:
        """Return each participant's mean of the values (R,) that are not NaN, shape (N,)."""
        is_defined = ~np.isnan(values)
        sums = self.sum_by_participant(np.where(is_defined, values, 0.0))
        with np.errstate(invalid="ignore"):
            return np.asarray(sums / self.sum_by_participant(is_defined.astype(np.float64)))
