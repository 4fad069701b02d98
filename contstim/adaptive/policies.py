"""Policies: which pairs a participant is asked next, and with which probability each was."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
import pandas as pd
from pydantic import Field

from contstim.adaptive.posterior import AnswerCurves, Link, ParticipantQuadrature, softmax
from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.display import displayable
from contstim.errors import InputError
from contstim.files import digest
from contstim.plugins import Registry
from contstim.response_model import log_prob_scale
from contstim.settings import PositiveInt, settings, validate_choice

_MOST_OUTCOMES = 128  # of a block's answers so far that are followed, the most_probable
_MOST_BLOCK = 50


@displayable
@dataclass(frozen=True, eq=False)
class Pool:
    """The N pairs that may be asked.

    Attributes
    ----------
    pairs
        `sentence_1` and `sentence_2`, in order.
    models
        Names of the M models.
    log_ratios
        log p(sentence 2) - log p(sentence 1), nats, shape (N, M).
    preferences
        g, shape (N, M): `ratios` in standard deviations, cut off; see `Link`.

    Examples
    --------
    >>> scores = pd.DataFrame(
    ...     {"a": [-20.0, -22.0, -30.0], "b": [-24.0, -22.0, -26.0]},
    ...     index=["We won.", "He left.", "Go home."],
    ... )
    >>> pairs = pd.DataFrame({"sentence_1": ["We won."], "sentence_2": ["Go home."]})
    >>> Pool.from_scores(pairs, scores, Link()).log_ratios
    array([[-10.,  -2.]])
    """

    pairs: pd.DataFrame
    models: tuple[str, ...]
    log_ratios: FloatArray
    preferences: FloatArray

    @classmethod
    def from_scores(cls, pairs: pd.DataFrame, log_probs: pd.DataFrame, link: Link) -> Pool:
        """Make a pool.

        Parameters
        ----------
        pairs
            With the columns ``sentence_1`` and ``sentence_2``.
        log_probs
            Shape (S, M): a row per sentence, natural sentences among them, whose standard
            deviations are the units of g.
        link
            How people answer: it says where preferences are cut off.

        Raises
        ------
        InputError
            If a column or a finite score is missing, or a pair, an item or a sentence of the scores
            is there twice.
        """
        for column in ("sentence_1", "sentence_2"):
            if column not in pairs:
                raise InputError(f"the pool has no column {column!r}; give pairs of sentences")
        if not len(pairs):
            raise InputError("the pool has no pairs; give some")
        if "item" in pairs:
            items = pairs["item"].replace("", None).dropna()
            if items.duplicated().any():
                raise InputError(
                    f"the pool has several pairs of item {items[items.duplicated()].iloc[0]!r}, "
                    "and families are not modelled in adaptive choice; keep one pair of each item"
                )
        labels = pd.Index([str(label) for label in log_probs.index])
        if not labels.is_unique:
            raise InputError(
                f"the scores have the sentence {labels[labels.duplicated()][0]!r} twice; keep one"
            )
        values = log_probs.to_numpy(dtype=np.float64, na_value=np.nan)
        sides = []
        for column in ("sentence_1", "sentence_2"):
            place = labels.get_indexer(pd.Index(pairs[column].astype(str)))
            finite = (place >= 0) & np.isfinite(values[place]).all(axis=1)
            if not finite.all():
                sentence = str(pairs[column].iloc[int(np.argmin(finite))])
                raise InputError(
                    f"sentence {sentence!r} of the pool has no finite score under every model; "
                    "score it or leave its pair out"
                )
            sides.append(place)
        keys = np.sort(np.stack(sides, axis=1), axis=1)
        if len(np.unique(keys, axis=0)) < len(keys):
            raise InputError("the pool has a pair twice; keep one")
        ratios = values[sides[1]] - values[sides[0]]
        people = link.response_model
        models = tuple(str(name) for name in log_probs.columns)
        return cls(
            pairs.reset_index(drop=True),
            models,
            ratios,
            people.preferences(ratios / log_prob_scale(values, models)),
        )

    @property
    def digest(self) -> str:
        """SHA-256 of the pairs and their preferences, in order."""
        text = "\n".join(self.pairs["sentence_1"] + "\t" + self.pairs["sentence_2"])
        return digest(text.encode() + self.preferences.tobytes())


@displayable
@dataclass(frozen=True, eq=False)
class PolicyState:
    """What a policy knows when it chooses a pair for a participant.

    Attributes
    ----------
    grid_positions
        Positions of the preferences on the grid of the curves, shape (N, M), columns contiguous.
    preferences
        Shape (N, M).
    available
        Whether each pair may be asked, shape (N,).
    weights
        Posterior weights of the models, shape (M,).
    answer_curves
        Probability of each answer of this participant under each model along the grid, shape
        (M, C, G).

    Examples
    --------
    >>> from contstim.adaptive.posterior import ModelPosterior
    >>> posterior = ModelPosterior(Link(), n_models=2)
    >>> preferences = np.array([[0.1, 0.2], [1.5, -1.5]])
    >>> state = PolicyState(
    ...     grid_positions(preferences, posterior.quadrature),
    ...     preferences,
    ...     np.array([True, True]),
    ...     posterior.weights,
    ...     posterior.answer_curves("p1"),
    ... )
    >>> POLICIES["information"].values(state).round(2)
    array([0.  , 0.13])
    """

    grid_positions: IntArray
    preferences: FloatArray
    available: BoolArray
    weights: FloatArray
    answer_curves: AnswerCurves


def grid_positions(preferences: FloatArray, nodes: ParticipantQuadrature) -> IntArray:
    """Return the positions of preferences on `ParticipantQuadrature.grid`, for `PolicyState`."""
    most, points = nodes.link.response_model.max_preference, len(nodes.grid)
    places = np.rint((preferences + most) * ((points - 1) / (2 * most))).astype(np.int64)
    return np.asfortranarray(places)


class Policy(ABC):
    """Which pairs are most useful to ask next.

    Subclass it for a custom policy and name an instance in the entry point.

    Attributes
    ----------
    reason
        Criterion of the choice; completes the sentence "otherwise ..." in the preregistration.
    uses_answers
        Whether the choice depends on the answers so far.
    is_fixed
        Whether the trials are fixed before the study: everybody may be asked the same pairs, each
        of them once. Otherwise a pair is asked of one participant only.

    Examples
    --------
    >>> class LargestRange(Policy):
    ...     reason = "by the range of the models' preferences"
    ...     uses_answers = False
    ...     def values(self, state):
    ...         return np.ptp(state.preferences, axis=1)
    >>> LargestRange().reason in LargestRange().describe(PolicyOptions())
    True
    """

    reason: ClassVar[str]
    uses_answers: ClassVar[bool] = True
    is_fixed: ClassVar[bool] = False

    @abstractmethod
    def values(self, state: PolicyState) -> FloatArray:
        """Return the value of each pair, shape (N,), in any unit; minus infinity for never."""

    def values_in_block(
        self, state: PolicyState, best: IntArray, values: FloatArray, chosen: Sequence[int]
    ) -> FloatArray:
        """Return the values of pairs given the pairs that the block has already.

        Parameters
        ----------
        state
            As for `values`; the chosen pairs are no longer available.
        best, values
            Numbers of the pairs on the shortlist, ascending, shape (L,), and their values.
        chosen
            The block's pairs so far, one or more.

        Returns
        -------
        array
            Shape (L,): `values`, unless a policy chooses the pairs of a block jointly.
        """
        return values

    def random_share(self, epsilon: float) -> float:
        """Return the share of trials that are drawn uniformly, given the plan's epsilon."""
        return epsilon

    def describe(self, options: PolicyOptions) -> str:
        """Return sentences for the preregistration that say how a trial is chosen."""
        return (
            f"With probability {options.epsilon:g} a trial is drawn uniformly from all pairs that "
            f"nobody was asked; otherwise {self.reason}: from the {options.shortlist} pairs of "
            "greatest value v, with probability proportional to "
            f"exp(v / {options.temperature:g}). Within a block values decrease by "
            f"{options.repetition_penalty:.0%} of the share of a pair's words that the block "
            "already contains."
        )


