"""Style and output of figures, with Matplotlib."""

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

#: Palette of Okabe and Ito (2008), distinguishable with any colour vision.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: Widths in inches: two columns (180 mm) and one column (90 mm) of a journal.
PAGE_WIDTH, COLUMN_WIDTH = 180 / 25.4, 90 / 25.4
_FONT_SIZE = 8.0
_SETTINGS: dict[Any, Any] = {
    "font.size": _FONT_SIZE,
    "axes.titlesize": _FONT_SIZE + 1,
    "svg.fonttype": "none",  # searchable text in the reader's font
    "pdf.fonttype": 42,  # embedded fonts, as required by journals
    "svg.hashsalt": "contstim",  # identical files for identical figures
    "font.family": "sans-serif",
}


def series_colour(index: int) -> str:
    """Return the colour of a data series by its number."""
    return PALETTE[index % len(PALETTE)]


class PageFigure(Figure):
    """Figure that is not managed by pyplot. The function that draws on it sets its size."""


def create_axes(n_panels: int = 1) -> list[Axes]:
    """Create a figure with `n_panels` empty axes side by side, for HTML pages and files.

    The figure is not managed by pyplot. Its size is set by the function that draws on the axes.
    """
    with mpl.rc_context(_SETTINGS):
        figure = PageFigure(layout="constrained")
        FigureCanvasAgg(figure)
        return _style_axes(figure.subplots(1, n_panels, squeeze=False)[0])


def prepare_axes(
    axes: Sequence[Axes | None] | None,
    width: float,
    height: float,
    width_ratios: Sequence[float] = (1,),
) -> list[Axes]:
    """Return the axes to draw on: axes given by the user, or axes of a new pyplot figure.

    Parameters
    ----------
    axes
        Axes given by the user; None, or a sequence of None, for a new figure.
    width, height
        Size in inches of a new figure, or of a figure from `create_axes`.
    width_ratios
        Relative widths of the panels.

    Returns
    -------
    list of Axes
        One axes per panel.

    Raises
    ------
    InputError
        If the number of given axes differs from the number of panels.
    """
    given_axes = [ax for ax in axes or () if ax is not None]
    # Without axes, create a new figure with one row of panels.
    if not given_axes:
        from matplotlib import pyplot  # selects a display backend, so import it only if needed

        with mpl.rc_context(_SETTINGS):
            figure = pyplot.figure(figsize=(width, height), layout="constrained")
            options: dict[str, Any] = {"squeeze": False, "width_ratios": list(width_ratios)}
            return _style_axes(figure.subplots(1, len(width_ratios), **options)[0])
    if len(given_axes) != len(width_ratios):
        raise InputError(
            f"the figure needs {len(width_ratios)} axes, got {len(given_axes)}; give one per panel"
        )
    # A figure that was created for a report can be resized; a figure of the user is not changed.
    if isinstance(given_axes[0].figure, PageFigure):
        given_axes[0].figure.set_size_inches(width, height)
        grid = given_axes[0].get_gridspec()
        if grid is not None:
            grid.set_width_ratios(list(width_ratios))
    return given_axes


def _style_axes(axes: Iterable[Axes]) -> list[Axes]:
    """Set the size of tick labels, and hide the upper and right borders."""
    styled = list(axes)
    for ax in styled:
        ax.tick_params(labelsize=_FONT_SIZE)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    return styled


def add_legend_below(ax: Axes, **options: Any) -> None:
    """Add a legend below the label of the horizontal axis."""
    below = ax.transAxes + ScaledTranslation(0, -0.42, ax.figure.dpi_scale_trans)
    # The offset is fixed in inches (0.42), so that the legend clears the axis label at any size.
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
    """Return the figure of some axes as an SVG element for an HTML page."""
    figure, buffer = ax.figure.canvas.figure, io.StringIO()
    # Without date and program, equal figures give equal text.
    with mpl.rc_context(_SETTINGS):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def save_figure(drawn: Axes | Figure, path: str | Path) -> Path:
    """Save a figure as SVG, PDF or PNG (300 dots per inch), depending on the suffix.

    Parameters
    ----------
    drawn
        Figure, or axes of it.
    path
        File to write.

    Returns
    -------
    Path
        Path of the file.

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
    target, figure = Path(path), drawn.figure.canvas.figure
    metadata = {"Date": None} if target.suffix == ".svg" else None
    with replace_atomically(target) as temporary, mpl.rc_context(_SETTINGS):
        figure.savefig(temporary, format=target.suffix[1:] or None, dpi=300, metadata=metadata)
    return target


def shorten_name(name: object, max_length: int = 32) -> str:
    """Shorten the name of a model in the middle, to leave room for data in a figure."""
    text = str(name)
    if len(text) <= max_length:
        return text
    half = (max_length - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def shorten_names(names: Sequence[str], max_length: int = 32) -> list[str]:
    """Shorten the names of models in a figure so that they remain distinct.

    If shortened names coincide, their common prefix is omitted first.

    Parameters
    ----------
    names
        Distinct names, such as model specifications.
    max_length
        Maximum number of characters of a shortened name.

    Returns
    -------
    list of str
        The shortened names in the same order.
    """
    shortened = [shorten_name(name, max_length) for name in names]
    # Names that have become equal by shortening.
    ambiguous = [
        name for name, text in zip(names, shortened, strict=True) if shortened.count(text) > 1
    ]
    if not ambiguous:
        return shortened
    # The first and last names in alphabetical order determine the common prefix of all.
    characters = zip(min(ambiguous), max(ambiguous), strict=False)
    n_common = next((i for i, (first, last) in enumerate(characters) if first != last), 0)
    # Omit the common prefix, so that the remaining parts differ.
    for index, name in enumerate(names):
        if name in ambiguous and n_common:
            shortened[index] = shorten_name(f"…{name[n_common:]}", max_length)
    return shortened
