"""Forecast of the number of natural sentences for which a pool will contain synthetic sentences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import scipy  # which loads `optimize` at its first use

from contstim.synthesis.pool import SentencePool, Slot


def count_expected_slots(pool: SentencePool, slots: Sequence[Slot], factor: float) -> int:
    """Forecast for how many natural sentences a synthetic sentence will be found.

    The forecast assumes that the pool grows by a factor, and that for each sentence of the pool
    there will be `factor` sentences that satisfy the same constraints. It is the maximum number of
    natural sentences in an assignment in which each sentence of the pool may be used `factor` times
    (rounded down). Limits on similar sentences are ignored.

    Parameters
    ----------
    pool
        Sentences sampled so far.
    slots
        Natural sentences, each with the loss and the constraints of its synthetic sentence.
    factor
        Future number of sampled sentences, divided by the present number; at least 1.
    """
    is_possible = np.array([~np.isnan(pool.losses(slot)) for slot in slots])
    is_possible = is_possible.reshape(len(slots), -1)
    usable = np.flatnonzero(is_possible.any(axis=0))
    copies = np.repeat(is_possible[:, usable], int(factor), axis=1)
    rows, columns = scipy.optimize.linear_sum_assignment(copies, maximize=True)
    return int(copies[rows, columns].sum())


def explain_shortfall(pool: SentencePool, slots: Sequence[Slot]) -> dict[str, float]:
    """Count the sentences of a pool that satisfy each constraint on synthetic sentences.

    If no synthetic sentence is found for a natural sentence, the constraint with the smallest count
    is the most likely reason.

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
        of sentences that satisfy it, as the median over `slots`. The last entry is the number of
        sentences that satisfy all constraints and have a negative loss.
    """
    n_by_constraint, n_usable = defaultdict[str, list[int]](list), list[int]()
    for slot in slots:
        for name, mask in pool.check_constraints(slot).items():
            n_by_constraint[name].append(int(mask.sum()))
        n_usable.append(int((~np.isnan(pool.losses(slot))).sum()))
    n_by_constraint["all of these and a negative loss"] = n_usable
    return {name: float(np.median(counts)) for name, counts in n_by_constraint.items()}
