"""Commands of the experiment: ``contstim experiment``, ``review`` and ``watch``."""
