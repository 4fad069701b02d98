"""One analysis of models that share their trials: both measures and their noise ceilings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import UnknownNameError
from contstim.evaluation.ranks import RankPlan, square_sum
from contstim.evaluation.trials import TrialData

__all__ = ["MEASURES", "UPPER_BOUNDS", "Ceilings", "Subset"]


#: The measures that are offered.
MEASURES = ("accuracy", "signed_rank_cosine")
#: How the upper bound of a noise ceiling is made.
UPPER_BOUNDS = ("published", "optimum")
# Sums over participants that are equal but for the order of summation must tie.
_DECIMALS = 12


@dataclass(frozen=True, eq=False)
class Ceilings:
    """Noise ceilings of each participant.

    Attributes
    ----------
    lower, upper
        Shape (N,), NaN for a participant without a trial that enough others saw.
    matched
        The subset they rest on: the trials that enough others saw.
    """

    lower: FloatArray
    upper: FloatArray
    matched: Subset


class Subset:
    """The rows of some pairs, and the predictions of some models on them.

    Parameters
    ----------
    data
        All trials.
    pairs
        Which pairs take part, shape (P,).
    models
        Indices of the models evaluated.
    rows
        Which rows take part, shape (R,), where not all of the pairs do.
    """

    def __init__(
        self,
        data: TrialData,
        pairs: BoolArray,
        models: IntArray,
        rows: BoolArray | None = None,
    ) -> None:
        chosen = pairs[data.pair] if rows is None else pairs[data.pair] & rows
        self.data = data
        self.rows = np.flatnonzero(chosen)
        self.pair = data.pair[self.rows]
        self.rating = data.rating[self.rows]
        self.models = models
        self.labels, self.person = np.unique(data.participant[self.rows], return_inverse=True)
        self.n_people = len(self.labels)
        self.n_rows = len(self.rows)
        self.n_pairs = len(np.unique(self.pair))
        self._starts = np.searchsorted(self.person, np.arange(self.n_people + 1))

    @cached_property
    def _sets(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Participants who saw the same pairs share the models' ranks.

        Returns the pair and set of each distinct row, where each row of the subset lies among
        those, and the set of each participant.
        """
        found: dict[bytes, int] = {}
        set_of = np.zeros(self.n_people, dtype=np.int64)
        blocks: list[IntArray] = []
        for i in range(self.n_people):
            block = self.pair[self._starts[i] : self._starts[i + 1]]
            key = block.tobytes()
            if key not in found:
                found[key] = len(blocks)
                blocks.append(block)
            set_of[i] = found[key]
        sizes = np.array([len(b) for b in blocks], dtype=np.int64)
        offsets = np.cumsum(sizes) - sizes
        pair = np.concatenate(blocks) if blocks else np.zeros(0, dtype=np.int64)
        within = np.arange(self.n_rows) - self._starts[self.person]
        place = offsets[set_of[self.person]] + within
        return pair, np.repeat(np.arange(len(blocks)), sizes), place, set_of

    @property
    def n_sets(self) -> int:
        """How many different sets of pairs participants saw."""
        _, which, _, _ = self._sets
        return int(which.max()) + 1 if len(which) else 0

    def set_blocks(self) -> list[tuple[IntArray, IntArray, FloatArray]]:
        """Return the participants who saw the same pairs, those pairs, and their ratings.

        One entry a set of pairs: n participants (of those here), k pairs, ratings (n, k).
        """
        pair, which, _, set_of = self._sets
        found = []
        for number in range(self.n_sets):
            members = np.flatnonzero(set_of == number)
            rows = [np.arange(self._starts[i], self._starts[i + 1]) for i in members]
            found.append((members, pair[which == number], self.rating[np.stack(rows)]))
        return found

    @cached_property
    def _human_plan(self) -> RankPlan:
        return RankPlan(self.rating, self.person, self.n_people)

    @cached_property
    def _model_plans(self) -> list[RankPlan]:
        pair, which, _, _ = self._sets
        return [RankPlan(self.data.log_ratio[pair, m], which, self.n_sets) for m in self.models]

    @cached_property
    def _signs(self) -> FloatArray:
        return np.sign(self.data.log_ratio[:, self.models])

    def tied_predictions(self) -> IntArray:
        """Return for each model on how many of the pairs it has no preference, shape (M,)."""
        here = np.unique(self.pair)
        return np.asarray((self._signs[here] == 0).sum(axis=0), dtype=np.int64)

    def tied_ratings(self) -> int:
        """Return how many ratings prefer neither sentence."""
        return int((self.rating == 0).sum())

    def values(self, measure: str, weights: FloatArray | None = None) -> FloatArray:
        """Return each model's value for each participant, shape (N here, M here).

        `weights` are whole numbers, how often each of the P pairs counts, shape (P,). NaN where
        the measure is not defined: no trial, or a vector that is zero on all of them.
        """
        if measure == "accuracy":
            return self._accuracy(weights)
        if measure == "signed_rank_cosine":
            return self._cosine(weights)
        raise UnknownNameError.among("measure", measure, MEASURES)

    def _row_matrix(
        self, values: FloatArray, columns: IntArray, n_columns: int
    ) -> sparse.csr_array[np.float64]:
        shape = (self.n_people, n_columns)
        return sparse.csr_array((values, columns, self._starts), shape=shape)

    def _accuracy(self, weights: FloatArray | None) -> FloatArray:
        sign = np.sign(self.rating)
        mass = np.ones(self.n_rows) if weights is None else weights[self.pair]
        matrix = self._row_matrix(sign * mass, self.pair, self.data.n_pairs)
        total = np.bincount(self.person, weights=mass, minlength=self.n_people)
        with np.errstate(invalid="ignore", divide="ignore"):
            # A tie on either side has sign 0 and so counts one half.
            return np.asarray(0.5 + 0.5 * np.asarray(matrix @ self._signs) / total[:, None])

    def _cosine(self, weights: FloatArray | None) -> FloatArray:
        pair, _, place, set_of = self._sets
        row_weights = None if weights is None else weights[self.pair]
        set_weights = None if weights is None else weights[pair]
        human, n_human = self._human_plan.ranks(row_weights)
        if row_weights is not None:
            human = human * row_weights
        model = np.empty((len(pair), len(self.models)))
        n_model = np.empty((self.n_people, len(self.models)))
        for column, plan in enumerate(self._model_plans):
            model[:, column], counts = plan.ranks(set_weights)
            n_model[:, column] = counts[set_of]
        dot = self._row_matrix(human, place, len(pair)) @ model
        norm = np.sqrt(square_sum(n_human)[:, None] * square_sum(n_model))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(dot / norm)

    def ceilings(self, measure: str, min_others: int = 1, upper: str = "published") -> Ceilings:
        """Return the noise ceilings on the trials that at least `min_others` others saw."""
        if upper not in UPPER_BOUNDS:
            raise UnknownNameError.among("upper bound", upper, UPPER_BOUNDS)
        seen = np.bincount(self.pair, minlength=self.data.n_pairs)
        enough = seen[self.pair] > min_others
        matched = self
        if not enough.all():
            keep = np.zeros(len(self.data.pair), dtype=bool)
            keep[self.rows[enough]] = True
            here = np.zeros(self.data.n_pairs, dtype=bool)
            here[self.pair] = True
            matched = Subset(self.data, here, self.models, keep)
        make = matched._accuracy_ceilings if measure == "accuracy" else matched._cosine_ceilings
        low, high = make(upper)
        n_all = len(self.labels)
        lower, higher = np.full(n_all, np.nan), np.full(n_all, np.nan)
        where = np.searchsorted(self.labels, matched.labels)
        lower[where], higher[where] = low, high
        return Ceilings(lower, higher, matched)

    def _accuracy_ceilings(self, upper: str) -> tuple[FloatArray, FloatArray]:
        sign = np.sign(self.rating)
        n_pairs = self.data.n_pairs
        trials = np.bincount(self.person, minlength=self.n_people)
        votes = _sums(self.pair, sign, n_pairs)

        def mean_correct(prediction: FloatArray) -> FloatArray:
            score = 0.5 + 0.5 * sign * np.sign(prediction)
            return np.bincount(self.person, weights=score, minlength=self.n_people) / trials

        lower = mean_correct(votes[self.pair] - sign)
        if upper == "optimum":
            # Participants weigh the same in the mean, so a choice among few trials weighs more.
            share = sign / trials[self.person]
            votes = np.round(_sums(self.pair, share, n_pairs), _DECIMALS)
        return lower, mean_correct(votes[self.pair])

    def _cosine_ceilings(self, upper: str) -> tuple[FloatArray, FloatArray]:
        ranks, counts = self._human_plan.ranks()
        with np.errstate(invalid="ignore", divide="ignore"):
            own = ranks / np.sqrt(square_sum(counts))[self.person]
        own = np.where(np.isnan(own), 0.0, own)
        seen = np.bincount(self.pair, minlength=self.data.n_pairs)[self.pair]
        total = np.bincount(self.pair, weights=own, minlength=self.data.n_pairs)[self.pair]
        others = np.round((total - own) / np.maximum(seen - 1, 1), _DECIMALS)
        everyone = np.round(total / seen, _DECIMALS)
        defined = np.where(counts > 0, 1.0, np.nan)
        lower = self._against_ranked(others, own)
        if upper == "optimum":
            return lower * defined, self._optimum(own) * defined
        squares = np.bincount(self.person, weights=everyone**2, minlength=self.n_people)
        dot = np.bincount(self.person, weights=everyone * own, minlength=self.n_people)
        with np.errstate(invalid="ignore", divide="ignore"):
            return lower * defined, dot / np.sqrt(squares) * defined

    def _against_ranked(self, prediction: FloatArray, own: FloatArray) -> FloatArray:
        """Cosine of each participant's normalised vector with a prediction, ranked first."""
        ranks, counts = RankPlan(prediction, self.person, self.n_people).ranks()
        dot = np.bincount(self.person, weights=ranks * own, minlength=self.n_people)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(dot / np.sqrt(square_sum(counts)))

    def _optimum(self, own: FloatArray) -> FloatArray:
        """Similarity with the best prediction for those who saw the same set of trials.

        Among all predictions without ties, the one ordered as the absolute value of the mean
        vector and with its signs has the greatest mean similarity (rearrangement inequality).
        """
        pair, which, place, set_of = self._sets
        size = np.bincount(set_of)
        mean = np.bincount(place, weights=own, minlength=len(pair)) / size[which]
        mean = np.round(mean, _DECIMALS)
        # Where the mean is 0 either sign is as good; a tiny one keeps the rank in use.
        ranks, _ = RankPlan(np.where(mean == 0, 1e-15, mean), which, len(size)).ranks()
        n = np.bincount(which, minlength=len(size))[set_of]
        dot = np.bincount(self.person, weights=ranks[place] * own, minlength=self.n_people)
        return np.asarray(dot / np.sqrt(square_sum(n)))


def _sums(index: IntArray, values: FloatArray, size: int) -> FloatArray:
    return np.asarray(np.bincount(index, weights=values, minlength=size), dtype=np.float64)
