"""Simulated people, many studies at once, for `run.py`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from contstim.adaptive.policies import places_of
from contstim.adaptive.posterior import Link, Nodes, softmax
from contstim.people import People

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Truth:
    """How simulated people answer; the link of the analysis may be another.

    `link` is ``logistic``, ``probit`` (of the same steepness at 0) or ``linear`` (choices as far
    from one half as g is large); `power` bends g.
    """

    people: People = field(default_factory=People)
    link: str = "logistic"
    power: float = 1.0

    def probabilities(self, leaning: Floats) -> Floats:
        """Return the probability of the right-hand sentence."""
        curve = {
            "logistic": expit,
            "probit": lambda x: ndtr(x * np.sqrt(2 * np.pi) / 4),
            "linear": lambda x: np.clip(0.5 + x / 8, 0, 1),
        }[self.link](leaning)
        return self.people.lapse / 2 + (1 - self.people.lapse) * curve

    def bend(self, g: Floats) -> Floats:
        """Return g as people feel it."""
        return np.sign(g) * np.abs(g / 3) ** self.power * 3


def identify(
    policy: str,
    pool: Floats,
    truth: Truth,
    link: Link,
    n_trials: int,
    each: int,
    n_studies: int,
    rng: np.random.Generator,
    epsilon: float = 0.1,
    temperature: float = 0.002,
) -> NDArray[np.bool_]:
    """Simulate studies, each model right in turn.

    Parameters
    ----------
    policy
        ``information``, or ``random``: a random order of the pool (begun again when it ends).
    pool
        g of the pairs under the models, shape (N, M); it is rounded to the 257 points of
        `Nodes.grid`.
    truth, link
        How people answer, and how they are taken to.
    n_trials, each
        Of a study, and of each participant of it.

    Returns
    -------
    array
        Whether the right model has the largest posterior weight after each trial, shape
        (n_studies, n_trials).
    """
    n, m = pool.shape
    people, nodes = truth.people, Nodes(link, trials=each)
    right = np.arange(n_studies) % m
    places = places_of(pool, nodes)
    pool = nodes.grid[places]
    # P(right-hand sentence) at the grid's preferences, median slopes and nodes.
    leanings = nodes.slopes * nodes.grid[:, None, None] + nodes.leanings
    second = nodes.probabilities(leanings)[..., 1]
    prior = np.log(link.weights_of(m) + 1e-300)
    new = np.broadcast_to(nodes.weights, (n_studies, m, len(link.slopes), len(nodes.weights)))
    likelihood = np.zeros((n_studies, m, len(link.slopes)))
    felt = truth.bend(pool)
    effects = people.item_sd * rng.normal(size=(n_studies, n)).astype(np.float32)
    available = np.ones((n_studies, n), dtype=bool)
    named = np.zeros((n_studies, n_trials), dtype=bool)
    rows = np.arange(n_studies)
    state, order = new, None
    if policy == "random":
        order = np.argsort(rng.random((n_studies, n)), axis=1)
    for t in range(n_trials):
        if t % each == 0:
            slopes = people.slope * np.exp(people.slope_sd * rng.normal(size=n_studies))
            leaning_to_side = people.side_sd * rng.normal(size=n_studies)
            state = new
        weights = softmax(prior + np.log(np.exp(likelihood + nodes.log_prior).sum(axis=2) + 1e-300))
        if order is not None:
            pair = order[:, t % n]
        else:
            values = _information(nodes, state, likelihood, weights, places, n)
            values[~available] = -np.inf
            values = values / temperature + rng.gumbel(size=values.shape)
            pair = values.argmax(axis=1)
            anything = np.where(available, rng.random((n_studies, n), dtype=np.float32), -1)
            pair = np.where(rng.random(n_studies) < epsilon, anything.argmax(axis=1), pair)
            available[rows, pair] = False
        turned = rng.random(n_studies) < 0.5
        leaning = slopes * felt[pair, right] + effects[rows, pair]
        leaning = np.where(turned, -leaning, leaning) + leaning_to_side
        chose = rng.random(n_studies) < truth.probabilities(leaning)
        shown = np.where(turned[:, None], len(nodes.grid) - 1 - places[pair], places[pair])
        chance = second[shown]
        joint = state * np.where(chose[:, None, None, None], chance, 1 - chance)
        evidence = joint.sum(axis=-1)
        state = joint / evidence[..., None]
        likelihood = likelihood + np.log(evidence)
        likelihood -= likelihood.max(axis=(1, 2), keepdims=True)
        evidence = prior + np.log(np.exp(likelihood + nodes.log_prior).sum(axis=2) + 1e-300)
        named[:, t] = evidence.argmax(axis=1) == right
    return named


def _information(
    nodes: Nodes,
    state: Floats,
    likelihood: Floats,
    weights: Floats,
    places: NDArray[np.int64],
    n: int,
) -> NDArray[np.float32]:
    slopes = softmax(likelihood + nodes.log_prior)
    curves = nodes.curves(state, slopes)[:, :, 1]  # studies, models, grid
    entropies = -(curves * np.log(curves) + (1 - curves) * np.log1p(-curves))
    values = np.empty((len(state), n), dtype=np.float32)
    for k in range(len(state)):
        mixed = np.zeros(n, dtype=np.float32)
        within = np.zeros(n, dtype=np.float32)
        for m in np.flatnonzero(weights[k] > 1e-4):
            weight = np.float32(weights[k, m])
            mixed += (weight * curves[k, m])[places[:, m]]
            within += (weight * entropies[k, m])[places[:, m]]
        values[k] = -mixed * np.log(mixed) - (1 - mixed) * np.log1p(-np.minimum(mixed, 1 - 1e-6))
        values[k] -= within
    return values


def misspecified() -> dict[str, tuple[Truth, dict[str, object]]]:
    """Return conditions: how people answer, and what of the analysis' link is changed."""
    people = People()
    return {
        "as supposed": (Truth(), {}),
        "flat slope": (Truth(replace(people, slope=0.5)), {}),
        "steep slope": (Truth(replace(people, slope=2.0)), {}),
        "unlike people": (Truth(replace(people, slope_sd=0.9, side_sd=0.8)), {}),
        "large pair effects": (Truth(replace(people, item_sd=2.2)), {}),
        "lapses": (Truth(replace(people, lapse=0.12)), {}),
        "probit": (Truth(link="probit"), {}),
        "linear": (Truth(link="linear"), {}),
        "bent": (Truth(power=0.5), {}),
        "misleading prior": (Truth(), {"prior": (4.0, 4.0, 1, 1, 1, 1, 1, 1, 1)}),
    }
