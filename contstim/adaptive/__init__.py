"""Adaptive studies that choose trials by previous answers, and sequential analysis."""

from contstim.lazy import attach_stub

__getattr__, __all__ = attach_stub(__name__, __file__)
