"""Figures of models: their values, units and ceilings, who beats whom, controls, orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter
from matplotlib.transforms import Bbox

from contstim.arrays import BoolArray
from contstim.report.style import colour, drawing_axes, legend_below, short
from contstim.tables import side_of_ceiling

# Up to so many models the rows are high.
_FEW = 12
# Of a row's height, how far below its middle a model's marks are, under its name.
_LANE = 0.15
# Inches, of the part with the values.
_WIDTH = 4.3


def dominance(comparisons: pd.DataFrame, order: list[str], alpha: float = 0.05) -> pd.DataFrame:
    """Return which model significantly beats which: columns `model`, `beats`, q below `alpha`.

    Rows go by the order of models, then of those they beat.
    """
    significant = comparisons[(comparisons["q"] < alpha) & (comparisons["difference"] != 0)]
    place = {name: i for i, name in enumerate(order)}
    rows = []
    columns = significant[["model_1", "model_2", "difference"]]
    for model_1, model_2, ahead in columns.itertuples(index=False):
        if model_1 in place and model_2 in place:
            rows.append((model_1, model_2) if ahead > 0 else (model_2, model_1))
    rows.sort(key=lambda pair: (place[pair[0]], place[pair[1]]))
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
    """Draw one analysis and measure.

    Models are rows, the best at the top, with their names above them, so that the figure is no
    wider than a phone needs to show it. Small dots are groups or participants, the large one
    the mean with its interval, the grey band the noise ceiling from lower to upper bound (a
    line where they coincide), a star a model significantly below its lower bound. On the
    right, each column is a model that beats others: filled at itself, open at those it beats.

    Parameters
    ----------
    models, comparisons
        Rows of `Evaluation.models` and `.comparisons` for one analysis and one measure.
    units
        Rows of `Evaluation.groups` or `.participants` for the same: `model`, `value`.
    alpha
        False discovery rate of stars and dominance.
    ax
        Where to draw; new axes if not given.
    label
        What the values are; the name of the measure if not given.
    chance
        Where a line marks what guessing gives.

    Returns
    -------
    Axes
        Those drawn on; the columns of models that beat others are beside them (`child_axes`).
    """
    shown = models[models["value"].notna()].sort_values("value", ascending=False, kind="stable")
    order = [str(name) for name in shown["model"]]
    beats = dominance(comparisons, order, alpha)
    winners = list(dict.fromkeys(beats["model"]))
    metro = 0.16 * len(winners) + 0.3 if winners else 0.0
    row = 0.36 if len(order) <= _FEW else 0.27
    height = 1.05 + row * max(len(order), 2)
    (ax,) = drawing_axes([ax], _WIDTH + metro, height)
    # By the order of the table, so that a model has one colour in all figures.
    tints = {str(name): colour(i) for i, name in enumerate(dict.fromkeys(models["model"]))}
    short_of = (shown["q_ceiling"] < alpha) & (side_of_ceiling(shown) < 0)
    _draw_values(ax, shown, tints, units, short_of.to_numpy())
    if chance is not None:
        ax.axvline(chance, color="0.4", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    ax.set_xlabel(label or str(models["measure"].iloc[0]).replace("_", " "))
    ax.set_ylim(len(order) - 0.5, -0.5)
    names = [short(name, 48) for name in order]
    ax.set_yticks(np.arange(len(order)) - 0.27, names, ha="left", va="center")
    ax.tick_params(axis="y", length=0, pad=-2, labelsize=8 if len(order) <= _FEW else 7)
    for tick in ax.get_yticklabels():  # the line at chance does not strike names out
        tick.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.3})
    for y in range(1, len(order)):
        ax.axhline(y - 0.5, color="0.92", linewidth=0.6, zorder=0)
    if winners:
        side = ax.inset_axes((1.03, 0.0, metro / _WIDTH, 1.0))
        # As many inches wide whatever room the layout leaves the axes, which it measures twice.
        side.set_axes_locator(lambda *_: _beside(ax, metro))
        _draw_metro(side, beats, winners, order, tints)
    _legend(ax, shown, bool(winners), bool(short_of.any()))
    return ax


def _beside(ax: Axes, inches: float) -> Bbox:
    """Return a place of this width to the right of axes, as a share of the figure."""
    box, sheet = ax.get_position(), ax.figure
    wide = sheet.dpi / sheet.bbox.width
    return Bbox.from_bounds(box.x1 + 0.13 * wide, box.y0, inches * wide, box.height)


def _draw_values(
    ax: Axes, shown: pd.DataFrame, tints: dict[str, str], units: pd.DataFrame, starred: BoolArray
) -> None:
    all_values = units["value"].dropna().to_numpy()
    width = 0.015 * max(float(np.ptp(all_values)) if len(all_values) else 1.0, 1e-9)
    for place, row in enumerate(shown.to_dict("records")):
        y, model = place + _LANE, row["model"]
        tint = tints[str(model)]
        if not np.isnan(row["ceiling_lower"]):
            low, high = sorted((row["ceiling_lower"], row["ceiling_upper"]))
            band, edges = f"ceiling-{model}", [y - 0.23, y + 0.29]
            ax.fill_betweenx(edges, low, high, color="0.8", lw=0, zorder=1, gid=band)
            ax.plot([low, low], edges, color="0.55", linewidth=1, zorder=1)
        values = units.loc[units["model"] == model, "value"].dropna().to_numpy()
        # Dots that would cover each other are stacked in order, not by chance.
        spread = np.zeros(len(values))
        bins = np.round(values / width)
        for value in np.unique(bins):
            same = np.flatnonzero(bins == value)
            spread[same] = 0.07 * (np.arange(len(same)) - (len(same) - 1) / 2)
        spread *= min(1.0, 0.24 / max(np.abs(spread).max(initial=0.0), 1e-9))
        dots = f"units-{model}"
        ax.plot(values, y + spread, "o", color=tint, ms=2.6, mew=0, alpha=0.45, zorder=2, gid=dots)
        if not np.isnan(row["ci_low"]):
            ends, line = [row["ci_low"], row["ci_high"]], f"interval-{model}"
            ax.plot(ends, [y, y], color="black", linewidth=1.4, zorder=3, gid=line)
        mean, dot = row["value"], f"mean-{model}"
        ax.plot(mean, y, "o-", ms=6, mfc=tint, mec="black", mew=0.8, zorder=4, gid=dot)
        if starred[place]:
            beside = (1.0, y), (3, -3), ("axes fraction", "data"), "offset points"
            ax.annotate("*", *beside, va="center", fontsize=11, annotation_clip=False)


def _draw_metro(
    side: Axes, beats: pd.DataFrame, winners: list[str], order: list[str], tints: dict[str, str]
) -> None:
    side.set_ylim(len(order) - 0.5, -0.5)
    side.set_xlim(-0.7, max(len(winners), 1) - 0.3)
    side.set_axis_off()
    for x, model in enumerate(winners):
        y, tint = order.index(model) + _LANE, tints[model]
        beaten = beats.loc[beats["model"] == model, "beats"]
        below = [order.index(other) + _LANE for other in beaten]
        side.plot([x, x], [min(y, *below), max(y, *below)], color=tint, linewidth=1.2)
        columns, name = [x] * len(below), f"beaten-by-{model}"
        side.plot(columns, below, "o", ms=4.5, mfc="white", mec=tint, gid=name)
        side.plot(x, y, marker="o", ms=5, color=tint, gid=f"winner-{model}")


def _legend(ax: Axes, shown: pd.DataFrame, metro: bool, starred: bool) -> None:
    dot: dict[str, Any] = {"linestyle": "", "marker": "o", "color": "0.3"}
    unit = "group" if len(shown) and shown["unit"].iloc[0] == "group" else "participant"
    handles: list[Line2D | Patch] = [
        Line2D([], [], markersize=2.6, alpha=0.6, label=f"one {unit}", **dot),
        Line2D([], [], markersize=6, markeredgecolor="black", label="mean", **dot),
    ]
    if shown["ci_low"].notna().any():
        handles.append(Line2D([], [], color="black", linewidth=1.4, label="95 % interval"))
    if shown["ceiling_lower"].notna().any():
        handles.append(Patch(color="0.8", label="noise ceiling"))
    if starred:
        star: dict[str, Any] = {"linestyle": "", "marker": "$*$", "color": "black"}
        handles.append(Line2D([], [], markersize=5, label="below the ceiling", **star))
    if metro:
        beaten: dict[str, Any] = {"markerfacecolor": "white", "markeredgecolor": "0.3"}
        handles.append(Line2D([], [], **{**dot, **beaten}, markersize=4.5, label="beaten by ●"))
    legend_below(ax, handles=handles, ncols=3, handletextpad=0.4, columnspacing=1.2)


def normalisation_figure(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw accuracy with length normalisation (cross-validated) against raw accuracy.

    `table` is that of `normalisation_control`; `ax` is where to draw, new axes if not given, and
    what is returned. After Golan et al. (2023), Supplementary Fig. S1.
    """
    (ax,) = drawing_axes([ax], 3.8, 3.4)
    low = min(table["accuracy"].min(), table["accuracy_normalised"].min()) - 0.03
    high = max(table["accuracy"].max(), table["accuracy_normalised"].max()) + 0.03
    ax.plot([low, high], [low, high], color="0.6", linewidth=0.8, linestyle=(0, (4, 3)))
    tints = {name: colour(i) for i, name in enumerate(table["model"])}
    # Along the diagonal labels go to either side in turn, so that neighbours do not meet.
    ordered = table.sort_values("accuracy", kind="stable").to_dict("records")
    for number, row in enumerate(ordered):
        model, at = row["model"], (row["accuracy"], row["accuracy_normalised"])
        ax.plot(*at, "o", ms=5, color=tints[model])
        off, ha = ((5, -7), "left") if number % 2 else ((-5, 3), "right")
        ax.annotate(short(model, 20), at, off, textcoords="offset points", ha=ha, fontsize=7)
    ax.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    ax.set_xlabel("accuracy, log-probability alone")
    ax.set_ylabel("accuracy with LP, MeanLP, PenLP")
    return ax


