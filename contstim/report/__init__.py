"""Figures and pages, from tables only.

A figure function draws on the Matplotlib axes it is given, or on new ones, and returns them.
"""

from contstim.report.model_figure import (
    dominance,
    feature_figure,
    model_figure,
    normalisation_figure,
)
from contstim.report.pair_figures import (
    matrix_figure,
    percentile_figure,
    power_figure,
    recovery_figure,
    triplet_figure,
)
from contstim.report.style import save_figure

__all__ = [
    "dominance",
    "feature_figure",
    "matrix_figure",
    "model_figure",
    "normalisation_figure",
    "percentile_figure",
    "power_figure",
    "recovery_figure",
    "save_figure",
    "triplet_figure",
]
