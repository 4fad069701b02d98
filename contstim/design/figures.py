"""Figures of power and of model recovery."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter, PercentFormatter, StrMethodFormatter

from contstim.arrays import BoolArray, FloatArray
from contstim.drawing import colour, drawing_axes, short, short_names


def recovery_figure(
    curve: pd.DataFrame,
    pairs: pd.DataFrame,
    target: float = 0.95,
    axes: Sequence[Axes] | None = None,
) -> list[Axes]:
    """Draw recovery against trials, and how well each design tells every two models apart.

    Parameters
    ----------
    curve, pairs
        `Recovery.curve` and `Recovery.model_pairs`.
    target
        Where a line is drawn.
    axes
        Where to draw, one and then one a design; new ones if not given.

    Returns
    -------
    list of Axes
        Those drawn on. The first has a curve a design with its 95 % interval; then a matrix a
        design, the expected log Bayes factor of one answer in thousandths of a nat, darker where
        it is more.

    Examples
    --------
    >>> from contstim import datasets
    >>> from contstim.design.recovery import recovery
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt", "contstim:rnn"]]
    >>> result = recovery({"random": 10}, scores, n_studies=100)
    >>> axes = recovery_figure(result.curve, result.model_pairs)
    """
    designs = list(dict.fromkeys(curve["design"]))
    models = list(dict.fromkeys([*pairs["model_1"], *pairs["model_2"]]))
    side = 1.6 + 0.3 * len(models)
    widths = [3.6, *[side] * len(designs)]
    ax, *matrices = drawing_axes(axes, sum(widths), max(3.0, side), widths)
    for number, design in enumerate(designs):
        of_design = curve[curve["design"] == design]
        # As many points as a logarithmic axis shows.
        of_design = of_design.iloc[np.unique(np.geomspace(1, len(of_design), 80).astype(int)) - 1]
        trials, tint = of_design["n_trials"], colour(number)
        ax.plot(trials, of_design["recovery"], color=tint, label=short(design))
        ax.fill_between(
            trials, of_design["low"], of_design["high"], color=tint, alpha=0.2, linewidth=0
        )
    ax.axhline(target, color="black", linewidth=0.6, linestyle=":")
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set(ylim=(0, 1), ylabel="right model comes out best")
    ax.set_xlabel("trials of all participants together")
    ax.legend(frameon=False, loc="lower right", fontsize=7)
    most = float(pairs["log_bayes_factor"].max())
    for number, (design, panel) in enumerate(zip(designs, matrices, strict=True)):
        of_design = pairs[pairs["design"] == design]
        grid = _grid(of_design, "model_1", "model_2", "log_bayes_factor", models, symmetric=True)
        panel.imshow(grid, cmap="Blues", vmin=0, vmax=most)
        names = short_names(models, 16)
        panel.set_xticks(range(len(models)), names, rotation=90)
        panel.set_yticks(range(len(models)), names if number == 0 else [""] * len(names))
        panel.set_title(f"{short(design, 24)}\nnats/1000 an answer", fontsize=7)
        _print_cells(panel, 1000 * grid, grid > 0.6 * most, 6)
    return [ax, *matrices]


def power_figure(
    curve: pd.DataFrame, target: float = 0.8, axes: Sequence[Axes] | None = None
) -> list[Axes]:
    """Draw power against the number of people.

    Parameters
    ----------
    curve
        As `contstim.design.planning.power` returns it; of its analyses the first is drawn.
    target
        Where a line is drawn.
    axes
        Where to draw, one a measure; new ones if not given.

    Returns
    -------
    list of Axes
        Those drawn on: a curve with its 95 % interval for each two models and number of pairs.

    Examples
    --------
    >>> from contstim.design import power
    >>> from contstim.design.studies import StatedStudies
    >>> curve = power(StatedStudies(0.1), n_participants=(10, 20, 40), n_simulations=50)
    >>> axes = power_figure(curve)
    """
    curve = curve[curve["analysis"] == curve["analysis"].iloc[0]]
    curve = curve.assign(people=curve["n_groups"] * curve["n_participants"]).sort_values("people")
    measures = list(dict.fromkeys(curve["measure"]))
    panels = drawing_axes(axes, 3.6 * len(measures), 3.0, [3.6] * len(measures))
    keys = ["model_1", "model_2", "n_trials"]
    for ax, measure in zip(panels, measures, strict=True):
        lines = curve[curve["measure"] == measure].groupby(keys, sort=False)
        for number, ((model_1, model_2, trials), line) in enumerate(lines):
            tint = colour(number)
            label = f"{short(model_1, 14)} / {short(model_2, 14)}, {trials} pairs"
            ax.plot(line["people"], line["power"], "o-", markersize=3, color=tint, label=label)
            band = line["low"], line["high"]
            ax.fill_between(line["people"], *band, color=tint, alpha=0.2, linewidth=0)
        ax.axhline(target, color="black", linewidth=0.6, linestyle=":")
        ax.yaxis.set_major_formatter(PercentFormatter(1.0))
        ax.set(ylim=(0, 1), ylabel="studies that find it (q < .05)", xlabel="people")
        ax.set_title(measure.replace("_", " "), fontsize=8)
        ax.legend(frameon=False, loc="lower right", fontsize=6)
    return list(panels)


def _grid(
    table: pd.DataFrame, row: str, column: str, value: str, order: Sequence[str], symmetric: bool
) -> FloatArray:
    """Return the values by the places of their row and column in `order`, NaN where none is."""
    cells = table.set_index([row, column])[value].reindex(
        pd.MultiIndex.from_product([order, order])
    )
    grid = cells.to_numpy(dtype=np.float64).reshape(len(order), len(order))
    return np.where(np.isnan(grid), grid.T, grid) if symmetric else grid


def _print_cells(ax: Axes, grid: FloatArray, dark: BoolArray, size: float) -> None:
    """Write whole numbers into the cells of a matrix, in white where a cell is dark."""
    for (r, c), value in np.ndenumerate(grid):
        if np.isfinite(value):
            text, tint = f"{value:.0f}", "white" if dark[r, c] else "black"
            ax.text(c, r, text, ha="center", va="center", fontsize=size, color=tint)
