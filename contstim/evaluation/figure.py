"""Figure of an evaluation: values of models, noise ceilings and significant differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from contstim.drawing import add_legend_below, prepare_axes, series_colour, shorten_names

# Sizes in inches: width of the panel, height of a row, width of a column on the right and of a
# letter.
_WIDTH, _ROW, _COLUMN, _LETTER = 3.4, 0.34, 0.16, 0.066


def dominance(comparisons: pd.DataFrame, order: list[str], alpha: float = 0.05) -> pd.DataFrame:
    """Return the pairs of models with a significant difference (q below `alpha`).

    Parameters
    ----------
    comparisons
        Comparisons of one analysis and measure.
    order
        Names of the models in the order of the result; other models are ignored.
    alpha
        False discovery rate.

    Returns
    -------
    DataFrame
        Columns `model` (the better model) and `beats`.

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
    position = {name: i for i, name in enumerate(order)}
    rows = []
    columns = significant[["model_1", "model_2", "difference"]]
    for model_1, model_2, difference in columns.itertuples(index=False):
        if model_1 in position and model_2 in position:
            rows.append((model_1, model_2) if difference > 0 else (model_2, model_1))
    rows.sort(key=lambda pair: (position[pair[0]], position[pair[1]]))
    return pd.DataFrame(rows, columns=["model", "beats"])


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

    A small dot is a participant or group, a large dot the mean with its confidence interval, and
    the grey band the noise ceiling. A star marks a model significantly below the lower bound of the
    ceiling. Each column on the right belongs to a model (filled dot) that is significantly better
    than other models (open dots).

    Parameters
    ----------
    models, comparisons
        Rows of `Evaluation.models` and `Evaluation.comparisons` of one analysis and measure.
    units
        Rows of the tables of participants or groups: `model`, `value`.
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
    # Colours depend on the order of the table, so a model has the same colour in all figures.
    tints = {str(name): series_colour(i) for i, name in enumerate(dict.fromkeys(models["model"]))}
    rows = models[models["value"].notna()].sort_values("value", ascending=False, kind="stable")
    order = [str(name) for name in rows["model"]]
    beats = dominance(comparisons, order, alpha)
    winners = list(dict.fromkeys(beats["model"]))
    side = _COLUMN * (len(winners) + 1.5) if winners else 0.2
    names = shorten_names(order)
    width = _LETTER * max(map(len, names)) + 1.02 * _WIDTH + side
    (ax,) = prepare_axes([ax], width, 1.2 + _ROW * max(len(order), 2))
    # Crossed tests compare means with the ceiling; signed-rank tests compare ranks.
    gap = (rows["value"] - rows["ceiling_lower"]).round(12)
    gap = gap.where(rows["test"] == "crossed", rows["effect_ceiling"])
    starred = (rows["q_ceiling"] < alpha) & (gap < 0)
    all_values = units["value"].dropna().to_numpy()
    bin_width = 0.015 * max(float(np.ptp(all_values)) if len(all_values) else 1.0, 1e-9)
    for y, (row, star) in enumerate(zip(rows.to_dict("records"), starred, strict=True)):
        model = str(row["model"])
        tint = tints[model]
        if not np.isnan(row["ceiling_lower"]):
            low, high = sorted((row["ceiling_lower"], row["ceiling_upper"]))
            edges = [y - 0.4, y + 0.4]
            ax.fill_betweenx(edges, low, high, color="0.8", lw=0, zorder=1, gid=f"ceiling-{model}")
            ax.plot([low, low], edges, color="0.55", linewidth=1, zorder=1)
        values = units.loc[units["model"] == model, "value"].dropna().to_numpy()
        # Equal values are stacked around the middle of the row.
        spread, bins = np.zeros(len(values)), np.round(values / bin_width)
        for value in np.unique(bins):
            same = np.flatnonzero(bins == value)
            spread[same] = 0.08 * (np.arange(len(same)) - (len(same) - 1) / 2)
        spread *= min(1.0, 0.3 / max(np.abs(spread).max(initial=0.0), 1e-9))
        dots: dict[str, Any] = {"color": tint, "ms": 2.6, "mew": 0, "alpha": 0.45, "zorder": 2}
        ax.plot(values, y + spread, "o", gid=f"units-{model}", **dots)
        if not np.isnan(row["ci_low"]):
            ends = [row["ci_low"], row["ci_high"]]
            ax.plot(ends, [y, y], color="black", lw=1.4, zorder=3, gid=f"interval-{model}")
        mean: dict[str, Any] = {"ms": 6, "mfc": tint, "mec": "black", "mew": 0.8, "zorder": 4}
        ax.plot(row["value"], y, "o", gid=f"mean-{model}", **mean)
        if star:
            beside = (1.0, y), (3, -3), ("axes fraction", "data"), "offset points"
            ax.annotate("*", *beside, va="center", fontsize=11, annotation_clip=False)
    if chance is not None:
        ax.axvline(chance, color="0.4", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    ax.set_xlabel(label or str(models["measure"].iloc[0]).replace("_", " "))
    ax.set_ylim(len(order) - 0.5, -0.5)
    ax.set_yticks(range(len(order)), names)
    engine = ax.figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine) and len(ax.figure.axes) == 1:
        engine.set(rect=(0, 0, 1 - side / width, 1))  # room for the columns on the right
    # Columns on the right of the panel: x as a share of its width, y in rows.
    outside: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "clip_on": False}
    outside["in_layout"] = False
    for number, model in enumerate(winners):
        x, y, tint = 1.07 + number * _COLUMN / _WIDTH, order.index(model), tints[model]
        below = [order.index(name) for name in beats.loc[beats["model"] == model, "beats"]]
        ax.plot([x, x], [min(y, *below), max(y, *below)], color=tint, lw=1.2, **outside)
        name = f"beaten-by-{model}"
        ax.plot([x] * len(below), below, "o", ms=4.5, mfc="white", mec=tint, gid=name, **outside)
        ax.plot(x, y, "o", ms=5, color=tint, gid=f"winner-{model}", **outside)
    _add_legend(ax, models, bool(winners), bool(starred.any()), len(units) > 0)
    return ax


def _add_legend(
    ax: Axes, models: pd.DataFrame, has_winners: bool, has_stars: bool, has_units: bool
) -> None:
    """Add a legend of the elements that the figure contains."""
    dot: dict[str, Any] = {"linestyle": "", "marker": "o", "color": "0.3"}
    handles: list[Line2D | Patch] = []
    if has_units:
        unit = "group" if models["unit"].iloc[0] == "group" else "participant"
        handles.append(Line2D([], [], markersize=2.6, alpha=0.6, label=f"one {unit}", **dot))
    handles.append(Line2D([], [], markersize=6, markeredgecolor="black", label="mean", **dot))
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
