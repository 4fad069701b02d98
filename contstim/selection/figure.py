"""The figure of triplets by percentiles under two models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from contstim.arrays import FloatArray
from contstim.drawing import PALETTE, drawing_axes, short

#: Colours of the sentences of a triplet.
TRIPLET_COLOURS = {"natural": PALETTE[6], "synthetic_1": PALETTE[0], "synthetic_2": PALETTE[1]}


def percentiles(values: ArrayLike, reference: ArrayLike) -> FloatArray:
    """Return the percentage of `reference` below each value, ties counted half; 0 to 100."""
    ordered = np.sort(np.asarray(reference, dtype=np.float64))
    below = np.searchsorted(ordered, values, side="left")
    up_to = np.searchsorted(ordered, values, side="right")
    return np.asarray(100.0 * (below + up_to) / 2 / len(ordered))


def triplet_figure(
    triplets: pd.DataFrame,
    reference_1: Sequence[float],
    reference_2: Sequence[float],
    ax: Axes | None = None,
) -> Axes:
    """Draw the triplets of two models by percentiles; lines join natural and synthetic sentences.

    After Golan et al. (2023), Fig. 2. Each dot has the id ``KIND-NUMBER``.

    Parameters
    ----------
    triplets
        A `triplets` table of one pair of models.
    reference_1, reference_2
        Each model's scores of natural sentences, in one order; percentiles are among them.
    ax
        Where to draw; new axes if not given.

    Returns
    -------
    Axes
        Those drawn on.

    Examples
    --------
    >>> from contstim import datasets
    >>> triplets = datasets.written_triplets().query("model_1 == 'contstim:bigram'")
    >>> scores = datasets.natural_scores()
    >>> ax = triplet_figure(triplets, scores["contstim:bigram"], scores["contstim:trigram"])
    """
    references = (reference_1, reference_2)
    (ax,) = drawing_axes([ax], 5.2, 5.2)
    cloud = [percentiles(reference, reference) for reference in references]
    ax.plot(*cloud, "o", ms=2, color="0.73", zorder=0)
    natural: list[tuple[float, float]] = []
    for kind, tint in TRIPLET_COLOURS.items():
        columns = (triplets[f"{kind}_lp_{k}"].to_numpy() for k in (1, 2))
        places = map(percentiles, columns, references)
        points = list(zip(*places, strict=True))
        natural = natural or points
        for number, ((from_x, from_y), (x, y)) in enumerate(zip(natural, points, strict=True)):
            if kind != "natural":
                ax.plot([from_x, x], [from_y, y], color=tint, linewidth=0.8, alpha=0.35, zorder=1)
            ax.plot(x, y, "o", ms=6, color=tint, zorder=2, gid=f"{kind}-{number}")
    ax.set(xlim=(-2, 102), ylim=(-2, 102), aspect="equal")
    ax.set_xlabel(f"percentile under model 1, {short(triplets['model_1'].iloc[0])}")
    ax.set_ylabel(f"percentile under model 2, {short(triplets['model_2'].iloc[0])}")
    return ax
