"""Self-contained HTML pages, from the templates beside this module."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

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

# A text of more letters gets room for several words in a line, and is broken wherever it must be.
_LONG = 16
_TEMPLATES.filters["breakable"] = lambda text: Markup("<wbr>").join(
    re.split(r"(?<=[/:?&=_.-])(?=\w)(?<!\.(?=\d))", str(text))
)


def render(template: str, **values: object) -> str:
    """Return the page that a template makes of `values`, which are escaped."""
    return _TEMPLATES.get_template(template).render(**values)


def inline_svg(svg: str, number: int | str, label: str) -> Markup:
    """Return a drawing for a page that has others, with a label for readers who do not see it."""
    # Ids within an SVG are page-wide; make them distinct between figures.
    for start in ('id="', 'href="#', "url(#"):
        svg = svg.replace(start, f"{start}f{number}-")
    words = Markup('<svg role="img" aria-label="{}" ').format(label)
    return Markup(svg.replace("<svg ", words, 1))  # noqa: S704 - drawn here, its text escaped


class Stacked(NamedTuple):
    """A value of a table with something small below it, such as its interval."""

    value: object
    below: str

    @classmethod
    def estimate(cls, value: float, low: float, high: float) -> Stacked:
        """Return a value above its interval, if it has one."""
        return cls(value, "" if np.isnan(low) else f"[{low:.3f}, {high:.3f}]")


@dataclass
class _Section:
    """What stands under a heading: parts, then sections of its own."""

    title: str = ""
    anchor: str = ""
    folded: bool = False
    parts: list[dict[str, object]] = field(default_factory=list)
    sections: list[_Section] = field(default_factory=list)


class Page:
    """Collects the parts of a report; `str` gives the page.

    Parameters
    ----------
    title
        Of the page.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._body = self._here = _Section()
        self._headings = self._figures = self._tables = 0
        self._names = Counter[str]()

    def heading(self, text: str, *, folded: bool = False) -> None:
        """Begin a section, which is listed at the top; a folded one shows its heading alone."""
        self._begin(self._body, text, folded)

    def subheading(self, text: str, *, folded: bool = False) -> None:
        """Begin a section of the section that the last heading began."""
        self._begin(self._body.sections[-1], text, folded)

    def _begin(self, above: _Section, text: str, folded: bool) -> None:
        self._headings += 1
        self._here = _Section(text, f"part-{self._headings}", folded)
        above.sections.append(self._here)

    def paragraph(self, text: str, style: str = "") -> None:
        """Add a paragraph of plain text; `style` is a class of the template's."""
        self._here.parts.append({"kind": "paragraph", "text": text, "style": style})

    def bullets(self, lines: Iterable[str]) -> None:
        """Add a list."""
        self._here.parts.append({"kind": "bullets", "lines": list(lines)})

    def distinct(self, name: str) -> str:
        """Return a name for a file, with a number if it was given before but for its case.

        On Windows and macOS files whose names differ in case alone are one.
        """
        self._names[name.casefold()] += 1
        number = self._names[name.casefold()]
        return name if number == 1 else self.distinct(f"{name}-{number}")

    def figure(
        self,
        svg: str,
        caption: str,
        narrow: str | None = None,
        files: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Add a drawing with a caption, beside the one before where there is room.

        Parameters
        ----------
        svg
            The drawing.
        caption
            What it shows.
        narrow
            The same for a narrow screen; `svg` is then as wide as the page.
        files
            Names of files beside the page that have the figure too, by how wide they are.
        """
        self._figures += 1
        drawing = {
            "number": self._figures,
            "svg": inline_svg(svg, self._figures, caption),
            "narrow": narrow and inline_svg(narrow, f"{self._figures}n", caption),
            "caption": caption,
            "files": files or {},
        }
        last = self._here.parts[-1] if self._here.parts else {}
        row = last.get("figures") if narrow is None and not last.get("wide") else None
        if isinstance(row, list):
            row.append(drawing)
        else:
            new = {"kind": "figures", "figures": [drawing], "wide": narrow is not None}
            self._here.parts.append(new)

    def table(
        self, table: pd.DataFrame, columns: Iterable[str] | None = None, caption: str = ""
    ) -> None:
        """Add a table; numbers get three decimals, or two digits if very small.

        A column `note` stands below the table, each note with the first cells of its rows. With a
        caption the table has a number. Names of columns are written without underscores, but those
        that are `Stacked`.
        """
        names = list(table.columns) if columns is None else [c for c in columns if c in table]
        notes = _notes(table, names) if "note" in names else []
        names = [name for name in names if name != "note"]
        rows = [[_cell(v) for v in row] for row in table[names].itertuples(index=False)]
        head = [
            replace(
                _cell(name if isinstance(name, Stacked) else str(name).replace("_", " ")),
                number=all(row[k].number for row in rows),
            )
            for k, name in enumerate(names)
        ]
        part = {"kind": "table", "head": head, "rows": rows, "caption": caption, "notes": notes}
        self._tables += bool(caption)
        self._here.parts.append({**part, "number": self._tables})

    def fragment(self) -> str:
        """Return what was added without a page around it, for a notebook."""
        return render("parts.html", body=self._body)

    def __str__(self) -> str:
        return render("report.html", title=self._title, body=self._body)


def _notes(table: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Return the notes of a table's rows, each once, after the names of its rows."""
    label = table[names[0]].astype("str")
    if "model_2" in names:
        label = table["model_1"].astype("str").str.cat(table["model_2"].astype("str"), " and ")
    noted = table["note"].fillna("").astype("str")
    groups = label.groupby(noted, sort=False)
    return [f"{'; '.join(dict.fromkeys(rows))}: {text}." for text, rows in groups if text]


@dataclass(frozen=True)
class _Cell:
    """A cell of a table, written."""

    text: str
    number: bool = False
    below: str = ""

    @property
    def long(self) -> bool:
        return len(self.text) > _LONG


def _cell(value: object) -> _Cell:
    if isinstance(value, Stacked):
        return replace(_cell(value.value), below=value.below)
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return _Cell("")
    if isinstance(value, (bool, np.bool_)):
        return _Cell("yes" if value else "no")
    if isinstance(value, (int, np.integer)):
        return _Cell(f"{int(value):,}", number=True)
    if isinstance(value, (float, np.floating)):
        return _Cell(_number(float(value)), number=True)
    return _Cell(str(value))


def _number(value: float) -> str:
    """Write a number with three decimals, or two digits if very small."""
    return f"{value:.2g}" if 0 < abs(value) < 0.0005 else f"{value:.3f}"
