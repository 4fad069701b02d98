"""Batches of sentences of one length."""

import numpy as np

from contstim.training.batches import batch_by_length


def test_batch_by_length_preserves_order() -> None:
    lengths = np.array([3, 2, 3, 3, 1])
    batches = batch_by_length(np.array([4, 3, 2, 1, 0]), lengths, lambda length: 6 // length)
    assert [batch.tolist() for batch in batches] == [[4], [1], [3, 2], [0]]
    # Rows longer than what a batch holds go alone.
    batches = batch_by_length(np.arange(5), lengths, lambda length: 0)
    assert [batch.tolist() for batch in batches] == [[4], [1], [0], [2], [3]]
    assert batch_by_length(np.arange(0), lengths, lambda length: 1) == []
