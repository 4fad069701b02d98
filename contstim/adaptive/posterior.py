"""The posterior over models, by small quadratures, from answers in the order of issue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError
from contstim.response_model import ResponseModel
from contstim.settings import TupleFromList, settings

_FARTHEST = 30.0  # logits beyond which a choice is certain but for lapses
_STEP = 0.0025  # of the tabled curve, whose error is below 1e-7
#: Of a quadrature's nodes, in standard deviations of the narrowest posterior. The relative error of
#: one person's integral is about 2 exp(-2 pi² / 1.3²) = 2e-5 (see `ParticipantQuadrature`).
_SPACING = 1.3
_REACH = 5.5  # of the outermost nodes, in standard deviations over people
_TRIALS = 200  # of each person, unless said
_MOST_POINTS = 200_000  # median slopes, nodes and answers: beyond, choosing takes seconds
_GRID = 257  # points of the curves from which trials are chosen
_TINY = 1e-12

AnswerCurves = NDArray[np.float32]

#: The thresholds of six ratings, logits: where people became confident and very confident in the
#: second experiment of Golan et al. (2023), by ``experiments/adaptive/ratings.py``.
SIX_POINT = (2.2, 4.34)


@settings
class Link:
    """How people answer if a model is right, and the prior over models and slopes.

    A person chooses sentence 2 of a pair as `ResponseModel` says, with a slope of
    each model's own: no model is punished for the scale of its log-probabilities. A pair is asked
    once, so that its effect u ~ N(0, item_sd²) is integrated out of each answer by itself.

    Attributes
    ----------
    people
        The effects; their `slope` is not used, `slopes` stand in its place.
    slopes
        Values of the median slope, logits; each model has one of them, which is not known.
    slope_weights
        Prior weights of these values; none: equal ones.
    thresholds
        Of ratings, ascending, logits: a rating is so far from the middle as the person's leaning
        to one side passes so many of them (cumulative link). None: only the side is used.
    prior
        Weights of the models, in their order; none: equal ones.

    Notes
    -----
    With ratings, P(rating above the jth threshold) = F(beta g + b - t_j), t the thresholds on
    both sides and 0 between them, F the logistic function averaged over u; lapses fall on all
    ratings alike. Cumulative link: McCullagh (1980), doi 10.1111/j.2517-6161.1980.tb01109.x.

    Examples
    --------
    >>> six = Link(thresholds=SIX_POINT)
    >>> six.n_answers, six.encode_rating(-2.5), six.encode_rating(1.5)
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
        if not self.slopes or not all(0 < value <= 100 for value in self.slopes):
            raise InputError(f"slopes are {self.slopes}; give numbers above 0, at most 100")
        if not all(0 < t <= 20 for t in self.thresholds) or list(self.thresholds) != sorted(
            set(self.thresholds)
        ):
            raise InputError(
                f"thresholds are {self.thresholds}; give numbers that rise from above 0, at most 20"
            )
        for name, weights in (("slope_weights", self.slope_weights), ("prior", self.prior)):
            if weights and not (all(0 <= w <= 1e6 for w in weights) and sum(weights) > 0):
                raise InputError(
                    f"{name} is {weights}; give numbers from 0 on, one of them above 0"
                )
        if self.slope_weights and len(self.slope_weights) != len(self.slopes):
            raise InputError(
                f"there are {len(self.slopes)} slopes and {len(self.slope_weights)} slope_weights; "
                "give each slope its weight"
            )

    @property
    def n_answers(self) -> int:
        """The number C of different answers, from sure of sentence 1 on."""
        return 2 * len(self.thresholds) + 2

    def encode_rating(self, rating: float) -> int:
        """Return the number of a rating between -2.5 and 2.5, from 0.

        Raises
        ------
        InputError
            If it is not a rating of the scale that the thresholds have.
        """
        if self.n_answers == 2 and 0 < abs(rating) <= 2.5:
            return int(rating > 0)
        place = (rating + 2.5) / 5 * (self.n_answers - 1)
        if not abs(place - round(place)) < 1e-4 or not 0 <= round(place) < self.n_answers:
            raise InputError(
                f"rating {rating:g} is none of the {self.n_answers} of the link's scale; leave "
                "out thresholds, or give as many as levels of confidence less one"
            )
        return round(place)

    def prior_weights(self, n_models: int) -> FloatArray:
        """Return the prior weights of the models, shape (M,), sum 1.

        Raises
        ------
        InputError
            If `prior` has another number.
        """
        if self.prior and len(self.prior) != n_models:
            raise InputError(
                f"prior has {len(self.prior)} weights for {n_models} models; give each model one"
            )
        prior = np.array(self.prior or [1.0] * n_models)
        return np.asarray(prior / prior.sum())


