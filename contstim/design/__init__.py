"""Experimental design: lists of trials, counterbalancing, power and sample size."""

from contstim.lazy import attach_stub

__getattr__, __all__ = attach_stub(__name__, __file__)
