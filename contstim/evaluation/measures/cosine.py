"""Signed-rank cosine: how far a model's log-ratios and people's ratings order trials alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from contstim.arrays import FloatArray
from contstim.evaluation.ceilings import DECIMALS
from contstim.evaluation.measures import Measure, Resampled
from contstim.evaluation.ranks import (
    SegmentRanks,
    log_sum_of_squares_slope,
    signed_rank_cosine,
    signed_ranks,
    sum_of_squares,
)
from contstim.evaluation.subset import Subset


class SignedRankCosine(Measure):
    """The cosine of signed ranks, see :func:`~contstim.evaluation.ranks.signed_rank_cosine`."""

    name = "signed_rank_cosine"
    label = "signed-rank cosine similarity"
    chance = 0.0
    description = (
        "Signed-rank cosine similarity compares a model's log-probability ratios with a "
        "participant's zero-centred ratings: both are turned into signed ranks, and their "
        "cosine is averaged over all ways of breaking ties in closed form (Golan et al. 2023, "
        "Eq. 8 to 11). Its lower noise ceiling puts the other participants' mean normalised "
        "signed-rank vector, ranked again, in the place of the model"
    )
    upper_ceiling_description = (
        "; its upper one is the dot product with the normalised mean vector of all participants."
    )

    def participant_value(self, rating: FloatArray, prediction: FloatArray) -> float:
        """Return the cosine of one participant's ratings; NaN for a vector of zeros."""
        prediction = np.round(prediction, DECIMALS)
        if not rating.any() or not prediction.any():
            return float("nan")
        return signed_rank_cosine(rating, prediction)

    def vote(self, rating: FloatArray) -> FloatArray:
        """Return the signed ranks over their norm; zeros for a vector of zeros."""
        ranks = signed_ranks(rating)
        return ranks / np.sqrt(sum_of_squares(max(int(np.count_nonzero(ranks)), 1)))

    def upper_value(self, rating: FloatArray, everyone: FloatArray) -> float:
        """Return the dot product with the normalised mean vector of all, which is not ranked."""
        length = float(np.sqrt(everyone @ everyone))
        return float(self.vote(rating) @ everyone / length) if rating.any() else float("nan")

    def values(self, subset: Subset) -> FloatArray:
        """Return each model's cosine for each participant, shape (N here, M here)."""
        human = subset.human_ranks
        model, n_model = subset.model_ranks()
        indices = subset.pair_sets.row_indices
        dot = subset.participant_matrix(human.ranks, indices, len(model)) @ model
        norm = np.sqrt(sum_of_squares(human.counts)[:, None] * sum_of_squares(n_model))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(dot / norm)

    def trial_influence(self, subset: Subset, prediction: FloatArray) -> FloatArray:
        """Return what each choice contributes to its participant's cosine, see `cosine_cells`."""
        return cosine_cells(subset.human_ranks, subset.rank_within_participants(prediction))

    def resampled(self, rating: FloatArray, ratios: FloatArray) -> Resampled:
        """Return how cosines follow from how often each pair counts, as ties of the same size."""
        models, people = ([_ranker(row) for row in rows] for rows in (ratios.T, rating))

        def values(weights: FloatArray) -> Iterator[FloatArray]:
            ranked = [person(weights) for person in people]
            human_norm = np.sqrt(sum_of_squares(np.stack([count for _, count in ranked], axis=1)))
            for rank_model in models:
                model, n_model = rank_model(weights)
                weighted = weights * model
                dots = [np.einsum("bk,bk->b", weighted, ranks) for ranks, _ in ranked]
                with np.errstate(invalid="ignore", divide="ignore"):
                    norm = human_norm * np.sqrt(sum_of_squares(n_model))[:, None]
                    yield np.stack(dots, axis=1) / norm

        return values

    def mean_votes(self, subset: Subset) -> tuple[FloatArray, FloatArray]:
        """Return the mean normalised signed ranks of the others, and of all, (R,) each."""
        ranks = _normalised_ranks(subset)
        total, seen = subset.sum_by_pair(ranks), subset.n_judges
        others = np.round((total - ranks) / np.maximum(seen - 1, 1), DECIMALS)
        return others, np.round(total / seen, DECIMALS)

    def ceilings(self, subset: Subset) -> tuple[FloatArray, FloatArray]:
        """Return the lower and the upper noise ceiling of each participant, (N,) each.

        The lower one is the cosine with the others' mean vector, ranked again. The upper one is
        sum(r m) / |m|, with r the participant's normalised signed ranks and m the mean of all
        participants' r, which is not ranked.
        """
        ranks, (others, everyone) = _normalised_ranks(subset), self.mean_votes(subset)
        defined = np.where(subset.human_ranks.counts > 0, 1.0, np.nan)
        predicted = subset.rank_within_participants(others)
        dot = subset.sum_by_participant(predicted.ranks * ranks)
        with np.errstate(invalid="ignore", divide="ignore"):
            lower = dot / np.sqrt(sum_of_squares(predicted.counts))
            norm = np.sqrt(subset.sum_by_participant(everyone**2))[subset.person]
            upper = subset.sum_by_participant(everyone * ranks / norm)
        return lower * defined, upper * defined

    def ceiling_influence(self, subset: Subset) -> tuple[FloatArray, FloatArray]:
        """Return what each choice contributes to the lower and to the upper ceiling, both (R,).

        To the participant's own ceiling, as `trial_influence` has it for the mean votes; and for
        the lower one what the participant's votes contribute to the ceilings of the others, with
        their mean votes unranked:

            sum over participants q and pairs i of the derivative of r_q m / |m| by m_i,
            times (r_pi - m_i) / (k_i - 1),

        where r are normalised ranks, m the mean of those other than q, and k_i participants saw
        pair i. For the upper ceiling this sum is zero.
        """
        votes, (others, everyone) = _normalised_ranks(subset), self.mean_votes(subset)
        person = subset.person
        with np.errstate(invalid="ignore", divide="ignore"):
            norm = np.sqrt(subset.sum_by_participant(others**2))[person]
            cosine = subset.sum_by_participant(others * votes)[person] / norm
            slope = np.nan_to_num((votes - cosine * others / norm) / norm / (subset.n_judges - 1))
        of_others = subset.sum_by_pair(slope) - slope
        moved = subset.sum_by_pair(slope * others) - slope * others
        effect = subset.sum_by_participant(of_others * votes - moved)
        lower = self.trial_influence(subset, others)
        defined = np.unique(person[~np.isnan(lower)])
        effect -= effect[defined].mean() if len(defined) else 0.0
        return lower + effect[person], cosine_cells(subset.human_ranks, everyone)

    def maximum_influence(self, subset: Subset) -> tuple[FloatArray, FloatArray]:
        """Return what each choice contributes to the largest possible cosine, both (R,).

        With ties this is less than 1: the cosine of the ratings with themselves for a model and
        the lower ceiling, and its square root for the upper one.
        """
        human = subset.human_ranks
        largest = cosine_cells(human, human)
        with np.errstate(invalid="ignore", divide="ignore"):
            value = (subset.sum_by_participant(largest) / subset.n_trials)[subset.person]
            return largest, np.sqrt(value) + (largest - value) / (2 * np.sqrt(value))


