"""Figures of models: their values, units and ceilings, who beats whom, controls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.transforms import Bbox

from contstim.report.style import colour, drawing_axes, legend_below, short, short_names
from contstim.tables import side_of_ceiling

# Up to so many models the rows are high.
_FEW = 12
# Inches: the part with the values; a column of a model that beats others, at most, and what stands
# beside these columns; what is above and below the rows.
_WIDTH, _COLUMN, _BESIDE, _AROUND = 4.3, 0.16, 0.3, 1.05
# Of a figure of given width, the most that these columns take.
_MOST_BESIDE = 0.4
# Inches that a letter of a name takes.
_LETTER = 0.064


@dataclass(frozen=True)
class _Rows:
    """How a model's row is divided, in inches: its name, then a lane an analysis.

    Attributes
    ----------
    name, lane
        Their heights.
    height
        Of the row.
    """

    name: float
    lane: float
    height: float

    @classmethod
    def of(cls, n_models: int, n_analyses: int) -> _Rows:
        row = 0.36 if n_models <= _FEW else 0.27
        lane = 0.52 * row if n_analyses == 1 else 0.15 if n_models <= _FEW else 0.12
        return cls(0.42 * row, lane, 0.48 * row + n_analyses * lane)

    def top(self, model: int, analysis: int) -> float:
        """Return where a lane begins, in rows."""
        return model - 0.5 + (self.name + analysis * self.lane) / self.height

    def middle(self, model: int, analysis: int) -> float:
        """Return where the marks of a lane are, in rows."""
        return self.top(model, analysis) + 0.23 / 0.52 * self.depth

    @property
    def depth(self) -> float:
        """How high a lane is, in rows."""
        return self.lane / self.height


def dominance(comparisons: pd.DataFrame, order: list[str], alpha: float = 0.05) -> pd.DataFrame:
    """Return which model significantly beats which: columns `model`, `beats`, q below `alpha`.

    Rows go by the order of models, then of those they beat.

    Examples
    --------
    >>> import pandas as pd
    >>> comparisons = pd.DataFrame(
    ...     {"model_1": "A", "model_2": ["B", "C"], "difference": [0.2, 0.1], "q": [0.01, 0.3]}
    ... )
    >>> dominance(comparisons, ["A", "B", "C"])
      model beats
    0     A     B
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
    width: float | None = None,
) -> Axes:
    """Draw one or several analyses by one measure.

    Models are rows, the best at the top, with their names above them, so that the figure is no
    wider than a phone or a journal's column needs to show it. Small dots are groups or
    participants, the large one the mean with its interval, the grey band the noise ceiling from
    lower to upper bound (a line where they coincide), a star a model significantly below its lower
    bound. On the right, each column is a model that beats others: filled at itself, open at those
    it beats. Of several analyses each has a lane and a colour, without small dots; models are
    ordered, and beaten, by the first.

    Parameters
    ----------
    models, comparisons
        Rows of `Evaluation.models` and `.comparisons` for one measure.
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
    width
        Of the figure, inches; by default what the columns on the right take beside the values.

    Returns
    -------
    Axes
        Those drawn on; the columns of models that beat others are beside them (`child_axes`).

    Examples
    --------
    >>> from contstim import datasets, evaluate
    >>> choices = datasets.simulated_choices().query("condition == 'natural_controversial'")
    >>> scores = datasets.natural_scores()[["contstim:gpt", "contstim:trigram"]]
    >>> result = evaluate(choices, scores)
    >>> tables = result.models, result.comparisons, result.details.participants
    >>> here = "analysis == 'all' and measure == 'accuracy'"
    >>> ax = model_figure(*(table.query(here) for table in tables))
    """
    blocks = [("", models)]
    if "analysis" in models:
        blocks = [(str(name), block) for name, block in models.groupby("analysis", sort=False)]
    several = len(blocks) > 1
    names = [name for name, _ in blocks]
    first = blocks[0][1]
    shown = first[first["value"].notna()].sort_values("value", ascending=False, kind="stable")
    rest = models.loc[models["value"].notna() & ~models["model"].isin(shown["model"]), "model"]
    order = [str(name) for name in dict.fromkeys([*shown["model"], *rest])]
    compared = comparisons[comparisons["analysis"] == names[0]] if several else comparisons
    beats = dominance(compared, order, alpha)
    winners = list(dict.fromkeys(beats["model"]))
    metro = _COLUMN * len(winners) + _BESIDE if winners else 0.0
    if width is not None:
        metro = min(metro, _MOST_BESIDE * width)
    values = _WIDTH if width is None else width - metro
    rows = _Rows.of(len(order), len(blocks))
    (ax,) = drawing_axes([ax], values + metro, _AROUND + rows.height * max(len(order), 2))
    # By the order of the table, so that a model has one colour in all figures.
    tints = {str(name): colour(i) for i, name in enumerate(dict.fromkeys(models["model"]))}
    starred = False
    for number, (name, block) in enumerate(blocks):
        block = block[block["value"].notna()]
        short_of = (block["q_ceiling"] < alpha) & (side_of_ceiling(block) < 0)
        starred = starred or bool(short_of.any())
        # Units of several analyses would hide each other.
        dots = units.iloc[:0] if several else units
        lane = block.assign(
            starred=short_of,
            tint=colour(number) if several else block["model"].map(tints),
            middle=[rows.middle(order.index(str(m)), number) for m in block["model"]],
            top=[rows.top(order.index(str(m)), number) for m in block["model"]],
        )
        _draw_values(ax, lane, dots, rows.depth, f"-{name}" if several else "")
    if chance is not None:
        ax.axvline(chance, color="0.4", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    ax.set_xlabel(label or str(models["measure"].iloc[0]).replace("_", " "))
    ax.set_ylim(len(order) - 0.5, -0.5)
    most = max(12, min(48, int(values / _LETTER) - 3))
    texts = short_names(order, most)
    at = rows.name * 0.23 / 0.42 / rows.height - 0.5
    ax.set_yticks(np.arange(len(order)) + at, texts, ha="left", va="center")
    ax.tick_params(axis="y", length=0, pad=-2, labelsize=8 if len(order) <= _FEW else 7)
    for tick in ax.get_yticklabels():  # the line at chance does not strike names out
        tick.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.3})
    for y in range(1, len(order)):
        ax.axhline(y - 0.5, color="0.92", linewidth=0.6, zorder=0)
    if winners:
        side = ax.inset_axes((1.03, 0.0, metro / values, 1.0))
        # As many inches wide whatever room the layout leaves the axes, which it measures twice.
        side.set_axes_locator(lambda *_: _beside(ax, metro))
        middles = {name: rows.middle(i, 0) for i, name in enumerate(order)}
        # Dots do not touch, however narrow the columns.
        size = min(5.0, 72 * metro / (len(winners) + 1) * 0.6)
        _draw_metro(side, beats, winners, middles, {} if several else tints, size)
    shown_dots = len(units) > 0
    _legend(
        ax, models, names if several else [], values + metro, bool(winners), starred, shown_dots
    )
    return ax


