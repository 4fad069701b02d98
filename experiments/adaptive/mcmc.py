"""The posterior over models by quadrature beside a long Markov chain that integrates nothing.

    python experiments/adaptive/mcmc.py [STEPS]

Three models, two median slopes, four people, six pairs each. Metropolis within Gibbs over
everything that the package integrates out: model and median slope (drawn from their conditional),
each person's slope and leaning, each pair's effect (Metropolis); 400 chains side by side. Printed
are both posteriors, and the chains' standard error from their means.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.special import expit

from contstim.adaptive import Link, ModelPosterior
from contstim.response_model import ResponseModel

PEOPLE, MODELS, TRIALS, CHAINS = 4, 3, 24, 400
LINK = Link(ResponseModel(lapse=0.05), slopes=(0.5, 1.5), prior=(1, 2, 1))


def main() -> None:
    """Sample and print."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    rng = np.random.default_rng(8)
    g = rng.uniform(-1.5, 1.5, (TRIALS, MODELS))
    who = np.arange(TRIALS) % PEOPLE
    chose = rng.random(TRIALS) < expit(0.5 * g[:, 0] + rng.normal(size=TRIALS))
    posterior = ModelPosterior(LINK, MODELS)
    for t in range(TRIALS):
        posterior.add_answer(int(who[t]), g[t], int(chose[t]))
    people = LINK.response_model
    slopes = np.array(LINK.slopes)
    prior = np.log(np.outer(LINK.prior_weights(MODELS), [0.5, 0.5])).ravel()

    def log_probabilities(
        felt: np.ndarray, z: np.ndarray, side: np.ndarray, u: np.ndarray
    ) -> np.ndarray:
        """Return log P(answers) of each trial; `felt` is median slope times g, shape (..., T)."""
        leaning = felt * np.exp(people.slope_sd * z[:, who]) + people.side_sd * side[:, who]
        chance = people.lapse / 2 + (1 - people.lapse) * expit(leaning + people.item_sd * u)
        return np.log(np.where(chose, chance, 1 - chance))

    which = rng.integers(MODELS * 2, size=CHAINS)
    z, side = rng.normal(size=(2, CHAINS, PEOPLE))
    u = rng.normal(size=(CHAINS, TRIALS))
    every = (slopes[None, :, None] * g.T[:, None]).reshape(-1, TRIALS)  # models x slopes, trials
    counts = np.zeros((CHAINS, MODELS))
    of_person = np.eye(PEOPLE)[who]
    for step in range(steps):
        if step % 5 == 0:
            each = np.stack(
                [log_probabilities(felt, z, side, u).sum(axis=1) for felt in every], axis=1
            )
            which = (each + prior + rng.gumbel(size=each.shape)).argmax(axis=1)
        felt = every[which]
        now = log_probabilities(felt, z, side, u)
        for values in (z, side):
            new = values + 0.9 * rng.normal(size=values.shape)
            old = values.copy()
            values[...] = new
            then = log_probabilities(felt, z, side, u)
            gain = (then - now) @ of_person + (old**2 - new**2) / 2
            kept = np.log(rng.random(gain.shape)) < gain
            values[...] = np.where(kept, new, old)
            now = np.where(kept[:, who], then, now)
        new = u + 1.2 * rng.normal(size=u.shape)
        then = log_probabilities(felt, z, side, new)
        kept = np.log(rng.random(u.shape)) < then - now + (u**2 - new**2) / 2
        u = np.where(kept, new, u)
        if step >= steps // 20:
            counts[np.arange(CHAINS), which // 2] += 1
    shares = counts / counts.sum(axis=1, keepdims=True)
    error = shares.std(axis=0, ddof=1) / np.sqrt(CHAINS)
    print("quadrature", posterior.weights.round(5))
    print("chains    ", shares.mean(axis=0).round(5), "standard error", error.round(5))


if __name__ == "__main__":
    main()
