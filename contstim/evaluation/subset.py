"""One analysis of models that share their trials: both measures and their noise ceilings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import UnknownNameError, require_known
from contstim.evaluation.crossed import FEWEST, CellDesign, accuracy_cells, cosine_cells
from contstim.evaluation.ranks import SegmentRanks, square_sum, square_sum_slope
from contstim.evaluation.trials import TrialData

#: The measures that are offered.
MEASURES = ("accuracy", "signed_rank_cosine")
#: How the upper bound of a noise ceiling is made.
UPPER_BOUNDS = ("published", "optimum")
# Sums over participants that are equal but for the order of summation must tie.
_DECIMALS = 12
# How far `Subset._typical` goes.
_MOST_APART = 1.5


@dataclass(frozen=True, eq=False)
class Ceilings:
    """Noise ceilings of each participant.

    Attributes
    ----------
    lower, upper
        Shape (N,), NaN for a participant without a trial that enough others saw, and cosines for
        one who prefers neither sentence of any; such a person's zeros count in others' means.
    matched
        The subset they rest on: the trials that enough others saw.
    lower_cells, upper_cells
        The same by choice, shape (R of `matched`,), see `Subset.cells`: the lower ones with what
        the choice does to the ceilings of others, both as far apart as people are.
    upper_bound
        One of `UPPER_BOUNDS`.
    tops
        The highest that each participant's lower and upper ceiling could be, shape (N of
        `matched`,): 1, and for cosines less, since ratings tie.
    """

    lower: FloatArray
    upper: FloatArray
    matched: Subset
    lower_cells: FloatArray
    upper_cells: FloatArray
    upper_bound: str
    tops: tuple[FloatArray, FloatArray]

    def weighed(self, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return both cosines if each choice counts as `weight` of them, shape (N of `matched`,).

        Not for accuracies: they are means over trials.
        """
        return self.matched.weighed_cosines(self.upper_bound, weight)

    @property
    def surveyed(self) -> bool:
        """Whether most choices are on pairs that enough people saw to tell how people differ.

        Of two people each is judged by the other alone, so that nobody can say whose part in their
        agreement is whose.
        """
        if not self.matched.n_rows:
            return False
        people = np.bincount(self.matched.pair)[self.matched.pair]
        return bool(np.median(people) >= FEWEST)