def _beside(ax: Axes, inches: float) -> Bbox:
    """Return a place of this width to the right of axes, as a share of the figure."""
    box, sheet = ax.get_position(), ax.figure
    wide = sheet.dpi / sheet.bbox.width
    return Bbox.from_bounds(box.x1 + 0.13 * wide, box.y0, inches * wide, box.height)


def _draw_values(
    ax: Axes, lane: pd.DataFrame, units: pd.DataFrame, depth: float, suffix: str
) -> None:
    """Draw one analysis, in a lane of each model's row; `suffix` ends the ids of what is drawn."""
    all_values = units["value"].dropna().to_numpy()
    width = 0.015 * max(float(np.ptp(all_values)) if len(all_values) else 1.0, 1e-9)
    for row in lane.to_dict("records"):
        y, model, tint = row["middle"], f"{row['model']}{suffix}", row["tint"]
        if not np.isnan(row["ceiling_lower"]):
            low, high = sorted((row["ceiling_lower"], row["ceiling_upper"]))
            band, edges = f"ceiling-{model}", [row["top"], row["top"] + depth]
            ax.fill_betweenx(edges, low, high, color="0.8", lw=0, zorder=1, gid=band)
            ax.plot([low, low], edges, color="0.55", linewidth=1, zorder=1)
        values = units.loc[units["model"] == row["model"], "value"].dropna().to_numpy()
        # Dots that would cover each other are stacked in order, not by chance.
        spread = np.zeros(len(values))
        bins = np.round(values / width)
        for value in np.unique(bins):
            same = np.flatnonzero(bins == value)
            spread[same] = 0.135 * depth * (np.arange(len(same)) - (len(same) - 1) / 2)
        spread *= min(1.0, 0.46 * depth / max(np.abs(spread).max(initial=0.0), 1e-9))
        dots = f"units-{model}"
        ax.plot(values, y + spread, "o", color=tint, ms=2.6, mew=0, alpha=0.45, zorder=2, gid=dots)
        if not np.isnan(row["ci_low"]):
            ends, line = [row["ci_low"], row["ci_high"]], f"interval-{model}"
            ax.plot(ends, [y, y], color="black", linewidth=1.4, zorder=3, gid=line)
        mean, dot = row["value"], f"mean-{model}"
        ax.plot(mean, y, "o-", ms=6, mfc=tint, mec="black", mew=0.8, zorder=4, gid=dot)
        if row["starred"]:
            beside = (1.0, y), (3, -3), ("axes fraction", "data"), "offset points"
            ax.annotate("*", *beside, va="center", fontsize=11, annotation_clip=False)


