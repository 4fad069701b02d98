"""How exact the posterior's quadrature is, over people who vary little or much.

    python experiments/adaptive/nodes.py --studies 300

In each study two people, whose slopes and leanings vary as drawn at random from a wide range,
answer so many trials each, drawn too, with or without ratings. The log Bayes factor of the model
that they follow against another is compared with that of nodes half as far apart on both axes, by
a sum that shares nothing with `ModelPosterior` but the curve of one answer.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from contstim.adaptive import SIX_POINT, Link, ModelPosterior
from contstim.adaptive.posterior import ParticipantQuadrature
from contstim.errors import InputError
from contstim.response_model import ResponseModel

Floats = NDArray[np.float64]
PEOPLE = 2


def finer(
    nodes: ParticipantQuadrature, g: Floats, answers: NDArray[np.int64], spacing: float | None
) -> float:
    """Return the log evidence of one person's answers, from nodes of a spacing, or half as far."""
    people = nodes.link.response_model
    axes = []
    for own, sd in zip(
        nodes.compute_node_spacings(), (people.slope_sd, people.side_sd), strict=True
    ):
        step = own / 2 if spacing is None else spacing
        axes.append(np.arange(-6, 6 + step, step) if sd > 0 else np.zeros(1))
    z, side = np.meshgrid(*axes, indexing="ij")
    slopes = nodes.link.slopes[0] * np.exp(people.slope_sd * z)
    total = -(z**2 + side**2) / 2
    prior = logsumexp(total)
    for preference, answer in zip(g, answers, strict=True):
        chances = nodes.answer_probabilities(slopes * preference + people.side_sd * side)
        total = total + np.log(chances[..., answer])
    return float(logsumexp(total) - prior)


def study(rng: np.random.Generator) -> tuple[float, float, float]:
    """Return the errors of a log Bayes factor, with fixed nodes .5 apart too; and the factor."""
    thresholds = SIX_POINT if rng.random() < 0.5 else ()
    varied = {"slope_sd": rng.uniform(0.2, 1.2), "side_sd": np.exp(rng.uniform(-1.5, 1.5))}
    link = Link(ResponseModel(**varied), slopes=(0.91,), thresholds=thresholds)
    trials, people = int(rng.integers(5, 120)), link.response_model
    try:
        posterior = ModelPosterior(link, 2, trials)
    except InputError:  # more nodes than can be
        return study(rng)
    finely, coarsely = np.zeros(2), np.zeros(2)
    for person in range(PEOPLE):
        g = np.clip(rng.normal(size=(trials, 2)) * 1.5, -3, 3)
        slope = people.slope * np.exp(people.slope_sd * rng.normal())
        leaning = slope * g[:, 0] + people.side_sd * rng.normal()
        chances = posterior.quadrature.answer_probabilities(leaning)
        answers = np.array([rng.choice(link.n_answers, p=own / own.sum()) for own in chances])
        for preferences, answer in zip(g, answers, strict=True):
            posterior.add_answer(person, preferences, int(answer))
        for sums, spacing in ((finely, None), (coarsely, 0.5)):
            sums += [finer(posterior.quadrature, g[:, m], answers, spacing) for m in range(2)]
    factor = float(np.subtract(*finely))
    error = float(np.subtract(*posterior.log_evidence)) - factor
    return abs(error), abs(float(np.subtract(*coarsely)) - factor), factor


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=300)
    args = parser.parse_args()
    found = np.array([study(np.random.default_rng([9, k])) for k in range(args.studies)])
    for name, errors in (("as laid", found[:, 0]), ("0.5 apart", found[:, 1])):
        print(
            f"nodes {name}: error of the log Bayes factor of {PEOPLE} people: median "
            f"{np.median(errors):.1e}, 95 % below {np.quantile(errors, 0.95):.1e}, largest "
            f"{errors.max():.1e}; {args.studies} studies"
        )
    print(f"log Bayes factors from {found[:, 2].min():.1f} to {found[:, 2].max():.1f}")


if __name__ == "__main__":
    main()