class Information(Policy):
    """The mutual information between the answer and which model is right, nats."""

    reason = (
        "by the mutual information between the answer and which model is right, given the answers "
        "so far and what is known of the participant"
    )

    def values(self, state: PolicyState) -> FloatArray:
        """Return H(Σ_m w_m P_m(y)) - Σ_m w_m H(P_m(y)), preferences rounded to the curves' grid.

        P_m is integrated over what is known of the participant (Cavagnaro, Myung, Pitt and Kujala
        2010, doi 10.1162/neco.2009.02-09-959; Houlsby et al. 2011, arXiv 1112.5745).
        """
        mixed = np.zeros(
            (state.answer_curves.shape[1], len(state.grid_positions)), dtype=np.float32
        )
        within = np.zeros(len(state.grid_positions), dtype=np.float32)
        entropies = -(state.answer_curves * np.log(state.answer_curves)).sum(axis=1)
        for m in np.flatnonzero(state.weights > 1e-9):
            weight, places = np.float32(state.weights[m]), state.grid_positions[:, m]
            for answer in range(len(mixed) - 1):  # the last follows from the others
                mixed[answer] += (weight * state.answer_curves[m, answer])[places]
            within += (weight * entropies[m])[places]
        mixed[-1] = state.weights.sum() - mixed[:-1].sum(axis=0)
        np.maximum(mixed, 1e-12, out=mixed)
        return np.asarray(-(mixed * np.log(mixed)).sum(axis=0) - within, dtype=np.float64)

    def values_in_block(
        self, state: PolicyState, best: IntArray, values: FloatArray, chosen: Sequence[int]
    ) -> FloatArray:
        """Return the information of one answer more, given the block's answers so far."""
        models = np.arange(len(state.weights))
        outcomes = state.weights[None]
        for pair in chosen:
            outcomes = _outcomes(
                outcomes, state.answer_curves[models, :, state.grid_positions[pair]]
            )
        mass = outcomes.sum(axis=1)
        probabilities = state.answer_curves[models, :, state.grid_positions[best]]  # L, M, C
        after = np.einsum("rm,lmc->rlc", outcomes / mass[:, None], probabilities, optimize=True)
        mixed = -(after * np.log(np.maximum(after, 1e-12))).sum(axis=2)
        entropies = -(probabilities * np.log(probabilities)).sum(axis=2)  # L, M
        within = entropies @ outcomes.sum(axis=0)
        return np.asarray(mass @ mixed - within, dtype=np.float64)

    def describe(self, options: PolicyOptions) -> str:
        """Add that the pairs of a block are chosen jointly."""
        joint = "Within a block values are those of the block's answers together, and decrease by"
        return super().describe(options).replace("Within a block values decrease by", joint)


