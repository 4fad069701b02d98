"""Strategies that score whatever no bound rules out: the best word, or the first that improves."""

from __future__ import annotations

import numpy as np

from contstim.search.board import SLACK, Board, Pick, Turn, batches, pick_in_order

__all__ = ["exhaustive", "first_improvement"]


def exhaustive(board: Board) -> Turn:
    """Take the feasible candidate that the rejecting model finds least probable.

    Always the best word, whatever the models: where the rejecting model's scores are known at
    once, candidates are tried from its lowest score upwards and the first feasible one is the
    best; otherwise every candidate that the accepting model's bound admits is scored.
    """
    index = board.open()
    if board.reject.exact:
        index = index[np.argsort(board.reject.estimate[index], kind="stable")]
        for batch in batches(index):
            accept = yield from board.scores("accept", batch)
            for i in batch[accept >= board.minimum - SLACK]:
                if (yield Pick(int(i))):
                    return False
        return False
    feasible = []
    for batch in batches(index):
        accept = yield from board.scores("accept", batch)
        feasible.append(batch[accept >= board.minimum - SLACK])
    index = np.concatenate([*feasible, np.empty(0, dtype=np.int64)])
    scored = []
    for batch in batches(index):
        scored.append((yield from board.scores("reject", batch)))
    values = np.concatenate([*scored, np.empty(0)])
    return (yield from pick_in_order(board, index, values))


def first_improvement(board: Board) -> Turn:
    """Take the first feasible candidate, in random order, that lowers the rejecting score."""
    index = board.open()
    for batch in batches(index[board.rng.permutation(len(index))]):
        accept = yield from board.scores("accept", batch)
        feasible = batch[accept >= board.minimum - SLACK]
        if len(feasible) == 0:
            continue
        reject = yield from board.scores("reject", feasible)
        for i in feasible[reject < board.below + SLACK]:
            if (yield Pick(int(i))):
                return False
    return False
