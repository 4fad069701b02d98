"""The choices of one analysis, with the predictions of the evaluated models."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.evaluation.inference.quasi_f import CrossedDesign
from contstim.evaluation.ranks import SegmentRanks
from contstim.evaluation.trials import TrialData


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
        Sorted codes of the participants who made these choices, shape (N,). The codes are those of
        `TrialData.participant`.
    participant_index
        Position in `participants` of the participant who made each choice, shape (R,).
    n_participants, n_rows, n_pairs
        Numbers of participants, choices and distinct pairs.
    """

    def __init__(self, data: TrialData, rows: IntArray, models: IntArray) -> None:
        self.data = data
        self.rows = rows
        self.models = models
        self.pair = data.pair[rows]
        self.rating = data.rating[rows]
        # Number the participants of the subset from 0 to N - 1.
        self.participants, self.participant_index = np.unique(
            data.participant[rows], return_inverse=True
        )
        self.n_participants = len(self.participants)
        self.n_rows = len(rows)
        self.n_pairs = len(np.unique(self.pair))
        # Cache of `design`, by the bytes of its mask.
        self._designs: dict[bytes, CrossedDesign] = {}

    @cached_property
    def n_trials(self) -> IntArray:
        """Number of trials of each participant, shape (N,)."""
        return np.bincount(self.participant_index, minlength=self.n_participants)

    @cached_property
    def rows_by_participant(self) -> list[IntArray]:
        """Positions (0 to R - 1) of the choices of each participant, one array per participant."""
        return np.split(np.arange(self.n_rows), np.cumsum(self.n_trials)[:-1])

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

    def iterate_pair_sets(
        self, values: FloatArray
    ) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
        """Yield a complete table of values for each group of participants with the same pairs.

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
        members_by_set: dict[bytes, list[int]] = {}
        # The bytes of the pair indices identify a set of pairs.
        for participant, rows in enumerate(self.rows_by_participant):
            members_by_set.setdefault(self.pair[rows].tobytes(), []).append(participant)
        for members in members_by_set.values():
            # Positions of the choices, shape (n, k): choices are sorted by participant, then by
            # pair.
            table_rows = np.stack([self.rows_by_participant[member] for member in members])
            yield np.array(members), self.pair[table_rows[0]], values[table_rows]

    def design(self, rows: BoolArray) -> CrossedDesign:
        """Return the participants and items of some choices, for a quasi-F test.

        Parameters
        ----------
        rows
            Mask of the selected choices, shape (R,).

        Returns
        -------
        CrossedDesign
            Participant and item of each selected choice. It is computed only once for each mask.
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
        # `signs` has a row for every pair of the study; use the pairs of the subset.
        is_tied = self.signs[np.unique(self.pair)] == 0
        return np.asarray(is_tied.sum(axis=0), dtype=np.int64)

    def count_tied_ratings(self) -> int:
        """Return the number of ratings that prefer neither sentence."""
        return int((self.rating == 0).sum())

    def sum_by_pair(self, values: FloatArray) -> FloatArray:
        """Sum values over all choices on the same sentence pair.

        `values` contains one number per choice, shape (R,). The result contains, for each choice,
        the sum over all choices on its pair, shape (R,).
        """
        # Sum over the choices on each pair, then look up the sum for each choice.
        sums = np.bincount(self.pair, values, self.data.n_pairs)
        return np.asarray(sums, dtype=np.float64)[self.pair]

    def sum_by_participant(self, values: FloatArray) -> FloatArray:
        """Return the sum of values (R,) over the choices of each participant, shape (N,)."""
        return np.asarray(
            np.bincount(self.participant_index, values, self.n_participants), dtype=np.float64
        )

    def mean_by_participant(self, values: FloatArray) -> FloatArray:
        """Average values over the choices of each participant, ignoring NaN.

        Parameters
        ----------
        values
            One value per choice, shape (R,).

        Returns
        -------
        array
            Means, shape (N,). NaN if all values of a participant are NaN.
        """
        is_defined = ~np.isnan(values)
        # Sum the defined values of each participant, and divide by their number (0 / 0 is NaN).
        sums = self.sum_by_participant(np.where(is_defined, values, 0.0))
        with np.errstate(invalid="ignore"):
            return np.asarray(sums / self.sum_by_participant(is_defined.astype(np.float64)))
