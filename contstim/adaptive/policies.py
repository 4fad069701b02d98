"""Policies: which pairs a participant is asked next, and with which probability each was."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
import pandas as pd
from pydantic import Field

from contstim.adaptive.posterior import Curves, Link, Nodes, softmax
from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.display import displayed
from contstim.errors import InputError
from contstim.files import digest
from contstim.models.scored import risen
from contstim.plugins import Registry
from contstim.response_model import log_ratio_scale
from contstim.settings import Count, one_of, settings

_MOST_OUTCOMES = 128  # of a block's answers so far that are followed, the likeliest
_MOST_BLOCK = 50


@displayed
@dataclass(frozen=True, eq=False)
class Pool:
    """The N pairs that may be asked.

    Attributes
    ----------
    pairs
        `sentence_1` and `sentence_2`, in order.
    models
        Names of the M models.
    ratios
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
    >>> Pool.of(pairs, scores, Link()).ratios
    array([[-10.,  -2.]])
    """

    pairs: pd.DataFrame
    models: tuple[str, ...]
    ratios: FloatArray
    preferences: FloatArray

    @classmethod
    def of(cls, pairs: pd.DataFrame, log_probs: pd.DataFrame, link: Link) -> Pool:
        """Make a pool.

        Parameters
        ----------
        pairs
            With the columns ``sentence_1`` and ``sentence_2``.
        log_probs
            Shape (S, M): a row per sentence, natural sentences among them, whose standard
            deviations are the units of g. Scores of which the lower is the better are negated.
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
        log_probs = risen(log_probs)
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
        people = link.people
        models = tuple(str(name) for name in log_probs.columns)
        return cls(
            pairs.reset_index(drop=True),
            models,
            ratios,
            people.preferences(ratios / log_ratio_scale(values, models)),
        )

    @property
    def digest(self) -> str:
        """SHA-256 of the pairs and their preferences, in order."""
        text = "\n".join(self.pairs["sentence_1"] + "\t" + self.pairs["sentence_2"])
        return digest(text.encode() + self.preferences.tobytes())


@displayed
@dataclass(frozen=True, eq=False)
class View:
    """What a policy knows when it chooses for a participant.

    Attributes
    ----------
    places
        Of the pairs' preferences on the grid of the curves, shape (N, M), columns contiguous.
    preferences
        Shape (N, M).
    available
        Which pairs may be asked, shape (N,).
    weights
        Of the models by now, shape (M,).
    curves
        P(answer) of this participant under each model along the grid, shape (M, C, G).

    Examples
    --------
    >>> from contstim.adaptive.posterior import ModelPosterior
    >>> posterior = ModelPosterior(Link(), n_models=2)
    >>> preferences = np.array([[0.1, 0.2], [1.5, -1.5]])
    >>> view = View(
    ...     places_of(preferences, posterior.nodes),
    ...     preferences,
    ...     np.array([True, True]),
    ...     posterior.weights,
    ...     posterior.curves("p1"),
    ... )
    >>> POLICIES["information"].values(view).round(2)
    array([0.  , 0.13])
    """

    places: IntArray
    preferences: FloatArray
    available: BoolArray
    weights: FloatArray
    curves: Curves


def places_of(preferences: FloatArray, nodes: Nodes) -> IntArray:
    """Return the places of preferences on `Nodes.grid`, for `View`."""
    most, points = nodes.link.people.most, len(nodes.grid)
    places = np.rint((preferences + most) * ((points - 1) / (2 * most))).astype(np.int64)
    return np.asfortranarray(places)


class Policy(ABC):
    """What pairs are worth to a study, and what is to be known of choosing by it.

    Subclass it for a policy of your own, and give one, made, to the entry point.

    Attributes
    ----------
    reason
        By what pairs are chosen, as it stands in the preregistration after "drawn from the pairs
        that nobody was asked,".
    by_answers
        Whether it looks at the answers so far.
    alike
        Whether early and late participants are asked comparable trials, so that intervals for one
        mean hold (`Stopping.constant`).
    design
        What a study by it is called, an adaptive or a fixed one.
    laid_out
        Whether trials are fixed before the study: everybody may be asked the same pairs, each of
        them once, and nothing is drawn. Otherwise a pair is asked once in all.

    Examples
    --------
    >>> class MostApart(Policy):
    ...     reason = "by how far apart the models' preferences are"
    ...     by_answers = False
    ...     def values(self, view):
    ...         return np.ptp(view.preferences, axis=1)
    >>> MostApart().reason in MostApart().stated(Choosing())
    True
    """

    reason: ClassVar[str]
    by_answers: ClassVar[bool] = True
    alike: ClassVar[bool] = False
    design: ClassVar[str] = "adaptive"
    laid_out: ClassVar[bool] = False

    @abstractmethod
    def values(self, view: View) -> FloatArray:
        """Return the value of each pair, shape (N,), in units of its own; minus infinity: never."""

    def in_block(
        self, view: View, best: IntArray, values: FloatArray, chosen: Sequence[int]
    ) -> FloatArray:
        """Return what pairs are worth in a block that has others already.

        Parameters
        ----------
        view
            As for `values`, but that what was chosen is no longer available.
        best, values
            Numbers of the pairs that are compared closely, ascending, shape (L,), and their values.
        chosen
            The block's pairs so far, one or more.

        Returns
        -------
        array
            Shape (L,): `values`, unless a policy chooses a block for what it says as a whole.
        """
        return values

    def at_random(self, epsilon: float) -> float:
        """Return the share of trials drawn from all pairs alike, where the plan has epsilon."""
        return epsilon

    def stated(self, choosing: Choosing) -> str:
        """Return how a trial is chosen, in whole sentences, for the preregistration."""
        return (
            f"With probability {choosing.epsilon:g} a trial is drawn from all pairs that nobody "
            f"was asked, alike; otherwise {self.reason}: from the {choosing.shortlist} pairs of "
            "greatest value v, with probability proportional to "
            f"exp(v / {choosing.temperature:g}). Within a block values fall by "
            f"{choosing.repeats:.0%} of the share of a pair's words that the block has already."
        )


