"""Scores that are learnt: students of other models, and acceptability classifiers.

Both read one number off the first token's vector of an encoder, in one forward pass a sentence.
"""

from __future__ import annotations

import math

from contstim.models.base import ScoreKind, SentenceModel
from contstim.models.spec import ModelSpec

__all__ = ["CARD", "classifier_kind", "load_classifier", "load_student", "student_kind"]

#: The file of a folder that says what the model is and what it reaches.
CARD = "README.md"


def load_student(spec: ModelSpec) -> SentenceModel:
    """Load the student that ``student:FOLDER`` names.

    Raises
    ------
    SpecError
        For an unknown option or a bad value.
    ModelFileError
        If the folder is missing, damaged or holds no student.
    """
    # torch and transformers take seconds to import and are needed only here.
    from contstim.models.learnt.student import StudentModel

    return StudentModel.load(spec)


def load_classifier(spec: ModelSpec) -> SentenceModel:
    """Load the classifier that ``classifier:FOLDER`` names. Raises as `load_student`."""
    from contstim.models.learnt.classifier import ClassifierModel

    return ClassifierModel.load(spec)


def student_kind(spec: ModelSpec) -> ScoreKind:
    """Return what a student's score is, as far as its spec tells: another model's, estimated."""
    return ScoreKind("estimate of a score", "score", math.inf, splits_over_words=False)


def classifier_kind(spec: ModelSpec) -> ScoreKind:
    """Return what a classifier's score is: the probability of no sentence."""
    margin = spec.get("output", "confidence") == "margin"
    return ScoreKind(
        "margin" if margin else "signed confidence",
        "score",
        math.inf if margin else 1.0,
        splits_over_words=False,
        differs_in_nats=False,
    )
