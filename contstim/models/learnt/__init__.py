"""Scores that are learnt: students of other models, and acceptability classifiers.

Both read one number off the first token's vector of an encoder, in one forward pass a sentence.
"""

from __future__ import annotations

from contstim.models.base import SentenceModel
from contstim.models.spec import ModelSpec

__all__ = ["CARD", "load_classifier", "load_student"]

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
