"""Readers of human data: raw files in, the choices table out, nothing prepared by hand."""

from contstim.evaluation.importers.formats import FORMATS, read_choices, read_mapped
from contstim.evaluation.importers.mapping import ColumnMapping

__all__ = ["FORMATS", "ColumnMapping", "read_choices", "read_mapped"]
