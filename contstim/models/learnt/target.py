"""What a student's output is of a sentence's score: the residual of a line in its length."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError

__all__ = ["Target"]


@dataclass(frozen=True)
class Target:
    """How an output q of the network becomes a score, for a sentence of T tokens.

    score = intercept + slope T + scale (T / length if grows else 1) q

    A log-probability is a sum over tokens and grows with their number, which the first token's
    vector need not carry: the line takes it off, and what is left is learnt as so much a token.
    Scores that are no sums (reductions) are learnt as they stand around the line. Salazar et al.
    (2020, section 2.2) regress the sum itself; the loss here is theirs up to a constant factor,
    the squared error of the score.

    Attributes
    ----------
    intercept, slope
        Least squares on the training sentences, nats and nats a token.
    scale
        Standard deviation of the residuals, nats.
    length
        Mean number of tokens.
    grows
        Whether the score is a sum over tokens.
    """

    intercept: float
    slope: float
    scale: float
    length: float
    grows: bool

    @classmethod
    def of(cls, scores: FloatArray, n_tokens: IntArray, grows: bool) -> Target:
        """Fit the line to S scores and lengths.

        Raises
        ------
        InputError
            If the scores do not vary around it, so that there is nothing to learn.
        """
        design = np.stack([np.ones(len(scores)), n_tokens.astype(np.float64)], axis=1)
        (intercept, slope), *_ = np.linalg.lstsq(design, scores, rcond=None)
        residual = scores - design @ np.array([intercept, slope])
        scale = float(residual.std())
        if len(scores) < 3 or not scale > 1e-6:
            raise InputError(
                f"the teacher's scores of {len(scores)} sentences follow from their lengths alone; "
                "give more and more varied sentences"
            )
        return cls(float(intercept), float(slope), scale, float(n_tokens.mean()), grows)

    def line(self, n_tokens: IntArray) -> FloatArray:
        """Return the score at q = 0, shape (S,)."""
        return np.asarray(self.intercept + self.slope * n_tokens)

    def factor(self, n_tokens: IntArray) -> FloatArray:
        """Return the score's rise with q, in standard deviations of the residuals, shape (S,)."""
        lengths = np.asarray(n_tokens, dtype=np.float64)
        return lengths / self.length if self.grows else np.ones_like(lengths)

    def residual(self, scores: FloatArray, n_tokens: IntArray) -> FloatArray:
        """Return what the network is to learn: (score - line) / scale, shape (S,)."""
        return np.asarray((scores - self.line(n_tokens)) / self.scale)

    def score(self, outputs: FloatArray, n_tokens: IntArray) -> FloatArray:
        """Return the scores of outputs q, shape (S,)."""
        return np.asarray(
            self.line(n_tokens) + self.scale * self.factor(n_tokens) * outputs, dtype=np.float64
        )

    def row(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)
