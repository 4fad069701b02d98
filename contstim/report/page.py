"""A self-contained HTML page of headings, paragraphs, tables and inline figures."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

import numpy as np
import pandas as pd

__all__ = ["Page"]

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #111; background: #fff; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.2rem; } h3 { font-size: 1.05rem; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
figcaption { font-size: .88rem; color: #333; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .82rem; margin: .6rem 0; }
th, td { padding: .2rem .55rem; text-align: left; border-bottom: 1px solid #ddd;
  vertical-align: top; }
th { border-bottom: 2px solid #444; } td.n { text-align: right; white-space: nowrap; }
nav a { margin-right: .8rem; }
"""


class Page:
    """Collects the parts of a page; `str` gives the whole.

    Parameters
    ----------
    title
        Of the page.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[str] = []
        self._links: list[tuple[str, str]] = []
        self._figures = 0

    def heading(self, text: str, level: int = 2) -> None:
        """Add a heading; those of level 2 are listed at the top."""
        anchor = ""
        if level == 2:
            name = f"part-{len(self._links) + 1}"
            self._links.append((name, text))
            anchor = f' id="{name}"'
        self._parts.append(f"<h{level}{anchor}>{escape(text)}</h{level}>")

    def paragraph(self, text: str) -> None:
        """Add a paragraph of plain text."""
        self._parts.append(f"<p>{escape(text)}</p>")

    def bullets(self, items: Iterable[str]) -> None:
        """Add a list."""
        inner = "".join(f"<li>{escape(item)}</li>" for item in items)
        self._parts.append(f"<ul>{inner}</ul>")

    def figure(self, svg: str, caption: str) -> None:
        """Add a drawing with a caption, which also serves readers who do not see it."""
        self._figures += 1
        # Ids within an SVG are page-wide; make them distinct between figures.
        mark = f"f{self._figures}-"
        for start in ('id="', 'href="#', "url(#"):
            svg = svg.replace(start, start + mark)
        label = escape(caption, quote=True)
        svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
        self._parts.append(
            f"<figure>{svg}<figcaption>Figure {self._figures}. {escape(caption)}"
            "</figcaption></figure>"
        )

    def table(self, table: pd.DataFrame, columns: Iterable[str] | None = None) -> None:
        """Add a table; numbers get three decimals, or four digits if very small."""
        names = list(table.columns) if columns is None else [c for c in columns if c in table]
        head = "".join(f"<th>{escape(str(n).replace('_', ' '))}</th>" for n in names)
        lines = []
        for row in table[names].itertuples(index=False):
            cells = "".join(_cell(value) for value in row)
            lines.append(f"<tr>{cells}</tr>")
        self._parts.append(
            f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{''.join(lines)}</tbody></table></div>"
        )

    def __str__(self) -> str:
        links = "".join(f'<a href="#{a}">{escape(t)}</a>' for a, t in self._links)
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self._title)}</title><style>{_STYLE}</style></head><body>"
            f"<h1>{escape(self._title)}</h1><nav>{links}</nav>\n"
            + "\n".join(self._parts)
            + "\n</body></html>\n"
        )


def _cell(value: object) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "<td></td>"
    if isinstance(value, (bool, np.bool_)):
        return f"<td>{'yes' if value else 'no'}</td>"
    if isinstance(value, (int, np.integer)):
        return f'<td class="n">{int(value):,}</td>'
    if isinstance(value, (float, np.floating)):
        number = float(value)
        text = f"{number:.2g}" if 0 < abs(number) < 0.0005 else f"{number:.3f}"
        return f'<td class="n">{text}</td>'
    return f"<td>{escape(str(value))}</td>"
