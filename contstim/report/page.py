"""Self-contained HTML pages, from the templates beside this module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import jinja2
import numpy as np
import pandas as pd
from markupsafe import Markup

_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("contstim.report"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)


def render(template: str, **values: object) -> str:
    """Return the page that a template makes of `values`, which are escaped."""
    return _TEMPLATES.get_template(template).render(**values)


def inline_svg(svg: str, number: int, label: str) -> Markup:
    """Return a drawing for a page that has others, with a label for readers who do not see it."""
    # Ids within an SVG are page-wide; make them distinct between figures.
    for start in ('id="', 'href="#', "url(#"):
        svg = svg.replace(start, f"{start}f{number}-")
    words = Markup('<svg role="img" aria-label="{}" ').format(label)
    return Markup(svg.replace("<svg ", words, 1))  # noqa: S704 - drawn here, its text escaped


class Page:
    """Collects the parts of a report; `str` gives the page.

    Parameters
    ----------
    title
        Of the page.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[dict[str, object]] = []
        self._headings = self._figures = 0
        self._names = Counter[str]()

    def heading(self, text: str) -> None:
        """Add a heading, which is listed at the top."""
        self._headings += 1
        self._parts.append({"kind": "heading", "text": text, "anchor": f"part-{self._headings}"})

    def subheading(self, text: str) -> None:
        """Add a heading below one that is listed."""
        self._parts.append({"kind": "subheading", "text": text})

    def paragraph(self, text: str) -> None:
        """Add a paragraph of plain text."""
        self._parts.append({"kind": "paragraph", "text": text})

    def bullets(self, lines: Iterable[str]) -> None:
        """Add a list."""
        self._parts.append({"kind": "bullets", "lines": list(lines)})

    def distinct(self, name: str) -> str:
        """Return a name for a file, with a number if it was given before but for its case.

        On Windows and macOS files whose names differ in case alone are one.
        """
        self._names[name.casefold()] += 1
        number = self._names[name.casefold()]
        return name if number == 1 else self.distinct(f"{name}-{number}")

    def figure(self, svg: str, caption: str) -> None:
        """Add a drawing with a caption."""
        self._figures += 1
        drawing = inline_svg(svg, self._figures, caption)
        self._parts.append(
            {"kind": "figure", "number": self._figures, "svg": drawing, "caption": caption}
        )

    def table(self, table: pd.DataFrame, columns: Iterable[str] | None = None) -> None:
        """Add a table; numbers get three decimals, or two digits if very small."""
        names = list(table.columns) if columns is None else [c for c in columns if c in table]
        head = [str(name).replace("_", " ") for name in names]
        rows = [[_cell(v) for v in row] for row in table[names].itertuples(index=False)]
        self._parts.append({"kind": "table", "head": head, "rows": rows})

    def __str__(self) -> str:
        kinds = [part["kind"] for part in self._parts]
        first = kinds.index("heading") if "heading" in kinds else len(kinds)
        opening, parts = self._parts[:first], self._parts[first:]
        return render("report.html", title=self._title, opening=opening, parts=parts)


def _cell(value: object) -> dict[str, object]:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return {"number": False, "text": ""}
    if isinstance(value, (bool, np.bool_)):
        return {"number": False, "text": "yes" if value else "no"}
    if isinstance(value, (int, np.integer)):
        return {"number": True, "text": f"{int(value):,}"}
    if isinstance(value, (float, np.floating)):
        small = 0 < abs(float(value)) < 0.0005
        return {"number": True, "text": f"{float(value):.2g}" if small else f"{float(value):.3f}"}
    return {"number": False, "text": str(value)}
