"""Commands of the benchmarks: ``contstim benchmark`` and ``contstim publish``."""
