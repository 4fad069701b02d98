"""What peeking does where no model is best: false winners and coverage, protected and not.

    python experiments/adaptive/null.py --studies 10000 --out results

Three models, two truths. ``nobody``: people follow no model. ``tied``: people follow what two
models have in common, and the third is noise. People differ (slopes, leanings), pairs have
effects of their own, pairs are chosen by information from a pool by the answers of those who
entered at least ten participants before, five more are anchors that everybody is asked, and
answers that agree with the first model come faster. Participants enter one after the other and
ten are at it at once.

Protected: the confidence sequences of `contstim.adaptive.apply_stopping_rule`, participants as
units in the order in which they entered, chosen trials alone. Unprotected: after every answer, in
the order in which answers arrive, a z-test of two models' accuracies over all trials, as though
trials were independent, corrected for the number of models. Both look after every answer. A false
winner is a model that is ever called best. Coverage is that of the running means of what was to be
expected of the people and pairs asked, at all times at once and for all three pairs of models.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binomtest, norm

from contstim.adaptive.anytime_valid import asymptotic_confidence_sequence
from contstim.adaptive.link import Link
from contstim.adaptive.policies import grid_positions
from contstim.adaptive.posterior import ParticipantQuadrature, softmax
from contstim.response_model import ResponseModel

Floats = NDArray[np.float64]
PARTICIPANTS, TRIALS, ANCHORS, POOL, TOGETHER = 60, 10, 5, 1000, 10
PAIRS = ((0, 1), (0, 2), (1, 2))
EPSILON, TEMPERATURE = 0.1, 0.002
ALPHAS = (0.05, 0.01)


def chunk(truth: str, n: int, rng: np.random.Generator) -> dict[str, NDArray[np.bool_]]:
    """Simulate n studies and return whether each has a false winner, or ever fails to cover."""
    people, link = ResponseModel(), Link(slopes=(0.91,))
    nodes = ParticipantQuadrature(link, max_answers=TRIALS)
    common, own = rng.normal(size=(POOL + ANCHORS, 1)), rng.normal(size=(POOL + ANCHORS, 3))
    g = np.clip(own * 1.3, -3, 3)
    felt = np.zeros(POOL + ANCHORS)
    if truth == "tied":
        g[:, :2] = np.clip(common + own[:, :1] * [1.0, -1.0], -3, 3)
        felt = g[:, :2].mean(axis=1)
    places, rows = grid_positions(g[:POOL], nodes), np.arange(n)
    effects = people.item_sd * rng.normal(size=(n, POOL + ANCHORS)).astype(np.float32)
    available = np.ones((n, POOL), dtype=bool)
    evidence = np.zeros((n, PARTICIPANTS, 3))
    start = np.broadcast_to(nodes.weights, (n, 3, 1, len(nodes.weights)))
    grid_curves = nodes.answer_curves(start[:1], np.ones((1, 3, 1)))[0, 0, 1]
    entropy = -(grid_curves * np.log(grid_curves) + (1 - grid_curves) * np.log1p(-grid_curves))
    right = np.zeros((n, PARTICIPANTS, TRIALS + ANCHORS, 3), dtype=np.float32)
    expected = np.zeros((n, PARTICIPANTS, 3), dtype=np.float32)
    arrival = np.zeros((n, PARTICIPANTS, TRIALS + ANCHORS), dtype=np.float32)
    for p in range(PARTICIPANTS):
        weights = softmax(evidence[:, : max(0, p - TOGETHER)].sum(axis=1))
        mixed = np.zeros((n, POOL), dtype=np.float32)
        within = np.zeros((n, POOL), dtype=np.float32)
        for m in range(3):
            weight = weights[:, m, None].astype(np.float32)
            mixed += weight * grid_curves[places[:, m]]
            within += weight * entropy[places[:, m]]
        value = -mixed * np.log(mixed) - (1 - mixed) * np.log1p(-mixed) - within
        value = value / TEMPERATURE + rng.gumbel(size=value.shape).astype(np.float32)
        value[~available] = -np.inf
        chosen = np.argpartition(-value, TRIALS, axis=1)[:, :TRIALS]
        anything = np.where(available, rng.random(value.shape, dtype=np.float32), -1)
        any_of = np.argpartition(-anything, TRIALS, axis=1)[:, :TRIALS]
        chosen = np.where(rng.random((n, TRIALS)) < EPSILON, any_of, chosen)
        available[rows[:, None], chosen] = False
        pair = np.concatenate([chosen, np.tile(np.arange(POOL, POOL + ANCHORS), (n, 1))], axis=1)
        slopes = people.slope * np.exp(people.slope_sd * rng.normal(size=(n, 1)))
        leanings = people.side_sd * rng.normal(size=(n, 1))
        side = rng.choice([-1.0, 1.0], size=pair.shape)
        leaning = slopes * felt[pair] + effects[rows[:, None], pair]
        chance = people.lapse / 2 + (1 - people.lapse) * expit(side * leaning + leanings)
        chose = rng.random(pair.shape) < chance
        likelihood = np.ones((n, 3, len(nodes.weights)))
        for t in range(TRIALS):
            now = nodes.likelihood(side[:, t, None] * g[pair[:, t]], chose[:, t].astype(np.int64))
            likelihood *= now[:, :, 0]
        evidence[:, p] = np.log(likelihood @ nodes.weights)
        agrees = (side[..., None] * g[pair] > 0) == chose[..., None]
        right[:, p] = agrees
        # Over new people and pairs' effects; anchors are not counted.
        second = people.probabilities(felt[pair[:, :TRIALS]])
        expects = np.where(g[pair[:, :TRIALS]] > 0, second[..., None], 1 - second[..., None])
        expected[:, p] = expects.mean(axis=1)
        took = rng.lognormal(1.0, 0.5, pair.shape) * np.where(agrees[..., 0], 0.7, 1.3)
        order = np.argsort(rng.random(pair.shape), axis=1)  # anchors stand between the others
        after = np.take_along_axis(took, order, axis=1).cumsum(axis=1)
        np.put_along_axis(arrival[:, p], order, (p * 5.0 + after).astype(np.float32), axis=1)
    found: dict[str, NDArray[np.bool_]] = {}
    _protected(right[:, :, :TRIALS].mean(axis=2), expected, found)
    _unprotected(right, arrival, found)
    return found


def _protected(means: Floats, expected: Floats, found: dict[str, NDArray[np.bool_]]) -> None:
    count = np.arange(1, PARTICIPANTS + 1)
    for alpha in ALPHAS:
        level = 2 * alpha / 3
        above = np.zeros((len(means), PARTICIPANTS, 3, 3), dtype=bool)
        missed = np.zeros(len(means), dtype=bool)
        for i, j in PAIRS:
            difference = means[..., i] - means[..., j]
            to_expect = (expected[..., i] - expected[..., j]).cumsum(axis=1) / count
            low, high = asymptotic_confidence_sequence(difference.astype(np.float64), level)
            above[:, :, i, j], above[:, :, j, i] = low > 0, high < 0
            missed |= ((low > to_expect) | (high < to_expect)).any(axis=1)
        wins = above.sum(axis=3) == 2
        found[f"protected, winner, {alpha}"] = wins.any(axis=(1, 2))
        found[f"protected, missed, {alpha}"] = missed


def _unprotected(right: Floats, arrival: Floats, found: dict[str, NDArray[np.bool_]]) -> None:
    n = len(right)
    order = np.argsort(arrival.reshape(n, -1), axis=1)
    flat = right.reshape(n, -1, 3)
    count = np.arange(1, flat.shape[1] + 1)
    z = np.zeros((n, flat.shape[1], 3, 3), dtype=np.float32)
    for i, j in PAIRS:
        difference = np.take_along_axis(flat[..., i] - flat[..., j], order, axis=1)
        mean = difference.cumsum(axis=1) / count
        spread = (difference**2).cumsum(axis=1) / count - mean**2
        own = mean / np.sqrt(np.maximum(spread, 1e-9) / count)
        own[:, :20] = 0  # not even the hasty test after fewer
        z[:, :, i, j], z[:, :, j, i] = own, -own
    for alpha in ALPHAS:
        wins = (z > norm.isf(alpha / 3)).sum(axis=3) == 2
        found[f"unprotected, winner, {alpha}"] = wins.any(axis=(1, 2))
        first = np.abs(z[:, :, 0, 1]) > norm.isf(alpha / 2)
        found[f"unprotected, two models apart, {alpha}"] = first.any(axis=1)


def main() -> None:
    """Simulate, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=10_000)
    parser.add_argument("--chunk", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--truths", nargs="+", default=["nobody", "tied"])
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for truth in args.truths:
        for k in range(-(-args.studies // args.chunk)):
            file = args.out / f"null-{truth}-{k}.csv"
            if not file.exists():
                rng = np.random.default_rng([k, len(truth)])
                pd.DataFrame(chunk(truth, args.chunk, rng)).to_csv(file, index=False)
        tables = [pd.read_csv(file) for file in sorted(args.out.glob(f"null-{truth}-*.csv"))]
        table = pd.concat(tables)
        for name, values in table.items():
            low, high = binomtest(int(values.sum()), len(values)).proportion_ci()
            print(
                f"{truth}: {name}: {values.mean():.4f} ({low:.4f}-{high:.4f}) of {len(values)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
