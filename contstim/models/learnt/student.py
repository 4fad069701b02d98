"""Students: networks that imitate another model's sentence score in one forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.errors import ModelFileError
from contstim.models.base import Event, ScoreKind
from contstim.models.learnt import read_record, student_kind
from contstim.models.learnt.folder import Learnt, read_learnt
from contstim.models.learnt.model import LEARNT_OPTIONS, FirstTokenModel
from contstim.models.learnt.target import Target
from contstim.models.spec import ModelSpec

__all__ = ["StudentEvent", "StudentModel"]


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
    """

    def __init__(self, spec: ModelSpec, learnt: Learnt) -> None:
        super().__init__(
            spec.canonical(LEARNT_OPTIONS),
            learnt,
            spec.choice("unknown", ("error", "unk"), LEARNT_OPTIONS["unknown"]),
        )
        try:
            self.teacher: dict[str, Any] = dict(learnt.record["teacher"])
            self.target = Target(**learnt.record["target"])
            self._heldout = learnt.record["heldout"]
            self._kind = student_kind(spec)
            self._said = (
                f"r {self._heldout['pearson']:.3f}, error {self._heldout['rmse']:.2f} on "
                f"{self._heldout['sentences']} sentences"
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"the record of {spec.location!r} is incomplete ({error}); make the student again"
            ) from None

    @classmethod
    def load(cls, spec: ModelSpec) -> StudentModel:
        """Load the student that `spec` names."""
        spec.check_options(LEARNT_OPTIONS)
        folder = Path(spec.location).expanduser()
        record = read_record(folder, "student")
        device = spec.get("device", LEARNT_OPTIONS["device"])
        return cls(spec, read_learnt(folder, record, ["student"], device))

    @property
    def event(self) -> StudentEvent:
        """What is scored, whose score it imitates, and how well."""
        return StudentEvent(
            units="sentences",
            start=self.opening,
            end="none",
            punctuation="keep",
            case=self.tokenizer.case,
            unknown=self.tokenizer.options.unknown,
            metric="student",
            reduction=str(self.teacher["reduction"]),
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
