"""Figure of triplets by percentile under two models."""

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


def percentiles(values: ArrayLike, reference: ArrayLike) -> FloatArray:
    """Compute the percentile of each value among reference values.

    Parameters
    ----------
    values
        Values of any shape.
    reference
        Reference values.

    Returns
    -------
    array
        Percentage of reference values below each value, equal values counted half; 0 to 100.
    """
    ordered = np.sort(np.asarray(reference, dtype=np.float64))
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
    sentences, as in Golan et al. (2023), Fig. 2. Each dot has the SVG id ``KIND-NUMBER``.

    Parameters
    ----------
    triplets
        Triplets of one pair of models.
    reference_1, reference_2
        Scores of the same natural sentences under both models, for the percentiles.
    ax : Axes, optional
        Axes to draw on; new ones by default.

    Returns
    -------
    Axes
        The axes drawn on.

    Examples
    --------
    >>> from contstim import datasets
    >>> triplets = datasets.readable_triplets().query("model_1 == 'contstim:bigram'")
    >>> scores = datasets.natural_scores()
    >>> ax = triplet_figure(triplets, scores["contstim:bigram"], scores["contstim:trigram"])
    """
    references = (reference_1, reference_2)
    (ax,) = prepare_axes([ax], 5.2, 5.2)
    corpus = [percentiles(reference, reference) for reference in references]
    ax.plot(*corpus, "o", ms=2, color="0.73", zorder=0)
    natural: list[tuple[float, float]] = []
    for kind, colour in TRIPLET_COLOURS.items():
        scores = (triplets[f"{kind}_lp_{k}"].to_numpy() for k in (1, 2))
        points = list(zip(*map(percentiles, scores, references), strict=True))
        natural = natural or points
        for number, (start, point) in enumerate(zip(natural, points, strict=True)):
            if kind != "natural":
                xs, ys = zip(start, point, strict=True)
                ax.plot(xs, ys, color=colour, linewidth=0.8, alpha=0.35, zorder=1)
            ax.plot(*point, "o", ms=6, color=colour, zorder=2, gid=f"{kind}-{number}")
    ax.set(xlim=(-2, 102), ylim=(-2, 102), aspect="equal")
    ax.set_xlabel(f"percentile under model 1, {shorten_name(triplets['model_1'].iloc[0])}")
    ax.set_ylabel(f"percentile under model 2, {shorten_name(triplets['model_2'].iloc[0])}")
    return ax
