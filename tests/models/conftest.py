"""Fixtures of the tests of models."""

from tiny_models import bert, classifier, cola, student, tiny

__all__ = ["bert", "classifier", "cola", "student", "tiny"]