class Information(Policy):
    """The mutual information between the answer and which model is right, nats."""

    reason = (
        "by the mutual information between the answer and which model is right, given the answers "
        "so far and what is known of the participant"
    )

    def values(self, view: View) -> FloatArray:
        """Return H(Σ_m w_m P_m(y)) - Σ_m w_m H(P_m(y)), preferences rounded to the curves' grid.

        P_m is integrated over what is known of the participant (Cavagnaro, Myung, Pitt and Kujala
        2010, doi 10.1162/neco.2009.02-09-959; Houlsby et al. 2011, arXiv 1112.5745).
        """
        mixed = np.zeros((view.curves.shape[1], len(view.places)), dtype=np.float32)
        within = np.zeros(len(view.places), dtype=np.float32)
        entropies = -(view.curves * np.log(view.curves)).sum(axis=1)
        for m in np.flatnonzero(view.weights > 1e-9):
            weight, places = np.float32(view.weights[m]), view.places[:, m]
            for answer in range(len(mixed) - 1):  # the last follows from the others
                mixed[answer] += (weight * view.curves[m, answer])[places]
            within += (weight * entropies[m])[places]
        mixed[-1] = view.weights.sum() - mixed[:-1].sum(axis=0)
        np.maximum(mixed, 1e-12, out=mixed)
        return np.asarray(-(mixed * np.log(mixed)).sum(axis=0) - within, dtype=np.float64)

    def in_block(
        self, view: View, best: IntArray, values: FloatArray, chosen: Sequence[int]
    ) -> FloatArray:
        """Return the information of one answer more, given the block's answers so far."""
        models = np.arange(len(view.weights))
        outcomes = view.weights[None]
        for pair in chosen:
            outcomes = _outcomes(outcomes, view.curves[models, :, view.places[pair]])
        mass = outcomes.sum(axis=1)
        probabilities = view.curves[models, :, view.places[best]]  # L, M, C
        after = np.einsum("rm,lmc->rlc", outcomes / mass[:, None], probabilities, optimize=True)
        mixed = -(after * np.log(np.maximum(after, 1e-12))).sum(axis=2)
        entropies = -(probabilities * np.log(probabilities)).sum(axis=2)  # L, M
        within = entropies @ outcomes.sum(axis=0)
        return np.asarray(mass @ mixed - within, dtype=np.float64)

    def stated(self, choosing: Choosing) -> str:
        """Add that blocks are chosen jointly."""
        joint = "Within a block values are those of the block's answers together, and fall by"
        return super().stated(choosing).replace("Within a block values fall by", joint)


class Disagreement(Policy):
    """The variance over models of their preferences, whatever the answers were.

    The discrete form of principal distortions (Feather et al. 2025, arXiv 2410.15433).
    """

    reason = "by the variance of the models' preferences"
    by_answers = False

    def values(self, view: View) -> FloatArray:
        """Return the variance of each pair's preferences."""
        return np.asarray(view.preferences.var(axis=1))


class _ByDesign(Policy):
    """What does not look at the models: neither at their preferences nor at their weights."""

    by_answers = False
    alike = True

    def stated(self, choosing: Choosing) -> str:
        """Return one sentence."""
        return f"Each trial is drawn from the pairs that nobody was asked, {self.reason}."


class AtRandom(_ByDesign):
    """Each pair is as likely as any other."""

    reason = "at random"

    def values(self, view: View) -> FloatArray:
        """Return 0 for all pairs."""
        return np.zeros(len(view.places))

    def at_random(self, epsilon: float) -> float:
        """Return 1."""
        return 1.0


class InOrder(_ByDesign):
    """The pool's own order, for everybody: a fixed study."""

    reason = "in a fixed order"
    design = "fixed"
    laid_out = True

    def values(self, view: View) -> FloatArray:
        """Return 0 for the first pair, and so much less for each after it that none is a rival."""
        return -1e9 * np.arange(len(view.places), dtype=np.float64)

    def at_random(self, epsilon: float) -> float:
        """Return 0."""
        return 0.0

    def stated(self, choosing: Choosing) -> str:
        """Return that nothing is chosen."""
        return "Which pairs these are was fixed before the study; others may be asked the same."