@dataclass(frozen=True, eq=False)
class SharedTrials:
    """The distinct sets of pairs that participants saw; those of one set share the models' ranks.

    Attributes
    ----------
    pair, number
        Pair of each of D rows, set after set, and the set that it belongs to, shape (D,).
    place
        Where each row of the subset lies among the D, shape (R,).
    set_of
        The set that each participant saw, shape (N,).
    """

    pair: IntArray
    number: IntArray
    place: IntArray
    set_of: IntArray

    @property
    def n(self) -> int:
        """How many there are."""
        return int(self.number[-1]) + 1 if len(self.number) else 0


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
        self.labels, self.person = np.unique(data.participant[self.rows], return_inverse=True)
        self.n_people = len(self.labels)
        self.n_rows = len(self.rows)
        self.n_pairs = len(np.unique(self.pair))
        self._designs: dict[bytes, CellDesign] = {}
        self._starts = np.searchsorted(self.person, np.arange(self.n_people + 1))

    @cached_property
    def shared(self) -> SharedTrials:
        """The distinct sets of pairs."""
        blocks: dict[bytes, IntArray] = {}
        seen = []
        for start, end in zip(self._starts[:-1], self._starts[1:], strict=True):
            block = self.pair[start:end]
            seen.append(block.tobytes())
            blocks.setdefault(seen[-1], block)
        number = {key: i for i, key in enumerate(blocks)}
        set_of = np.array([number[key] for key in seen], dtype=np.int64)
        sizes = np.array([len(block) for block in blocks.values()], dtype=np.int64)
        within = np.arange(self.n_rows) - self._starts[self.person]
        return SharedTrials(
            pair=np.concatenate([np.zeros(0, dtype=np.int64), *blocks.values()]),
            number=np.repeat(np.arange(len(blocks)), sizes),
            place=(np.cumsum(sizes) - sizes)[set_of[self.person]] + within,
            set_of=set_of,
        )

    def design(self, rows: BoolArray) -> CellDesign:
        """Return which participants judged which pairs, of those rows (R,) that are chosen."""
        key = rows.tobytes()
        if key not in self._designs:
            self._designs[key] = CellDesign(self.person[rows], self.pair[rows])
        return self._designs[key]

    def set_blocks(self) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
        """Yield the participants who saw the same pairs, those pairs, and their ratings.

        One entry a set of pairs: n participants (of those here), k pairs, ratings (n, k).
        """
        shared = self.shared
        for number in range(shared.n):
            members = np.flatnonzero(shared.set_of == number)
            rows = [np.arange(self._starts[i], self._starts[i + 1]) for i in members]
            yield members, shared.pair[shared.number == number], self.rating[np.stack(rows)]

    @cached_property
    def _human_ranks(self) -> SegmentRanks:
        """Signed ranks of the ratings of each participant."""
        return self._ranked(self.rating)

    def _ranked(self, values: FloatArray, weight: FloatArray | None = None) -> SegmentRanks:
        return SegmentRanks(values, self.person, self.n_people, weight)

    @cached_property
    def _signs(self) -> FloatArray:
        return np.sign(self.data.log_ratio[:, self.models])

    def tied_predictions(self) -> IntArray:
        """Return for each model on how many of the pairs it has no preference, shape (M,)."""
        tied = self._signs[np.unique(self.pair)] == 0
        return np.asarray(tied.sum(axis=0), dtype=np.int64)

    @classmethod
    def of_pairs(cls, data: TrialData, pairs: BoolArray, models: IntArray) -> Subset:
        """Return all rows of the pairs that a mask of shape (P,) chooses."""
        return cls(data, np.flatnonzero(pairs[data.pair]), models)

    def tied_ratings(self) -> int:
        """Return how many ratings prefer neither sentence."""
        return int((self.rating == 0).sum())

    def values(self, measure: str) -> FloatArray:
        """Return each model's value for each participant, shape (N here, M here).

        NaN where the measure is not defined: a vector that is zero on all trials.
        """
        if measure == "accuracy":
            # A tie on either side has sign 0 and so counts one half.
            total = self._row_matrix(np.sign(self.rating), self.pair, self.data.n_pairs)
            trials = np.bincount(self.person, minlength=self.n_people)
            return np.asarray(0.5 + 0.5 * np.asarray(total @ self._signs) / trials[:, None])
        if measure != "signed_rank_cosine":
            raise UnknownNameError.among("measure", measure, MEASURES)
        human = self._human_ranks
        model, n_model = self._model_ranks()
        dot = self._row_matrix(human.ranks, self.shared.place, len(model)) @ model
        norm = np.sqrt(square_sum(human.counts)[:, None] * square_sum(n_model))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(dot / norm)

    def _model_ranks(self) -> tuple[FloatArray, FloatArray]:
        """Return signed ranks of log-ratios in each set of pairs, (D, M), and counts, (N, M)."""
        shared = self.shared
        ratio = self.data.log_ratio[shared.pair]
        ranked = [SegmentRanks(ratio[:, m], shared.number, shared.n) for m in self.models]
        if not ranked:
            return np.empty((len(shared.pair), 0)), np.empty((self.n_people, 0))
        counts = np.stack([model.counts for model in ranked], axis=1)
        return np.stack([model.ranks for model in ranked], axis=1), counts[shared.set_of]

    def _row_matrix(
        self, values: FloatArray, columns: IntArray, n_columns: int
    ) -> sparse.csr_array[np.float64]:
        shape = (self.n_people, n_columns)
        return sparse.csr_array((values, columns, self._starts), shape=shape)

    def ceilings(self, measure: str, min_others: int = 1, upper: str = "published") -> Ceilings:
        """Return the noise ceilings on the trials that at least `min_others` others saw."""
        require_known("upper bound", upper, UPPER_BOUNDS)
        seen = np.bincount(self.pair, minlength=self.data.n_pairs)
        enough = seen[self.pair] > min_others
        matched = self
        if not enough.all():
            matched = Subset(self.data, self.rows[enough], self.models)
        make = matched._accuracy_ceilings if measure == "accuracy" else matched._cosine_ceilings
        low, high, lower_cells, upper_cells = make(upper)
        tops = matched._tops(upper) if measure != "accuracy" else (np.ones(len(low)),) * 2
        n_all = len(self.labels)
        lower, higher = np.full(n_all, np.nan), np.full(n_all, np.nan)
        where = np.searchsorted(self.labels, matched.labels)
        lower[where], higher[where] = low, high
        return Ceilings(lower, higher, matched, lower_cells, upper_cells, upper, tops)

    def cells(self, measure: str, prediction: FloatArray) -> FloatArray:
        """Return what each choice says of a prediction, shape (R,); NaN where not defined.

        Their mean over a participant's choices is the measure.

        Parameters
        ----------
        measure
            One of `MEASURES`.
        prediction
            Of each row, positive for sentence 2, shape (R,).
        """
        if measure == "accuracy":
            return accuracy_cells(self.rating, prediction)
        return cosine_cells(self._human_ranks, self._ranked(prediction))

    def _accuracy_ceilings(self, upper: str) -> tuple[FloatArray, ...]:
        sign = np.sign(self.rating)
        n_pairs = self.data.n_pairs
        trials = np.bincount(self.person, minlength=self.n_people)
        share = sign / trials[self.person]
        votes = _sums(self.pair, sign, n_pairs)[self.pair]
        best = votes
        if upper == "optimum":
            # Participants weigh the same in the mean, so a choice among few trials weighs more.
            best = np.round(_sums(self.pair, share, n_pairs), _DECIMALS)[self.pair]
        cells = accuracy_cells(sign, votes - sign), accuracy_cells(sign, best)
        means = (_sums(self.person, cell, self.n_people) / trials for cell in cells)
        # How much the agreement of the others at a pair with their majority changes with a vote:
        # by 1/2 for those of its sign, -1/2 for those of the other, if it is the one that decides.
        # The chance of that is the density of as many tosses of a coin at the votes counted; with
        # the votes themselves in its place, ties that chance makes and breaks would count.
        others = _sums(self.pair, share, n_pairs)[self.pair] - share
        # (Of two votes either moves the majority by half, whatever the other.)
        seen = self._seen
        spread = np.sqrt(np.maximum(seen - 2, 1.0))
        decides = 2 * np.exp(-0.5 * ((votes - sign) / spread) ** 2) / spread / np.sqrt(2 * np.pi)
        effect = np.where(seen == 3, 0.25, 0.5 * decides) * sign * others * (seen > 2)
        mean, apart = self._by_pair(cells[0] + self._on_others(effect))
        typical = self._typical * apart
        # A vote that makes a tie leaves the upper bound as it is, so that of an even number each
        # counts too little. The upper bound of three is halfway from their lower one to 1.
        higher, apart_there = self._by_pair(cells[1])
        apart_there *= np.where(seen % 2 == 0, seen / np.maximum(seen - 1, 1), 1.0)
        return *means, mean + typical, higher + np.where(seen == 3, typical / 2, apart_there)

    def _tops(self, upper: str) -> tuple[FloatArray, FloatArray]:
        """Return the highest possible lower and upper cosine of each participant, shape (N,).

        Ranks without ties in the order of the participant's own give the sum of squares of these
        over that of untied ones (rearrangement inequality); a vector that need not be ranked gives
        the root of that.
        """
        human = self._human_ranks
        squares = _sums(self.person, human.ranks**2, self.n_people)
        with np.errstate(invalid="ignore", divide="ignore"):
            ranked = np.asarray(squares / square_sum(human.counts))
        return ranked, ranked if upper == "optimum" else np.sqrt(ranked)

    def weighed_cosines(self, upper: str, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the lower and upper cosines if each choice counts as `weight` (R,) that tie."""
        human, own, others, everyone = self._agreement(weight)
        defined = np.where(human.counts > 0, 1.0, np.nan)
        lower = self._against_ranked(self._ranked(others, weight), weight * own)
        if upper == "optimum":
            best = self._ranked(self._optimum_order(own), weight)
            higher = self._against_ranked(best, weight * own)
        else:
            squares = _sums(self.person, weight * everyone**2, self.n_people)
            with np.errstate(invalid="ignore", divide="ignore"):
                higher = _sums(self.person, weight * everyone * own, self.n_people)
                higher = higher / np.sqrt(squares)
        return lower * defined, higher * defined

    def _agreement(
        self, weight: FloatArray | None = None
    ) -> tuple[SegmentRanks, FloatArray, FloatArray, FloatArray]:
        """Return ranks of the ratings, these normalised, and their means over others and all."""
        human = self._human_ranks if weight is None else self._ranked(self.rating, weight)
        with np.errstate(invalid="ignore", divide="ignore"):
            own = human.ranks / np.sqrt(square_sum(human.counts))[self.person]
        own = np.where(np.isnan(own), 0.0, own)
        total = _sums(self.pair, own, self.data.n_pairs)[self.pair]
        others = np.round((total - own) / np.maximum(self._seen - 1, 1), _DECIMALS)
        return human, own, others, np.round(total / self._seen, _DECIMALS)

    def _cosine_ceilings(self, upper: str) -> tuple[FloatArray, ...]:
        human, ranks, others, everyone = self._agreement()
        defined = np.where(human.counts > 0, 1.0, np.nan)
        ranked = self._ranked(others)
        lower = self._against_ranked(ranked, ranks) * defined
        cells = cosine_cells(human, ranked)
        cells = cells + self._on_others(self._mean_effect(others, ranks), ~np.isnan(cells))
        if upper == "optimum":
            best = self._ranked(self._optimum_order(ranks))
            high = self._against_ranked(best, ranks) * defined
            mean, apart = self._by_pair(cosine_cells(human, best))
            return lower, high, cells, mean + self._typical * apart
        squares = _sums(self.person, everyone**2, self.n_people)
        with np.errstate(invalid="ignore", divide="ignore"):
            norm = np.sqrt(squares)[self.person]
            dot = everyone * ranks / norm
            high = _sums(self.person, dot, self.n_people) * defined
            # The derivative by the weight of a trial: as in `cosine_cells`, but that the mean
            # vector is not ranked.
            norm = norm * np.sqrt(square_sum(human.counts))[self.person]
            slope = dot + human.raised(np.sign(human.ranks) * everyone) / norm
            steeper = square_sum_slope(human.counts)[self.person] * (human.ranks != 0)
            steeper += everyone**2 / squares[self.person]
            slope -= high[self.person] / 2 * steeper
        n = np.bincount(self.person, minlength=self.n_people)
        slope -= (_sums(self.person, slope, self.n_people) / n)[self.person]
        mean, apart = self._by_pair(high[self.person] + n[self.person] * slope)
        return lower, high, cells, mean + self._typical * apart

    @cached_property
    def _seen(self) -> FloatArray:
        """How many participants saw the pair of each row, shape (R,)."""
        counts = np.bincount(self.pair, minlength=self.data.n_pairs)
        return np.asarray(counts[self.pair], dtype=np.float64)

    def _mean_effect(self, others: FloatArray, own: FloatArray) -> FloatArray:
        """Return by how much the weight of each row moves the others' lower cosines, shape (R,).

        The derivative of their sum, with `others` not ranked again: ranks change by steps.
        """
        norm = np.sqrt(_sums(self.person, others**2, self.n_people))[self.person]
        with np.errstate(invalid="ignore", divide="ignore"):
            cosine = _sums(self.person, others * own / norm, self.n_people)[self.person]
            slope = np.nan_to_num(own / norm - cosine * others / norm**2)
        at_pair = [
            _sums(self.pair, x, self.data.n_pairs)[self.pair] for x in (slope, slope * others)
        ]
        gained = own * (at_pair[0] - slope) - (at_pair[1] - slope * others)
        return np.asarray(gained / np.maximum(self._seen - 1, 1))

    def _on_others(self, effect: FloatArray, there: BoolArray | None = None) -> FloatArray:
        """Return what effects on others' ceilings add to cells: around 0 at each pair, (R,).

        `there` are the cells of participants whose own ceiling is defined; by default all.

        A participant's choices are part of what the others' lower ceilings are made of, and so
        move its mean more than by their own part. The upper one is made to be the greatest, so that
        to first order no choice moves it for others.
        """
        seen = self._seen
        if there is not None:
            effect = np.where(there, effect, 0.0)
            seen = _sums(self.pair, there.astype(np.float64), self.data.n_pairs)[self.pair]
        mean = _sums(self.pair, effect, self.data.n_pairs)[self.pair] / np.maximum(seen, 1.0)
        return np.asarray(np.bincount(self.person)[self.person] * (effect - mean))

    @cached_property
    def _typical(self) -> FloatArray:
        """By how much the cells of a pair's people are too near to each other, shape (R,).

        Let two people agree by the sum of how typical each is. Of k people one is judged by k - 1
        others, who are the less typical, compared with the rest, the more that one is: so a person
        who adds t to a mean of many seems to add t (k - 2) / (k - 1). Of three it is bounded, since
        how well single people match counts too there.
        """
        k = np.maximum(self._seen, 3.0)
        return np.where(self._seen > 2, np.minimum((k - 1) / (k - 2), _MOST_APART), 1.0)

    def _by_pair(self, cells: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean of each cell's pair, and how far the cell is from it, both (R,)."""
        weight = np.where(np.isnan(cells), 0.0, 1 / np.bincount(self.person)[self.person])
        total = _sums(self.pair, weight * np.nan_to_num(cells), self.data.n_pairs)
        size = _sums(self.pair, weight, self.data.n_pairs)
        mean = (total / np.where(size > 0, size, 1.0))[self.pair]
        return mean, cells - mean

    def _against_ranked(self, prediction: SegmentRanks, own: FloatArray) -> FloatArray:
        """Return the cosine of each participant's normalised vector with a prediction's ranks."""
        dot = _sums(self.person, prediction.ranks * own, self.n_people)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(dot / np.sqrt(square_sum(prediction.counts)))

    def _optimum_order(self, own: FloatArray) -> FloatArray:
        """Return for each row the mean normalised rank of those who saw the same trials.

        Among all predictions without ties, the one ordered as the absolute value of the mean
        vector and with its signs has the greatest mean similarity (rearrangement inequality).
        """
        shared = self.shared
        size = np.bincount(shared.set_of)
        mean = _sums(shared.place, own, len(shared.pair)) / size[shared.number]
        mean = np.round(mean, _DECIMALS)
        # Where the mean is 0 either sign is as good; a tiny one keeps the rank in use.
        return np.asarray(np.where(mean == 0, 1e-15, mean)[shared.place])


def _sums(index: IntArray, values: FloatArray, size: int) -> FloatArray:
    return np.asarray(np.bincount(index, weights=values, minlength=size), dtype=np.float64)
