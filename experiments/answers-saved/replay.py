"""Replay of answers in many studies at once, in an order that a policy chooses."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np
import pandas as pd

from contstim.adaptive import PolicyOptions
from contstim.adaptive.savings import SLOPES, mutual_information
from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.response_model import ResponseModel
from contstim.selection import select_set


class ReplayPolicy(Protocol):
    """Policy that chooses pairs in R studies at once."""

    def values(self) -> FloatArray:
        """Return the value of asking each of P pairs next, shape (R, P)."""

    def update(self, pairs: IntArray, answers: IntArray) -> None:
        """Take the answers to one pair of each study into account, 1 for sentence 2."""


class InformationPolicy:
    """Mutual information between answer and model, computed in R studies at once.

    Equals the policy ``information`` if each answer is from a new participant.

    Parameters
    ----------
    curves : (H, P, M) array
        Result of `answer_curves`.
    n_studies
        Number R of studies.
    """

    def __init__(self, curves: FloatArray, n_studies: int) -> None:
        self.curves = curves
        self.log_joint = np.zeros((n_studies, curves.shape[0], curves.shape[2]))

    def values(self) -> FloatArray:
        """Return the mutual information in nats, shape (R, P)."""
        return mutual_information(self.log_joint, self.curves)

    def update(self, pairs: IntArray, answers: IntArray) -> None:
        """Update the posterior by Bayes' rule."""
        self.log_joint += self.log_likelihood(pairs, answers)

    def log_likelihood(self, pairs: IntArray, answers: IntArray) -> FloatArray:
        """Return log P(answer) for H median slopes and M models, shape (..., H, M)."""
        second = np.moveaxis(self.curves[:, pairs], 0, -2)
        return np.log(np.where(np.asarray(answers)[..., None, None] == 1, second, 1 - second))


def answer_curves(preferences: FloatArray) -> FloatArray:
    """Return P(sentence 2) if a model is right, averaged over participants and pair effects.

    Parameters
    ----------
    preferences : (P, M) array
        Preferences of M models for sentence 2 of P pairs.

    Returns
    -------
    (H, P, M) array
        Probabilities for each of the H median slopes `SLOPES`.
    """
    models = [replace(ResponseModel(), slope=slope) for slope in SLOPES]
    return np.stack([m.probabilities(preferences) for m in models])


def replay_in_random_order(
    counts: IntArray, rng: np.random.Generator, first: BoolArray | None = None
) -> tuple[IntArray, IntArray]:
    """Reveal answers in random order.

    Parameters
    ----------
    counts : (R, P, 2) array
        Number of answers to each of P pairs in R studies, for sentence 1 and for sentence 2.
    rng
        Random number generator.
    first : (P,) array of bool, optional
        Pairs with answers that are revealed before all others.

    Returns
    -------
    pairs, answers : (R, N) array
        Pair and answer (1 for sentence 2), up to the largest number N of answers. In studies with
        fewer answers, the last pairs are -1.
    """
    n_answers = counts.sum(axis=(1, 2))
    pairs, answers = (np.full((len(counts), n_answers.max()), fill) for fill in (-1, 0))
    for study, n in enumerate(n_answers):
        cells = np.repeat(np.arange(counts[study].size), counts[study].ravel())
        keys = rng.random(n)
        if first is not None:
            keys += ~first[cells // 2]
        pairs[study, :n], answers[study, :n] = np.divmod(cells[keys.argsort()], 2)
    return pairs, answers


def replay_sequentially(
    counts: IntArray,
    policy: ReplayPolicy,
    n_answers: int,
    rng: np.random.Generator,
    options: PolicyOptions,
) -> tuple[IntArray, IntArray]:
    """Reveal answers to the pairs that a policy chooses, then the others in random order.

    A pair is asked again only when all pairs with unused answers were asked as often.

    Parameters
    ----------
    counts, rng
        Parameters of `replay_in_random_order`.
    policy
        Policy that chooses the pairs.
    n_answers
        Number of answers until the order is random, a multiple of the block size.
    options
        Block size, share of random choices, and temperature of the others.

    Returns
    -------
    pairs, answers : (R, N) array
        Result as in `replay_in_random_order`.
    """
    unused, studies = counts.copy(), np.arange(len(counts))
    # Number of times that each pair was asked, infinite for pairs without unused answers.
    n_asked = np.where(counts.any(axis=2), 0.0, np.inf)
    chosen: list[tuple[IntArray, IntArray]] = []
    while len(chosen) < n_answers:
        # Adding Gumbel noise to values / temperature samples from the softmax.
        noise = -np.log(rng.standard_exponential(n_asked.shape))
        values = policy.values() / options.temperature + noise
        block = []
        for _ in range(options.block_size):
            is_random = rng.random((len(counts), 1)) < options.epsilon
            is_next = n_asked == n_asked.min(axis=1, keepdims=True)
            pairs = np.where(is_next, np.where(is_random, noise, values), -np.inf).argmax(axis=1)
            numbers = unused[studies, pairs]
            n_unused = numbers.sum(axis=1)
            answers = (rng.random(len(counts)) * n_unused >= numbers[:, 0]).astype(np.int64)
            unused[studies, pairs, answers] -= n_unused > 0
            n_asked[studies, pairs] += np.where(n_unused > 1, 1, np.inf)
            # Studies without unused answers have no further pairs.
            block.append((np.where(n_unused > 0, pairs, -1), answers))
        for answered in block:
            policy.update(*answered)
        chosen += block
    asked = np.array(chosen).transpose(1, 2, 0)
    rest = replay_in_random_order(unused, rng)
    return np.concatenate([asked[0], rest[0]], axis=1), np.concatenate([asked[1], rest[1]], axis=1)


def sum_at(numbers: IntArray, values: FloatArray) -> FloatArray:
    """Return sums of the first n values along axis 1, for each n >= 1 in ascending numbers."""
    starts = np.concatenate([[0], numbers[:-1]])
    return np.asarray(np.add.reduceat(values, starts, axis=1).cumsum(axis=1))


def correct_answers(pairs: IntArray, answers: IntArray, preferences: FloatArray) -> FloatArray:
    """Return 1/2 for each answer that a model predicts and -1/2 for others, shape (R, N, M).

    The value is 0 without a preference, and for pairs of -1.
    """
    signs = np.vstack([np.sign(preferences), np.zeros(preferences.shape[1])]) / 2
    return signs.astype(np.float32)[pairs] * (2 * answers - 1)[..., None]


def checkpoints(n_answers: int) -> IntArray:
    """Return increasing numbers of answers, at most 3 % or 1 apart, up to `n_answers`."""
    n_steps = round(np.log(n_answers) / np.log(1.03))
    numbers = np.rint(np.geomspace(1, n_answers, n_steps + 1)).astype(np.int64)
    return np.unique(np.append(numbers, [n for n in (100, 500) if n < n_answers]))


def choose_set(scores: pd.DataFrame, pairs: pd.DataFrame, n: int) -> pd.DataFrame:
    """Select n pairs, at most half of them, by expected log Bayes factors."""
    n = min(n, len(pairs) // 2)
    eligible = pd.Series(False, scores.index)
    options = {"criterion": "log-bf", "eligible": eligible, "uses": len(pairs)}
    return select_set(scores, n, pairs=pairs, **options)
