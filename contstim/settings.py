"""Settings that are checked as they are made: options, tables of TOML files, messages in JSON.

`settings` makes a frozen dataclass of which pydantic checks the types and ranges, strictly: no
text is taken for a number, no number for a truth value. What is wrong is said in one line that
names the key by its path, what it holds and what to do.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, wraps
from pathlib import Path
from typing import (
    Annotated,
    Any,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import AfterValidator, ConfigDict, Field, Strict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from contstim.errors import ContstimError, InputError, UnknownNameError, suggest_names, truncate

_Kind = TypeVar("_Kind")
_Item = TypeVar("_Item")

#: Any number of items, which a list may give, in the order given.
TupleFromList = Annotated[tuple[_Item, ...], Strict(False)]

#: A whole number of at least 1.
PositiveInt = Annotated[int, Field(ge=1)]

#: A whole number of at least 0.
NonNegativeInt = Annotated[int, Field(ge=0)]

#: What everything left to chance hangs on.
Seed = Annotated[int, Field(ge=0, lt=2**63)]

_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}

_WANTED = {
    "string_type": _NAMES[str],
    "int_type": _NAMES[int],
    "float_type": _NAMES[float],
    "bool_type": _NAMES[bool],
    "tuple_type": "a list",
    "dict_type": "a table",
    "dataclass_exact_type": "an instance of {class_name}",
    "finite_number": "a finite number",
    "too_short": "at least {min_length}",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "less than {lt:g}",
    "less_than_equal": "at most {le:g}",
}


class _UnknownValueError(ValueError):
    """A value that is none of those offered."""


@dataclass(frozen=True)
class _OneOf(AfterValidator):
    known: Collection[str] = field(compare=False)

    @property
    def choices(self) -> tuple[str, ...]:
        """The texts, as they are now: installed packages may bring some."""
        return tuple(self.known)


def option(default: Any, text: str, metavar: str | None = None) -> Any:
    """Declare a field of settings that is an option of commands as well, ``--its-name METAVAR``.

    Parameters
    ----------
    default
        Its default.
    text, metavar
        What the command's help says of it; a truth value and a choice have no `metavar`.
    """
    return field(default=default, metadata={"help": text, "metavar": metavar})


def validate_choice(names: Collection[str], kind: str | None = None) -> AfterValidator:
    """Return a mark for ``Annotated``: one of the texts `names`.

    `kind` says in messages what is chosen, ``unknown KIND 'value'``, in place of the key's path.
    """

    def check(value: str) -> str:
        if value not in names:
            if kind is not None:
                raise UnknownNameError.with_suggestions(kind, value, names)
            raise _UnknownValueError(suggest_names(value, names))
        return value

    return _OneOf(check, names)


def validate_pattern(pattern: str, advice: str) -> AfterValidator:
    """Return a mark for ``Annotated``: a text that matches `pattern` wholly, else say `advice`."""
    wanted = re.compile(pattern)

    def check(value: str) -> str:
        if not wanted.fullmatch(value):
            raise ValueError(advice)
        return value

    return AfterValidator(check)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def settings(kind: type[_Kind]) -> type[_Kind]:
    """Make a class a frozen dataclass whose fields are checked, strictly, whenever it is made.

    A value that does not fit its field is an `InputError`. Rules for several fields stand in
    ``__post_init__``, which raises one.
    """
    config = ConfigDict(strict=True, arbitrary_types_allowed=True, extra="forbid")
    made: Any = checked_dataclass(frozen=True, config=config)(kind)
    make = made.__init__

    @wraps(make)
    def init(self: _Kind, *args: Any, **values: Any) -> None:
        try:
            make(self, *args, **values)
        except ValidationError as error:
            raise _input_error(error, made) from None

    made.__init__ = init
    return cast("type[_Kind]", made)


def parse_settings(kind: type[_Kind], table: object, where: str = "") -> _Kind:
    """Make settings from a table of a TOML file or an object of JSON.

    Parameters
    ----------
    kind
        A class made by `settings`. A field of such a class is a table, and a tuple of them a list
        of tables.
    table
        Content of the file.
    where
        Name of the table, for messages; empty for a whole file.

    Raises
    ------
    InputError
        Naming the key by its path, its value and what it should be.
    """
    try:
        # As JSON lists are tuples and tables are settings, and all else is strict.
        return TypeAdapter(kind).validate_json(json.dumps(table, default=str))
    except ValidationError as error:
        raise _input_error(error, kind, where) from None


def _input_error(error: ValidationError, kind: type, where: str = "") -> ContstimError:
    """Return the first fault of settings of a kind as an error of one line."""
    faults = error.errors(include_url=False)
    unknown = [fault for fault in faults if fault["type"] == "unexpected_keyword_argument"]
    fault = (unknown or faults)[0]
    context = fault.get("ctx", {})
    cause = context.get("error")
    if isinstance(cause, ContstimError):
        return cause
    path, hint = where, kind
    for part in fault["loc"]:
        owner = next((x for x in (hint, *get_args(hint)) if is_dataclass(x)), None)
        if isinstance(part, int) and path == where and owner is kind:
            part = fields(kind)[part].name  # a positional argument
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
        if isinstance(part, str) and owner is not None:
            keys = [item.name for item in fields(owner)]
            if unknown and part not in keys:
                return InputError(f"unknown key {path}; {suggest_names(part, keys)}")
            hint = get_type_hints(owner).get(part, object)
    if fault["type"] == "missing" and is_dataclass(hint):
        return InputError(f"the table [{path}] is missing")
    if fault["type"] == "missing":
        wanted = "a list" if get_origin(hint) is tuple else _NAMES[hint]
        return InputError(f"{path} is missing; give {wanted}")
    value = truncate(repr(fault["input"]), 80)
    if isinstance(cause, _UnknownValueError):
        return UnknownNameError(f"{path} is {value}; {cause}")
    if fault["type"] == "tuple_type" and isinstance(fault["input"], dict):
        return InputError(f"{path} is one table; write [[{path}]] above each")
    wanted = _WANTED.get(fault["type"], fault["msg"]).format(**context)
    if fault["type"] == "dataclass_type":
        return InputError(f"{path} is {value}; make it a table, [{path}]")
    return InputError(f"{path} is {value}; {f'give {wanted}' if cause is None else cause}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the types of fields, with their marks, which take a millisecond to work out."""
    return get_type_hints(kind, include_extras=True)


