"""The figure of what designs will show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter, PercentFormatter, StrMethodFormatter

from contstim.report.style import colour, drawing_axes, short


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
    """
    designs = list(dict.fromkeys(curve["design"]))
    models = list(dict.fromkeys([*pairs["model_1"], *pairs["model_2"]]))
    side = 1.6 + 0.3 * len(models)
    ax, *matrices = drawing_axes(
        axes, 3.6 + side * len(designs), max(3.0, side), [3.6, *[side] * len(designs)]
    )
    for number, design in enumerate(designs):
        own = curve[curve["design"] == design]
        # As many points as a logarithmic axis shows.
        own = own.iloc[np.unique(np.geomspace(1, len(own), 80).astype(int)) - 1]
        ax.plot(own["n_trials"], own["recovery"], color=colour(number), label=short(design))
        ax.fill_between(
            own["n_trials"], own["low"], own["high"], color=colour(number), alpha=0.2, linewidth=0
        )
    ax.axhline(target, color="black", linewidth=0.6, linestyle=":")
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_ylim(0, 1)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel("trials of all participants together")
    ax.set_ylabel("right model comes out best")
    ax.legend(frameon=False, loc="lower right", fontsize=7)
    most = float(pairs["log_bayes_factor"].max())
    for number, (design, panel) in enumerate(zip(designs, matrices, strict=True)):
        grid = np.full((len(models), len(models)), np.nan)
        for row in pairs[pairs["design"] == design].itertuples():
            one, two = models.index(str(row.model_1)), models.index(str(row.model_2))
            grid[one, two] = grid[two, one] = row.log_bayes_factor
        panel.imshow(grid, cmap="Blues", vmin=0, vmax=most)
        names = [short(name, 16) for name in models]
        panel.set_xticks(range(len(models)), names, rotation=90)
        panel.set_yticks(range(len(models)), names if number == 0 else [""] * len(names))
        panel.set_title(f"{short(design, 24)}\nnats/1000 an answer", fontsize=7)
        for (r, c), value in np.ndenumerate(grid):
            if np.isfinite(value):
                white = value > 0.6 * most
                panel.text(
                    c,
                    r,
                    f"{1000 * value:.0f}",
                    ha="center",
                    va="center",
                    fontsize=6,
                    color="white" if white else "black",
                )
    return [ax, *matrices]
