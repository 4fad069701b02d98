"""Policies that choose the next trials of an adaptive study, and their propensities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from contstim.adaptive.posterior import AnswerCurves, ParticipantQuadrature, softmax
from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.display import displayable
from contstim.plugins import Registry
from contstim.settings import PositiveInt, settings, validate_choice

# Maximum number of outcomes (combinations of answers to a block) in the joint information.
_MAX_OUTCOMES = 128
_MAX_BLOCK_SIZE = 50


@displayable
@dataclass(frozen=True, eq=False)
class PolicyState:
    """Information on which a policy bases its choice of sentence pairs for one participant.

    Each of M models predicts how strongly people prefer sentence 2 of each of P pairs. The
    probabilities of the C possible answers depend on this preference. They are tabulated for G
    equally spaced preferences, the grid (`ParticipantQuadrature.grid`).

    Attributes
    ----------
    grid_positions : (P, M) array of int
        For each pair and model, the index (0 to G - 1) of the preference on the grid that is
        nearest to the predicted preference.
    preferences : (P, M) array
        Predicted preference for sentence 2, for each pair and model.
    available : (P,) array of bool
        Whether each pair may be shown to the participant.
    weights : (M,) array
        Posterior probability of each model.
    answer_curves : (M, C, G) array
        Probability of each answer at each preference on the grid, if the model is right.

    Examples
    --------
    >>> from contstim.adaptive import Link, ModelPosterior
    >>> posterior = ModelPosterior(Link(), n_models=2)
    >>> preferences = np.array([[0.1, 0.2], [1.5, -1.5]])
    >>> state = PolicyState(
    ...     grid_positions(preferences, posterior.quadrature),
    ...     preferences,
    ...     np.array([True, True]),
    ...     posterior.weights,
    ...     posterior.answer_curves("p1"),
    ... )
    >>> POLICIES["information"].pair_values(state).round(2)
    array([0.  , 0.13])
    """

    grid_positions: IntArray
    preferences: FloatArray
    available: BoolArray
    weights: FloatArray
    answer_curves: AnswerCurves


def grid_positions(preferences: FloatArray, quadrature: ParticipantQuadrature) -> IntArray:
    """Find the points of a grid of tabulated preferences that are nearest to given preferences.

    Parameters
    ----------
    preferences
        Preferences for sentence 2, divided by the standard deviation of the log-probabilities.
    quadrature
        Object with the equally spaced preferences `grid`.

    Returns
    -------
    array of int
        Index of the nearest point of the grid, in the shape of `preferences`.
    """
    maximum = quadrature.link.response_model.max_preference
    n_intervals = len(quadrature.grid) - 1
    positions = np.rint((preferences + maximum) * (n_intervals / (2 * maximum)))
    # Column-major, because policies read one model at a time.
    return np.asfortranarray(positions.astype(np.int64))


class Policy(ABC):
    """Rule that ranks the sentence pairs to show next in an adaptive study.

    A policy is an acquisition function. To add a policy, write a subclass and register an instance
    as an entry point of the group ``contstim.policies``.

    Attributes
    ----------
    criterion_text
        Criterion of the choice, which completes the sentence "otherwise ..." in preregistrations.
    uses_answers
        Whether the choice depends on previous answers.
    is_fixed_before_study
        Whether trials are fixed before the study. All participants may then see the same pairs,
        in the same or a different order. Otherwise each pair is shown to one participant only.
    random_share
        Proportion of trials drawn uniformly, or None for `PolicyOptions.epsilon`.

    Examples
    --------
    >>> class LargestRange(Policy):
    ...     criterion_text = "by the range of the models' preferences"
    ...     uses_answers = False
    ...     def pair_values(self, state):
    ...         return np.ptp(state.preferences, axis=1)
    >>> LargestRange().criterion_text in LargestRange().describe_selection(PolicyOptions())
    True
    """

    criterion_text: ClassVar[str]
    uses_answers: ClassVar[bool] = True
    is_fixed_before_study: ClassVar[bool] = False
    random_share: ClassVar[float | None] = None

    @abstractmethod
    def pair_values(self, state: PolicyState) -> FloatArray:
        """Compute the value of showing each of the P pairs next, shape (P,).

        Pairs with larger values are preferred. The unit is arbitrary. Minus infinity excludes a
        pair.
        """

    def pair_values_in_block(
        self, state: PolicyState, shortlist: IntArray, values: FloatArray, chosen: Sequence[int]
    ) -> FloatArray:
        """Recompute the values of pairs when some pairs of the block have been chosen.

        A *block* consists of pairs that are chosen before any of them is answered. By default the
        values do not change. Override the method to choose the pairs of a block jointly.

        Parameters
        ----------
        state
            Posterior and preferences of the models; the chosen pairs are not available.
        shortlist : (L,) array of int
            Indices of the L pairs with the largest values, ascending.
        values : (L,) array
            Value of each of these pairs on its own.
        chosen
            Indices of the pairs already in the block, at least one.

        Returns
        -------
        (L,) array
            Additional value of each shortlisted pair, given the pairs already in the block.
        """
        return values

    def describe_selection(self, options: PolicyOptions) -> str:
        """Describe in sentences, for a preregistration, how the policy chooses trials."""
        return (
            f"With probability {options.epsilon:g} a trial is drawn uniformly from all pairs that "
            f"no participant has seen; otherwise {self.criterion_text}: from the "
            f"{options.shortlist} pairs with the largest values v, with probability proportional "
            f"to exp(v / {options.temperature:g}). Within a block, values decrease by "
            # With a penalty of 50%, v decreases by 20% if the block has 40% of the pair's words.
            f"{options.repetition_penalty:.0%} of the proportion of a pair's words that the block "
            "already contains."
        )


class MutualInformation(Policy):
    """Policy that prefers the pairs with the most informative answers about which model is right.

    The value of a pair is the mutual information, in nats, between the participant's answer and the
    identity of the right model (Cavagnaro, Myung, Pitt and Kujala 2010, doi
    10.1162/neco.2009.02-09-959; Houlsby et al. 2011, arXiv 1112.5745). The probability of an answer
    is averaged over two unknown properties of the participant: how strongly the model's preference
    determines the choice (slope), and a preference for the left or right sentence (side bias).
    """

    criterion_text = (
        "by the mutual information between the answer and the identity of the right model, given "
        "all previous answers"
    )

    def pair_values(self, state: PolicyState) -> FloatArray:
        """Compute, for each pair, the mutual information between the right model and the answer.

        With the posterior probability w_m of model m, the probability P_m(y) of answer y if model m
        is right, and the entropy H in nats, the mutual information is

            H(Σ_m w_m P_m) - Σ_m w_m H(P_m).

        The preferences of the models are rounded to the grid of `state.answer_curves`. The result
        has the shape (P,) for P pairs.
        """
        n_pairs, n_answers = len(state.grid_positions), state.answer_curves.shape[1]
        # Mutual information of the right model and the answer: H(Σ_m w_m P_m) - Σ_m w_m H(P_m),
        # with the posterior probability w_m of model m, the distribution P_m of the answer if the
        # model is right, and the entropy H. `mixture` is Σ_m w_m P_m, shape (answers, pairs).
        mixture = np.zeros((n_answers, n_pairs), dtype=np.float32)
        conditional_entropy = np.zeros(n_pairs, dtype=np.float32)
        # P_m and H(P_m) are tabulated on a grid of the model's preference for sentence 2.
        entropy_curves = -(state.answer_curves * np.log(state.answer_curves)).sum(axis=1)
        for model in np.flatnonzero(state.weights > 1e-9):
            weight = np.float32(state.weights[model])
            positions = state.grid_positions[:, model]
            for answer in range(n_answers - 1):
                mixture[answer] += (weight * state.answer_curves[model, answer])[positions]
            conditional_entropy += (weight * entropy_curves[model])[positions]
        # The probabilities of all answers sum to the total weight of the models.
        mixture[-1] = state.weights.sum() - mixture[:-1].sum(axis=0)
        np.maximum(mixture, 1e-12, out=mixture)  # avoids the logarithm of 0
        entropy = -(mixture * np.log(mixture)).sum(axis=0)
        return np.asarray(entropy - conditional_entropy, dtype=np.float64)

    def pair_values_in_block(
        self, state: PolicyState, shortlist: IntArray, values: FloatArray, chosen: Sequence[int]
    ) -> FloatArray:
        """Compute the information that each shortlisted pair would add to a block.

        A block is a number of pairs that are chosen together, before any of them is answered. The
        value is the mutual information between the answer to a further pair and the correct model,
        averaged over all possible combinations of answers to the pairs already chosen.

        Parameters
        ----------
        state, values
            Posterior and preferences of the models; `values` of single pairs, which are ignored.
        shortlist : (L,) array of int
            Indices of the pairs with the largest values.
        chosen
            Indices of the pairs already in the block, at least one.

        Returns
        -------
        (L,) array
            Information in nats for each of the L shortlisted pairs.
        """
        n_models = len(state.weights)
        models = np.arange(n_models)
        # An outcome is a combination of possible answers to the chosen pairs. `outcomes` contains
        # the joint probabilities of R outcomes and M models, shape (R, M). Each chosen pair
        # multiplies R by the number of possible answers. Only the most probable outcomes are used.
        outcomes = state.weights[None]
        for pair in chosen:
            probabilities = state.answer_curves[models, :, state.grid_positions[pair]]
            outcomes = (outcomes[:, None, :] * probabilities.T[None]).reshape(-1, n_models)
            if len(outcomes) > _MAX_OUTCOMES:
                order = np.argsort(-outcomes.sum(axis=1), kind="stable")
                outcomes = outcomes[np.sort(order[:_MAX_OUTCOMES])]
                outcomes = outcomes / outcomes.sum()
        outcome_weights = outcomes.sum(axis=1)

        # Probabilities of C answers to L shortlisted pairs under M models, shape (L, M, C).
        probabilities = state.answer_curves[models, :, state.grid_positions[shortlist]]
        # Mean over outcomes of the mutual information H(Σ_m w_m P_m) - Σ_m w_m H(P_m), with the
        # posterior probability w_m of model m after the outcome and the entropy H.
        posterior = outcomes / outcome_weights[:, None]
        predictive = np.einsum("rm,lmc->rlc", posterior, probabilities, optimize=True)
        entropy = -(predictive * np.log(np.maximum(predictive, 1e-12))).sum(axis=2)
        conditional_entropy = -(probabilities * np.log(probabilities)).sum(axis=2)
        mean_entropy = outcome_weights @ entropy
        mean_conditional_entropy = conditional_entropy @ outcomes.sum(axis=0)
        return np.asarray(mean_entropy - mean_conditional_entropy, dtype=np.float64)

    def describe_selection(self, options: PolicyOptions) -> str:
        """Describe the choice of trials; the pairs of a block are chosen jointly."""
        joint = "Within a block, pairs are valued by their answers together; values"
        return super().describe_selection(options).replace("Within a block, values", joint)


class AtRandom(Policy):
    """Policy that chooses uniformly among all available pairs."""

    criterion_text = "at random"
    uses_answers = False
    random_share = 1.0

    def pair_values(self, state: PolicyState) -> FloatArray:
        """Return 0 for all pairs."""
        return np.zeros(len(state.grid_positions))

    def describe_selection(self, options: PolicyOptions) -> str:
        """Describe the uniform choice."""
        return "Each trial is drawn uniformly from the pairs that no participant has seen."


class InOrder(Policy):
    """Policy that shows all participants the pairs in the order of the pool, without adaptation."""

    criterion_text = "in a fixed order"
    uses_answers = False
    is_fixed_before_study = True
    random_share = 0.0

    def pair_values(self, state: PolicyState) -> FloatArray:
        """Return values that decrease with the position in the pool.

        The steps are so large that the softmax always chooses the first available pair.
        """
        return -1e9 * np.arange(len(state.grid_positions), dtype=np.float64)

    def describe_selection(self, options: PolicyOptions) -> str:
        """State that trials are fixed before the study."""
        return "The pairs were fixed before the study; several participants may see the same pairs."


#: Policies by name; packages add their own through the entry-point group ``contstim.policies``.
POLICIES: Registry[Policy] = Registry(
    "policy",
    "contstim.policies",
    {"information": MutualInformation(), "random": AtRandom(), "fixed": InOrder()},
    Policy,
)


@settings
class PolicyOptions:
    """Options for choosing trials by a policy, which assigns a value to each sentence pair.

    Trials are chosen in blocks, before the answers to the block are known. With probability
    epsilon, a trial is drawn uniformly from all available pairs. Otherwise it is drawn from the
    `shortlist` pairs with the largest values, with probabilities proportional to exp(value /
    temperature).

    Attributes
    ----------
    policy
        Name of the policy: ``information``, ``random``, ``fixed``, or one of another package.
    epsilon
        Proportion of trials drawn uniformly. The policy ``random`` uses 1 instead, and ``fixed`` 0.
    temperature
        Temperature of the softmax in the unit of the policy's values; nats for ``information``.
    block_size
        Number of trials in a block.
    shortlist
        Number of pairs from which trials are drawn, if not uniformly; at least `block_size`.
    repetition_penalty
        Penalty for words that the block already contains: proportion by which the positive value of
        a pair decreases if the block contains all its words.

    Examples
    --------
    >>> PolicyOptions().policy, PolicyOptions().random_share
    ('information', 0.1)
    >>> PolicyOptions("random").random_share
    1.0
    """

    policy: Annotated[str, validate_choice(POLICIES, "policy")] = "information"
    epsilon: Annotated[float, Field(ge=0, le=1)] = 0.1
    temperature: Annotated[float, Field(gt=0, le=100)] = 0.002
    block_size: Annotated[int, Field(ge=1, le=_MAX_BLOCK_SIZE)] = 5
    shortlist: PositiveInt = 500
    repetition_penalty: Annotated[float, Field(ge=0, le=1)] = 0.5

    @property
    def implementation(self) -> Policy:
        """Policy object that is registered as `policy`."""
        return POLICIES[self.policy]

    @property
    def random_share(self) -> float:
        """Proportion of trials that this policy draws uniformly."""
        share = self.implementation.random_share
        return self.epsilon if share is None else share


def acquisition_values(options: PolicyOptions, state: PolicyState) -> FloatArray:
    """Compute the value of showing each of the P pairs next, according to `options.policy`.

    The result has the shape (P,). It is minus infinity for pairs that are not available.
    """
    return np.where(state.available, options.implementation.pair_values(state), -np.inf)


def choose_block(
    options: PolicyOptions,
    state: PolicyState,
    rng: np.random.Generator,
    words: Sequence[frozenset[str]] | None = None,
    values: FloatArray | None = None,
) -> tuple[list[int], list[float]]:
    """Choose several pairs (a *block*) to show to a participant before any of them is answered.

    The pairs are drawn one at a time: with probability epsilon uniformly from the available pairs,
    otherwise from the pairs with the largest values, by a softmax of the values.

    Parameters
    ----------
    options
        Policy, block size, epsilon, temperature and repetition penalty.
    state
        Preferences of the models, available pairs and posterior.
    rng
        Random number generator.
    words
        Distinct words of each pair, for the repetition penalty; by default no penalty.
    values : (P,) array, optional
        Result of `acquisition_values`, if already computed.

    Returns
    -------
    pairs : list of int
        Indices of the chosen pairs; fewer than the block size if the pool is exhausted.
    propensities : list of float
        Probability of each choice, given the previous ones.

    Notes
    -----
    Greedy maximisation of joint information reaches at least 1 - 1/e of the best block if answers
    are independent given the model (Krause and Guestrin 2005). Here it is a heuristic, because the
    answers share the participant's slope and side bias, which are not updated within the block.
    Only the 128 most probable combinations of answers to a block are considered.

    Examples
    --------
    >>> from contstim.adaptive import Link, ModelPosterior
    >>> posterior = ModelPosterior(Link(), n_models=2)
    >>> preferences = np.array([[0.1, 0.2], [1.5, -1.5], [-2.0, 1.0]])
    >>> state = PolicyState(
    ...     grid_positions(preferences, posterior.quadrature),
    ...     preferences,
    ...     np.array([True, True, True]),
    ...     posterior.weights,
    ...     posterior.answer_curves("p1"),
    ... )
    >>> options, rng = PolicyOptions(block_size=2), np.random.default_rng(1)
    >>> pairs, propensities = choose_block(options, state, rng)
    >>> sorted(pairs)
    [1, 2]
    """
    values = acquisition_values(options, state) if values is None else values
    available = ~np.isneginf(values)
    state = replace(state, available=available)

    # The shortlist contains the pairs with the largest values, in ascending order of indices.
    shortlist = np.arange(0)
    size = min(max(options.shortlist, options.block_size), int(np.isfinite(values).sum()))
    if size > 0 and options.random_share < 1:
        shortlist = np.sort(np.argpartition(-values, size - 1)[:size])
    current_values = values[shortlist]

    chosen: list[int] = []
    propensities: list[float] = []
    for _ in range(min(options.block_size, int(available.sum()))):
        penalised = current_values
        if chosen:
            current_values = options.implementation.pair_values_in_block(
                state, shortlist, values[shortlist], chosen
            )
            repetition = _measure_word_overlap(shortlist, chosen, words)
            factors = 1 - options.repetition_penalty * repetition
            penalised = np.where(current_values > 0, current_values * factors, current_values)

        # Softmax over the available pairs of the shortlist. Without any, draw uniformly.
        is_available = available[shortlist]
        softmax_probabilities = np.zeros(len(shortlist))
        random_share = 1.0
        if is_available.any():
            random_share = options.random_share
            scaled = penalised[is_available] / options.temperature
            softmax_probabilities[is_available] = softmax(scaled)
        # Draw from the mixture of the uniform distribution and the softmax.
        if rng.random() < random_share:
            pair = int(rng.choice(np.flatnonzero(available)))
        else:
            position = int(np.searchsorted(softmax_probabilities.cumsum(), rng.random()))
            pair = int(shortlist[min(position, len(shortlist) - 1)])
        softmax_probability = float(softmax_probabilities[shortlist == pair].sum())
        uniform_part = random_share / int(available.sum())
        propensities.append(uniform_part + (1 - random_share) * softmax_probability)
        chosen.append(pair)
        available[pair] = False
    return chosen, propensities


def _measure_word_overlap(
    pairs: IntArray, chosen: Sequence[int], words: Sequence[frozenset[str]] | None
) -> FloatArray:
    """Return the proportion of each pair's words that already occur in the chosen pairs.

    Parameters
    ----------
    pairs
        Indices of the candidate pairs.
    chosen
        Indices of the pairs that have been chosen.
    words
        Distinct words of each pair of the pool; if None, all proportions are 0.
    """
    if words is None:
        return np.zeros(len(pairs))
    chosen_words = frozenset().union(*(words[pair] for pair in chosen))
    candidates = [words[pair] for pair in pairs.tolist()]
    shares = [len(candidate & chosen_words) / max(len(candidate), 1) for candidate in candidates]
    return np.array(shares)
