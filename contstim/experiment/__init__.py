"""The browser experiment: a study folder, the server that runs it, and the way back to tables."""

from contstim.lazy import attach_stub

__getattr__, __all__ = attach_stub(__name__, __file__)
