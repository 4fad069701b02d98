"""Training and adaptation of n-gram models, networks, students and classifiers."""

from contstim.lazy import attach_stub

__getattr__, __all__ = attach_stub(__name__, __file__)
