"""Forecast of the number of synthetic sentences that a larger pool will provide."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import scipy  # which loads `optimize` at its first use

from contstim.synthesis.pool import SentencePool, Slot


def count_expected_slots(pool: SentencePool, slots: Sequence[Slot], factor: float) -> int:
    """Forecast how many slots can be filled from a larger pool.

    The larger pool is assumed to contain `factor` sentences (rounded down) for each sentence of the
    present pool. The forecast is the sum of two numbers:

    - the number of slots that can be filled from the present pool if each sentence may be used
      `factor` times;
    - the expected number of slots without a usable sentence that the new sentences will fill,
      n0 (1 - exp(-(factor - 1) n1 / n0)), where n0 and n1 are the numbers of slots with no and with
      exactly one usable sentence (Good 1953).

    Limits on similar sentences are ignored.

    Parameters
    ----------
    pool
        Sentences sampled so far.
    slots
        Natural sentences, each with the loss and the constraints of its synthetic sentence.
    factor
        Size of the larger pool, divided by the size of the present pool; at least 1.
    """
    is_possible = np.array([~np.isnan(pool.losses(slot)) for slot in slots])
    is_possible = is_possible.reshape(len(slots), -1)
    usable = np.flatnonzero(is_possible.any(axis=0))
    copies = np.repeat(is_possible[:, usable], int(factor), axis=1)
    rows, columns = scipy.optimize.linear_sum_assignment(copies, maximize=True)
    n_fillable = int(copies[rows, columns].sum())
    n_usable = is_possible.sum(axis=1)
    n_none, n_one = int((n_usable == 0).sum()), int((n_usable == 1).sum())
    if n_none == 0:
        return n_fillable
    return round(n_fillable + n_none * (1 - math.exp(-(factor - 1) * n_one / n_none)))


def explain_shortfall(pool: SentencePool, slots: Sequence[Slot]) -> dict[str, float]:
    """Count the sentences of a pool that satisfy each constraint on synthetic sentences.

    If many slots remain empty, the constraint with the smallest count is the most likely reason.

    Parameters
    ----------
    pool
        Sampled sentences with their scores.
    slots
        Natural sentences, each with the loss and the constraints of its synthetic sentence.

    Returns
    -------
    dict
        Mapping from the text of a constraint, for example ``contstim:gpt>=natural``, to the number
        of sentences that satisfy it (median over `slots`). The last entry is the number of
        sentences that satisfy all constraints and have a negative loss.
    """
    n_by_constraint, n_usable = defaultdict[str, list[int]](list), list[int]()
    for slot in slots:
        for name, mask in pool.check_constraints(slot).items():
            n_by_constraint[name].append(int(mask.sum()))
        n_usable.append(int((~np.isnan(pool.losses(slot))).sum()))
    n_by_constraint["all constraints, with a negative loss"] = n_usable
    return {name: float(np.median(counts)) for name, counts in n_by_constraint.items()}
