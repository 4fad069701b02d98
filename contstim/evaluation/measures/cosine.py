"""Signed-rank cosine similarity of log-ratios and ratings (Golan et al. 2023)."""

from __future__ import annotations

import numpy as np

from contstim.arrays import FloatArray
from contstim.evaluation.measures import Measure
from contstim.evaluation.ranks import (
    DECIMALS,
    cosine_influence,
    signed_rank_cosine,
    sum_of_squares,
    weighted_signed_ranks,
)
from contstim.evaluation.subset import Subset


class SignedRankCosine(Measure):
    """Cosine of the signed ranks of a model's log-ratios and of a participant's ratings.

    A log-ratio is log p(sentence 2) - log p(sentence 1). The signed rank of a number is its sign
    times the rank of its absolute value, so the measure depends on the order of confidence, not on
    its scale. See :func:`~contstim.evaluation.ranks.signed_rank_cosine` (Golan et al. 2023, Eq. 8
    to 11, doi 10.1038/s42256-023-00718-1).
    """

    name = "signed_rank_cosine"
    label = "signed-rank cosine similarity"
    jackknife = "infinitesimal"
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
        """Return the cosine for one participant; NaN if all ratings or predictions are 0."""
        prediction = np.round(prediction, DECIMALS)
        if not rating.any() or not prediction.any():
            return float("nan")
        return signed_rank_cosine(rating, prediction)

    def normalised_responses(self, subset: Subset) -> FloatArray:
        """Return the signed ranks of the ratings divided by their norm.

        Noise ceilings average these numbers over participants. The ranks of a participant are
        divided by sqrt(1² + ... + n²), the norm of n untied ranks, where n is the number of ratings
        other than 0. All participants thereby have the same weight in the mean.

        Parameters
        ----------
        subset
            R choices of several participants.

        Returns
        -------
        array
            Normalised signed ranks, shape (R,); 0 for a participant without a preference.
        """
        human = subset.human_ranks
        # A participant without a preference has the count 0; avoid division by 0.
        norm = np.sqrt(sum_of_squares(np.maximum(human.counts, 1)))
        return human.ranks / norm[subset.participant_index]

    def trial_influence(self, subset: Subset, prediction: FloatArray) -> FloatArray:
        """Return one pseudo-value per choice for the cosine of its participant, shape (R,)."""
        return cosine_influence(subset.human_ranks, subset.rank_within_participants(prediction))

    def resampled_values(
        self, rating: FloatArray, log_ratio: FloatArray, copies: FloatArray
    ) -> FloatArray:
        """Return the value of each model for each participant in bootstrap samples of pairs.

        The value is the cosine of two vectors over sentence pairs: the signed ranks of the
        participant's ratings, and the signed ranks of the model's log-ratios. A bootstrap sample
        can contain several copies of a pair, which have tied ranks.

        Parameters
        ----------
        rating
            Ratings of n participants on k sentence pairs, shape (n, k).
        log_ratio
            log p(sentence 2) - log p(sentence 1) under M models, shape (k, M).
        copies
            Number of copies of each pair in B bootstrap samples, shape (B, k).

        Returns
        -------
        array
            Cosine in each bootstrap sample for each participant and model, shape (B, n, M). NaN if
            all ratings or all log-ratios are 0.
        """
        model, n_model = weighted_signed_ranks(log_ratio.T, copies)
        # Axes of the arrays: models (M), resamples (B), participants (n) and pairs (k).
        human, n_human = weighted_signed_ranks(rating, copies)
        # Weight each pair by its number of copies: (B, n, k) @ (B, k, M) = (B, n, M).
        dot = np.matmul(human.transpose(1, 0, 2), (model * copies).transpose(1, 2, 0))
        norm = np.sqrt(sum_of_squares(n_human).T[:, :, None] * sum_of_squares(n_model).T[:, None])
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(dot / norm)

    def upper_ceiling_influence(self, subset: Subset, mean_of_all: FloatArray) -> FloatArray:
        """Return one pseudo-value per choice for the upper ceiling, v · m / norm(m), shape (R,).

        Here v are the normalised signed ranks of the participant, and m their means over all
        participants, which are not ranked again.
        """
        return cosine_influence(subset.human_ranks, mean_of_all)

    def influence_on_others(self, subset: Subset, mean_of_others: FloatArray) -> FloatArray:
        """Return the influence of each participant on the lower noise ceilings of the others.

        The lower ceiling predicts a participant from the mean normalised signed ranks of all
        others, so participant p affects the ceilings of all other participants q. The influence of
        p on the sum of these ceilings, computed with means that are not ranked again, is

            sum over participants q other than p, and pairs i, of g_qi (v_pi - m_qi) / (n_i - 1).

        Here v_pi is the normalised signed rank of pair i in the ratings of participant p, m_qi its
        mean over all participants except q, n_i the number of participants who judged pair i, and
        g_qi the derivative of v_q · m_q / norm(m_q) with respect to m_qi. The mean influence over
        participants is subtracted.

        Parameters
        ----------
        subset
            R choices of several participants.
        mean_of_others
            Mean m_qi for the participant q and the pair i of each choice, shape (R,).

        Returns
        -------
        array
            Influence of the participant of each choice, shape (R,).
        """
        v, participant_index = self.normalised_responses(subset), subset.participant_index
        with np.errstate(invalid="ignore", divide="ignore"):
            # Cosine of v_q and m_q for the participant q of each choice.
            norm = np.sqrt(subset.sum_by_participant(mean_of_others**2))[participant_index]
            cosine = subset.sum_by_participant(mean_of_others * v)[participant_index] / norm
            # Derivative g_qi of the cosine, divided by n_i - 1.
            gradient = (v - cosine * mean_of_others / norm) / norm / (subset.n_judges - 1)
        # Participants without a preference, or without other judges, have no ceiling.
        has_ceiling = np.isfinite(gradient) & (subset.human_ranks.counts > 0)[participant_index]
        gradient = np.nan_to_num(gradient)
        # Sum over all participants q, and subtract the term q = p.
        gradient_of_others = subset.sum_by_pair(gradient) - gradient
        # Sum of g_qi m_qi over the other participants q.
        centre = subset.sum_by_pair(gradient * mean_of_others) - gradient * mean_of_others
        influence = subset.sum_by_participant(gradient_of_others * v - centre)
        # Subtract the mean, so that the influences do not change the ceiling itself.
        defined = np.unique(participant_index[has_ceiling])
        influence -= influence[defined].mean() if len(defined) else 0.0
        return influence[participant_index]

    def maximum_influence(self, subset: Subset) -> tuple[FloatArray, FloatArray]:
        """Return how much each choice influences the maximum of the measure for its participant.

        The signed-rank cosine of a participant and a model has a maximum v. A model that ranks the
        sentence pairs exactly like the participant attains it. v is 1 if all ratings differ, and
        less than 1 if some are tied. The maximum of the upper noise ceiling is sqrt(v).

        The influence x of a choice on v is a jackknife pseudo-value, so that v is the mean of x
        over the choices of the participant. By the delta method, the influence of the choice on
        sqrt(v) is sqrt(v) + (x - v) / (2 sqrt(v)).

        Parameters
        ----------
        subset
            R choices of several participants.

        Returns
        -------
        value : array
            Influence x of each choice on v, shape (R,).
        upper_ceiling : array
            Influence of each choice on sqrt(v), shape (R,).
        """
        ranks = subset.human_ranks
        # A model reaches the largest cosine if it ranks the pairs like the participant's ratings.
        # x: influence of each choice on the cosine v of the ratings with themselves.
        value_influence = cosine_influence(ranks, ranks)
        # v of the participant of each choice; it is below 1 if ratings are tied.
        value = subset.mean_by_participant(value_influence)[subset.participant_index]
        # The upper noise ceiling is at most sqrt(v). Its influence, by the delta method, is
        # sqrt(v) + (x - v) / (2 sqrt(v)).
        root = np.sqrt(value)
        return value_influence, root + (value_influence - value) / (2 * root)


COSINE = SignedRankCosine()
