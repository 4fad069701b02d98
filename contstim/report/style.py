"""How figures look: one palette, sizes for print, and saving without global state."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from contstim.files import replacing

#: Okabe and Ito's colours, told apart by readers of every kind of colour vision.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_FONT = 8.0
_SETTINGS: dict[Any, Any] = {
    "font.size": _FONT,
    "axes.titlesize": _FONT + 1,
    "svg.fonttype": "none",  # text stays text: searchable, and set in the reader's font
    "svg.hashsalt": "contstim",  # the same figure gives the same file
    "font.family": "sans-serif",
}


def colour(index: int) -> str:
    """Return the colour of the series with this number."""
    return PALETTE[index % len(PALETTE)]


def new_figure(
    width: float, height: float, columns: Sequence[float] = (1.0,)
) -> tuple[Figure, list[Axes]]:
    """Make a figure of `width` by `height` inches with axes of the given relative widths."""
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(
            1, len(columns), squeeze=False, gridspec_kw={"width_ratios": list(columns)}
        )[0]
        for ax in axes:
            ax.tick_params(labelsize=_FONT)
            for side in ("top", "right"):
                ax.spines[side].set_visible(False)
    return figure, list(axes)


def svg_text(figure: Figure) -> str:
    """Return the figure as an SVG element, for a page."""
    buffer = io.StringIO()
    with mpl.rc_context(_SETTINGS):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write the figure as SVG, PDF or PNG (300 dots an inch), by the name of the file.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    place = Path(path)
    metadata = {"Date": None} if place.suffix == ".svg" else None
    with replacing(place) as temporary, mpl.rc_context(_SETTINGS):
        figure.savefig(temporary, format=place.suffix[1:] or None, dpi=300, metadata=metadata)
    return place


def short(name: object, most: int = 32) -> str:
    """Shorten a model's name in the middle, so that labels leave room for the data."""
    text = str(name)
    if len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{text[:half]}…{text[-half:]}"