def _draw_metro(
    side: Axes,
    beats: pd.DataFrame,
    winners: list[str],
    middles: dict[str, float],
    tints: dict[str, str],
    size: float,
) -> None:
    side.set_ylim(len(middles) - 0.5, -0.5)
    side.set_xlim(-0.7, max(len(winners), 1) - 0.3)
    side.set_axis_off()
    for x, model in enumerate(winners):
        y, tint = middles[model], tints.get(model, "0.3")
        below = [middles[other] for other in beats.loc[beats["model"] == model, "beats"]]
        side.plot([x, x], [min(y, *below), max(y, *below)], color=tint, linewidth=1.2)
        columns, name = [x] * len(below), f"beaten-by-{model}"
        side.plot(columns, below, "o", ms=0.9 * size, mfc="white", mec=tint, gid=name)
        side.plot(x, y, marker="o", ms=size, color=tint, gid=f"winner-{model}")


def _legend(
    ax: Axes,
    models: pd.DataFrame,
    analyses: list[str],
    width: float,
    metro: bool,
    starred: bool,
    dots: bool,
) -> None:
    dot: dict[str, Any] = {"linestyle": "", "marker": "o", "color": "0.3"}
    unit = "group" if len(models) and models["unit"].iloc[0] == "group" else "participant"
    handles: list[Line2D | Patch] = [
        Line2D(
            [],
            [],
            markersize=6,
            markeredgecolor="black",
            label=short(name.replace("_", " "), 40),
            **tinted,
        )
        for number, name in enumerate(analyses)
        for tinted in [{**dot, "color": colour(number)}]
    ]
    if not analyses:
        if dots:
            handles.append(Line2D([], [], markersize=2.6, alpha=0.6, label=f"one {unit}", **dot))
        handles.append(Line2D([], [], markersize=6, markeredgecolor="black", label="mean", **dot))
    if models["ci_low"].notna().any():
        handles.append(Line2D([], [], color="black", linewidth=1.4, label="95 % interval"))
    if models["ceiling_lower"].notna().any():
        handles.append(Patch(color="0.8", label="noise ceiling"))
    if starred:
        star: dict[str, Any] = {"linestyle": "", "marker": "$*$", "color": "black"}
        handles.append(Line2D([], [], markersize=5, label="below the ceiling", **star))
    if metro:
        beaten: dict[str, Any] = {"markerfacecolor": "white", "markeredgecolor": "0.3"}
        handles.append(Line2D([], [], **{**dot, **beaten}, markersize=4.5, label="beaten by ●"))
    longest = max(len(str(handle.get_label())) for handle in handles)
    columns = max(1, int(width / (0.45 + 0.055 * longest)))
    legend_below(ax, handles=handles, ncols=columns, handletextpad=0.4, columnspacing=1.2)


def normalisation_figure(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw accuracy with length normalisation (cross-validated) against raw accuracy.

    `table` is that of `normalisation_control`; `ax` is where to draw, new axes if not given, and
    what is returned. After Golan et al. (2023), Supplementary Fig. S1.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"model": ["a", "b"], "accuracy": [0.7, 0.6]})
    >>> normalisation_figure(table.assign(accuracy_normalised=[0.72, 0.66])).get_xlabel()
    'accuracy, log-probability alone'
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

    Examples
    --------
    >>> import pandas as pd
    >>> row = {"model": "a", "feature": "word_length", "model_difference": 0.4, "q": 0.01}
    >>> row |= {"model_half_width": 0.1, "people_difference": 0.1, "people_half_width": 0.1}
    >>> feature_figure(pd.DataFrame([row]), "word_length").get_xlabel()
    'word length, preferred minus rejected sentence'
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
    ax.set_yticks(range(len(rows)), short_names([str(name) for name in rows["model"]]))
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlabel(f"{feature.replace('_', ' ')}, preferred minus rejected sentence")
    ax.set_title("filled: the model; open: people on the same pairs", fontsize=7)
    return ax
