"""Making of a finished study a folder that others can use without contstim, and reading it back."""

from __future__ import annotations

from contstim.benchmarks.publishing.about import read_about
from contstim.benchmarks.publishing.folder import check_folder, published_data, read_published
from contstim.benchmarks.publishing.material import study_material, table_material
from contstim.benchmarks.publishing.texts import SourcedTexts
from contstim.benchmarks.publishing.writing import add_scores, publish

__all__ = [
    "SourcedTexts",
    "add_scores",
    "check_folder",
    "publish",
    "published_data",
    "read_about",
    "read_published",
    "study_material",
    "table_material",
]
