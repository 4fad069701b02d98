"""What result objects show of themselves: a line in a terminal, HTML in a notebook.

A repr with whole tables in it, or with all the arrays of an object, is of no use to anybody.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import fields
from html import escape
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

_Class = TypeVar("_Class")

# Letters of a value in a line, of the whole line, and of a value in a notebook's table.
_MOST_OF_VALUE, _MOST, _MOST_OF_CELL = 60, 600, 400
# Rows of a table that notebooks show.
_MOST_ROWS = 20


def displayable(cls: type[_Class]) -> type[_Class]:
    """Give a class, mostly a dataclass, a repr of one line and a notebook's HTML of its fields.

    What the class defines itself stays, but for the repr that a dataclass writes.
    """
    shown: dict[str, Callable[[Any], str]] = {"__repr__": format_repr, "_repr_html_": format_html}
    for name, function in shown.items():
        if name == "__repr__" or name not in vars(cls):
            setattr(cls, name, function)
    return cls


def format_repr(shown: object) -> str:
    """Return a line with the fields of an object, tables and long values by their sizes."""
    values = ", ".join(f"{name}={format_brief(value)}" for name, value in _fields(shown))
    line = f"{type(shown).__name__}({values})"
    return line if len(line) <= _MOST else f"{line[: _MOST - 2]}…)"


def format_brief(value: object, most: int = _MOST_OF_VALUE) -> str:
    """Return a value in `most` letters: the size of a table or array, the start of a long text."""
    if _is_table(value):
        return f"<table of {len(value):,} rows, {len(value.columns)} columns>"
    if isinstance(value, np.ndarray):
        return f"<array of {' x '.join(map(str, value.shape))}>"
    text = f"{type(value).__name__}(…)" if type(value).__repr__ is format_repr else repr(value)
    if len(text) <= most and "\n" not in text:
        return text
    if isinstance(value, str):
        return f"{text[: most - 2]}…{text[-1]}"
    if isinstance(value, Collection):
        return f"<{type(value).__name__} of {len(value):,}>"
    return f"<{type(value).__name__}>"


def format_html(shown: object, texts: Iterable[str] = (), drawing: str = "") -> str:
    """Return an object's fields as HTML: values in a table, tables folded below it.

    Parameters
    ----------
    shown
        The object.
    texts
        Paragraphs that come first; by default the lines of its `str` if it has one of its own.
    drawing
        HTML, such as a figure's, that comes after them.
    """
    if not texts and type(shown).__str__ is not object.__str__:
        texts = str(shown).splitlines()
    parts = [f"<p>{escape(text)}</p>" for text in texts]
    values, tables = [], []
    for name, value in _fields(shown):
        if _is_table(value):
            tables.append(format_table_html(name, value))
        else:
            text = escape(format_brief(value, _MOST_OF_CELL))
            values.append(
                f"<tr><th style='text-align:left'>{escape(name)}</th>"
                f"<td style='text-align:left'>{text}</td></tr>"
            )
    if values and not parts:
        parts = [f"<p><b>{type(shown).__name__}</b></p><table>{''.join(values)}</table>"]
    return "".join([*parts, drawing, *tables])


def format_table_html(name: str, table: pd.DataFrame) -> str:
    """Return a table, folded under its name and size; of a long one the first rows."""
    size = f"{len(table):,} row{'s' * (len(table) != 1)}"
    rows = table.head(_MOST_ROWS).to_html(index=False, float_format="{:.3f}".format)
    return f"<details><summary>{escape(name)}: {size}</summary>{rows}</details>"


def _is_table(value: object) -> TypeGuard[pd.DataFrame]:
    # Nothing is a table before pandas is loaded, which takes longer than most commands.
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def _fields(shown: Any) -> list[tuple[str, object]]:
    return [(field.name, getattr(shown, field.name)) for field in fields(shown)]
