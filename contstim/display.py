"""Representations of dataclass instances: one line in a terminal, HTML in a notebook.

Tables and arrays are represented by their sizes.
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

# Maximum numbers of characters of a value in a line, of a line, and of a value in a notebook.
_MAX_VALUE, _MAX_LINE, _MAX_CELL = 60, 600, 400
# Maximum number of rows of a table in a notebook.
_MAX_ROWS = 20


def displayable(cls: type[_Class]) -> type[_Class]:
    """Add a short representation and an HTML representation for notebooks to a dataclass.

    An HTML representation that the class defines is not replaced.

    Parameters
    ----------
    cls
        Dataclass.

    Returns
    -------
    type
        The same class.
    """
    methods: dict[str, Callable[..., str]] = {"__repr__": format_repr}
    if "_repr_html_" not in vars(cls):
        methods["_repr_html_"] = format_html
    for name, method in methods.items():
        setattr(cls, name, method)
    return cls


def format_repr(instance: object) -> str:
    """Return the fields of a dataclass instance in one line, with long values shortened."""
    values = ", ".join(f"{name}={format_brief(value)}" for name, value in _field_values(instance))
    line = f"{type(instance).__name__}({values})"
    return line if len(line) <= _MAX_LINE else f"{line[: _MAX_LINE - 2]}…)"


def format_brief(value: object, max_length: int = _MAX_VALUE) -> str:
    """Return a short representation of a value.

    Parameters
    ----------
    value
        Value. Tables, arrays and long collections are represented by their sizes, long texts by
        their first characters.
    max_length
        Maximum number of characters.

    Returns
    -------
    str
        The representation.
    """
    if _is_table(value):
        return f"<table of {len(value):,} rows, {len(value.columns)} columns>"
    if isinstance(value, np.ndarray):
        return f"<array of {' x '.join(map(str, value.shape))}>"
    is_nested = type(value).__repr__ is format_repr
    text = f"{type(value).__name__}(…)" if is_nested else repr(value)
    if len(text) <= max_length and "\n" not in text:
        return text
    if isinstance(value, str):
        return f"{text[: max_length - 2]}…{text[-1]}"
    if isinstance(value, Collection):
        return f"<{type(value).__name__} of {len(value):,}>"
    return f"<{type(value).__name__}>"


def format_html(instance: object, texts: Iterable[str] = (), figure: str = "") -> str:
    """Return a dataclass instance as HTML for a notebook, with collapsible tables.

    Parameters
    ----------
    instance
        Instance of a dataclass.
    texts
        Paragraphs at the top; by default the lines of ``str(instance)``, if the class defines
        ``__str__``. Without paragraphs, a table of the fields is shown.
    figure
        HTML of a figure, below the paragraphs.

    Returns
    -------
    str
        HTML of the instance.
    """
    if not texts and type(instance).__str__ is not object.__str__:
        texts = str(instance).splitlines()
    parts = [f"<p>{escape(text)}</p>" for text in texts]
    values, tables = [], []
    for name, value in _field_values(instance):
        if _is_table(value):
            tables.append(format_table_html(name, value))
        else:
            text = escape(format_brief(value, _MAX_CELL))
            values.append(
                f"<tr><th style='text-align:left'>{escape(name)}</th>"
                f"<td style='text-align:left'>{text}</td></tr>"
            )
    if values and not parts:
        parts = [f"<p><b>{type(instance).__name__}</b></p><table>{''.join(values)}</table>"]
    return "".join([*parts, figure, *tables])


def format_table_html(name: str, table: pd.DataFrame) -> str:
    """Return the first rows of a table as HTML that is collapsed to its name and size."""
    size = f"{len(table):,} row{'s' * (len(table) != 1)}"
    rows = table.head(_MAX_ROWS).to_html(index=False, float_format="{:.3f}".format)
    return f"<details><summary>{escape(name)}: {size}</summary>{rows}</details>"


def _is_table(value: object) -> TypeGuard[pd.DataFrame]:
    """Return whether a value is a DataFrame, without loading pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def _field_values(instance: Any) -> list[tuple[str, object]]:
    """Return names and values of the fields of a dataclass instance."""
    return [(field.name, getattr(instance, field.name)) for field in fields(instance)]
