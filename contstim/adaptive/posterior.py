"""Posterior probabilities of models, given answers that follow a response model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from contstim.adaptive.link import Link
from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError

# Absolute value, in logits, beyond which the tabulated choice curve is constant.
_MAX_LOGIT = 30.0
# Step of the tabulated choice curve in logits; interpolation error below 1e-7.
_LOGIT_STEP = 0.0025
# Distance of quadrature nodes, in standard deviations of the narrowest posterior.
_NODE_SPACING = 1.3
# Position of the outermost quadrature nodes, in standard deviations over participants.
_MAX_NODE = 5.5
# Maximum number of tabulated probabilities; with more, choosing a trial takes seconds.
_MAX_TABLE_SIZE = 200_000
# Number of preferences at which answer curves are tabulated.
_N_GRID = 257
_MIN_PROBABILITY = 1e-12
_DEFAULT_MAX_ANSWERS = 200

#: Probability of each of C answers under each of M models, shape (..., M, C, G), at the G
#: preferences of `ParticipantQuadrature.grid`.
AnswerCurves = NDArray[np.float32]


class ParticipantQuadrature:
    """Numerical integration over a participant's unknown slope beta and side bias b.

    The slope states how strongly a model's preference determines the choice, the side bias how
    strongly the participant prefers the right-hand sentence. The integral is a weighted sum over K
    pairs of values (beta, b), called *nodes*. The median of beta over participants is also unknown
    and has H possible values. The values of beta at the nodes are proportional to the median, so
    they form a table of H rows and K columns.

    Parameters
    ----------
    link
        Probability of each answer given beta and b, and the possible medians of beta.
    max_answers
        Maximum number of answers of a participant, which determines the number of nodes.

    Raises
    ------
    InputError
        If too many nodes are needed.

    Attributes
    ----------
    slopes
        Slopes beta at the nodes, shape (H, K).
    side_biases
        Biases b towards the right-hand sentence at the nodes, shape (K,).
    weights
        Prior probabilities of the nodes, shape (K,).
    log_prior
        Log prior probabilities of the medians of beta, shape (H,).

    Notes
    -----
    Nodes are equally spaced (trapezoidal rule). For a normal density with standard deviation s and
    spacing h, the relative error is 2 exp(-2 pi² s² / h²) (Trefethen and Weideman 2014, doi
    10.1137/130932132), which is 2e-5 for h = 1.3 s. The posterior becomes narrower with each
    answer. After T answers, its variance is at least

        s² = 1 / (1 + T I),

    where I is the largest Fisher information of one answer on the standardised parameter. With x =
    beta g + b, the probability P_y(x) of answer y, and J(x) = Σ_y P_y'(x)² / P_y(x), it is

    - side_sd² max_x J(x) for the side bias;
    - slope_sd² max_x (|x| + 2 side_sd)² J(x) for the log slope.

    T I is at least 1, since the likelihood of a single answer may be steep. Simulated errors are
    reported in ``experiments/adaptive/README.md``.
    """

    def __init__(self, link: Link, max_answers: int = _DEFAULT_MAX_ANSWERS) -> None:
        response_model = link.response_model
        self.link, self.max_answers = link, max_answers
        self._choice_curve = _tabulate_choice_curve(response_model.item_sd)

        # Equally spaced nodes of the log slope and of the side bias, in standard deviations. A
        # parameter without variance has a single node.
        nodes = []
        for spacing in self.compute_node_spacings():
            n_steps = np.ceil(_MAX_NODE / spacing) if spacing else 0
            nodes.append(np.arange(-n_steps, n_steps + 1) * spacing)
        slope_nodes, side_nodes = nodes
        table_size = len(slope_nodes) * len(side_nodes) * len(link.slopes) * link.n_answers
        if table_size > _MAX_TABLE_SIZE:
            raise InputError(
                f"{max_answers} trials of participants with side_sd {response_model.side_sd:g} and "
                f"slope_sd {response_model.slope_sd:g} need {table_size} points of quadrature, "
                f"more than {_MAX_TABLE_SIZE}; give fewer trials, slopes or thresholds, or smaller "
                "standard deviations"
            )
        # Each of the K nodes of the grid is a participant with a slope and a side bias. Its weight
        # is proportional to the normal density of both.
        slope_z, side_z = (z.ravel() for z in np.meshgrid(slope_nodes, side_nodes, indexing="ij"))
        self.slopes = np.array(link.slopes)[:, None] * np.exp(response_model.slope_sd * slope_z)
        self.side_biases = response_model.side_sd * side_z
        weights = np.exp(-(slope_z**2 + side_z**2) / 2)
        self.weights = weights / weights.sum()
        # The prior of the median slope is uniform by default.
        prior = np.array(link.slope_weights or [1.0] * len(link.slopes))
        self.log_prior = _log(prior / prior.sum())

    def compute_node_spacings(self) -> tuple[float, float]:
        """Return the distances between quadrature nodes for the log slope and for the side bias.

        Distances are in standard deviations of the parameter over participants. They are small
        enough to integrate over the narrowest possible posterior, whose precision is bounded by the
        Fisher information of all answers. A distance is 0 if all participants have the same value.
        """
        response_model = self.link.response_model
        logits = np.arange(-_MAX_LOGIT, _MAX_LOGIT, 8 * _LOGIT_STEP)
        # Probabilities P_y(x) of the answers y and their derivatives with respect to the logit
        # x = beta g + b, where beta is the slope and b the side bias. Shape (logits, answers).
        probabilities = self.answer_probabilities(logits)
        derivatives = np.gradient(probabilities, logits, axis=0)
        # Fisher information J(x) = Σ_y P_y'(x)² / P_y(x) of one answer about the side bias.
        side_information = (derivatives**2 / probabilities).sum(axis=1)
        # The derivative of a logit x = beta g + b with respect to log beta is x - b, which is at
        # most |x| + 2 side_sd if the bias b is within two standard deviations of 0.
        slope_information = (np.abs(logits) + 2 * response_model.side_sd) ** 2 * side_information

        # Spacing in proportion to the smallest possible standard deviation of the posterior:
        # 1 / sqrt(precision), in units of the standard deviation over participants.
        def node_spacing(sd: float, information: FloatArray) -> float:
            if sd == 0:
                return 0.0  # all participants have the same value; one node suffices
            precision = 1 + sd**2 * max(1.0, self.max_answers * information.max())
            return _NODE_SPACING / float(np.sqrt(precision))

        slope_spacing = node_spacing(response_model.slope_sd, slope_information)
        return slope_spacing, node_spacing(response_model.side_sd, side_information)

    def answer_probabilities(self, logits: FloatArray) -> FloatArray:
        """Return the probability of each of C ordered answers at given logits.

        Parameters
        ----------
        logits
            Values of beta g + b: slope times preference plus side bias, shape (...).

        Returns
        -------
        array
            Probabilities, shape (..., C).
        """
        lapse, n_answers = self.link.response_model.lapse, self.link.n_answers
        # P(answer above each cut point), between 1 below the lowest and 0 above the highest.
        above = self._choice_probability(logits[..., None] - self.link.cut_points)
        ones = np.ones((*above.shape[:-1], 1))
        exceedances = np.concatenate([ones, above, np.zeros_like(ones)], axis=-1)
        # The probability of an answer is the difference of two adjacent exceedance probabilities,
        # apart from lapses, in which all answers are equally probable.
        probabilities = (1 - lapse) * -np.diff(exceedances, axis=-1) + lapse / n_answers
        return np.asarray(np.maximum(probabilities, _MIN_PROBABILITY))

    def _choice_probability(self, logits: FloatArray) -> FloatArray:
        """Return the probability of choosing the right-hand sentence at given logits.

        The probability is the logistic function averaged over random effects of the sentence pairs.
        It is interpolated linearly in a table.
        """
        clipped = np.clip(logits, -_MAX_LOGIT, _MAX_LOGIT)
        position = (clipped + _MAX_LOGIT) * (1 / _LOGIT_STEP)
        left_index = np.minimum(position.astype(np.int64), len(self._choice_curve) - 2)
        left, right = self._choice_curve[left_index], self._choice_curve[left_index + 1]
        return np.asarray(left + (position - left_index) * (right - left))

    def likelihood(self, preferences: FloatArray, answers: IntArray) -> FloatArray:
        """Return the probability of each answer under every hypothesis about the participant.

        A hypothesis combines one of M models, one of H medians of the participants' slopes, and one
        of K quadrature nodes. A node is a participant with slope beta and side bias b. If the model
        prefers the right-hand sentence by g, answer y of C ordered answers has the probability

            (1 - lapse) (F(beta g + b - t_y) - F(beta g + b - t_(y+1))) + lapse / C,

        where F(x) is the probability of choosing the right-hand sentence at the logit x, t_y and
        t_(y+1) are the lower and upper cut points of answer y, and `lapse` is the probability of a
        random answer.

        Parameters
        ----------
        preferences
            Preferences g of the models for the right-hand sentence, shape (..., M).
        answers
            Index y of each answer on the scale, shape (...).

        Returns
        -------
        array
            Probabilities of the given answers, shape (..., M, H, K).
        """
        lapse, n_answers = self.link.response_model.lapse, self.link.n_answers
        # Logits: slope times preference plus side bias, shape (..., models, median slopes, nodes).
        logits = preferences[..., None, None] * self.slopes + self.side_biases
        # Probabilities of the given answer or a higher one, and of a higher one, without lapses.
        answer_or_higher: FloatArray | float = 1.0
        higher: FloatArray | float = 0.0
        if answers.ndim:
            # Answer y lies between the cut points y and y + 1. The axes are as in `logits`.
            cut_points = np.array([-np.inf, *self.link.cut_points, np.inf])
            cut_below = cut_points[answers][..., None, None, None]
            cut_above = cut_points[answers + 1][..., None, None, None]
            answer_or_higher = self._choice_probability(logits - cut_below)
            higher = self._choice_probability(logits - cut_above)
        else:
            # A single answer is computed faster: the extreme answers need one cut point only.
            answer, cut_points = int(answers), self.link.cut_points
            if answer > 0:
                answer_or_higher = self._choice_probability(logits - cut_points[answer - 1])
            if answer < n_answers - 1:
                higher = self._choice_probability(logits - cut_points[answer])
        # With probability `lapse`, all answers are equally probable.
        probabilities = (1 - lapse) * (answer_or_higher - higher) + lapse / n_answers
        return np.asarray(np.maximum(probabilities, _MIN_PROBABILITY))

    def update(
        self, state: FloatArray, preferences: FloatArray, answers: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Update the distribution of a participant's slope and side bias with an answer.

        The distribution is discrete. Its K points, the quadrature nodes, are reweighted by Bayes'
        rule, separately for M models and H medians of the participants' slopes.

        Parameters
        ----------
        state
            Probabilities of the nodes, shape (..., M, H, K); initially `weights`.
        preferences
            Preferences of the models for the right-hand sentence, shape (..., M).
        answers
            Indices of the answers, from 0 for the strongest preference for the left-hand sentence,
            shape (...).

        Returns
        -------
        state : array
            Updated probabilities of the nodes, shape (..., M, H, K).
        log_evidence : array
            Log predictive probabilities of the answer, shape (..., M, H).
        """
        joint = state * self.likelihood(preferences, answers)
        evidence = joint.sum(axis=-1)
        return joint / evidence[..., None], np.log(evidence)

    @property
    def grid(self) -> FloatArray:
        """Tabulated preferences (in SD of log-probability), equally spaced, shape (G,)."""
        maximum = self.link.response_model.max_preference
        return np.linspace(-maximum, maximum, _N_GRID)

    def answer_curves(self, state: FloatArray, slope_weights: FloatArray) -> AnswerCurves:
        """Tabulate the probabilities of a participant's next answer on a grid of preferences.

        Parameters
        ----------
        state
            Probabilities of the K quadrature nodes (values of the participant's slope and side
            bias) under M models and H medians of the slope, shape (..., M, H, K).
        slope_weights
            Probabilities of the H median slopes under each model, shape (..., M, H).

        Returns
        -------
        array
            P(answer | model), shape (..., M, C, G), for C answers and the G preferences of `grid`.
        """
        node_curves = self._node_curves
        n_nodes, n_answers, n_preferences = node_curves.shape
        # Average over median slopes and nodes, weighted by their joint probabilities.
        joint = (state * slope_weights[..., None]).reshape(*state.shape[:-2], n_nodes)
        curves = joint.astype(np.float32) @ node_curves.reshape(n_nodes, -1)
        return np.asarray(curves.reshape(*curves.shape[:-1], n_answers, n_preferences))

    @cached_property
    def _node_curves(self) -> AnswerCurves:
        """P(answer) for H median slopes times K nodes, C answers, G preferences: (H K, C, G)."""
        logits = self.slopes[..., None] * self.grid + self.side_biases[:, None]
        probabilities = self.answer_probabilities(logits.reshape(-1, _N_GRID))
        return np.ascontiguousarray(probabilities.swapaxes(-1, -2), dtype=np.float32)


