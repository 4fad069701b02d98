"""How many answers of real participants controversial pairs and adaptive choice save.

    python experiments/answers-saved/run.py DATA --out results

DATA is a folder with the folders `blimp`, `sprouse2013`, `golan2023`, `lau2020`, `events` and
`corpus`; `README.md` lists their files. `analysis.md` states the analysis. Scores and the curves of
each data set are written to `--out`; what is there is not computed again.
"""

from __future__ import annotations

import argparse
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from data import READERS, Choices, read_choices
from policies import ItemResponse, LabelInformation, fit_item_response
from replay import (
    InformationPolicy,
    answer_curves,
    checkpoints,
    choose_set,
    correct_answers,
    replay_in_random_order,
    replay_sequentially,
    sum_at,
)
from scipy.special import logsumexp
from scores import read_scores, score_missing, train_ngrams

from contstim.adaptive import Link, PolicyOptions, Pool
from contstim.adaptive.savings import name_best, predict_saved_answers
from contstim.arrays import BoolArray, FloatArray, IntArray

CONDITIONS = ("real", "shuffled", "winner left out")
#: Policies and the rule by which they name a model.
ROWS = (
    ("random", "accuracy"),
    ("set", "accuracy"),
    ("adaptive", "posterior"),
    ("information gain", "accuracy"),
    ("item response", "accuracy"),
    ("random", "posterior"),
    ("adaptive", "accuracy"),
)
N_SET, N_SEQUENTIAL, NEAR_BEST, TAU_AT = 100, 500, 0.01, (100, 500)
#: Probability of naming the best model at which k is predicted.
PREDICTED_AT = 0.5
_STUDIES = 50  # replayed at a time
_SEED = 54
#: Best value first, without noise: the largest value of a block is asked first.
_GREEDY = PolicyOptions(epsilon=0.0, temperature=1e-6)


class Design(NamedTuple):
    """What policies know before the first answer: P pairs and M models.

    Attributes
    ----------
    signs : (P, M) array
        1 if a model prefers sentence 2, -1 if it prefers sentence 1, 0 without preference.
    selected : (P,) array of bool
        Pairs of the selected set.
    curves : (H, P, M) array
        Result of `answer_curves`.
    item_response
        Result of `fit_item_response`.
    """

    signs: FloatArray
    selected: BoolArray
    curves: FloatArray
    item_response: tuple[FloatArray, FloatArray]


class Divisions:
    """Random divisions of a data set into a reference half and a replay half.

    Parameters
    ----------
    choices
        Choices of participants.
    shuffled
        Whether answers are replaced by coin flips in each division.
    """

    def __init__(self, choices: Choices, shuffled: bool) -> None:
        self.choices, self.shuffled = choices, shuffled
        self.n_participants = int(choices.participant.max()) + 1
        items, codes = np.unique(
            choices.pairs[["item_1", "item_2"]].astype(str).to_numpy(), return_inverse=True
        )
        self.n_items, self.items = len(items), codes.reshape(-1, 2)

    def draw(
        self, n: int, resampled: np.random.Generator | None, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray]:
        """Return counts of answers in n reference halves and n replay halves, (n, P, 2) each.

        With a generator `resampled`, participants and items are a bootstrap sample.
        """
        choices = self.choices
        weights, pair_weights = np.ones(self.n_participants), np.ones(len(self.items))
        if resampled is not None:
            weights, items = (
                resampled.multinomial(size, np.full(size, 1 / size)).astype(float)
                for size in (self.n_participants, self.n_items)
            )
            first, second = self.items.T
            pair_weights = np.where(first == second, items[first], items[first] * items[second])
        cells = choices.pair * 2 + choices.second
        answer_weights = weights[choices.participant] * pair_weights[choices.pair]
        halves = np.zeros((2, n, len(self.items), 2), dtype=np.int64)
        for k in range(n):
            half = rng.permutation(self.n_participants) % 2
            for h in range(2):
                own = answer_weights * (half[choices.participant] == h)
                counts = np.bincount(cells, own, halves[h, k].size)
                halves[h, k] = counts.reshape(-1, 2)
        if self.shuffled:
            totals = halves.sum(axis=-1)
            second = rng.binomial(totals, 0.5)
            halves = np.stack([totals - second, second], axis=-1)
        return halves[0], halves[1]


