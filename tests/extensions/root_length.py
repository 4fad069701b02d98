"""A custom reduction: the log-probability over the root of the length."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from contstim.models.base import ScoreKind
from contstim.models.reductions import Reduction


def _kind(kind: ScoreKind) -> ScoreKind:
    return replace(kind, name="root-normalised log-probability", unit="nats, root-normalised")


ROOT = Reduction("LP / sqrt(T)", lambda lengths: 1 / np.sqrt(lengths), _kind)