class ParticipantQuadrature:
    """The quadrature over a person's slope and leaning, H values of the median slope at once.

    Parameters
    ----------
    link
        How people answer.
    trials
        The most answers of one person, for which the nodes are close enough.

    Raises
    ------
    InputError
        If so many answers of people who vary so much ask for more nodes than can be.

    Attributes
    ----------
    slopes
        Shape (H, K).
    leanings
        Shape (K,).
    weights
        Shape (K,), sum 1.
    log_prior
        Of the H median slopes, shape (H,).

    Notes
    -----
    Nodes are equally far apart: the trapezoidal rule, whose relative error for a normal curve of
    standard deviation s at the spacing h is 2 exp(-2 pi² s² / h²) (Trefethen and Weideman 2014, doi
    10.1137/130932132). With I(x) = Σ_y P_y'(x)² / P_y(x) the Fisher information of an answer on
    the leaning x = beta g + b, an answer tells at most side_sd² max I of a leaning in standard
    units, and slope_sd² max (|x| + 2 side_sd)² I of a log slope in such units, as few people lean
    by more than 2 side_sd. T answers then leave s² >= 1 / (1 + T times that), and h is 1.3 s. All
    answers together count as information 1 at least: the curve of a single one may be steep as
    well. The largest errors in simulations are in ``experiments/adaptive/README.md``.
    """

    def __init__(self, link: Link, trials: int = _TRIALS) -> None:
        people = link.response_model
        self.link, self.trials = link, trials
        self._cuts = np.array([-t for t in reversed(link.thresholds)] + [0.0, *link.thresholds])
        self._curve = _logistic_normal(people.item_sd)
        along, across = (_axis(spacing) for spacing in self._spacings())
        points = len(along) * len(across) * len(link.slopes) * link.n_answers
        if points > _MOST_POINTS:
            raise InputError(
                f"{trials} trials of people with side_sd {people.side_sd:g} and slope_sd "
                f"{people.slope_sd:g} need {points} points of quadrature, more than the "
                f"{_MOST_POINTS} there can be; give fewer trials, slopes or thresholds, or smaller "
                "standard deviations"
            )
        z, side = (part.ravel() for part in np.meshgrid(along, across, indexing="ij"))
        self.slopes = np.array(link.slopes)[:, None] * np.exp(people.slope_sd * z)
        self.side_biases = people.side_sd * side
        weights = np.exp(-(z**2 + side**2) / 2)
        self.weights = weights / weights.sum()
        prior = np.array(link.slope_weights or [1.0] * len(link.slopes))
        self.log_prior = _log(prior / prior.sum())

    def _spacings(self) -> tuple[float, float]:
        """Return the nodes' spacings along slope and leaning, see the notes; 0: one node."""
        people = self.link.response_model
        x = np.arange(-_FARTHEST, _FARTHEST, 8 * _STEP)
        probabilities = self.probabilities(x)
        slopes = np.gradient(probabilities, x, axis=0)
        on_leaning = (slopes**2 / probabilities).sum(axis=1)
        on_slope = (np.abs(x) + 2 * people.side_sd) ** 2 * on_leaning

        def spacing(sd: float, information: FloatArray) -> float:
            precision = 1 + sd**2 * max(1.0, self.trials * information.max())
            return _SPACING / float(np.sqrt(precision)) if sd > 0 else 0.0

        return spacing(people.slope_sd, on_slope), spacing(people.side_sd, on_leaning)

    def probabilities(self, leaning: FloatArray) -> FloatArray:
        """Return the probability of each answer, shape (..., C), at leanings, logits."""
        people, n = self.link.response_model, self.link.n_answers
        above = self._passes(leaning[..., None] - self._cuts)
        ends = np.ones((*above.shape[:-1], 1))
        both = np.concatenate([ends, above, 0 * ends], axis=-1)
        probabilities = (1 - people.lapse) * -np.diff(both, axis=-1) + people.lapse / n
        return np.asarray(np.maximum(probabilities, _TINY))

    def _passes(self, leaning: FloatArray) -> FloatArray:
        """Return the tabled logistic function, averaged over effects of pairs."""
        place = (np.clip(leaning, -_FARTHEST, _FARTHEST) + _FARTHEST) * (1 / _STEP)
        before = np.minimum(place.astype(np.int64), len(self._curve) - 2)
        low = self._curve[before]
        return np.asarray(low + (place - before) * (self._curve[before + 1] - low))

    def likelihood(self, preferences: FloatArray, answers: IntArray) -> FloatArray:
        """Return P(answer | model, median slope, person) at the nodes.

        Parameters
        ----------
        preferences
            g under the models, shape (..., M).
        answers
            Numbers of answers, shape (...).

        Returns
        -------
        array
            Shape (..., M, H, K).
        """
        people, n = self.link.response_model, self.link.n_answers
        leaning = preferences[..., None, None] * self.slopes + self.side_biases
        above: FloatArray | float
        below: FloatArray | float
        if answers.ndim:
            ends = np.array([-np.inf, *self._cuts, np.inf])[..., None, None, None]
            above, below = (self._passes(leaning - ends[answers + k]) for k in (0, 1))
        else:  # half the work where the answer is at an end of the scale
            answer = int(answers)
            above = self._passes(leaning - self._cuts[answer - 1]) if answer else 1.0
            below = self._passes(leaning - self._cuts[answer]) if answer < n - 1 else 0.0
        inside = (1 - people.lapse) * (above - below) + people.lapse / n
        return np.asarray(np.maximum(inside, _TINY))

    def update(
        self, state: FloatArray, preferences: FloatArray, answers: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return a person's posterior over the nodes after an answer, and log P(answer).

        Parameters
        ----------
        state
            Shape (..., M, H, K), sum 1 over K; at first `weights` throughout.
        preferences, answers
            As for `likelihood`.

        Returns
        -------
        tuple
            The new state, and shape (..., M, H).
        """
        joint = state * self.likelihood(preferences, answers)
        evidence = joint.sum(axis=-1)
        return joint / evidence[..., None], np.log(evidence)

    @property
    def grid(self) -> FloatArray:
        """Preferences at which `curves` are given, shape (G,)."""
        most = self.link.response_model.max_preference
        return np.linspace(-most, most, _GRID)

    def answer_curves(self, state: FloatArray, slope_weights: FloatArray) -> AnswerCurves:
        """Return P(answer | model) of a person at the preferences of `grid`.

        Parameters
        ----------
        state
            Shape (..., M, H, K).
        slope_weights
            Of the median slopes under each model, shape (..., M, H), sum 1 over H.

        Returns
        -------
        array
            Shape (..., M, C, G).
        """
        table = self._table
        mixed = (state * slope_weights[..., None]).reshape(*state.shape[:-2], -1)
        flat = mixed.astype(np.float32) @ table.reshape(len(table), -1)
        return np.asarray(flat.reshape(*flat.shape[:-1], *table.shape[1:]))

    @cached_property
    def _table(self) -> AnswerCurves:
        """Return P(answer) at each node and preference of the grid, shape (H K, C, G)."""
        leaning = self.slopes[..., None] * self.grid + self.side_biases[:, None]
        probabilities = self.probabilities(leaning.reshape(-1, _GRID))
        return np.ascontiguousarray(probabilities.swapaxes(-1, -2), dtype=np.float32)


def _axis(spacing: float) -> FloatArray:
    reach = np.ceil(_REACH / spacing) if spacing else 0.0
    return np.arange(-reach, reach + 1) * spacing


@lru_cache(maxsize=8)
def _logistic_normal(item_sd: float) -> FloatArray:
    """Return the logistic function averaged over N(0, item_sd²), tabled within ±_FARTHEST."""
    points = np.linspace(-_FARTHEST, _FARTHEST, round(2 * _FARTHEST / _STEP) + 1)
    step = 0.1 / max(1.0, item_sd)
    axis = np.arange(-8, 8 + step, step)
    weights = np.exp(-(axis**2) / 2)
    weights /= weights.sum()
    curve = np.zeros(len(points))
    for z, weight in zip(axis, weights, strict=True):
        curve += weight * expit(points + item_sd * z)
    return curve


class ModelPosterior:
    """What answers say of M models; add them in the order in which the trials were issued.

    The same answers in the same order give the same numbers, to the last bit.

    Parameters
    ----------
    link
        How people answer, and the priors.
    n_models
        M.
    trials
        The most answers of one person, on which the quadrature's nodes depend.

    Raises
    ------
    InputError
        As `ParticipantQuadrature` does.

    Notes
    -----
    A pair is asked once: answers to pairs that others were asked as well share the pair's effect,
    and do not belong here. Persons are then independent given a model and its median slope, and
    p(answers | model) = Σ_h P(h) Π_p ∬ Π_t P(y_t | x_t, beta, b) dF(beta, b).
    Which trials were asked does not matter, if it depends on the answers before alone.

    Examples
    --------
    >>> posterior = ModelPosterior(Link(), n_models=2)
    >>> for person in ("p1", "p2", "p3"):  # all choose the right-hand sentence, as model 1 prefers
    ...     _ = posterior.add_answer(person, np.array([1.5, -1.5]), answer=1)
    >>> posterior.weights.round(2)
    array([0.95, 0.05])
    """

    def __init__(self, link: Link, n_models: int, trials: int = _TRIALS) -> None:
        self.quadrature = _nodes(link, trials)
        self.n_models = n_models
        self._log_prior = _log(link.prior_weights(n_models))
        self.log_likelihood = np.zeros((n_models, len(link.slopes)))  # given the median slopes
        self._people: dict[Hashable, FloatArray] = {}
        self._counts: Counter[Hashable] = Counter()

    def __repr__(self) -> str:
        weights = ", ".join(f"{weight:.3f}" for weight in self.weights)
        return f"<{type(self).__name__} after {self.n_answers} answers: {weights}>"

    def add_answer(self, participant: Hashable, preferences: FloatArray, answer: int) -> FloatArray:
        """Take an answer in, and return log P(answer | model, answers before), shape (M,).

        Parameters
        ----------
        participant
            Who answered.
        preferences
            g of the pair under the models, shape (M,), as it stood on the screen: log p(right-hand
            sentence) - log p(left-hand sentence), for a person's leaning is to a side.
        answer
            Its number, from `Link.encode_rating`, 0 for sure of the left-hand sentence.

        Raises
        ------
        InputError
            If the participant has `trials` answers already.
        """
        if self._counts[participant] == self.quadrature.trials:
            raise InputError(
                f"participant {participant!r} has {self.quadrature.trials} answers, for which the "
                "posterior's nodes were laid; give more trials when it is made"
            )
        self._counts[participant] += 1
        before = self.log_evidence
        state, log_probability = self.quadrature.update(
            self.participant_state(participant), np.asarray(preferences), np.asarray(answer)
        )
        self._people[participant] = state
        self.log_likelihood = self.log_likelihood + log_probability
        return np.asarray(self.log_evidence - before)

    @property
    def n_answers(self) -> int:
        """How many answers were taken in."""
        return self._counts.total()

    def participant_state(self, participant: Hashable) -> FloatArray:
        """Return a person's state, shape (M, H, K); for somebody new that of all people."""
        shape = (*self.log_likelihood.shape, len(self.quadrature.weights))
        return self._people.get(participant, np.broadcast_to(self.quadrature.weights, shape))

    @property
    def log_evidence(self) -> FloatArray:
        """Log p(answers | model), shape (M,)."""
        joint = self.log_likelihood + self.quadrature.log_prior
        most = joint.max(axis=1)  # by hand: SciPy's function takes ten times as long on so few
        return np.asarray(most + np.log(np.exp(joint - most[:, None]).sum(axis=1)))

    @property
    def weights(self) -> FloatArray:
        """The posterior weights of the models, shape (M,), sum 1."""
        return softmax(self._log_prior + self.log_evidence)

    def answer_curves(self, participant: Hashable) -> AnswerCurves:
        """Return P(answer | model) of a participant; see `ParticipantQuadrature`."""
        slopes = softmax(self.log_likelihood + self.quadrature.log_prior)
        return self.quadrature.answer_curves(self.participant_state(participant), slopes)


@lru_cache(maxsize=8)
def _nodes(link: Link, trials: int) -> ParticipantQuadrature:
    """Return the nodes of a link, whose tables many posteriors share."""
    return ParticipantQuadrature(link, trials)


def softmax(values: FloatArray) -> FloatArray:
    """Return weights, sum 1 over the last axis, from their logarithms."""
    weights = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _log(values: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))
