"""Recurrent word-level networks: RNN with ReLU units, and LSTM.

Importing this package does not import torch; `load_recurrent` and `train_recurrent` do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contstim.models.base import SentenceModel
    from contstim.models.spec import ModelSpec

__all__ = ["load_recurrent"]


def load_recurrent(spec: ModelSpec) -> SentenceModel:
    """Load ``rnn:PATH`` or ``lstm:PATH``, a file that `train_recurrent` wrote.

    Options: ``punctuation``, ``case``, ``unknown`` and ``end`` as for every word-level model, and
    ``device``, as PyTorch names it.

    Raises
    ------
    SpecError
        For an unknown option, a device that cannot be used, or a network of the other kind.
    ModelFileError
        If the file is missing, damaged or of another kind.
    """
    from contstim.models.recurrent.model import open_recurrent

    return open_recurrent(spec)
