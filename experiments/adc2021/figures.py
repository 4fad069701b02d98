"""Figures of the thesis: correlations, scatter plots, syntactic features and overlaps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from contstim.arrays import BoolArray
from contstim.drawing import create_axes, series_colour

#: Centres of three circles of radius 1, and the position of the count of each region. A region is
#: named by the sets that it belongs to.
_CENTRES = ((-0.5, 0.43), (0.5, 0.43), (0.0, -0.43))
_REGIONS = {
    (True, False, False): (-0.95, 0.7),
    (False, True, False): (0.95, 0.7),
    (False, False, True): (0.0, -1.0),
    (True, True, False): (0.0, 0.85),
    (True, False, True): (-0.62, -0.25),
    (False, True, True): (0.62, -0.25),
    (True, True, True): (0.0, 0.12),
}


def correlation_figure(values: pd.DataFrame, title: str) -> Figure:
    """Draw the matrix of Pearson's correlations between the columns (Figs. 2-4, 2-6, 3-1, 3-3)."""
    matrix = values.corr()
    (ax,) = create_axes()
    size = 1.6 + 0.55 * len(matrix)
    ax.figure.set_size_inches(size + 0.6, size)
    ax.imshow(matrix, vmin=0, vmax=1, cmap="Blues")
    for row, column in np.ndindex(*matrix.shape):
        value = matrix.to_numpy()[row, column]
        colour = "white" if value > 0.6 else "black"
        ax.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
    ax.set_xticks(range(len(matrix)), list(matrix), rotation=45, ha="right", fontsize=7)
    ax.set_yticks(range(len(matrix)), list(matrix), fontsize=7)
    ax.set_title(title, fontsize=8)
    return ax.figure


def scatter_figure(values: pd.DataFrame, human: str, unit: str) -> Figure:
    """Plot human values against the values of each model (Figs. 2-5, 2-7, 3-2, 3-4).

    Parameters
    ----------
    values
        One row per sentence or pair, and one column per model besides `human`.
    human
        Column of the human values.
    unit
        Label of the model's axis.
    """
    models = [name for name in values if name != human]
    n_rows = -(-len(models) // 4)
    panels = create_axes(1)
    figure = panels[0].figure
    panels[0].remove()
    figure.set_size_inches(7.2, 0.3 + 2.0 * n_rows)
    axes = figure.subplots(n_rows, 4, sharey=True, squeeze=False).ravel()
    for number, (model, ax) in enumerate(zip(models, axes, strict=False)):
        points = values[[model, human]].dropna().to_numpy(float)
        ax.plot(*points.T, ".", ms=1.5, alpha=0.3, color=series_colour(number), rasterized=True)
        slope, intercept = np.polyfit(*points.T, 1)
        ends = np.array([points[:, 0].min(), points[:, 0].max()])
        ax.plot(ends, intercept + slope * ends, color="black", linewidth=0.8)
        ax.set_title(f"{model}\nr = {np.corrcoef(points.T)[0, 1]:.3f}", fontsize=7)
        ax.set_xlabel(unit, fontsize=7)
        ax.tick_params(labelsize=7)
    for ax in axes[len(models) :]:
        ax.remove()
    for ax in axes[::4]:
        ax.set_ylabel(human, fontsize=7)
    return figure


def feature_figure(by_feature: pd.DataFrame, overall: float) -> Figure:
    """Draw the Matthews correlation by syntactic feature, with all restarts' range (Fig. 2-1).

    `by_feature` is the table of `mcc_by_feature`; the dashed line is the correlation over all
    sentences, `overall`.
    """
    (ax,) = create_axes()
    ax.figure.set_size_inches(6.5, 2.8)
    order = by_feature.sort_values("mean", ascending=False)
    ax.bar(range(len(order)), order["mean"], color=series_colour(0), width=0.7)
    spread = order["mean"] - order["min"], order["max"] - order["mean"]
    ax.errorbar(range(len(order)), order["mean"], spread, fmt="none", ecolor="0.3", linewidth=0.8)
    ax.axhline(overall, color="0.3", linewidth=0.8, linestyle="--")
    ax.axhline(0, color="0.3", linewidth=0.5)
    labels = [f"{name} ({n})" for name, n in zip(order["feature"], order["n"], strict=True)]
    ax.set_xticks(range(len(order)), labels, rotation=45, ha="right", fontsize=7)
    ax.set_ylabel("MCC, mean and range of restarts")
    return ax.figure


def overlap_figure(met: Mapping[str, BoolArray]) -> Figure:
    """Draw a Venn diagram of the pairs that meet the criterion under each of three models."""
    (ax,) = create_axes()
    ax.figure.set_size_inches(3.6, 3.4)
    for number, (name, centre) in enumerate(zip(met, _CENTRES, strict=True)):
        ax.add_patch(Circle(centre, 1.0, alpha=0.25, color=series_colour(number)))
        label_height = centre[1] + (1.12 if centre[1] > 0 else -1.18)
        ax.text(1.3 * centre[0], label_height, name, ha="center", fontsize=7)
    rows = list(map(tuple, np.stack(list(met.values()), axis=1).tolist()))
    for region, place in _REGIONS.items():
        ax.text(*place, f"{rows.count(region):,}", ha="center", va="center", fontsize=8)
    ax.text(1.5, -1.35, f"none: {rows.count((False,) * 3):,}", ha="right", fontsize=8)
    _hide_frame(ax)
    return ax.figure


def _hide_frame(ax: Axes) -> None:
    """Hide ticks and borders, and make units of both axes equal."""
    ax.set(xlim=(-1.7, 1.7), ylim=(-1.7, 1.7), aspect="equal")
    ax.set_axis_off()
