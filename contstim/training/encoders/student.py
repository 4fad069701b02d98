"""Students: networks that imitate another model's sentence score in one forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError, ModelFileError
from contstim.models import ModelSpec
from contstim.models.base import Event, ScoreKind
from contstim.training.encoders import read_record, student_kind
from contstim.training.encoders.base import LEARNT_OPTIONS, FirstTokenModel


@dataclass(frozen=True)
class RegressionTarget:
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
    def fit(cls, scores: FloatArray, n_tokens: IntArray, grows: bool) -> RegressionTarget:
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


@dataclass(frozen=True)
class StudentEvent(Event):
    """What a student scores: an estimate of another model's score.

    Attributes
    ----------
    imitates
        The teacher's spec.
    of
        The digest of the teacher's event.
    heldout
        How near it comes on sentences it did not learn from.
    """

    imitates: str = ""
    of: str = ""
    heldout: str = ""


class StudentModel(FirstTokenModel):
    """A network that has learnt a teacher's sentence score (Salazar et al. 2020, section 2.2).

    Scores are estimates in the teacher's unit, never above the teacher's highest score.

    Raises
    ------
    SpecError
        For an unknown option or a bad value.
    ModelFileError
        If the folder is missing, damaged or holds no student.
    """

    def __init__(self, spec: ModelSpec) -> None:
        spec.check_options(LEARNT_OPTIONS)
        record = read_record(spec.path, "student")
        super().__init__(spec, ["student"])
        try:
            self.teacher: dict[str, Any] = dict(record["teacher"])
            self.target = RegressionTarget(**record["target"])
            self._kind = student_kind(spec)
            heldout = record["heldout"]
            self._said = (
                f"r {heldout['pearson']:.3f}, error {heldout['rmse']:.2f} on "
                f"{heldout['sentences']} sentences"
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"the record of {spec.location!r} is incomplete ({error}); make the student again"
            ) from None

    @property
    def event(self) -> StudentEvent:
        """What is scored, whose score it imitates, and how well."""
        return StudentEvent(
            **self._event("student", str(self.teacher["reduction"])),
            imitates=str(self.teacher["spec"]),
            of=str(self.teacher["event_digest"]),
            heldout=self._said,
        )

    @property
    def kind(self) -> ScoreKind:
        """An estimate that never exceeds what the teacher's score cannot."""
        return self._kind

    def combine(self, outputs: Sequence[FloatArray], n_tokens: IntArray) -> FloatArray:
        """Turn outputs (S, 1) into scores (S,), in the teacher's unit."""
        scores = self.target.score(outputs[0][:, 0], n_tokens)
        return np.minimum(scores, self._kind.highest)
