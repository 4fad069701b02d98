"""Short representations of dataclass instances, and tables in notebooks.

In the representation of an instance, tables and arrays are represented by their sizes.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import fields
from html import escape
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

_Class = TypeVar("_Class")

# Maximum numbers of characters of a value and of a line.
_MAX_VALUE, _MAX_LINE = 60, 600
# Maximum number of rows of a table in a notebook.
_MAX_ROWS = 20


def displayable(cls: type[_Class]) -> type[_Class]:
    """Replace the representation of a dataclass by a short one (`format_repr`).

    Parameters
    ----------
    cls
        Dataclass to which the methods are added.

    Returns
    -------
    type
        The same class.
    """
    cls.__repr__ = format_repr  # type: ignore[method-assign] # replaced on purpose
    return cls


def format_repr(instance: Any) -> str:
    """Return the fields of a dataclass instance in one line, with long values shortened."""
    names = [field.name for field in fields(instance)]
    values = ", ".join(f"{name}={format_brief(getattr(instance, name))}" for name in names)
    line = f"{type(instance).__name__}({values})"
    return line if len(line) <= _MAX_LINE else f"{line[: _MAX_LINE - 2]}…)"


def format_brief(value: object) -> str:
    """Return a short representation of a value.

    Parameters
    ----------
    value
        Value. Tables, arrays and long collections are represented by their sizes, long texts by
        their first characters.

    Returns
    -------
    str
        The representation.
    """
    if _is_table(value):
        return f"<table of {len(value):,} rows, {len(value.columns)} columns>"
    if _is_array(value):
        return f"<array of {' x '.join(map(str, value.shape))}>"
    # An object that is shown inside another one is represented by its class only.
    is_nested = type(value).__repr__ is format_repr
    text = f"{type(value).__name__}(…)" if is_nested else repr(value)
    if len(text) <= _MAX_VALUE and "\n" not in text:
        return text
    # Shorten a long text, and close its quotation mark.
    if isinstance(value, str):
        return f"{text[: _MAX_VALUE - 2]}…{text[-1]}"
    if isinstance(value, Collection):
        return f"<{type(value).__name__} of {len(value):,}>"
    return f"<{type(value).__name__}>"


def format_table_html(name: str, table: pd.DataFrame) -> str:
    """Return the first rows of a table as HTML that is collapsed to its name and size."""
    size = f"{len(table):,} row{'s' * (len(table) != 1)}"
    rows = table.head(_MAX_ROWS).to_html(index=False, float_format="{:.3f}".format)
    return f"<details><summary>{escape(name)}: {size}</summary>{rows}</details>"


def _is_table(value: object) -> TypeGuard[pd.DataFrame]:
    """Return whether a value is a DataFrame, without loading pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def _is_array(value: object) -> TypeGuard[np.ndarray]:
    """Return whether a value is an array, without loading NumPy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)
