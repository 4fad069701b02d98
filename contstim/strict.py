"""Reading TOML tables into dataclasses, strictly: nothing unknown, nothing of the wrong type."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from contstim.errors import InputError, near_matches

__all__ = ["build"]

Record = TypeVar("Record")

_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
_LISTS = {str: "a list of texts", int: "a list of whole numbers"}


def build(kind: type[Record], table: object, where: str) -> Record:
    """Make a `kind`, a dataclass whose fields are text, numbers, truth values or lists of text.

    Parameters
    ----------
    kind
        The dataclass; fields without a default must be given. A field ``tuple[int, ...]`` is a
        list of whole numbers, a field of a dataclass a table.
    table
        What the file holds at `where`.
    where
        The name of the table, for messages.

    Raises
    ------
    InputError
        Naming the key by its path, what it holds and what it should.
    """
    if not isinstance(table, Mapping):
        raise InputError(f"{where} is {table!r}; make it a table, [{where}]")
    hints = get_type_hints(kind)
    dataclass: Any = kind
    known = {field.name: field for field in fields(dataclass)}
    for key in table:
        if key not in known:
            raise InputError(f"unknown key {where}.{key}; {near_matches(str(key), known)}")
    values = {key: _value(hints[key], value, f"{where}.{key}") for key, value in table.items()}
    for name, field in known.items():
        if name not in values and field.default is field.default_factory is MISSING:
            raise InputError(f"{where}.{name} is missing; give {_wanted(hints[name])}")
    return kind(**values)


def _value(hint: Any, value: object, path: str) -> object:
    for one in _alternatives(hint):
        if is_dataclass(one) and isinstance(one, type):
            return build(one, value, path)
        if get_origin(one) is tuple:
            kind = get_args(one)[0]
            if isinstance(value, list) and all(type(item) is kind for item in value):
                return tuple(value)
        elif one is float and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        elif type(value) is one:
            return value
    raise InputError(f"{path} is {value!r}; give {_wanted(hint)}")


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def _wanted(hint: Any) -> str:
    kinds = [one for one in _alternatives(hint) if one is not types.NoneType]
    return " or ".join(map(_name, kinds))


def _name(kind: Any) -> str:
    if is_dataclass(kind):
        return "a table"
    return _LISTS[get_args(kind)[0]] if get_origin(kind) is tuple else _NAMES[kind]
