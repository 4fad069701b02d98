"""Figure of an evaluation: values of models, noise ceilings and significant differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from contstim.arrays import FloatArray
from contstim.drawing import add_legend_below, prepare_axes, series_colour, shorten_names

# Sizes in inches.
_PANEL_WIDTH, _LETTER_WIDTH, _ROW_HEIGHT = 3.4, 0.066, 0.34
# Width of a column on the right of the panel, in inches. Each column belongs to one model.
_COLUMN_WIDTH = 0.16


def dominance(comparisons: pd.DataFrame, order: list[str], alpha: float = 0.05) -> pd.DataFrame:
    """List the significant differences between two models (q below `alpha`).

    Parameters
    ----------
    comparisons
        Comparisons of one analysis and measure.
    order
        Names of the models to include, in the order by which the result is sorted.
    alpha
        False discovery rate.

    Returns
    -------
    DataFrame
        One row per significant difference, with the columns `model` (the better model) and `beats`
        (the worse model).

    Examples
    --------
    >>> import pandas as pd
    >>> comparisons = pd.DataFrame(
    ...     {"model_1": "A", "model_2": ["B", "C"], "difference": [0.2, 0.1], "q": [0.01, 0.3]}
    ... )
    >>> dominance(comparisons, ["A", "B", "C"])
      model beats
    0     A     B
    """
    significant = comparisons[(comparisons["q"] < alpha) & (comparisons["difference"] != 0)]
    # The difference is model 1 minus model 2, so the better model depends on its sign.
    is_first_better = significant["difference"] > 0
    first, second = significant["model_1"], significant["model_2"]
    better, worse = first.where(is_first_better, second), second.where(is_first_better, first)
    table = pd.DataFrame({"model": better, "beats": worse})
    # Keep models that are drawn, and sort by their order in the figure.
    table = table[table.isin(order).all(axis=1)]
    table = table.sort_values(["model", "beats"], key=lambda names: names.map(order.index))
    return table.reset_index(drop=True)


def model_figure(
    models: pd.DataFrame,
    comparisons: pd.DataFrame,
    units: pd.DataFrame,
    alpha: float = 0.05,
    ax: Axes | None = None,
    label: str = "",
    chance: float | None = None,
) -> Axes:
    """Draw the models of one analysis and measure, one row per model, best model first.

    Small dots are participants or groups. A large dot is their mean, drawn with its confidence
    interval. The grey band is the noise ceiling, and a star marks models significantly below its
    lower bound. Each column on the right shows one model (filled dot) and the models that are
    significantly worse (open dots).

    Parameters
    ----------
    models, comparisons
        Rows of `Evaluation.models` and `Evaluation.comparisons` of one analysis and measure.
    units
        Values to draw as small dots, with the columns `model` and `value`. These are rows of
        `DetailTables.participants` or `DetailTables.groups`.
    alpha
        False discovery rate.
    ax
        Axes to draw on; new axes by default.
    label
        Label of the x axis; the name of the measure by default.
    chance
        Value at chance, marked by a line; None for no line.

    Returns
    -------
    Axes
        Axes of the figure.

    Examples
    --------
    >>> from contstim import datasets, evaluate
    >>> choices = datasets.simulated_choices().query("condition == 'natural_controversial'")
    >>> scores = datasets.natural_scores()[["contstim:gpt", "contstim:trigram"]]
    >>> result = evaluate(choices, scores)
    >>> tables = result.models, result.comparisons, result.details.participants
    >>> here = "analysis == 'all' and measure == 'accuracy'"
    >>> ax = model_figure(*(table.query(here) for table in tables))
    """
    rows = models[models["value"].notna()].sort_values("value", ascending=False, kind="stable")
    order = [str(name) for name in rows["model"]]
    # Colours depend on the order of the table, so a model has the same colour in all figures.
    all_names = dict.fromkeys(models["model"])
    colours = {str(name): series_colour(i) for i, name in enumerate(all_names)}
    beats = dominance(comparisons, order, alpha)
    winners = list(dict.fromkeys(beats["model"]))
    # Crossed tests compare means with the ceiling; signed-rank tests compare ranks.
    distance = (rows["value"] - rows["ceiling_lower"]).round(12)
    distance = distance.where(rows["test"] == "crossed", rows["effect_ceiling"])
    has_star = ((rows["q_ceiling"] < alpha) & (distance < 0)).tolist()

    labels = shorten_names(order)
    columns_width = _COLUMN_WIDTH * (len(winners) + 1.5) if winners else 0.2
    width = _LETTER_WIDTH * max(map(len, labels)) + 1.02 * _PANEL_WIDTH + columns_width
    (ax,) = prepare_axes([ax], width, 1.2 + _ROW_HEIGHT * max(len(order), 2))
    all_values = units["value"].dropna().to_numpy()
    value_range = float(np.ptp(all_values)) if len(all_values) else 1.0
    bin_width = 0.015 * max(value_range, 1e-9)
    for y, row in enumerate(rows.to_dict("records")):
        model = str(row["model"])
        values = units.loc[units["model"] == model, "value"].dropna().to_numpy()
        _draw_model(ax, y, row, values, bin_width, colours[model])
        if has_star[y]:
            # The star is to the right of the panel, at the height of the row.
            beside = (1.0, y), (3, -3), ("axes fraction", "data"), "offset points"
            ax.annotate("*", *beside, va="center", fontsize=11, annotation_clip=False)
    if chance is not None:
        ax.axvline(chance, color="0.4", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    ax.set_xlabel(label or str(models["measure"].iloc[0]).replace("_", " "))
    ax.set_ylim(len(order) - 0.5, -0.5)
    ax.set_yticks(range(len(order)), labels)
    engine = ax.figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine) and len(ax.figure.axes) == 1:
        engine.set(rect=(0, 0, 1 - columns_width / width, 1))  # room for the columns on the right
    for column, model in enumerate(winners):
        beaten = beats.loc[beats["model"] == model, "beats"]
        beaten_rows = [order.index(name) for name in beaten]
        _draw_column(ax, column, model, order.index(model), beaten_rows, colours[model])
    _add_legend(ax, models, bool(winners), any(has_star), len(units) > 0)
    return ax


def _draw_model(
    ax: Axes, y: int, row: dict[Any, Any], values: FloatArray, bin_width: float, colour: str
) -> None:
    """Draw the noise ceiling, values, confidence interval and mean of one model.

    Parameters
    ----------
    ax
        Axes to draw on.
    y
        Vertical position of the model.
    row
        Row of the table of models.
    values
        Values of the participants or groups.
    bin_width
        Width of the bins of values that are stacked.
    colour
        Colour of the model.
    """
    model = row["model"]
    # Grey band from the lower to the upper noise ceiling, with a line at the lower one.
    if not np.isnan(row["ceiling_lower"]):
        low, high = sorted((row["ceiling_lower"], row["ceiling_upper"]))
        edges = [y - 0.4, y + 0.4]
        ax.fill_betweenx(edges, low, high, color="0.8", lw=0, zorder=1, gid=f"ceiling-{model}")
        ax.plot([low, low], edges, color="0.55", linewidth=1, zorder=1)

    # Stack the dots of values in the same bin vertically, centred on the row.
    bins = np.round(values / bin_width)
    offsets = np.zeros(len(values))
    for value in np.unique(bins):
        # The offsets of n dots are -(n - 1) / 2, ..., (n - 1) / 2 steps from the centre.
        in_bin = np.flatnonzero(bins == value)
        offsets[in_bin] = 0.08 * (np.arange(len(in_bin)) - (len(in_bin) - 1) / 2)
    # Shrink the offsets if a stack would be higher than 0.3 rows.
    max_offset = max(np.abs(offsets).max(initial=0.0), 1e-9)
    offsets *= min(1.0, 0.3 / max_offset)
    dot_style: dict[str, Any] = {"color": colour, "ms": 2.6, "mew": 0, "alpha": 0.45, "zorder": 2}
    ax.plot(values, y + offsets, "o", gid=f"units-{model}", **dot_style)

    # Confidence interval, then the mean on top of it. `gid` names elements in SVG files.
    if not np.isnan(row["ci_low"]):
        interval = [row["ci_low"], row["ci_high"]]
        ax.plot(interval, [y, y], color="black", lw=1.4, zorder=3, gid=f"interval-{model}")
    mean_style: dict[str, Any] = {"ms": 6, "mfc": colour, "mec": "black", "mew": 0.8, "zorder": 4}
    ax.plot(row["value"], y, "o", gid=f"mean-{model}", **mean_style)


def _draw_column(
    ax: Axes, column: int, model: str, y: int, beaten_rows: list[int], colour: str
) -> None:
    """Draw the column of a model that is significantly better than others, right of the panel.

    Parameters
    ----------
    ax
        Axes of the panel.
    column
        Index of the column.
    model
        Name of the model.
    y
        Vertical position of the model, marked by a filled dot.
    beaten_rows
        Vertical positions of the models that are worse, marked by open dots.
    colour
        Colour of the model.
    """
    ends = [min(y, *beaten_rows), max(y, *beaten_rows)]
    # The panel ends at x = 1. The columns stand side by side to its right.
    x = 1.07 + column * _COLUMN_WIDTH / _PANEL_WIDTH
    # The axis transform takes x as a fraction of the panel's width, and y in rows.
    outside: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "clip_on": False}
    outside["in_layout"] = False
    gid, all_x = f"beaten-by-{model}", [x] * len(beaten_rows)
    # Line from the best to the worst model, open dots for worse models, filled dot for the better.
    ax.plot([x, x], ends, color=colour, lw=1.2, **outside)
    ax.plot(all_x, beaten_rows, "o", ms=4.5, mfc="white", mec=colour, gid=gid, **outside)
    ax.plot(x, y, "o", ms=5, color=colour, gid=f"winner-{model}", **outside)


def _add_legend(
    ax: Axes, models: pd.DataFrame, has_winners: bool, has_stars: bool, has_units: bool
) -> None:
    """Add a legend of the elements that the figure contains."""
    handles: list[Line2D | Patch] = []
    # Style of a dot without a line. Each handle is an empty plot that has only a label.
    dot: dict[str, Any] = {"linestyle": "", "marker": "o", "color": "0.3"}
    if has_units:
        unit = "group" if models["unit"].iloc[0] == "group" else "participant"
        handles.append(Line2D([], [], markersize=2.6, alpha=0.6, label=f"one {unit}", **dot))
    handles.append(Line2D([], [], markersize=6, markeredgecolor="black", label="mean", **dot))
    # Elements that no model has are left out of the legend.
    if models["ci_low"].notna().any():
        handles.append(Line2D([], [], color="black", linewidth=1.4, label="95 % interval"))
    if models["ceiling_lower"].notna().any():
        handles.append(Patch(color="0.8", label="noise ceiling"))
    if has_stars:
        star: dict[str, Any] = {"linestyle": "", "marker": "$*$", "color": "black"}
        handles.append(Line2D([], [], markersize=5, label="below the ceiling", **star))
    if has_winners:
        open_dot = {**dot, "markerfacecolor": "white", "markeredgecolor": "0.3"}
        handles.append(Line2D([], [], markersize=4.5, label="worse than \u25cf", **open_dot))
    add_legend_below(ax, handles=handles, ncols=3, handletextpad=0.4, columnspacing=1.2)
