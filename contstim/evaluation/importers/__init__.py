"""Readers of human data: raw files in, the choices table out, nothing prepared by hand."""

from contstim.evaluation.importers.formats import FORMATS, read_choices
from contstim.evaluation.importers.golan2023 import read_golan2023
from contstim.evaluation.importers.jspsych import read_jspsych
from contstim.evaluation.importers.mapping import ColumnMapping, read_mapped

__all__ = [
    "FORMATS",
    "ColumnMapping",
    "read_choices",
    "read_golan2023",
    "read_jspsych",
    "read_mapped",
]
