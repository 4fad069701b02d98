"""Signed-rank cosine: how far a model's log-ratios and people's ratings order trials alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

import numpy as np

from contstim.arrays import FloatArray
from contstim.evaluation.ceilings import (
    DECIMALS,
    Ceiling,
    around_pair,
    distance_from_pair,
    effect_on_others,
)
from contstim.evaluation.measures import Measure, Resampled
from contstim.evaluation.ranks import (
    SegmentRanks,
    signed_rank_cosine,
    signed_ranks,
    square_sum,
    square_sum_slope,
)
from contstim.evaluation.subset import Subset

# Up to so many sizes of ratings, ranks of many participants are found together.
MOST_SIZES = 16


class SignedRankCosine(Measure):
    """The cosine of signed ranks, see :func:`~contstim.evaluation.ranks.signed_rank_cosine`."""

    name = "signed_rank_cosine"
    label = "signed-rank cosine similarity"
    chance = 0.0
    words = (
        "Signed-rank cosine similarity compares a model's log-probability ratios with a "
        "participant's zero-centred ratings: both are turned into signed ranks, and their "
        "cosine is averaged over all ways of breaking ties in closed form (Golan et al. 2023, "
        "Eq. 8 to 11). Its lower noise ceiling puts the other participants' mean normalised "
        "signed-rank vector, ranked again, in the place of the model"
    )
    upper_bounds: ClassVar[Mapping[str, str]] = {
        "published": (
            "; its upper one is the dot product with the normalised mean vector of all "
            "participants."
        ),
        "optimum": (
            "; its upper one is the best similarity any prediction could have reached for "
            "participants who saw the same trials."
        ),
    }

    def of_one(self, rating: FloatArray, prediction: FloatArray) -> float:
        """Return the cosine of one participant's ratings; NaN for a vector of zeros."""
        prediction = np.round(prediction, DECIMALS)
        if not rating.any() or not prediction.any():
            return float("nan")
        return signed_rank_cosine(rating, prediction)

    def vote(self, rating: FloatArray) -> FloatArray:
        """Return the signed ranks over their norm; zeros for a vector of zeros."""
        ranks = signed_ranks(rating)
        return ranks / np.sqrt(square_sum(max(int(np.count_nonzero(ranks)), 1)))

    def upper_of_one(self, rating: FloatArray, everyone: FloatArray) -> float:
        """Return the dot product with the normalised mean vector of all, which is not ranked."""
        length = float(np.sqrt(everyone @ everyone))
        return float(self.vote(rating) @ everyone / length) if rating.any() else float("nan")

    def values(self, subset: Subset) -> FloatArray:
        """Return each model's cosine for each participant, shape (N here, M here)."""
        human = subset.human_ranks
        model, n_model = subset.model_ranks()
        dot = subset.row_matrix(human.ranks, subset.shared.place, len(model)) @ model
        norm = np.sqrt(square_sum(human.counts)[:, None] * square_sum(n_model))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(dot / norm)

    def cells(self, subset: Subset, prediction: FloatArray) -> FloatArray:
        """Return what each choice adds to its participant's cosine, see `cosine_cells`."""
        return cosine_cells(subset.human_ranks, subset.ranked(prediction))

    def leverage(self, subset: Subset, prediction: FloatArray) -> FloatArray:
        """Return what each choice would add to the cosine if all agreed: the product of its ranks.

        A few choices with high ranks make most of a cosine.
        """
        return np.abs(subset.human_ranks.ranks * subset.ranked(prediction).ranks)

    def resampled(self, rating: FloatArray, ratios: FloatArray) -> Resampled:
        """Return how cosines follow from how often each pair counts, as ties of the same size."""
        models = [_ranker(ratio) for ratio in ratios.T]
        sizes = np.unique(np.abs(rating))
        sizes = sizes[sizes > 0]
        blocks = [np.where(np.abs(rating) == size, np.sign(rating), 0.0).T for size in sizes]
        people = [_ranker(row) for row in rating] if len(sizes) > MOST_SIZES else []

        def values(weights: FloatArray) -> Iterator[FloatArray]:
            ranks, n_human = [], np.zeros((len(weights), len(rating)))
            if people:
                ranks, counts = (
                    list(part) for part in zip(*(p(weights) for p in people), strict=True)
                )
                n_human = np.stack(counts, axis=1)
            else:
                for block in blocks:
                    mass = weights @ np.abs(block)  # how many trials have this size, (B, n)
                    ranks.append(n_human + (mass + 1) / 2)
                    n_human = n_human + mass
            human_norm = np.sqrt(square_sum(n_human))
            for rank_model in models:
                model, n_model = rank_model(weights)
                weighted = weights * model
                if people:
                    dot = np.stack(
                        [np.einsum("bk,bk->b", weighted, rank) for rank in ranks], axis=1
                    )
                else:
                    dot = np.zeros_like(n_human)
                    for rank, block in zip(ranks, blocks, strict=True):
                        dot += rank * (weighted @ block)
                with np.errstate(invalid="ignore", divide="ignore"):
                    yield dot / (human_norm * np.sqrt(square_sum(n_model))[:, None])

        return values

    def ceilings(self, subset: Subset, upper: str) -> tuple[Ceiling, Ceiling]:
        """Return the lower and the upper noise ceiling, with cells.

        Notes
        -----
        *Lower cells* are those of the others' mean vector ranked again, as of a model, and the
        effect on others (see `_effect`). *Upper cells*, published: the others' and one's own mean
        vector m is not ranked; with r the own normalised vector the value is
        sum r m / sqrt(sum m^2), and n times its derivative by the weight of a trial is

            n [r m / |m| + (what raised ranks add) - value / 2 (slope of log S(n) + m^2 / |m|^2)],

        S(n) = 1 + 4 + ... + n^2, around its mean over the participant's trials, as in
        `cosine_cells`; tests compare it with differences. Optimum: those of the best order, as of
        a model. Distances from the pair's mean are then multiplied, see `distance_from_pair`.

        The *top* of the lower ceiling is what a perfect prediction reaches: ranks without ties, in
        the order of the participant's own, give the sum of squares of these over that of untied
        ones (rearrangement inequality); a vector that need not be ranked gives the root of that.
        """
        human, ranks, others, everyone = self._agreement(subset)
        defined = np.where(human.counts > 0, 1.0, np.nan)
        predicted = subset.ranked(others)
        cells = cosine_cells(human, predicted)
        cells += effect_on_others(subset, _effect(subset, others, ranks), ~np.isnan(cells))
        squares = subset.of_person(human.ranks**2)
        with np.errstate(invalid="ignore", divide="ignore"):
            ranked_top = np.asarray(squares / square_sum(human.counts))
        value = _against_ranked(subset, predicted, ranks) * defined
        lower = Ceiling(value, cells, ranked_top, np.abs(ranks * predicted.ranks))
        if upper == "optimum":
            best = subset.ranked(_optimum_order(subset, ranks))
            value = _against_ranked(subset, best, ranks) * defined
            raw, top, against = cosine_cells(human, best), ranked_top, best.ranks
        else:
            value, raw = _published_upper(subset, human, ranks, everyone)
            value, top, against = value * defined, np.sqrt(ranked_top), everyone
        mean, apart = around_pair(subset, raw)
        cells = mean + distance_from_pair(subset) * apart
        return lower, Ceiling(value, cells, top, np.abs(ranks * against))

    def weighed_ceilings(
        self, subset: Subset, upper: str, weight: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return both ceilings if each choice counts as `weight` (R,) that tie, (N,) each."""
        human, ranks, others, everyone = self._agreement(subset, weight)
        defined = np.where(human.counts > 0, 1.0, np.nan)
        lower = _against_ranked(subset, subset.ranked(others, weight), weight * ranks)
        if upper == "optimum":
            best = subset.ranked(_optimum_order(subset, ranks), weight)
            higher = _against_ranked(subset, best, weight * ranks)
        else:
            squares = subset.of_person(weight * everyone**2)
            with np.errstate(invalid="ignore", divide="ignore"):
                higher = subset.of_person(weight * everyone * ranks) / np.sqrt(squares)
        return lower * defined, higher * defined

    def _agreement(
        self, subset: Subset, weight: FloatArray | None = None
    ) -> tuple[SegmentRanks, FloatArray, FloatArray, FloatArray]:
        """Return ranks of the ratings, these normalised, and their means over others and all."""
        human = subset.human_ranks if weight is None else subset.ranked(subset.rating, weight)
        with np.errstate(invalid="ignore", divide="ignore"):
            ranks = human.ranks / np.sqrt(square_sum(human.counts))[subset.person]
        ranks = np.where(np.isnan(ranks), 0.0, ranks)
        total, seen = subset.at_pair(ranks), subset.seen
        others = np.round((total - ranks) / np.maximum(seen - 1, 1), DECIMALS)
        return human, ranks, others, np.round(total / seen, DECIMALS)


COSINE = SignedRankCosine()


def _published_upper(
    subset: Subset, human: SegmentRanks, ranks: FloatArray, everyone: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the dot product with the normalised mean vector, (N,), and its cells, (R,)."""
    person = subset.person
    squares = subset.of_person(everyone**2)
    with np.errstate(invalid="ignore", divide="ignore"):
        norm = np.sqrt(squares)[person]
        dot = everyone * ranks / norm
        value = subset.of_person(dot) * np.where(human.counts > 0, 1.0, np.nan)
        norm = norm * np.sqrt(square_sum(human.counts))[person]
        slope = dot + human.raised(np.sign(human.ranks) * everyone) / norm
        steeper = square_sum_slope(human.counts)[person] * (human.ranks != 0)
        steeper += everyone**2 / squares[person]
        slope -= value[person] / 2 * steeper
    slope -= (subset.of_person(slope) / subset.trials)[person]
    return value, value[person] + subset.trials[person] * slope


def _effect(subset: Subset, others: FloatArray, ranks: FloatArray) -> FloatArray:
    """Return by how much the weight of each row moves the others' lower cosines, shape (R,).

    The derivative of their sum, with `others` (the mean vector m of those who judge) not ranked
    again: ranks change by steps. Of each judged participant the cosine is sum(r m) / |m| and moves
    by (r - cosine m / |m|) / |m| with m at the pair, which moves by (own - m) / (k - 1) with the
    weight of one of its k - 1 judges.
    """
    person = subset.person
    norm = np.sqrt(subset.of_person(others**2))[person]
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = subset.of_person(others * ranks / norm)[person]
        slope = np.nan_to_num(ranks / norm - cosine * others / norm**2)
    gained = ranks * (subset.at_pair(slope) - slope)
    gained -= subset.at_pair(slope * others) - slope * others
    return np.asarray(gained / np.maximum(subset.seen - 1, 1))


def _against_ranked(subset: Subset, prediction: SegmentRanks, own: FloatArray) -> FloatArray:
    """Return the cosine of each participant's normalised vector with a prediction's ranks."""
    dot = subset.of_person(prediction.ranks * own)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(dot / np.sqrt(square_sum(prediction.counts)))


def _optimum_order(subset: Subset, ranks: FloatArray) -> FloatArray:
    """Return for each row the mean normalised rank of those who saw the same trials.

    Among all predictions without ties, the one ordered as the absolute value of the mean
    vector and with its signs has the greatest mean similarity (rearrangement inequality).
    """
    shared = subset.shared
    size = np.bincount(shared.set_of)
    mean = np.bincount(shared.place, ranks, len(shared.pair)) / size[shared.number]
    mean = np.round(mean, DECIMALS)
    # Where the mean is 0 either sign is as good; a tiny one keeps the rank in use.
    return np.asarray(np.where(mean == 0, 1e-15, mean)[shared.place])


def cosine_cells(human: SegmentRanks, model: SegmentRanks) -> FloatArray:
    """Return what each choice adds to its participant's signed-rank cosine, shape (C,).

    Parameters
    ----------
    human, model
        Ranks of the ratings and of the predictions of C choices, participants as segments.

    Returns
    -------
    array
        v + n (v' - mean of v') for each choice, where v is its participant's cosine over n choices
        and v' its derivative by the weight of the choice, one that counts w times being w choices
        that tie; their mean is v. NaN for a participant for whom v is not defined. A choice raises
        the ranks of larger ones by its weight and of those tied with it by half of it, so
        all are found at once.

    Source
    ------
    Efron (1982), The jackknife, the bootstrap and other resampling plans, ch. 6, for variances
    from derivatives; leaving choices out one by one overestimates the variance of ranks of few.
    The cosine is that of :func:`~contstim.evaluation.ranks.signed_rank_cosine`.
    """
    person, n_people = human.segment, len(human.counts)
    product = human.ranks * model.ranks
    moved = product + human.raised(np.sign(human.ranks) * model.ranks)
    moved += model.raised(np.sign(model.ranks) * human.ranks)
    with np.errstate(invalid="ignore", divide="ignore"):
        norm = np.sqrt(square_sum(human.counts) * square_sum(model.counts))
        value = np.bincount(person, product, n_people) / norm
        steeper = square_sum_slope(human.counts)[person] * (human.ranks != 0)
        steeper += square_sum_slope(model.counts)[person] * (model.ranks != 0)
        slope = moved / norm[person] - value[person] * steeper / 2
    n = np.bincount(person, minlength=n_people)
    slope -= (np.bincount(person, slope, n_people) / n)[person]
    return np.asarray(value[person] + n[person] * slope)


def _ranker(values: FloatArray) -> Callable[[FloatArray], tuple[FloatArray, FloatArray]]:
    """Return a function from weights (B, k) to signed ranks of k values (B, k) and counts (B,).

    A value of weight w counts as w tied values; zeros take no rank.
    """
    nonzero = np.flatnonzero(values)
    order = nonzero[np.argsort(np.abs(values[nonzero]), kind="stable")]
    first = np.ones(len(order), dtype=bool)
    first[1:] = np.diff(np.abs(values[order])) != 0
    starts, tie = np.flatnonzero(first), np.cumsum(first) - 1

    def ranks(weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        signed = np.zeros_like(weights)
        if not len(order):
            return signed, np.zeros(len(weights))
        mass = np.add.reduceat(weights[:, order], starts, axis=1)
        after = np.cumsum(mass, axis=1)
        signed[:, order] = (after - mass + (mass + 1) / 2)[:, tie] * np.sign(values[order])
        return signed, after[:, -1]

    return ranks
