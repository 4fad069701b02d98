"""Figure of statistical power."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from contstim.drawing import prepare_axes, series_colour, shorten_name


def power_figure(
    curve: pd.DataFrame, target: float = 0.8, axes: Sequence[Axes] | None = None
) -> list[Axes]:
    """Draw statistical power against the number of participants, one panel per measure.

    A solid line with a band of two Monte Carlo standard errors shows the power for each pair of
    models and number of trials. A dashed line shows the recovery, the proportion of simulated
    studies in which the model that participants follow has the highest value.

    Parameters
    ----------
    curve
        Result of `contstim.design.power_curve`. Only its first analysis is drawn.
    target : float, default 0.8
        Power at which a dotted line is drawn.
    axes : sequence of Axes, optional
        Axes to draw on, one per measure; by default of a new figure.

    Returns
    -------
    list of Axes
        Axes with the panels.

    Examples
    --------
    >>> from contstim.design import StudySimulator, power_curve
    >>> curve = power_curve(StudySimulator.from_difference(0.1), (10, 20, 40), n_simulations=50)
    >>> axes = power_figure(curve)
    """
    curve = curve[curve["analysis"] == curve["analysis"].iloc[0]]
    # Only the first analysis is drawn. The x axis is the number of participants in all groups.
    curve = curve.assign(total=curve["n_groups"] * curve["n_participants"]).sort_values("total")
    measures = list(dict.fromkeys(curve["measure"]))
    panels = prepare_axes(axes, 3.6 * len(measures), 3.0, [3.6] * len(measures))
    for ax, measure in zip(panels, measures, strict=True):
        rows = curve[curve["measure"] == measure]
        lines = rows.groupby(["model_1", "model_2", "n_trials"], sort=False)
        # One line for each pair of models and number of trials.
        for number, ((model_1, model_2, trials), line) in enumerate(lines):
            label = f"{shorten_name(model_1, 14)} / {shorten_name(model_2, 14)}, {trials} pairs"
            colour, total, power = series_colour(number), line["total"], line["power"]
            ax.plot(total, power, "o-", markersize=3, color=colour, label=label)
            # Band of two Monte Carlo standard errors.
            low, high = power - 2 * line["stderr"], power + 2 * line["stderr"]
            ax.fill_between(total, low, high, color=colour, alpha=0.2, linewidth=0)
        # The recovery does not depend on the compared pair, so draw one line per number of trials.
        if rows["recovery"].notna().any():
            for trials, line in rows.groupby("n_trials", sort=False):
                line = line.drop_duplicates("total")
                label = f"followed model best, {trials} pairs"
                ax.plot(line["total"], line["recovery"], "--", color="gray", label=label)
        ax.axhline(target, color="black", linewidth=0.6, linestyle=":")
        ax.yaxis.set_major_formatter(PercentFormatter(1.0))
        ax.set(ylim=(0, 1), ylabel="share of studies (q < .05)", xlabel="participants")
        ax.set_title(measure.replace("_", " "), fontsize=8)
        ax.legend(frameon=False, loc="lower right", fontsize=6)
    return list(panels)
