"""Figures of two models and their sentences, or of every model with every other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter, PercentFormatter, StrMethodFormatter
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from contstim.arrays import BoolArray, FloatArray
from contstim.errors import UnknownNameError
from contstim.report.style import PALETTE, colour, drawing_axes, legend_below, short, short_names

#: What the sentences of a triplet are drawn in.
TRIPLET_COLOURS = {"natural": PALETTE[6], "synthetic_1": PALETTE[0], "synthetic_2": PALETTE[1]}


def percentile_figure(
    trials: pd.DataFrame, scores: pd.DataFrame, model_1: str, model_2: str, ax: Axes | None = None
) -> Axes:
    """Draw the percentiles of the experiment's sentences under two models; lines join pairs.

    A percentile is the dense rank of a sentence's log-probability among all sentences of the
    experiment, over the largest rank, as in Golan et al. (2023), Figs. 1 and 3. Pairs drawn
    are those that pit the two models against each other, or all if none does. The end with the
    larger marker is the sentence that more people chose.

    Parameters
    ----------
    trials
        `Evaluation.trials`.
    scores
        `Evaluation.scores`: column `sentence` and one column per model.
    model_1, model_2
        The two.
    ax
        Where to draw; new axes if not given.

    Returns
    -------
    Axes
        Those drawn on.

    Raises
    ------
    UnknownNameError
        If a model has no scores.

    Examples
    --------
    >>> from contstim import datasets, evaluate
    >>> choices = datasets.simulated_choices().query("condition == 'natural_controversial'")
    >>> scores = datasets.natural_scores()[["contstim:gpt", "contstim:trigram"]]
    >>> result = evaluate(choices, scores)
    >>> trials, scores = result.people.trials, result.provenance.scores
    >>> ax = percentile_figure(trials, scores, "contstim:gpt", "contstim:trigram")
    """
    ranks = {}
    for model in (model_1, model_2):
        if model not in scores.columns:
            raise UnknownNameError.among("model", model, set(scores.columns) - {"sentence"})
        dense = rankdata(scores[model].to_numpy(), method="dense")
        ranks[model] = pd.Series(dense / dense.max(), index=scores["sentence"])
    both = trials[["model_1", "model_2"]]
    either = (both == [model_1, model_2]).all(axis=1) | (both == [model_2, model_1]).all(axis=1)
    pitted = trials[either]
    rows = pitted if len(pitted) else trials
    (ax,) = drawing_axes([ax], 3.7, 3.9)
    conditions = list(dict.fromkeys(rows["condition"]))
    for number, condition in enumerate(conditions):
        block = rows[rows["condition"] == condition]
        places = pd.DataFrame(ranks)
        ends = [places.loc[block[name]].to_numpy().T for name in ("sentence_1", "sentence_2")]
        tint = colour(number)
        for (x_1, y_1), (x_2, y_2) in zip(*(end.T for end in ends), strict=True):
            ax.plot([x_1, x_2], [y_1, y_2], color=tint, linewidth=0.5, alpha=0.35, zorder=1)
        more_for = [(block[n] > block[m]).to_numpy() for n, m in (("n_1", "n_2"), ("n_2", "n_1"))]
        for end, chosen in zip(ends, more_for, strict=True):
            for mask, size, face in ((chosen, 4.5, tint), (~chosen, 2.2, "white")):
                ax.plot(*end[:, mask], "o", ms=size, mfc=face, mec=tint, mew=0.6, zorder=2)
        ax.plot([], [], marker="o", color=tint, label=condition.replace("_", " "))
    ax.plot([0, 1], [0, 1], color="0.7", linewidth=0.7, linestyle=(0, (4, 3)), zorder=0)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    ax.set_xlabel(f"percentile under {short(model_1)}")
    ax.set_ylabel(f"percentile under {short(model_2)}")
    ax.set_title(f"{len(rows)} pairs; filled: chosen by more people", fontsize=7)
    if len(conditions) > 1:
        legend_below(ax, ncols=2)
    return ax


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


def matrix_figure(
    table: pd.DataFrame,
    row: str,
    column: str,
    value: str,
    order: Sequence[str],
    label: str,
    middle: float = 0.5,
    symmetric: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw a model-by-model table; every cell is printed, absent ones are left blank.

    Parameters
    ----------
    table
        Long form with the columns `row`, `column` and `value` (0 ... 1).
    order
        Models, first at the top and left.
    label
        What the colour means.
    middle
        The value that is white, such as chance.
    symmetric
        Each two models stand once in `table` and fill both cells.
    ax
        Where to draw; new axes if not given.

    Returns
    -------
    Axes
        Those drawn on; the bar of colours has its own.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame(
    ...     {"model_1": ["A", "B"], "model_2": ["B", "A"], "share": [0.7, 0.3]}
    ... )
    >>> ax = matrix_figure(table, "model_1", "model_2", "share", ["A", "B"], label="share won")
    """
    grid = _grid(table, row, column, value, order, symmetric)
    side = 1.9 + 0.42 * len(order)
    (ax,) = drawing_axes([ax], side + 0.5, side)
    reach = max(middle, 1 - middle)
    image = ax.imshow(grid, cmap="PuOr", vmin=middle - reach, vmax=middle + reach)
    names = short_names(order, 22)
    ax.set_xticks(range(len(order)), names, rotation=45, ha="right", rotation_mode="anchor")
    ax.set_yticks(range(len(order)), names)
    ax.set(xlabel=column.replace("_", " "), ylabel=row.replace("_", " "))
    brightness = np.asarray(image.to_rgba(grid))[..., :3] @ [0.299, 0.587, 0.114]
    _print_cells(ax, 100 * grid, brightness < 0.5, 7)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.7)
    bar.set_label(label, fontsize=7)
    bar.ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    bar.ax.tick_params(labelsize=7)
    return ax


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

    Examples
    --------
    >>> from contstim import datasets
    >>> from contstim.design.recovery import recovery
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt", "contstim:rnn"]]
    >>> result = recovery({"random": 10}, scores, n_studies=100)
    >>> axes = recovery_figure(result.curve, result.model_pairs)
    """
    designs = list(dict.fromkeys(curve["design"]))
    models = list(dict.fromkeys([*pairs["model_1"], *pairs["model_2"]]))
    side = 1.6 + 0.3 * len(models)
    widths = [3.6, *[side] * len(designs)]
    ax, *matrices = drawing_axes(axes, sum(widths), max(3.0, side), widths)
    for number, design in enumerate(designs):
        of_design = curve[curve["design"] == design]
        # As many points as a logarithmic axis shows.
        of_design = of_design.iloc[np.unique(np.geomspace(1, len(of_design), 80).astype(int)) - 1]
        trials, tint = of_design["n_trials"], colour(number)
        ax.plot(trials, of_design["recovery"], color=tint, label=short(design))
        ax.fill_between(
            trials, of_design["low"], of_design["high"], color=tint, alpha=0.2, linewidth=0
        )
    ax.axhline(target, color="black", linewidth=0.6, linestyle=":")
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set(ylim=(0, 1), ylabel="right model comes out best")
    ax.set_xlabel("trials of all participants together")
    ax.legend(frameon=False, loc="lower right", fontsize=7)
    most = float(pairs["log_bayes_factor"].max())
    for number, (design, panel) in enumerate(zip(designs, matrices, strict=True)):
        of_design = pairs[pairs["design"] == design]
        grid = _grid(of_design, "model_1", "model_2", "log_bayes_factor", models, symmetric=True)
        panel.imshow(grid, cmap="Blues", vmin=0, vmax=most)
        names = short_names(models, 16)
        panel.set_xticks(range(len(models)), names, rotation=90)
        panel.set_yticks(range(len(models)), names if number == 0 else [""] * len(names))
        panel.set_title(f"{short(design, 24)}\nnats/1000 an answer", fontsize=7)
        _print_cells(panel, 1000 * grid, grid > 0.6 * most, 6)
    return [ax, *matrices]


def power_figure(
    curve: pd.DataFrame, target: float = 0.8, axes: Sequence[Axes] | None = None
) -> list[Axes]:
    """Draw power against the number of people.

    Parameters
    ----------
    curve
        As `contstim.design.planning.power` returns it; of its analyses the first is drawn.
    target
        Where a line is drawn.
    axes
        Where to draw, one a measure; new ones if not given.

    Returns
    -------
    list of Axes
        Those drawn on: a curve with its 95 % interval for each two models and number of pairs.

    Examples
    --------
    >>> from contstim.design import power
    >>> from contstim.design.studies import StatedStudies
    >>> curve = power(StatedStudies(0.1), n_participants=(10, 20, 40), n_simulations=50)
    >>> axes = power_figure(curve)
    """
    curve = curve[curve["analysis"] == curve["analysis"].iloc[0]]
    curve = curve.assign(people=curve["n_groups"] * curve["n_participants"]).sort_values("people")
    measures = list(dict.fromkeys(curve["measure"]))
    panels = drawing_axes(axes, 3.6 * len(measures), 3.0, [3.6] * len(measures))
    keys = ["model_1", "model_2", "n_trials"]
    for ax, measure in zip(panels, measures, strict=True):
        lines = curve[curve["measure"] == measure].groupby(keys, sort=False)
        for number, ((model_1, model_2, trials), line) in enumerate(lines):
            tint = colour(number)
            label = f"{short(model_1, 14)} / {short(model_2, 14)}, {trials} pairs"
            ax.plot(line["people"], line["power"], "o-", markersize=3, color=tint, label=label)
            band = line["low"], line["high"]
            ax.fill_between(line["people"], *band, color=tint, alpha=0.2, linewidth=0)
        ax.axhline(target, color="black", linewidth=0.6, linestyle=":")
        ax.yaxis.set_major_formatter(PercentFormatter(1.0))
        ax.set(ylim=(0, 1), ylabel="studies that find it (q < .05)", xlabel="people")
        ax.set_title(measure.replace("_", " "), fontsize=8)
        ax.legend(frameon=False, loc="lower right", fontsize=6)
    return list(panels)


def _grid(
    table: pd.DataFrame, row: str, column: str, value: str, order: Sequence[str], symmetric: bool
) -> FloatArray:
    """Return the values by the places of their row and column in `order`, NaN where none is."""
    cells = table.set_index([row, column])[value].reindex(
        pd.MultiIndex.from_product([order, order])
    )
    grid = cells.to_numpy(dtype=np.float64).reshape(len(order), len(order))
    return np.where(np.isnan(grid), grid.T, grid) if symmetric else grid


def _print_cells(ax: Axes, grid: FloatArray, dark: BoolArray, size: float) -> None:
    """Write whole numbers into the cells of a matrix, in white where a cell is dark."""
    for (r, c), value in np.ndenumerate(grid):
        if np.isfinite(value):
            text, tint = f"{value:.0f}", "white" if dark[r, c] else "black"
            ax.text(c, r, text, ha="center", va="center", fontsize=size, color=tint)
