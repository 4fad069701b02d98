"""Figures and pages, from tables only."""

from contstim.report.model_figure import (
    dominance,
    feature_figure,
    model_figure,
    normalisation_figure,
)
from contstim.report.pair_figures import matrix_figure, percentile_figure
from contstim.report.style import save_figure

__all__ = [
    "dominance",
    "feature_figure",
    "matrix_figure",
    "model_figure",
    "normalisation_figure",
    "percentile_figure",
    "save_figure",
]