COSINE = SignedRankCosine()


def _normalised_ranks(subset: Subset) -> FloatArray:
    """Return each participant's signed ranks over their norm, (R,); zeros for a vector of zeros."""
    human = subset.human_ranks
    with np.errstate(invalid="ignore", divide="ignore"):
        ranks = human.ranks / np.sqrt(sum_of_squares(human.counts))[subset.person]
    return np.where(np.isnan(ranks), 0.0, ranks)


def cosine_cells(human: SegmentRanks, model: SegmentRanks | FloatArray) -> FloatArray:
    """Return what each choice adds to its participant's signed-rank cosine, shape (C,).

    Parameters
    ----------
    human, model
        Ranks of the ratings and of the predictions of C choices, participants as segments; or
        predictions that are not ranked, shape (C,).

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
    prediction = model.ranks if isinstance(model, SegmentRanks) else model
    product = human.ranks * prediction
    moved = product + human.raised(np.sign(human.ranks) * prediction)
    with np.errstate(invalid="ignore", divide="ignore"):
        steeper = log_sum_of_squares_slope(human.counts)[person] * (human.ranks != 0)
        if isinstance(model, SegmentRanks):
            moved += model.raised(np.sign(prediction) * human.ranks)
            squared = sum_of_squares(model.counts)
            steeper += log_sum_of_squares_slope(model.counts)[person] * (prediction != 0)
        else:
            squared = np.bincount(person, prediction**2, n_people).astype(np.float64)
            steeper += prediction**2 / squared[person]
        norm = np.sqrt(sum_of_squares(human.counts) * squared)
        value = np.bincount(person, product, n_people) / norm
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
