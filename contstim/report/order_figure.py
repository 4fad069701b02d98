"""Figure of a study of training orders."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from contstim.report.style import colour, new_figure

__all__ = ["order_figure"]


def order_figure(by_order: pd.DataFrame, by_sentence: pd.DataFrame) -> Figure:
    """Draw the share of sentences whose label ever flips against orders, and the score's spread.

    Left: the share of acrobatic sentences after k orders, and Matthews' correlation of each
    network, after Vazquez Martinez (2021), Fig. 2-3. Right: for each sentence the standard
    deviation of its signed confidence over orders against the mean; filled: acrobatic.

    Parameters
    ----------
    by_order, by_sentence
        As `OrderStudy` gives them.
    """
    figure, (left, right) = new_figure(6.6, 2.9, (1.0, 1.0))
    left.plot(by_order["orders"], by_order["acrobatic"], color=colour(0), label="acrobatic")
    left.plot(by_order["orders"], by_order["mcc"], color=colour(1), linewidth=0.8, label="MCC")
    left.set_ylim(bottom=min(0.0, float(by_order["mcc"].min())))
    left.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    left.set_xlabel("training orders of one initialisation")
    left.set_ylabel("share of sentences; correlation")
    left.legend(frameon=False, fontsize=7)
    for flips, label in ((False, "label never flips"), (True, "acrobatic")):
        rows = by_sentence[by_sentence["acrobatic"] == flips]
        right.plot(
            rows["confidence_mean"],
            rows["confidence_sd"],
            linestyle="",
            marker="o",
            markersize=1.8,
            color=colour(0) if flips else "0.6",
            label=f"{label} ({len(rows):,})",
        )
    right.set_xlabel("mean score over orders (signed confidence)")
    right.set_ylabel("standard deviation over orders")
    right.legend(frameon=False, fontsize=7)
    return figure
