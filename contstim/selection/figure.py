"""Figure of the sentences of triplets by their percentiles under two models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from contstim.arrays import FloatArray
from contstim.drawing import PALETTE, prepare_axes, shorten_name

#: Colours of the three sentences of a triplet.
TRIPLET_COLOURS = {"natural": PALETTE[6], "synthetic_1": PALETTE[0], "synthetic_2": PALETTE[1]}


def percentiles(values: ArrayLike, reference_values: ArrayLike) -> FloatArray:
    """Compute the percentile rank of each value among reference values.

    Parameters
    ----------
    values
        Values of any shape.
    reference_values
        Reference values.

    Returns
    -------
    array
        Percentage of reference values below each value, from 0 to 100. Reference values equal to
        the value count half.
    """
    # Count the reference values below each value, and those up to it, by binary search.
    ordered = np.sort(np.asarray(reference_values, dtype=np.float64))
    n_below = np.searchsorted(ordered, values, side="left")
    n_up_to = np.searchsorted(ordered, values, side="right")
    return np.asarray(100.0 * (n_below + n_up_to) / 2 / len(ordered))


def triplet_figure(
    triplets: pd.DataFrame,
    reference_1: Sequence[float],
    reference_2: Sequence[float],
    ax: Axes | None = None,
) -> Axes:
    """Draw the sentences of triplets at their percentiles under two models.

    Each sentence is a dot, and lines connect the natural sentence of a triplet with its synthetic
    sentences, as in Golan et al. (2023), Fig. 2. In SVG files, each dot has an id such as
    ``natural-0`` or ``synthetic_1-0``.

    Parameters
    ----------
    triplets
        Triplets for one pair of models, with the columns of :data:`contstim.columns.TRIPLETS`.
    reference_1, reference_2
        Scores of the same natural sentences under model 1 and model 2, among which percentiles are
        computed.
    ax : Axes, optional
        Axes to draw on; by default of a new figure.

    Returns
    -------
    Axes
        Axes with the figure.

    Examples
    --------
    >>> from contstim import datasets
    >>> triplets = datasets.readable_triplets().query("model_1 == 'contstim:bigram'")
    >>> scores = datasets.natural_scores()
    >>> ax = triplet_figure(triplets, scores["contstim:bigram"], scores["contstim:trigram"])
    """
    (ax,) = prepare_axes([ax], 5.2, 5.2)
    # Grey dots: all reference sentences.
    corpus_x = percentiles(reference_1, reference_1)
    corpus_y = percentiles(reference_2, reference_2)
    ax.plot(corpus_x, corpus_y, "o", ms=2, color="0.73", zorder=0)
    # Percentiles of the natural sentences, at which the lines start.
    natural_x = percentiles(triplets["natural_lp_1"].to_numpy(), reference_1)
    natural_y = percentiles(triplets["natural_lp_2"].to_numpy(), reference_2)
    for kind, colour in TRIPLET_COLOURS.items():
        xs = percentiles(triplets[f"{kind}_lp_1"].to_numpy(), reference_1)
        ys = percentiles(triplets[f"{kind}_lp_2"].to_numpy(), reference_2)
        for i in range(len(triplets)):
            # Line from the natural sentence to the synthetic sentence.
            if kind != "natural":
                line_x, line_y = [natural_x[i], xs[i]], [natural_y[i], ys[i]]
                ax.plot(line_x, line_y, color=colour, linewidth=0.8, alpha=0.35, zorder=1)
            ax.plot(xs[i], ys[i], "o", ms=6, color=colour, zorder=2, gid=f"{kind}-{i}")
    ax.set(xlim=(-2, 102), ylim=(-2, 102), aspect="equal")
    ax.set_xlabel(f"percentile under model 1, {shorten_name(triplets['model_1'].iloc[0])}")
    ax.set_ylabel(f"percentile under model 2, {shorten_name(triplets['model_2'].iloc[0])}")
    return ax
