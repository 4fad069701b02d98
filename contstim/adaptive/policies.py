"""Policies: which pairs a participant is asked next, and with which probability each was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from contstim.adaptive.posterior import Curves, Nodes, softmax
from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.files import digest
from contstim.people import log_ratio_scale
from contstim.settings import Count, one_of, settings

_MOST_OUTCOMES = 128  # of a block's answers so far that are followed, the likeliest
_MOST_BLOCK = 50


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
    """

    pairs: pd.DataFrame
    models: tuple[str, ...]
    ratios: FloatArray
    preferences: FloatArray

    @classmethod
    def of(cls, pairs: pd.DataFrame, log_probs: pd.DataFrame, nodes: Nodes) -> Pool:
        """Make a pool.

        Parameters
        ----------
        pairs
            With the columns ``sentence_1`` and ``sentence_2``.
        log_probs
            Shape (S, M): a row a sentence, natural sentences among them, whose standard deviations
            are the units of g.
        nodes
            Says where preferences are cut off.

        Raises
        ------
        InputError
            If a column or a finite score is missing, or a pair is there twice.
        """
        for column in ("sentence_1", "sentence_2"):
            if column not in pairs:
                raise InputError(f"the pool has no column {column!r}; give pairs of sentences")
        if not len(pairs):
            raise InputError("the pool has no pairs; give some")
        labels = pd.Index([str(label) for label in log_probs.index])
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
        people = nodes.link.people
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


def information(view: View) -> FloatArray:
    """Return the mutual information between the answer and which model is right, nats, shape (N,).

    H(Σ_m w_m P_m(y)) - Σ_m w_m H(P_m(y)), P_m integrated over what is known of the participant
    (Cavagnaro, Myung, Pitt and Kujala 2010, doi 10.1162/neco.2009.02-09-959; Houlsby et al. 2011).
    Preferences are rounded to the grid of the curves.
    """
    mixed = np.zeros((view.curves.shape[1], len(view.places)), dtype=np.float32)
    within = np.zeros(len(view.places), dtype=np.float32)
    entropies = -(view.curves * np.log(view.curves)).sum(axis=1)
    for m in np.flatnonzero(view.weights > 1e-9):
        weight, own = np.float32(view.weights[m]), view.places[:, m]
        for answer in range(len(mixed) - 1):  # the last follows from the others
            mixed[answer] += (weight * view.curves[m, answer])[own]
        within += (weight * entropies[m])[own]
    mixed[-1] = view.weights.sum() - mixed[:-1].sum(axis=0)
    np.maximum(mixed, 1e-12, out=mixed)
    return np.asarray(-(mixed * np.log(mixed)).sum(axis=0) - within, dtype=np.float64)


def disagreement(view: View) -> FloatArray:
    """Return the variance over models of their preferences, whatever the answers were.

    The discrete form of principal distortions (Feather et al. 2025, arXiv 2410.15433).
    """
    return np.asarray(view.preferences.var(axis=1))


def at_random(view: View) -> FloatArray:
    """Return 0 for all pairs: each is as likely as any other."""
    return np.zeros(len(view.places))


def in_order(view: View) -> FloatArray:
    """Return 0 for the first pair that is left, and minus infinity for the others."""
    return np.where(np.arange(len(view.places)) == int(view.available.argmax()), 0.0, -np.inf)