#: Policies by name; packages bring more by the entry-point group ``contstim.policies``.
POLICIES: Registry[Policy] = Registry(
    "policy",
    "contstim.policies",
    {
        "information": Information(),
        "disagreement": Disagreement(),
        "random": AtRandom(),
        "fixed": InOrder(),
    },
    Policy,
)


@settings
class Choosing:
    """How trials are chosen.

    A trial is drawn with probability epsilon from all pairs that are left alike, otherwise from the
    `shortlist` best by the softmax of their value over `temperature`.

    Attributes
    ----------
    policy
        One of `POLICIES`.
    epsilon
        Share of trials that are drawn at random; above 0, averages over the pool can be estimated.
        All trials of the policy ``random`` are, and none of ``fixed``.
    temperature
        Differences in value that do not matter, in the policy's units: nats for information.
    block
        Trials issued at once. Those of a block are chosen for what they say together, the
        participant's answers being independent given the model.
    shortlist
        So many best pairs are compared closely, and as many as a block has at least.
    repeats
        By how much a pair's value, if above 0, falls if all its words are in the block already, as
        a share.

    Examples
    --------
    >>> Choosing().policy, Choosing().at_random
    ('information', 0.1)
    >>> Choosing("random").at_random
    1.0
    """

    policy: Annotated[str, one_of(POLICIES, "policy")] = "information"
    epsilon: Annotated[float, Field(ge=0, le=1)] = 0.1
    temperature: Annotated[float, Field(gt=0, le=100)] = 0.002
    block: Annotated[int, Field(ge=1, le=_MOST_BLOCK)] = 5
    shortlist: Count = 500
    repeats: Annotated[float, Field(ge=0, le=1)] = 0.5

    @property
    def by(self) -> Policy:
        """The policy itself."""
        return POLICIES[self.policy]

    @property
    def at_random(self) -> float:
        """The share of trials that are drawn from all pairs alike, by this policy."""
        return self.by.at_random(self.epsilon)


def worth(choosing: Choosing, view: View) -> FloatArray:
    """Return the policy's value of each pair, shape (N,); minus infinity for what may not be asked.

    That is what is not available, and what the policy says never to ask, not even at random.
    """
    return np.where(view.available, choosing.by.values(view), -np.inf)


def choose_block(
    choosing: Choosing,
    view: View,
    rng: np.random.Generator,
    words: Sequence[frozenset[str]] | None = None,
    values: FloatArray | None = None,
) -> tuple[list[int], list[float]]:
    """Choose a block of pairs and say how probable each choice was, given those before.

    Parameters
    ----------
    choosing, view
        How, and by what.
    rng
        The generator of what is drawn at random.
    words
        Of each pair, for the penalty on repeats.
    values
        What `worth` returns, where it is known.

    Returns
    -------
    tuple
        The pairs' numbers, fewer than a block where none is left, and their propensities.

    Notes
    -----
    Greedy choice by joint information is within 1 - 1/e of the best block where answers are
    independent given the model (Krause and Guestrin 2005); the participant's slope and leaning,
    which the block's answers share, are held at what is known before it, so that it is a heuristic
    here. Of the answers that a block may get, the 128 likeliest are followed.

    Examples
    --------
    >>> from contstim.adaptive.posterior import ModelPosterior
    >>> posterior = ModelPosterior(Link(), n_models=2)
    >>> preferences = np.array([[0.1, 0.2], [1.5, -1.5], [-2.0, 1.0]])
    >>> view = View(
    ...     places_of(preferences, posterior.nodes),
    ...     preferences,
    ...     np.array([True, True, True]),
    ...     posterior.weights,
    ...     posterior.curves("p1"),
    ... )
    >>> pairs, propensities = choose_block(Choosing(block=2), view, np.random.default_rng(1))
    >>> sorted(pairs)
    [1, 2]
    """
    policy = choosing.by
    values = worth(choosing, view) if values is None else values
    available = ~np.isneginf(values)
    view = replace(view, available=available)
    chosen: list[int] = []
    propensities: list[float] = []
    size = min(max(choosing.shortlist, choosing.block), int(np.isfinite(values).sum()))
    if choosing.at_random == 1:
        size = 0
    best = np.sort(np.argpartition(-values, size - 1)[:size]) if size else np.arange(0)
    near = values[best]
    for _ in range(min(choosing.block, int(available.sum()))):
        if chosen:
            near = policy.in_block(view, best, values[best], chosen)
        share_kept = 1 - choosing.repeats * _repeated(best, chosen, words)
        penalised = np.where(near > 0, near * share_kept, near)
        left = available[best]
        distribution = np.zeros(len(best))
        if left.any():
            distribution[left] = softmax(penalised[left] / choosing.temperature)
        share = choosing.at_random if left.any() else 1.0
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


def _outcomes(outcomes: FloatArray, probabilities: Curves) -> FloatArray:
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
