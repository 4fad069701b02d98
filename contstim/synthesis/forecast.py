"""Forecast of the number of synthetic sentences in a larger pool, and the end of sampling."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import scipy  # which loads `optimize` at its first use

from contstim.synthesis.pool import Request, SentencePool

#: Number of rounds of sampling over which an improvement is measured.
WINDOW = 5


def find_stop_reason(
    gains: Sequence[float], min_improvement: float, n_found: int, n_wanted: int, n_expected: int
) -> str | None:
    """Return why sampling should stop after a round, or None if it should continue.

    Sampling stops if no further sentence is expected and the last `WINDOW` rounds have improved the
    result by at most `min_improvement`.

    Parameters
    ----------
    gains
        Total decrease in loss after each round, in nats.
    min_improvement
        Minimum improvement, as a fraction of the total decrease in loss before the last rounds.
    n_found, n_wanted
        Numbers of synthetic sentences, found so far and wanted.
    n_expected
        Number of synthetic sentences that are expected to be found in all if sampling continues.
    """
    if n_expected > n_found or len(gains) <= WINDOW:
        return None
    if gains[-1] > (1 + min_improvement) * gains[-1 - WINDOW]:
        return None
    if n_found < n_wanted:
        return f"no further sentences are expected in the next {WINDOW} batches"
    return f"the last {WINDOW} batches improved the loss by at most {min_improvement:.0%}"


def count_expected_sentences(pool: SentencePool, targets: Sequence[Request], factor: float) -> int:
    """Forecast how many synthetic sentences a larger pool of sampled sentences will provide.

    A *target* is a natural sentence for which a synthetic sentence is chosen from the pool. Each
    sampled sentence can be chosen for one target. It is usable for a target if it satisfies the
    constraints and has a negative loss. The forecast is the sum of two numbers:

    - the maximum number of targets with a synthetic sentence from the present pool, if each sampled
      sentence may be chosen `factor` times (rounded down), since the larger pool will contain
      `factor` times as many similar sentences;
    - the expected number of targets that have no usable sentence yet but will have one,
      n0 (1 - exp(-(factor - 1) n1 / n0)), where n0 and n1 are the numbers of targets with no usable
      sentence and with exactly one (Good 1953).

    Limits on the number of similar synthetic sentences are ignored.

    Parameters
    ----------
    pool
        Sentences sampled so far.
    targets
        Natural sentences, each with the constraints and the loss of its synthetic sentence.
    factor
        Size of the larger pool, divided by the size of the present pool; at least 1.
    """
    is_usable = np.array([~np.isnan(pool.losses(target)) for target in targets])
    # Whether each sampled sentence can be the synthetic sentence of each target (a natural
    # sentence), shape (targets, sentences). The loss is NaN if it cannot.
    is_usable = is_usable.reshape(len(targets), -1)
    # Find the largest assignment if each sentence, used at most once now, is repeated.
    repeated = np.repeat(is_usable[:, is_usable.any(axis=0)], int(factor), axis=1)
    rows, columns = scipy.optimize.linear_sum_assignment(repeated, maximize=True)
    n_assigned = int(repeated[rows, columns].sum())
    # Add the targets without a usable sentence that are expected to get one (Good 1953).
    n_usable = is_usable.sum(axis=1)
    n_none, n_one = int((n_usable == 0).sum()), int((n_usable == 1).sum())
    if n_none == 0:
        return n_assigned
    return round(n_assigned + n_none * (1 - math.exp(-(factor - 1) * n_one / n_none)))


def explain_shortfall(pool: SentencePool, targets: Sequence[Request]) -> dict[str, float]:
    """Count the sampled sentences that satisfy each constraint on synthetic sentences.

    For each natural sentence, a synthetic sentence is chosen from a pool of sampled sentences. If
    most natural sentences remain without a synthetic sentence, the constraint that the fewest
    sampled sentences satisfy is the most likely reason.

    Parameters
    ----------
    pool
        Sampled sentences with their scores.
    targets
        Natural sentences, each with the constraints and the loss of its synthetic sentence.

    Returns
    -------
    dict
        Mapping from the text of a constraint, for example ``contstim:gpt>=natural``, to the number
        of sentences that satisfy it (median over `targets`). The last entry is the number of
        sentences that satisfy all constraints and have a negative loss.
    """
    n_by_constraint, n_usable = defaultdict[str, list[int]](list), list[int]()
    # Count, for each target (natural sentence), the sampled sentences that satisfy each constraint,
    # and those that satisfy all constraints and are better than the natural sentence.
    for target in targets:
        for name, mask in pool.check_constraints(target).items():
            n_by_constraint[name].append(int(mask.sum()))
        n_usable.append(int((~np.isnan(pool.losses(target))).sum()))
    n_by_constraint["all constraints, with a negative loss"] = n_usable
    return {name: float(np.median(counts)) for name, counts in n_by_constraint.items()}