#: The value of each pair to a policy, by its name. A policy of your own is one more entry: a
#: function of a `View` that returns a value for each pair, minus infinity for never.
POLICIES: dict[str, Callable[[View], FloatArray]] = {
    "information": information,
    "disagreement": disagreement,
    "random": at_random,
    "fixed": in_order,
}


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
        The policy ``fixed`` has none.
    temperature
        Differences in value that do not matter, in the policy's units: nats for information.
    block
        Trials issued at once. Those of a block are chosen for what they say together, the
        participant's answers being independent given the model.
    shortlist
        So many best pairs are compared closely.
    repeats
        By how much a pair's value falls if all its words are in the block already, as a share.
    """

    policy: Annotated[str, one_of(POLICIES, "policy")] = "information"
    epsilon: Annotated[float, Field(ge=0, le=1)] = 0.1
    temperature: Annotated[float, Field(gt=0, le=100)] = 0.002
    block: Annotated[int, Field(ge=1, le=_MOST_BLOCK)] = 5
    shortlist: Count = 500
    repeats: Annotated[float, Field(ge=0, le=1)] = 0.5


def choose_block(
    choosing: Choosing,
    view: View,
    rng: np.random.Generator,
    words: Sequence[frozenset[str]] | None = None,
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
    """
    epsilon = 0.0 if choosing.policy == "fixed" else choosing.epsilon
    available = view.available.copy()
    chosen: list[int] = []
    propensities: list[float] = []
    joint = choosing.policy == "information"
    values = np.where(available, POLICIES[choosing.policy](view), -np.inf)
    alike = choosing.policy == "random"
    size = 0 if alike else min(choosing.shortlist, int(np.isfinite(values).sum()))
    best = np.sort(np.argpartition(-values, size - 1)[:size]) if size else np.arange(0)
    near = values[best]
    outcomes = view.weights[None]
    probabilities = (
        view.curves[np.arange(len(view.weights)), :, view.places[best]] if joint else None
    )
    for _ in range(min(choosing.block, int(available.sum()))):
        if chosen and choosing.policy == "fixed":
            best, near = np.array([available.argmax()]), np.zeros(1)
        elif chosen and probabilities is not None:
            outcomes = _outcomes(outcomes, view, chosen[-1])
            near = _joint(outcomes, probabilities)
        penalised = near * (1 - choosing.repeats * _repeated(best, chosen, words))
        left = available[best]
        distribution = np.zeros(len(best))
        if left.any():
            distribution[left] = softmax(penalised[left] / choosing.temperature)
        share = epsilon if left.any() else 1.0
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


def _outcomes(outcomes: FloatArray, view: View, pair: int) -> FloatArray:
    """Return the joint weights of answers so far and models, shape (R, M), one answer later."""
    probabilities = view.curves[np.arange(len(view.weights)), :, view.places[pair]]  # M, C
    after = (outcomes[:, None, :] * probabilities.T[None]).reshape(-1, len(view.weights))
    if len(after) > _MOST_OUTCOMES:
        kept = np.sort(np.argsort(-after.sum(axis=1), kind="stable")[:_MOST_OUTCOMES])
        after = after[kept] / after[kept].sum()
    return np.asarray(after)


def _joint(outcomes: FloatArray, probabilities: Curves) -> FloatArray:
    """Return the information of one more answer, given those before, of L pairs.

    Parameters
    ----------
    outcomes
        Shape (R, M).
    probabilities
        P(answer | model) of the pairs, shape (L, M, C), as the indexing of `Curves` gives it.
    """
    mass = outcomes.sum(axis=1)
    after = np.einsum("rm,lmc->rlc", outcomes / mass[:, None], probabilities, optimize=True)
    mixed = -(after * np.log(np.maximum(after, 1e-12))).sum(axis=2)
    entropies = -(probabilities * np.log(probabilities)).sum(axis=2)  # L, M
    within = entropies @ outcomes.sum(axis=0)
    return np.asarray(mass @ mixed - within, dtype=np.float64)


def _repeated(
    pairs: IntArray, chosen: Sequence[int], words: Sequence[frozenset[str]] | None
) -> FloatArray:
    """Return the share of each pair's words that are in the chosen ones."""
    if words is None or not chosen:
        return np.zeros(len(pairs))
    seen = frozenset().union(*(words[k] for k in chosen))
    return np.array([len(words[k] & seen) / max(1, len(words[k])) for k in pairs.tolist()])
