"""Fixtures of the tests of training."""

from tiny_models import bert, classifier, cola, student, tiny

__all__ = ["bert", "classifier", "cola", "student", "tiny"]
