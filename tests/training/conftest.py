"""The tiny models that tests of this folder share, each made once."""

from made_models import bert, classifier, cola, student, tiny

__all__ = ["bert", "classifier", "cola", "student", "tiny"]
