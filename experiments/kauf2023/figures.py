"""The study's figures: one panel a metric for each relation, and accuracies on BLiMP."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from contstim.drawing import add_legend_below, prepare_axes, series_colour, shorten_name


def relation_figure(
    points: pd.DataFrame, x: str, y: str, labels: tuple[str, str], correlations: pd.DataFrame
) -> list[Axes]:
    """Draw one relation, a panel each for the models and metrics in `points`.

    Parameters
    ----------
    points
        Columns `model`, `metric` and those named by `x` and `y`: one row a dot.
    x, y
        Columns.
    labels
        What the axes say.
    correlations
        Rows of the table of correlations that belong to these panels.
    """
    panels = list(points.groupby(["model", "metric"], sort=False))
    axes = prepare_axes(None, 1.9 * len(panels), 2.2, [1.0] * len(panels))
    r = correlations.set_index(["model", "metric"])["r"]
    for number, ((key, own), ax) in enumerate(zip(panels, axes, strict=True)):
        ax.scatter(own[x], own[y], s=3, alpha=0.3, color=series_colour(number), linewidths=0)
        _line(ax, own[x].to_numpy(float), own[y].to_numpy(float))
        ax.set_title(f"{key[1]}\n{shorten_name(key[0], 28)}\nr = {r[key]:.2f}", fontsize=7)
        ax.set_xlabel(labels[0])
        ax.set_ylabel(labels[1] if number == 0 else "")
    return axes


def _line(ax: Axes, x: np.ndarray, y: np.ndarray) -> None:
    """Draw the line of least squares; none where x does not vary."""
    if np.ptp(x) == 0:
        return
    slope, start = np.polyfit(x, y, 1)
    ends = np.array([x.min(), x.max()])
    ax.plot(ends, start + slope * ends, color="black", linewidth=0.8)


def blimp_figure(terms: pd.DataFrame) -> Axes:
    """Draw the accuracy on each category, one mark a model and metric."""
    order = list(dict.fromkeys(terms["term"]))
    series = list(terms.groupby(["model", "metric"], sort=False))
    (ax,) = prepare_axes(None, 6.5, 0.8 + 0.3 * len(order))
    ax.axvline(0.5, color="0.6", linewidth=0.8, linestyle=(0, (4, 3)))
    for number, (key, own) in enumerate(series):
        shift = (number - (len(series) - 1) / 2) * 0.8 / max(len(series), 2)
        places = [order.index(term) + shift for term in own["term"]]
        label = f"{shorten_name(key[0], 28)}, {key[1]}"
        ax.plot(
            own["accuracy"], places, "o", markersize=3.5, color=series_colour(number), label=label
        )
    ax.set_yticks(range(len(order)), [term.replace("_", " ") for term in order])
    ax.invert_yaxis()
    ax.set_xlabel("accuracy")
    add_legend_below(ax, ncols=2)
    return ax


def example_figure(examples: pd.DataFrame) -> list[Axes]:
    """Draw the score of each token of the example words under each metric (Figs. 2, 5, 6 and 17).

    `examples` is the table of `study.example_table` for one model. The final full stop of the
    sentence counts as a token of the word before it.
    """
    words = list(dict.fromkeys(examples["word"]))
    axes = prepare_axes(None, 2.4 * len(words), 2.4, [1.0] * len(words))
    for word, ax in zip(words, axes, strict=True):
        tokens = examples[examples["word"] == word]
        metrics = list(dict.fromkeys(tokens["metric"]))
        for number, metric in enumerate(metrics):
            scores = tokens[tokens["metric"] == metric]
            ax.bar(
                scores["token"] + 0.2 * (number - (len(metrics) - 1) / 2),
                -scores["log_prob"],
                width=0.18,
                color=series_colour(number),
                label=f"{metric} ({-scores['log_prob'].sum():.1f})",
            )
        ax.set_title(word, fontsize=8)
        ax.set_xticks(range(1, int(tokens["token"].max()) + 1))
        ax.set_xlabel("token of the word")
        ax.legend(frameon=False, fontsize=6, loc="upper left")
        ax.set_ylim(0, -1.6 * tokens["log_prob"].min())
    axes[0].set_ylabel("negative log-probability, nats")
    return axes