def field_bounds(kind: type, name: str) -> tuple[type, dict[str, Any]]:
    """Return what a field of settings takes: ``int``, ``float``, ``str`` or ``bool``; and of these.

    The bounds are ``ge``, ``gt``, ``le`` and ``lt``, where it has them, and ``choices`` of texts.
    What may be None, or is several of a kind, is as one of them.
    """
    names = ("ge", "gt", "le", "lt", "choices")
    parts = [_hints(kind)[name]]
    bounds: dict[str, Any] = {}
    for part in parts:  # the parts of each follow as they are met
        parts += get_args(part)
        for mark in getattr(part, "__metadata__", ()):
            for holder in (mark, *getattr(mark, "metadata", ())):
                bounds |= {
                    bound: getattr(holder, bound) for bound in names if hasattr(holder, bound)
                }
    return next(part for part in parts if part in (int, float, str, bool)), bounds


def read_toml(path: Path, hint: str = "check the path") -> dict[str, Any]:
    """Read a TOML file.

    Parameters
    ----------
    path
        The file.
    hint
        What to do if it is not there, for the message.

    Raises
    ------
    InputError
        If the file cannot be read or is not TOML.
    """
    try:
        table = tomllib.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; {hint}") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"cannot read {path} as TOML: {error}") from None
    except RecursionError:
        raise InputError(f"{path} holds values that lie too deep within others") from None
    if _has_nul(table):  # no file can be called so, and no text is meant so
        raise InputError(f"{path} has a NUL character, \\u0000, in a text; take it out")
    return table


def _has_nul(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_nul, (*value, *value.values())))
    return any(map(_has_nul, value)) if isinstance(value, list) else "\0" in str(value)