class AtRandom(Policy):
    """Every pair is equally likely."""

    reason = "at random"
    uses_answers = False

    def values(self, state: PolicyState) -> FloatArray:
        """Return 0 for all pairs."""
        return np.zeros(len(state.grid_positions))

    def random_share(self, epsilon: float) -> float:
        """Return 1."""
        return 1.0

    def describe(self, options: PolicyOptions) -> str:
        """Return one sentence."""
        return "Each trial is drawn at random from the pairs that nobody was asked."


class InOrder(Policy):
    """The order of the pool, the same for everybody: a fixed study."""

    reason = "in a fixed order"
    uses_answers = False
    is_fixed = True

    def values(self, state: PolicyState) -> FloatArray:
        """Return values that decrease so fast along the pool that chance plays no role."""
        return -1e9 * np.arange(len(state.grid_positions), dtype=np.float64)

    def random_share(self, epsilon: float) -> float:
        """Return 0."""
        return 0.0

    def describe(self, options: PolicyOptions) -> str:
        """Return that nothing is chosen."""
        return "The pairs were fixed before the study; others may be asked the same ones."


#: Policies by name; packages add their own by the entry-point group ``contstim.policies``.
POLICIES: Registry[Policy] = Registry(
    "policy",
    "contstim.policies",
    {
        "information": Information(),
        "random": AtRandom(),
        "fixed": InOrder(),
    },
    Policy,
)