@lru_cache(maxsize=8)
def _tabulate_choice_curve(item_sd: float) -> FloatArray:
    """Tabulate the probability of choosing the right-hand sentence as a function of the logit.

    The probability at logit x is the mean of sigma(x + u) over random effects u ~ N(0, item_sd²) of
    the sentence pair, with the logistic function sigma. The logits are equally spaced.
    """
    logits = np.linspace(-_MAX_LOGIT, _MAX_LOGIT, round(2 * _MAX_LOGIT / _LOGIT_STEP) + 1)
    # Probability of choosing the right-hand sentence at each logit x: the mean of sigma(x + u) over
    # random effects u ~ N(0, item_sd²) of the sentence pair, with the logistic function sigma.
    # Integrate over the standardised effect u / item_sd by the trapezoidal rule, with weights that
    # are proportional to the normal density, which is negligible beyond 8 standard deviations.
    step = 0.1 / max(1.0, item_sd)
    nodes = np.arange(-8, 8 + step, step)
    weights = np.exp(-(nodes**2) / 2)
    weights /= weights.sum()
    curve = np.zeros(len(logits))
    for node, weight in zip(nodes, weights, strict=True):
        curve += weight * expit(logits + item_sd * node)
    return curve


# Posteriors with the same link share the tables of one quadrature.
_shared_quadrature = lru_cache(maxsize=8)(ParticipantQuadrature)