def kendall_tau(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return Kendall's tau-b of values along the last axis."""
    i, j = np.triu_indices(first.shape[-1], 1)
    signs = [np.sign(np.round(v[..., i] - v[..., j], 9)) for v in (first, second)]
    ties = np.sqrt((signs[0] != 0).sum(axis=-1) * (signs[1] != 0).sum(axis=-1))
    return np.asarray((signs[0] * signs[1]).sum(axis=-1) / np.maximum(ties, 1))


def load(
    name: str, condition: str, data: Path, out: Path
) -> tuple[Choices, pd.DataFrame, Pool, FloatArray]:
    """Return choices, scores, preferences and accuracies of a data set in a condition."""
    choices = read_choices(name, data)
    scores = read_scores(name, data, out, choices)
    pool = Pool.from_scores(choices.pairs, scores, Link())
    values = correct_answers(choices.pair, choices.second, pool.log_ratios)
    accuracy = values.mean(axis=0) + 0.5
    if condition == "winner left out":
        scores = scores.drop(columns=scores.columns[accuracy.argmax()])
        pool = Pool.from_scores(choices.pairs, scores, Link())
        accuracy = np.delete(accuracy, accuracy.argmax())
    return choices, scores, pool, accuracy


def replay(
    reference: IntArray,
    counts: IntArray,
    design: Design,
    numbers: IntArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Replay answers under all policies.

    Returns
    -------
    named : (rows, 2, n_numbers) array
        Number of studies in which each row of `ROWS` names the best or a near-best model.
    tau : (rows, 2) array
        Sum over studies of Kendall's tau after the numbers `TAU_AT`.
    """
    n_studies, g = len(counts), design.signs
    totals = reference.sum(axis=(1, 2))[:, None]
    accuracy = ((reference[..., 1] - reference[..., 0]) @ g) / totals / 2 + 0.5
    accuracy = np.round(accuracy, 9)
    best = np.eye(g.shape[1], dtype=bool)[name_best(accuracy, rng)]
    near_best = accuracy >= accuracy.max(axis=1, keepdims=True) - NEAR_BEST
    likelihood = InformationPolicy(design.curves, n_studies)
    sequential = {
        "adaptive": (likelihood, PolicyOptions()),
        "information gain": (LabelInformation(g, n_studies), _GREEDY),
        "item response": (ItemResponse(*design.item_response, n_studies), _GREEDY),
    }
    named = np.zeros((len(ROWS), 2, len(numbers)))
    tau = np.zeros((len(ROWS), len(TAU_AT)))
    for policy in dict(ROWS):
        if policy in sequential:
            chosen_by, options = sequential[policy]
            pairs, answers = replay_sequentially(counts, chosen_by, N_SEQUENTIAL, rng, options)
        else:
            selected = design.selected if policy == "set" else None
            pairs, answers = replay_in_random_order(counts, rng, selected)
        reached = numbers[numbers <= pairs.shape[1]]
        for row in [k for k, (name, _) in enumerate(ROWS) if name == policy]:
            if ROWS[row][1] == "accuracy":
                values = sum_at(reached, correct_answers(pairs, answers, g))
            else:
                likelihoods = likelihood.log_likelihood(pairs, answers)
                likelihoods[pairs < 0] = 0
                values = logsumexp(sum_at(reached, likelihoods), axis=2)
            choice = name_best(values, rng)
            for k, good in enumerate((best, near_best)):
                hits = np.take_along_axis(good, choice, axis=1).sum(axis=0)
                named[row, k] += np.pad(hits, (0, len(numbers) - len(hits)), mode="edge")
            for k, n in enumerate(TAU_AT):
                at = values[:, np.flatnonzero(reached == n)[0]]
                tau[row, k] += kendall_tau(at, accuracy).sum()
    return named, tau


def find_set(scores: pd.DataFrame, pairs: pd.DataFrame) -> BoolArray:
    """Return which pairs are in the selected set."""
    chosen = choose_set(scores, pairs, N_SET)
    keys = [
        pd.MultiIndex.from_arrays(
            np.sort(table[["sentence_1", "sentence_2"]].astype(str), axis=1).T
        )
        for table in (pairs, chosen)
    ]
    selected = np.asarray(keys[0].isin(keys[1]))
    assert selected.sum() == len(chosen)
    return selected


def compute(
    name: str, condition: str, args: argparse.Namespace, say: Callable[[str], None]
) -> None:
    """Compute curves of a data set in a condition and write them, unless they exist."""
    file = args.out / f"{name}-{condition.replace(' ', '-')}.npz"
    if file.exists():
        return
    start = time.process_time()
    choices, scores, pool, _ = load(name, condition, args.data, args.out)
    design = Design(
        np.sign(pool.log_ratios),
        find_set(scores, choices.pairs),
        answer_curves(pool.preferences),
        fit_item_response(pool.log_ratios),
    )
    divisions = Divisions(choices, condition == "shuffled")
    numbers = checkpoints(len(choices.second))
    n_samples = args.samples if condition == "real" else args.samples // 3
    samples = np.zeros((n_samples + 1, len(ROWS), 2, len(numbers)))
    taus = np.zeros((n_samples + 1, len(ROWS), len(TAU_AT)))
    key = zlib.crc32(f"{name} {condition}".encode())
    for sample in range(n_samples + 1):
        n = args.sample_divisions if sample else args.divisions
        for first in range(0, n, _STUDIES):
            size = min(_STUDIES, n - first)
            rng = np.random.default_rng([_SEED, key, sample, first])
            resampled = np.random.default_rng([_SEED, key, sample]) if sample else None
            reference, counts = divisions.draw(size, resampled, rng)
            named, tau = replay(reference, counts, design, numbers, rng)
            samples[sample] += named / n
            taus[sample] += tau / n
        if sample in (0, 1, 10):
            say(f"{name}, {condition}, sample {sample}: {time.process_time() - start:.0f} s")
    seconds = time.process_time() - start
    np.savez_compressed(file, numbers=numbers, curves=samples, tau=taus, seconds=seconds)


def predict(name: str, condition: str, args: argparse.Namespace) -> None:
    """Predict k of a data set from its scores and pairs and write it, unless it exists."""
    file = args.out / f"{name}-{condition.replace(' ', '-')}-predicted-k.csv"
    if file.exists() or condition == "shuffled":
        return
    start = time.process_time()
    choices, scores, _, _ = load(name, condition, args.data, args.out)
    chosen = choose_set(scores, choices.pairs, N_SET)
    n_answers = len(choices.second) // 2
    table = predict_saved_answers(scores, choices.pairs, chosen, PREDICTED_AT, n_answers=n_answers)
    table.assign(seconds=time.process_time() - start).to_csv(file, index=False)


def main() -> None:
    """Score, replay, predict and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--divisions", type=int, default=400)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--sample-divisions", type=int, default=100)
    parser.add_argument("--data-sets", nargs="+", default=list(READERS), choices=list(READERS))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    train_ngrams(args.data / "corpus", args.out)
    for name in args.data_sets:
        score_missing(name, args.data, args.out)
        for condition in CONDITIONS:
            compute(name, condition, args, lambda text: print(text, flush=True))
            predict(name, condition, args)


if __name__ == "__main__":
    main()