@settings
class PolicyOptions:
    """How trials are chosen.

    With probability epsilon a trial is drawn uniformly from all pairs that are left, otherwise from
    the `shortlist` best by the softmax of their values over `temperature`.

    Attributes
    ----------
    policy
        One of `POLICIES`.
    epsilon
        Share of trials that are drawn uniformly; 1 for the policy ``random``, 0 for ``fixed``.
    temperature
        Differences in value below it hardly matter; in the policy's unit, nats for information.
    block_size
        Number of trials issued at once.
    shortlist
        Number of best pairs that are compared closely; at least the size of a block.
    repetition_penalty
        Share by which a positive value decreases if the block already contains all words of a pair.

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
    block_size: Annotated[int, Field(ge=1, le=_MOST_BLOCK)] = 5
    shortlist: PositiveInt = 500
    repetition_penalty: Annotated[float, Field(ge=0, le=1)] = 0.5

    @property
    def implementation(self) -> Policy:
        """The policy itself."""
        return POLICIES[self.policy]

    @property
    def random_share(self) -> float:
        """The share of trials that this policy draws uniformly."""
        return self.implementation.random_share(self.epsilon)


def acquisition(options: PolicyOptions, state: PolicyState) -> FloatArray:
    """Return the policy's value of each pair, shape (N,); minus infinity if it may not be asked."""
    return np.where(state.available, options.implementation.values(state), -np.inf)


def choose_block(
    options: PolicyOptions,
    state: PolicyState,
    rng: np.random.Generator,
    words: Sequence[frozenset[str]] | None = None,
    values: FloatArray | None = None,
) -> tuple[list[int], list[float]]:
    """Choose a block of pairs and say how probable each choice was, given those before.

    Parameters
    ----------
    options, state
        The options of the policy and what it knows.
    rng
        The generator of what is drawn at random.
    words
        Of each pair, for the penalty on repeats.
    values
        Result of `acquisition`, if known.

    Returns
    -------
    tuple
        The pairs' numbers, fewer than a block where none is left, and their propensities.

    Notes
    -----
    Greedy choice by joint information is within 1 - 1/e of the best block where answers are
    independent given the model (Krause and Guestrin 2005); the participant's slope and leaning,
    which the block's answers share, are held at what is known before it, so that it is a heuristic
    here. Of the answers that a block may get, the 128 most_probable are followed.

    Examples
    --------
    >>> from contstim.adaptive.posterior import ModelPosterior
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
    policy = options.implementation
    values = acquisition(options, state) if values is None else values
    available = ~np.isneginf(values)
    state = replace(state, available=available)
    chosen: list[int] = []
    propensities: list[float] = []
    size = min(max(options.shortlist, options.block_size), int(np.isfinite(values).sum()))
    if options.random_share == 1:
        size = 0
    best = np.sort(np.argpartition(-values, size - 1)[:size]) if size else np.arange(0)
    near = values[best]
    for _ in range(min(options.block_size, int(available.sum()))):
        if chosen:
            near = policy.values_in_block(state, best, values[best], chosen)
        share_kept = 1 - options.repetition_penalty * _repeated(best, chosen, words)
        penalised = np.where(near > 0, near * share_kept, near)
        left = available[best]
        distribution = np.zeros(len(best))
        if left.any():
            distribution[left] = softmax(penalised[left] / options.temperature)
        share = options.random_share if left.any() else 1.0
        if rng.random() < share:
            pair = int(rng.choice(np.flatnonzero(available)))
        else:
            drawn = int(np.searchsorted(distribution.cumsum(), rng.random()))
            pair = int(best[min(drawn, len(best) - 1)])
        at = int(np.searchsorted(best, pair))
        in_best = at < len(best) and best[at] == pair
        directed = float(distribution[at]) if in_best else 0.0
        chosen.append(pair)
        propensities.append(share / int(available.sum()) + (1 - share) * directed)
        available[pair] = False
    return chosen, propensities


def _outcomes(outcomes: FloatArray, probabilities: AnswerCurves) -> FloatArray:
    """Return the joint weights of answers so far and models, shape (R, M), one answer later.

    Parameters
    ----------
    outcomes
        Shape (R, M).
    probabilities
        P(answer | model) of the pair that is answered, shape (M, C).
    """
    after = (outcomes[:, None, :] * probabilities.T[None]).reshape(-1, outcomes.shape[1])
    if len(after) > _MOST_OUTCOMES:
        kept = np.sort(np.argsort(-after.sum(axis=1), kind="stable")[:_MOST_OUTCOMES])
        after = after[kept] / after[kept].sum()
    return np.asarray(after)


def _repeated(
    pairs: IntArray, chosen: Sequence[int], words: Sequence[frozenset[str]] | None
) -> FloatArray:
    """Return the share of each pair's words that are in the chosen ones."""
    if words is None or not chosen:
        return np.zeros(len(pairs))
    seen = frozenset().union(*(words[k] for k in chosen))
    return np.array([len(words[k] & seen) / (len(words[k]) or 1) for k in pairs.tolist()])
