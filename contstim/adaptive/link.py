"""Distribution of answers if a model is right: the link between preferences and ratings."""

from __future__ import annotations

import numpy as np

from contstim.arrays import FloatArray
from contstim.errors import InputError
from contstim.response_model import ResponseModel
from contstim.settings import TupleFromList, settings

#: Thresholds of six ratings in logits, fitted to the second experiment of Golan et al. (2023) by
#: ``experiments/adaptive/ratings.py``.
SIX_POINT = (2.2, 4.34)


@settings
class Link:
    """Link function from a language model's preference to the probability of each answer.

    The adaptive design compares language models by the probabilities that they give to the answers
    of participants. This class defines these probabilities, with prior distributions of the unknown
    parameters. A participant sees two sentences and chooses the right-hand one with probability

        sigma(beta g + b + u),

    apart from lapses (random answers). Here sigma is the logistic function, g the model's
    preference for the right-hand sentence, beta the participant's slope, b the participant's bias
    to the right side, and u ~ N(0, item_sd²) the effect of the sentence pair. Since each pair is
    shown once, the probability of an answer is averaged over u.

    The median of beta over participants is estimated separately for each model, so that models with
    larger differences in log-probability have no advantage.

    Attributes
    ----------
    response_model
        Distributions of beta and b over participants and of u over sentence pairs. Its `slope`, the
        median of beta, is not used.
    slopes
        Possible values of the median of beta over participants, in logits.
    slope_weights
        Prior weights of `slopes`; equal by default.
    thresholds
        Thresholds between the ratings of sentence 2 in logits, ascending. Without thresholds, only
        the chosen sentence is used.
    prior
        Prior weights of the models, in their order; equal by default.

    Notes
    -----
    Ratings follow a cumulative link model (McCullagh 1980, doi 10.1111/j.2517-6161.1980.tb01109.x):
    P(rating above threshold t) = F(beta g + b - t), where F is the logistic function averaged over
    u. The thresholds t are 0 and, on both sides of 0, the values in `thresholds`. A lapse selects
    all ratings with equal probability.

    Examples
    --------
    >>> six_ratings = Link(thresholds=SIX_POINT)
    >>> six_ratings.n_answers, six_ratings.encode_rating(-2.5), six_ratings.encode_rating(1.5)
    (6, 0, 4)
    >>> Link().n_answers
    2
    """

    response_model: ResponseModel = ResponseModel()
    slopes: TupleFromList[float] = (0.3, 0.45, 0.65, 0.91, 1.3, 1.9, 2.7)
    slope_weights: TupleFromList[float] = ()
    thresholds: TupleFromList[float] = ()
    prior: TupleFromList[float] = ()

    def __post_init__(self) -> None:
        if not self.slopes or not all(0 < slope <= 100 for slope in self.slopes):
            raise InputError(f"slopes are {self.slopes}; give numbers above 0, at most 100")
        # The set removes duplicates, so that equal thresholds are not ascending either.
        is_ascending = list(self.thresholds) == sorted(set(self.thresholds))
        if not is_ascending or not all(0 < threshold <= 20 for threshold in self.thresholds):
            raise InputError(
                f"thresholds are {self.thresholds}; give ascending numbers above 0, at most 20"
            )
        # Weights are optional. Without any, all slopes or all models have the same weight.
        for name, weights in (("slope_weights", self.slope_weights), ("prior", self.prior)):
            is_valid = all(0 <= weight <= 1e6 for weight in weights) and sum(weights) > 0
            if weights and not is_valid:
                raise InputError(f"{name} is {weights}; give numbers of at least 0, one above 0")
        if self.slope_weights and len(self.slope_weights) != len(self.slopes):
            raise InputError(
                f"there are {len(self.slopes)} slopes and {len(self.slope_weights)} slope_weights; "
                "give each slope its weight"
            )

    @property
    def n_answers(self) -> int:
        """Number C of possible answers: all ratings, or 2 (left, right) without thresholds."""
        return 2 * len(self.thresholds) + 2

    @property
    def cut_points(self) -> FloatArray:
        """Cut points between adjacent answers in logits, shape (C - 1,), symmetric around 0."""
        return np.array([-t for t in reversed(self.thresholds)] + [0.0, *self.thresholds])

    def encode_rating(self, rating: float) -> int:
        """Convert a rating to the index of the answer on the scale.

        Parameters
        ----------
        rating
            One of C equally spaced ratings, from -2.5 (strongest preference for sentence 1) to 2.5
            (strongest preference for sentence 2).

        Returns
        -------
        int
            Index from 0 to C - 1.

        Raises
        ------
        InputError
            If the rating is not one of the C ratings.
        """
        if self.n_answers == 2 and 0 < abs(rating) <= 2.5:
            # Only the chosen sentence counts: 0 for sentence 1, 1 for sentence 2.
            return int(rating > 0)
        # The C ratings are equally spaced from -2.5 to 2.5. Ratings between them are refused.
        position = (rating + 2.5) / 5 * (self.n_answers - 1)
        index = round(position)
        if abs(position - index) < 1e-4 and 0 <= index < self.n_answers:
            return index
        raise InputError(
            f"rating {rating:g} is none of the {self.n_answers} ratings of the link; leave out "
            "thresholds, or give one fewer than the levels of confidence"
        )

    def prior_weights(self, n_models: int) -> FloatArray:
        """Return the prior probabilities of the models, shape (M,).

        Raises
        ------
        InputError
            If `prior` has weights for another number of models.
        """
        if self.prior and len(self.prior) != n_models:
            raise InputError(
                f"prior has {len(self.prior)} weights for {n_models} models; give one per model"
            )
        prior = np.array(self.prior or [1.0] * n_models)
        return np.asarray(prior / prior.sum())
