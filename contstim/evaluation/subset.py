"""The choices of one analysis, with the predictions of the evaluated models."""

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
    """The distinct sets of sentence pairs that participants judged.

    The ranks of a model's predictions depend on the pairs that a participant judged. Participants
    who judged the same pairs share these ranks, so they are computed once per set of pairs.

    Attributes
    ----------
    pair
        Indices of the pairs of all sets, one set after the other, shape (D,).
    set_index
        Index of the set to which each element of `pair` belongs, shape (D,).
    row_indices
        Position in `pair` of the pair of each of R choices, shape (R,).
    participant_sets
        Index of the set that each of N participants judged, shape (N,).
    n_sets
        Number of sets.
    """

    pair: IntArray
    set_index: IntArray
    row_indices: IntArray
    participant_sets: IntArray
    n_sets: int


class Subset:
    """The choices that an analysis uses, and the models that it evaluates on them.

    The subset has R choices (rows) of N participants, and M models.

    Parameters
    ----------
    data
        Choices on all trials.
    rows
        Indices of the choices in `data`, in ascending order, shape (R,).
    models
        Indices of the evaluated models, shape (M,).

    Attributes
    ----------
    pair, rating
        Pair and rating of each choice, shape (R,).
    participants
        Codes in `data` of the participants, shape (N,).
    participant_index
        Index of each choice in `participants`, shape (R,).
    n_participants, n_rows, n_pairs
        Numbers of participants, choices and distinct pairs.
    """

    def __init__(self, data: TrialData, rows: IntArray, models: IntArray) -> None:
        self.data = data
        self.rows = rows
        self.models = models
        self.pair = data.pair[rows]
        self.rating = data.rating[rows]
        self.participants, self.participant_index = np.unique(
            data.participant[rows], return_inverse=True
        )
        self.n_participants = len(self.participants)
        self.n_rows = len(rows)
        self.n_pairs = len(np.unique(self.pair))
        self._starts = np.searchsorted(self.participant_index, np.arange(self.n_participants + 1))
        self._designs: dict[bytes, CrossedDesign] = {}

    @cached_property
    def n_trials(self) -> IntArray:
        """Number of trials of each participant, shape (N,)."""
        return np.bincount(self.participant_index, minlength=self.n_participants)

    @cached_property
    def n_judges(self) -> FloatArray:
        """Number of participants who judged the pair of each choice, shape (R,)."""
        return self.sum_by_pair(np.ones(self.n_rows))

    @cached_property
    def signs(self) -> FloatArray:
        """Signs of the models' log-ratios, shape (P, M)."""
        return np.sign(self.data.log_ratio[:, self.models])

    @cached_property
    def human_ranks(self) -> SegmentRanks:
        """Signed ranks of the ratings within each participant."""
        return self.rank_within_participants(self.rating)

    @cached_property
    def pair_sets(self) -> PairSets:
        """The distinct sets of sentence pairs that participants judged, see `PairSets`."""
        # Number the sets by first appearance. The bytes of the pair indices identify a set.
        set_indices: dict[bytes, int] = {}
        sets: list[IntArray] = []
        participant_sets = np.zeros(self.n_participants, dtype=np.int64)
        for participant in range(self.n_participants):
            pairs = self.pair[self._starts[participant] : self._starts[participant + 1]]
            key = pairs.tobytes()
            if key not in set_indices:
                set_indices[key] = len(sets)
                sets.append(pairs)
            participant_sets[participant] = set_indices[key]
        # A choice is at the offset of its set plus its position within the participant's choices.
        sizes = np.array([len(pairs) for pairs in sets], dtype=np.int64)
        offsets = np.cumsum(sizes) - sizes
        positions = np.arange(self.n_rows) - self._starts[self.participant_index]
        return PairSets(
            pair=np.concatenate([np.zeros(0, dtype=np.int64), *sets]),
            set_index=np.repeat(np.arange(len(sets)), sizes),
            row_indices=offsets[participant_sets[self.participant_index]] + positions,
            participant_sets=participant_sets,
            n_sets=len(sets),
        )

    def iterate_pair_sets(
        self, values: FloatArray
    ) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
        """Yield the values of participants who judged the same pairs as a complete table.

        Parameters
        ----------
        values
            One value per choice, shape (R,).

        Yields
        ------
        members : array
            Indices of the n participants who judged this set of pairs, shape (n,).
        pairs : array
            Indices of the k pairs of the set, shape (k,).
        table : array
            Value of each of these participants for each of these pairs, shape (n, k).
        """
        sets = self.pair_sets
        for number in range(sets.n_sets):
            members = np.flatnonzero(sets.participant_sets == number)
            rows = [np.arange(self._starts[i], self._starts[i + 1]) for i in members]
            yield members, sets.pair[sets.set_index == number], values[np.stack(rows)]

    def model_ranks(self) -> tuple[FloatArray, FloatArray]:
        """Return the signed ranks of the models' log-ratios among the pairs of each participant.

        Returns
        -------
        ranks : (D, M) array
            Signed ranks of the pairs of `pair_sets`.
        counts : (N, M) array
            Number of ranked (non-zero) log-ratios of each participant's set.
        """
        sets = self.pair_sets
        ratios = self.data.log_ratio[sets.pair]
        ranked = [SegmentRanks(ratios[:, m], sets.set_index, sets.n_sets) for m in self.models]
        if not ranked:
            return np.empty((len(sets.pair), 0)), np.empty((self.n_participants, 0))
        counts = np.stack([model.counts for model in ranked], axis=1)
        ranks = np.stack([model.ranks for model in ranked], axis=1)
        return ranks, counts[sets.participant_sets]

    def design(self, rows: BoolArray) -> CrossedDesign:
        """Return the participants and items of some choices, for a quasi-F test.

        `rows` is a mask of the selected choices, shape (R,). The design is computed once per mask.
        """
        key = rows.tobytes()
        if key not in self._designs:
            items = self.data.item[self.pair[rows]]
            self._designs[key] = CrossedDesign(self.participant_index[rows], items)
        return self._designs[key]

    def rank_within_participants(self, values: FloatArray) -> SegmentRanks:
        """Return the signed ranks of R values, ranked separately for each participant."""
        return SegmentRanks(values, self.participant_index, self.n_participants)

    def count_tied_predictions(self) -> IntArray:
        """Return the number of pairs on which each model has no preference, shape (M,)."""
        is_tied = self.signs[np.unique(self.pair)] == 0
        return np.asarray(is_tied.sum(axis=0), dtype=np.int64)

    def count_tied_ratings(self) -> int:
        """Return the number of ratings that prefer neither sentence."""
        return int((self.rating == 0).sum())

    def participant_matrix(
        self, values: FloatArray, columns: IntArray, n_columns: int
    ) -> sparse.csr_array[np.float64]:
        """Arrange one value per choice in a sparse matrix with one row per participant.

        Parameters
        ----------
        values
            One value per choice, shape (R,).
        columns
            Column of the matrix for each choice, for example the index of its pair, shape (R,).
        n_columns
            Number of columns.

        Returns
        -------
        csr_array
            Matrix of shape (N, n_columns), 0 for combinations without a choice.
        """
        shape = (self.n_participants, n_columns)
        return sparse.csr_array((values, columns, self._starts), shape=shape)

    def sum_by_pair(self, values: FloatArray) -> FloatArray:
        """Sum values over all choices on the same sentence pair.

        `values` contains one number per choice, shape (R,). The result contains, for each choice,
        the sum over all choices on its pair, shape (R,).
        """
        sums = np.bincount(self.pair, values, self.data.n_pairs)
        return np.asarray(sums, dtype=np.float64)[self.pair]

    def sum_by_participant(self, values: FloatArray) -> FloatArray:
        """Return the sum of values (R,) over the choices of each participant, shape (N,)."""
        return np.asarray(
            np.bincount(self.participant_index, values, self.n_participants), dtype=np.float64
        )

    def mean_by_participant(self, values: FloatArray) -> FloatArray:
        """Return the mean of one value per choice for each participant, shape (N,).

        Values that are NaN are left out. The mean is NaN if all values of a participant are NaN.
        """
        is_defined = ~np.isnan(values)
        sums = self.sum_by_participant(np.where(is_defined, values, 0.0))
        with np.errstate(invalid="ignore"):
            return np.asarray(sums / self.sum_by_participant(is_defined.astype(np.float64)))
