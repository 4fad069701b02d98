"""Self-contained HTML pages."""

from __future__ import annotations

import math
from collections.abc import Iterable

import jinja2
import pandas as pd
from markupsafe import Markup


def format_value(value: object) -> str:
    """Format a value for a table cell in HTML.

    Numbers have three decimals, or two significant digits if they are very small. Missing values
    are empty, and Booleans are "yes" or "no".
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    # Test for bool first, because bool is a subclass of int.
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.2g}" if 0 < abs(value) < 0.0005 else f"{value:.3f}"
    return str(value)


def format_estimate(value: float, low: float, high: float) -> str:
    """Format an estimate with its confidence interval, which is omitted if it is NaN."""
    text = format_value(float(value))
    return text if math.isnan(low) else f"{text} [{low:.3f}, {high:.3f}]"


#: Environment of the package's templates.
TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("contstim"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)
TEMPLATES.filters["cell"] = format_value


def inline_svg(svg: str, number: int, label: str) -> Markup:
    """Prepare an SVG figure for an HTML page with several figures.

    Ids in the SVG get a prefix, since ids must be unique within a page.

    Parameters
    ----------
    svg
        Figure as SVG.
    number
        Number of the figure in the page; the prefix is ``f{number}-``.
    label
        Text alternative for screen readers.
    """
    for prefix in ('id="', 'href="#', "url(#"):
        svg = svg.replace(prefix, f"{prefix}f{number}-")
    opening = Markup('<svg role="img" aria-label="{}" ').format(label)
    return Markup(svg.replace("<svg ", opening, 1))  # noqa: S704 - drawn here, its text escaped


class Page:
    """HTML page to which elements are added from top to bottom; `str` returns its HTML.

    Parameters
    ----------
    title
        Heading of the page.

    Examples
    --------
    >>> page = Page("Results")
    >>> page.paragraph("One model & another.")
    >>> "<p>One model &amp; another.</p>" in str(page)
    True
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[dict[str, object]] = []
        self._n_figures = 0

    def heading(self, text: str) -> None:
        """Add a heading."""
        self._parts.append({"kind": "heading", "text": text})

    def paragraph(self, text: str, *, strong: bool = False) -> None:
        """Add a paragraph of plain text."""
        self._parts.append({"kind": "paragraph", "text": text, "strong": strong})

    def bullets(self, lines: Iterable[str]) -> None:
        """Add a list."""
        self._parts.append({"kind": "bullets", "lines": list(lines)})

    def table(self, table: pd.DataFrame, caption: str = "") -> None:
        """Add a table; underscores in column names become spaces."""
        head = [str(name).replace("_", " ") for name in table.columns]
        rows = list(table.itertuples(index=False, name=None))
        self._parts.append({"kind": "table", "head": head, "rows": rows, "caption": caption})

    def figure(self, svg: str, caption: str) -> None:
        """Add a figure, as SVG, with a caption."""
        self._n_figures += 1
        figure = inline_svg(svg, self._n_figures, caption)
        self._parts.append({"kind": "figure", "svg": figure, "caption": caption})

    def __str__(self) -> str:
        template = TEMPLATES.get_template("page.html")
        return template.render(title=self._title, parts=self._parts)