def feature_figure(
    table: pd.DataFrame, feature: str, alpha: float = 0.05, ax: Axes | None = None
) -> Axes:
    """Draw how far models and people prefer sentences with more of a word feature.

    `table` is that of `feature_control`. For each model, the mean of preferred minus rejected
    sentence for the model (filled) and for people on the same pairs (open), with 95 % intervals;
    a star marks a difference at a false discovery rate of `alpha`. `ax` is where to draw, new axes
    if not given, and what is returned.
    """
    rows = table[table["feature"] == feature]
    (ax,) = drawing_axes([ax], 4.6, 1.2 + 0.3 * max(len(rows), 2))
    for y, row in enumerate(rows.to_dict("records")):
        for side, shift, face in (("model", -0.12, colour(y)), ("people", 0.12, "white")):
            mean, half = row[f"{side}_difference"], row[f"{side}_half_width"]
            ax.plot([mean - half, mean + half], [y + shift] * 2, color=colour(y), linewidth=1.2)
            ax.plot(mean, y + shift, "o", ms=5, mfc=face, mec=colour(y))
        if row["q"] < alpha:
            ax.annotate("*", (1.0, y), xycoords=("axes fraction", "data"), fontsize=11)
    ax.axvline(0, color="0.4", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    ax.set_yticks(range(len(rows)), [short(name) for name in rows["model"]])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlabel(f"{feature.replace('_', ' ')}, preferred minus rejected sentence")
    ax.set_title("filled: the model; open: people on the same pairs", fontsize=7)
    return ax


def order_figure(
    by_order: pd.DataFrame, by_sentence: pd.DataFrame, axes: Sequence[Axes] | None = None
) -> list[Axes]:
    """Draw the share of sentences whose label ever flips against orders, and the score's spread.

    Left: the share of acrobatic sentences after k orders, and Matthews' correlation of each
    network, after Vazquez Martinez (2021), Fig. 2-3. Right: for each sentence the standard
    deviation of its signed confidence over orders against the mean; filled: acrobatic.

    Parameters
    ----------
    by_order, by_sentence
        As `OrderStudy` gives them.
    axes
        The two to draw on; new ones if not given.

    Returns
    -------
    list of Axes
        Those drawn on.
    """
    left, right = drawing_axes(axes, 6.6, 2.9, (1.0, 1.0))
    left.plot(by_order["orders"], by_order["acrobatic"], color=colour(0), label="acrobatic")
    left.plot(by_order["orders"], by_order["mcc"], color=colour(1), linewidth=0.8, label="MCC")
    left.set_ylim(bottom=min(0.0, float(by_order["mcc"].min())))
    left.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    left.set_xlabel("training orders of one initialisation")
    left.set_ylabel("share of sentences; correlation")
    left.legend(frameon=False, fontsize=7)
    for flips, label in ((False, "label never flips"), (True, "acrobatic")):
        rows = by_sentence[by_sentence["acrobatic"] == flips]
        entry, tint = f"{label} ({len(rows):,})", colour(0) if flips else "0.6"
        mean, spread = rows["confidence_mean"], rows["confidence_sd"]
        right.plot(mean, spread, "o", ms=1.8, color=tint, label=entry)
    right.set_xlabel("mean score over orders (signed confidence)")
    right.set_ylabel("standard deviation over orders")
    right.legend(frameon=False, fontsize=7)
    return [left, right]