class ModelPosterior:
    """Posterior distribution over M models, updated one answer at a time.

    The same answers in the same order give bitwise identical numbers.

    Parameters
    ----------
    link
        Assumed distribution of answers, and prior distributions.
    n_models
        Number M of models.
    max_answers
        Maximum number of answers of a participant. A larger number needs more computing time.

    Raises
    ------
    InputError
        If the quadrature needs too many nodes, or `link.prior` does not fit.

    Notes
    -----
    Each pair is shown to one participant only, so participants are independent given a model and
    its median slope h:

        p(answers | model) = Σ_h P(h) Π_p ∬ Π_t P(y_t | x_t, beta, b) dF_h(beta, b).

    Here p is a participant, t a trial with answer y_t to pair x_t, and F_h the distribution of
    slope beta and side bias b over participants. The posterior remains valid if the choice of
    trials depends on previous answers.

    Examples
    --------
    >>> posterior = ModelPosterior(Link(), n_models=2)
    >>> for participant in ("p1", "p2", "p3"):  # all agree with model 1
    ...     _ = posterior.add_answer(participant, np.array([1.5, -1.5]), answer=1)
    >>> posterior.weights.round(2)
    array([0.95, 0.05])
    """

    def __init__(self, link: Link, n_models: int, max_answers: int = _DEFAULT_MAX_ANSWERS) -> None:
        # Numerical integration over the unknown slope and side bias of a participant.
        self.quadrature = _shared_quadrature(link, max_answers)
        self.n_models = n_models
        self._log_prior = _log(link.prior_weights(n_models))
        #: log p(answers | model, median slope), shape (M, H).
        self.log_likelihood = np.zeros((n_models, len(link.slopes)))
        # Probabilities of the quadrature nodes and number of answers, by participant.
        self._states: dict[Hashable, FloatArray] = {}
        self._counts: Counter[Hashable] = Counter()

    def __repr__(self) -> str:
        weights = ", ".join(f"{weight:.3f}" for weight in self.weights)
        return f"<{type(self).__name__} after {self.n_answers} answers: {weights}>"

    def add_answer(self, participant: Hashable, preferences: FloatArray, answer: int) -> FloatArray:
        """Update the posterior probabilities of the models with an answer.

        Parameters
        ----------
        participant
            Identifier of the participant.
        preferences
            Preferences g of the models for the right-hand sentence over the left-hand one, shape
            (M,).
        answer
            Index of the answer from `Link.encode_rating`; 0 is the strongest preference for the
            left-hand sentence.

        Returns
        -------
        array
            Log predictive probability of the answer given the previous answers, shape (M,).

        Raises
        ------
        InputError
            If the participant already has `max_answers` answers.
        """
        if self._counts[participant] == self.quadrature.max_answers:
            raise InputError(
                f"participant {participant!r} already has {self.quadrature.max_answers} answers, "
                "the maximum of this posterior; make one with a larger max_answers"
            )
        self._counts[participant] += 1
        previous = self.log_evidence
        # Update the posterior of the participant's slope and side bias under each model.
        # `log_probabilities` are log predictive probabilities of the answer, given the previous
        # answers, shape (models, median slopes).
        state, log_probabilities = self.quadrature.update(
            self.participant_state(participant), np.asarray(preferences), np.asarray(answer)
        )
        self._states[participant] = state
        self.log_likelihood = self.log_likelihood + log_probabilities
        # Log predictive probability of the answer under each model.
        return np.asarray(self.log_evidence - previous)

    @property
    def n_answers(self) -> int:
        """Number of answers so far."""
        return self._counts.total()

    def participant_state(self, participant: Hashable) -> FloatArray:
        """Return a participant's probabilities of the quadrature nodes, shape (M, H, K)."""
        shape = (*self.log_likelihood.shape, len(self.quadrature.weights))
        return self._states.get(participant, np.broadcast_to(self.quadrature.weights, shape))

    @property
    def log_evidence(self) -> FloatArray:
        """Log p(answers | model), shape (M,)."""
        joint = self.log_likelihood + self.quadrature.log_prior
        # Ten times as fast as SciPy's logsumexp for arrays of this size.
        maximum = joint.max(axis=1)
        return np.asarray(maximum + np.log(np.exp(joint - maximum[:, None]).sum(axis=1)))

    @property
    def weights(self) -> FloatArray:
        """Posterior probabilities of the models, shape (M,)."""
        return softmax(self._log_prior + self.log_evidence)

    def answer_curves(self, participant: Hashable) -> AnswerCurves:
        """Return the probabilities of a participant's next answer, see `AnswerCurves`."""
        slope_weights = softmax(self.log_likelihood + self.quadrature.log_prior)
        return self.quadrature.answer_curves(self.participant_state(participant), slope_weights)


def softmax(log_weights: FloatArray) -> FloatArray:
    """Exponentiate and normalise log weights over the last axis."""
    weights = np.exp(log_weights - log_weights.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _log(values: FloatArray) -> FloatArray:
    """Return natural logarithms, minus infinity for 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))
