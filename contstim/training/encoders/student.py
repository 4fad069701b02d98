"""Students: networks that reproduce another model's scores in one forward pass."""

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
from contstim.training.encoders.base import ENCODER_OPTIONS, FirstTokenModel


@dataclass(frozen=True)
class RegressionTarget:
    """Linear relation between the output q of a student network and its teacher's score.

    A student is a small network that is trained to predict a score that a larger model, its
    teacher, assigns to sentences. The predicted score of a sentence of T tokens is

        score = intercept + slope T + scale w q.

    The weight w is T / length if the score is a sum over tokens, and 1 otherwise. The linear trend
    in T is subtracted because log-probabilities depend strongly on the number of tokens, so that
    the network need not learn to count tokens. It learns the residual, per token if the score is a
    sum. Salazar et al. (2020, section 2.2) regress the score itself; up to a constant factor, the
    loss is the same squared error.

    Attributes
    ----------
    intercept, slope
        Least-squares estimates from the training sentences.
    scale
        Standard deviation of the residuals, in the unit of the teacher's scores.
    length
        Mean number of tokens per training sentence.
    grows
        Whether the score is a sum over tokens, which grows with their number.
    """

    intercept: float
    slope: float
    scale: float
    length: float
    grows: bool

    @classmethod
    def fit(cls, scores: FloatArray, n_tokens: IntArray, is_sum: bool) -> RegressionTarget:
        """Estimate the linear trend of scores in the number of tokens by least squares.

        Parameters
        ----------
        scores
            Teacher's scores of S sentences, shape (S,).
        n_tokens
            Number of tokens per sentence, shape (S,).
        is_sum
            Whether the score is a sum over tokens.

        Raises
        ------
        InputError
            If the residuals do not vary.
        """
        design = np.stack([np.ones(len(scores)), n_tokens.astype(np.float64)], axis=1)
        # Regress the scores on the number of tokens: score = intercept + slope * n_tokens.
        (intercept, slope), *_ = np.linalg.lstsq(design, scores, rcond=None)
        # The student learns only the residuals, in units of their standard deviation.
        residuals = scores - design @ np.array([intercept, slope])
        scale = float(residuals.std())
        # Without residual variation there is nothing to learn.
        if len(scores) < 3 or not scale > 1e-6:
            raise InputError(
                f"the teacher's scores of {len(scores)} sentences are determined by the numbers of "
                "tokens; give more and more varied sentences"
            )
        return cls(float(intercept), float(slope), scale, float(n_tokens.mean()), is_sum)

    def trend(self, n_tokens: IntArray) -> FloatArray:
        """Return the score, in the teacher's unit, predicted from the number of tokens, (S,)."""
        return np.asarray(self.intercept + self.slope * n_tokens)

    def weights(self, n_tokens: IntArray) -> FloatArray:
        """Return the weight w of the network's output, shape (S,)."""
        lengths = np.asarray(n_tokens, dtype=np.float64)
        return lengths / self.length if self.grows else np.ones_like(lengths)

    def residuals(self, scores: FloatArray, n_tokens: IntArray) -> FloatArray:
        """Return the residuals from the trend in standard deviations, shape (S,)."""
        return np.asarray((scores - self.trend(n_tokens)) / self.scale)

    def predict(self, outputs: FloatArray, n_tokens: IntArray) -> FloatArray:
        """Return the scores, in the teacher's unit, for the network's outputs, shape (S,)."""
        residuals = self.scale * self.weights(n_tokens) * outputs
        return np.asarray(self.trend(n_tokens) + residuals, dtype=np.float64)


@dataclass(frozen=True)
class StudentEvent(Event):
    """Description of a student's score, which estimates the score of its teacher.

    Attributes
    ----------
    imitates
        Model specification string of the teacher.
    of
        Digest of the definition of the teacher's score (`Event`).
    heldout
        Correlation and error of the estimates on held-out sentences.
    """

    imitates: str = ""
    of: str = ""
    heldout: str = ""


class StudentModel(FirstTokenModel):
    """Network that estimates a teacher's scores, in the teacher's unit (Salazar et al. 2020).

    Section 2.2 describes the method. Scores do not exceed the teacher's upper bound.

    Parameters
    ----------
    spec
        Parsed model specification; its location is the folder of the student.

    Raises
    ------
    SpecError
        If an option is unknown or has an invalid value.
    ModelFileError
        If the folder is missing, damaged or does not contain a student.
    """

    def __init__(self, spec: ModelSpec) -> None:
        spec.check_options(ENCODER_OPTIONS)
        record = read_record(spec.path, "student")
        super().__init__(spec, ["student"])
        try:
            self.teacher: dict[str, Any] = dict(record["teacher"])
            # The teacher is the model whose scores the student estimates. The target converts the
            # output of the network to a score.
            self.target = RegressionTarget(**record["target"])
            self._kind = student_kind(spec)
            heldout = record["heldout"]
            self._accuracy = (
                f"r {heldout['pearson']:.3f}, error {heldout['rmse']:.2f} on "
                f"{heldout['sentences']} sentences"
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"the record of {spec.location!r} is incomplete ({error}); train the student again"
            ) from None

    @property
    def event(self) -> StudentEvent:
        """The estimated score, with the accuracy of the estimate."""
        return StudentEvent(
            **self._define_score("student", str(self.teacher["reduction"])),
            imitates=str(self.teacher["spec"]),
            of=str(self.teacher["event_digest"]),
            heldout=self._accuracy,
        )

    @property
    def kind(self) -> ScoreKind:
        """An estimate with the upper bound of the teacher's score."""
        return self._kind

    def combine(self, outputs: Sequence[FloatArray], n_tokens: IntArray) -> FloatArray:
        """Convert the outputs (S, 1) to scores in the unit of the teacher, shape (S,)."""
        scores = self.target.predict(outputs[0][:, 0], n_tokens)
        return np.minimum(scores, self._kind.highest)
