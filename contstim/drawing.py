"""How figures look: one palette, sizes for print, and saving without global state."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from contstim.errors import InputError
from contstim.files import replace_atomically

#: Okabe and Ito's colours, told apart by readers of every kind of colour vision.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: Inches: two columns of a journal, 180 mm, as wide as a page; and one, 90 mm, as a phone.
PAGE_WIDTH, COLUMN_WIDTH = 180 / 25.4, 90 / 25.4
_FONT = 8.0
_SETTINGS: dict[Any, Any] = {
    "font.size": _FONT,
    "axes.titlesize": _FONT + 1,
    "svg.fonttype": "none",  # text stays text: searchable, and set in the reader's font
    "pdf.fonttype": 42,  # and is embedded as journals ask
    "svg.hashsalt": "contstim",  # the same figure gives the same file
    "font.family": "sans-serif",
}


def series_colour(index: int) -> str:
    """Return the colour of the series with this number."""
    return PALETTE[index % len(PALETTE)]


class PageFigure(Figure):
    """A figure that no one keeps but its axes, as large as what is drawn on it."""


def create_axes(panels: int = 1) -> list[Axes]:
    """Return empty axes beside each other for pages and files, outside of pyplot.

    Functions that draw a figure set its size.
    """
    with mpl.rc_context(_SETTINGS):
        figure = PageFigure(layout="constrained")
        FigureCanvasAgg(figure)
        return _plain(figure.subplots(1, panels, squeeze=False)[0])


def prepare_axes(
    given: Sequence[Axes | None] | None,
    width: float,
    height: float,
    columns: Sequence[float] = (1,),
) -> list[Axes]:
    """Return the axes to draw on: those given, else of a new figure of pyplot.

    Parameters
    ----------
    given
        The axes; None, or a None in it, for new ones.
    width, height
        Of a new figure and of a `create_axes`, inches.
    columns
        The relative widths of its panels.

    Raises
    ------
    InputError
        If there are more or fewer axes than panels.
    """
    axes = [ax for ax in given or () if ax is not None]
    if not axes:
        from matplotlib import pyplot  # chooses how to show figures: only where it is to

        with mpl.rc_context(_SETTINGS):
            figure = pyplot.figure(figsize=(width, height), layout="constrained")
            row = figure.subplots(1, len(columns), squeeze=False, width_ratios=list(columns))
            return _plain(row[0])
    if len(axes) != len(columns):
        raise InputError(f"the figure needs {len(columns)} axes, got {len(axes)}; give as many")
    if isinstance(axes[0].figure, PageFigure):
        axes[0].figure.set_size_inches(width, height)
        grid = axes[0].get_gridspec()
        if grid is not None:
            grid.set_width_ratios(list(columns))
    return axes


def _plain(axes: Iterable[Axes]) -> list[Axes]:
    row = list(axes)
    for ax in row:
        ax.tick_params(labelsize=_FONT)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    return row


def add_legend_below(ax: Axes, **options: Any) -> None:
    """Put a legend below the label of the axis."""
    below = ax.transAxes + ScaledTranslation(0, -0.42, ax.figure.dpi_scale_trans)
    ax.legend(
        loc="upper left",
        bbox_to_anchor=(0.0, 0.0),
        bbox_transform=below,
        borderaxespad=0.0,
        frameon=False,
        fontsize=7,
        **options,
    )


def render_svg(ax: Axes) -> str:
    """Return the figure that has these axes as an SVG element, for a page."""
    figure, buffer = ax.figure.canvas.figure, io.StringIO()
    with mpl.rc_context(_SETTINGS):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def save_figure(drawn: Axes | Figure, path: str | Path) -> Path:
    """Write a figure as SVG, PDF or PNG (300 dots an inch), by the name of the file.

    Parameters
    ----------
    drawn
        The figure, or axes of it.
    path
        Where to.

    Raises
    ------
    OutputError
        If the file cannot be written.

    Examples
    --------
    >>> from contstim import datasets, evaluate
    >>> choices = datasets.simulated_choices().query("condition == 'natural_controversial'")
    >>> scores = datasets.natural_scores()[["contstim:gpt", "contstim:trigram"]]
    >>> save_figure(evaluate(choices, scores).figure(), "models.pdf").name
    'models.pdf'
    """
    place, figure = Path(path), drawn.figure.canvas.figure
    metadata = {"Date": None} if place.suffix == ".svg" else None
    with replace_atomically(place) as temporary, mpl.rc_context(_SETTINGS):
        figure.savefig(temporary, format=place.suffix[1:] or None, dpi=300, metadata=metadata)
    return place


def shorten_name(name: object, most: int = 32) -> str:
    """Shorten a model's name in the middle, so that labels leave room for the data."""
    text = str(name)
    if len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def shorten_names(names: Sequence[str], most: int = 32) -> list[str]:
    """Shorten the names of a figure so that none is like another; see `shorten_name`.

    Of names that would look alike, what they begin with in common is left out.
    """
    texts = [shorten_name(name, most) for name in names]
    alike = [name for name, text in zip(names, texts, strict=True) if texts.count(text) > 1]
    ends = zip(min(alike, default=""), max(alike, default=""), strict=False)
    begin = next((place for place, (one, two) in enumerate(ends) if one != two), 0)
    for place, name in enumerate(names):
        if name in alike and begin:
            texts[place] = shorten_name(f"\u2026{name[begin:]}", most)
    return texts
