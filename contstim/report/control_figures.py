"""Figures of the controls: length normalisation and word features."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from contstim.report.style import colour, new_figure, short

__all__ = ["feature_figure", "normalisation_figure"]


def normalisation_figure(table: pd.DataFrame) -> Figure:
    """Draw accuracy with length normalisation (cross-validated) against raw accuracy.

    `table` is that of `normalisation_control`. After Golan et al. (2023), Supplementary Fig. S1.
    """
    figure, (ax,) = new_figure(3.8, 3.4)
    low = min(table["accuracy"].min(), table["accuracy_normalised"].min()) - 0.03
    high = max(table["accuracy"].max(), table["accuracy_normalised"].max()) + 0.03
    ax.plot([low, high], [low, high], color="0.6", linewidth=0.8, linestyle=(0, (4, 3)))
    tints = {name: colour(i) for i, name in enumerate(table["model"])}
    # Along the diagonal labels go to either side in turn, so that neighbours do not meet.
    ordered = table.sort_values("accuracy", kind="stable").to_dict("records")
    for number, row in enumerate(ordered):
        x, y = row["accuracy"], row["accuracy_normalised"]
        ax.plot(x, y, marker="o", markersize=5, linestyle="", color=tints[row["model"]])
        ax.annotate(
            short(row["model"], 20),
            (x, y),
            xytext=(5, -7) if number % 2 else (-5, 3),
            ha="left" if number % 2 else "right",
            textcoords="offset points",
            fontsize=7,
        )
    ax.set_xlim(low, high)
    ax.set_ylim(low, high)
    ax.set_aspect("equal")
    ax.set_xlabel("accuracy, log-probability alone")
    ax.set_ylabel("accuracy with LP, MeanLP, PenLP")
    return figure


def feature_figure(table: pd.DataFrame, feature: str, alpha: float = 0.05) -> Figure:
    """Draw how far models and people prefer sentences with more of a word feature.

    `table` is that of `feature_control`. For each model, the mean of preferred minus rejected
    sentence for the model (filled) and for people on the same pairs (open), with 95 % intervals;
    a star marks a difference at a false discovery rate of `alpha`.
    """
    rows = table[table["feature"] == feature]
    figure, (ax,) = new_figure(4.6, 1.2 + 0.3 * max(len(rows), 2))
    for y, row in enumerate(rows.to_dict("records")):
        for side, shift, face in (("model", -0.12, colour(y)), ("people", 0.12, "white")):
            mean = row[f"{side}_difference"]
            half = row[f"{side}_half_width"]
            ax.plot([mean - half, mean + half], [y + shift] * 2, color=colour(y), linewidth=1.2)
            ax.plot(
                mean,
                y + shift,
                marker="o",
                markersize=5,
                markerfacecolor=face,
                markeredgecolor=colour(y),
                linestyle="",
            )
        if row["q"] < alpha:
            ax.annotate("*", (1.0, y), xycoords=("axes fraction", "data"), fontsize=11)
    ax.axvline(0, color="0.4", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    ax.set_yticks(range(len(rows)), [short(name) for name in rows["model"]])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlabel(f"{feature.replace('_', ' ')}, preferred minus rejected sentence")
    ax.set_title("filled: the model; open: people on the same pairs", fontsize=7)
    return figure
