"""Validated settings: frozen dataclasses for options, TOML tables and JSON messages.

`settings` turns a class into a frozen dataclass. Pydantic checks the types and ranges of its
fields, without conversions between text, numbers and truth values. The message about an invalid
value is one line with the key, the value and the expected value.
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
from pydantic.dataclasses import dataclass as validated_dataclass

from contstim.errors import ContstimError, InputError, UnknownNameError, suggest_names, truncate

_Settings = TypeVar("_Settings")
_Item = TypeVar("_Item")

#: Tuple of any length, which may be given as a list.
TupleFromList = Annotated[tuple[_Item, ...], Strict(False)]

PositiveInt = Annotated[int, Field(ge=1)]
NonNegativeInt = Annotated[int, Field(ge=0)]
#: Seed of a random number generator.
Seed = Annotated[int, Field(ge=0, lt=2**63)]

_TYPE_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}

# Expected values, by the type of a pydantic error.
_EXPECTED = {
    "string_type": _TYPE_NAMES[str],
    "int_type": _TYPE_NAMES[int],
    "float_type": _TYPE_NAMES[float],
    "bool_type": _TYPE_NAMES[bool],
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
    """Text that is not one of the allowed choices; the message suggests choices."""


@dataclass(frozen=True)
class _ChoiceValidator(AfterValidator):
    """Validator of a text that must be one of several choices, which `field_bounds` can list."""

    names: Collection[str] = field(compare=False)

    @property
    def choices(self) -> tuple[str, ...]:
        """Current choices; installed packages may add some."""
        return tuple(self.names)


def validate_choice(choices: Collection[str], kind: str | None = None) -> AfterValidator:
    """Create a validator of a text that must be one of `choices`, for use in ``Annotated``.

    Parameters
    ----------
    choices
        Allowed texts, e.g. the names in a registry.
    kind
        Noun for the error message ``unknown KIND 'value'``; by default the message names the key.
    """

    def check(value: str) -> str:
        # `choices` may be a registry, which installed packages extend later.
        if value in choices:
            return value
        if kind is not None:
            raise UnknownNameError.with_suggestions(kind, value, choices)
        raise _UnknownValueError(suggest_names(value, choices))

    return _ChoiceValidator(check, choices)


def validate_pattern(pattern: str, advice: str) -> AfterValidator:
    """Create a validator that requires a text to match a regular expression.

    It is used in the annotation of a field: ``name: Annotated[str, validate_pattern(...)]``.

    Parameters
    ----------
    pattern
        Regular expression for the complete text.
    advice
        Instruction for the error message.
    """
    expression = re.compile(pattern)

    # Users see the advice instead of the pattern.
    def check(value: str) -> str:
        if not expression.fullmatch(value):
            raise ValueError(advice)
        return value

    return AfterValidator(check)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def settings(cls: type[_Settings]) -> type[_Settings]:
    """Convert a class into a frozen dataclass with strict validation of its fields.

    An invalid value raises an `InputError`. The ``__post_init__`` of the class may check
    combinations of fields and raise an `InputError`, too.

    Parameters
    ----------
    cls
        Class with annotated fields.

    Returns
    -------
    type
        The dataclass.
    """
    config = ConfigDict(strict=True, arbitrary_types_allowed=True, extra="forbid")
    validated: Any = validated_dataclass(frozen=True, config=config)(cls)
    original_init = validated.__init__

    # Convert pydantic's report of all errors to an error message of one line.
    @wraps(original_init)
    def init(self: _Settings, *args: Any, **values: Any) -> None:
        try:
            original_init(self, *args, **values)
        except ValidationError as error:
            raise _to_input_error(error, validated) from None

    validated.__init__ = init
    return cast("type[_Settings]", validated)


def parse_settings(cls: type[_Settings], table: object, key: str = "") -> _Settings:
    """Create settings from a table of a TOML file or an object of JSON.

    Parameters
    ----------
    cls
        Class made by `settings`. A field of such a class is a nested table, and a tuple of such
        classes is a list of tables.
    table
        Keys and values of the table.
    key
        Key of the table, for error messages; empty for a complete file.

    Returns
    -------
    object
        Instance of `cls`.

    Raises
    ------
    InputError
        If a key is unknown or missing, or its value is invalid.
    """
    try:
        # Validation of JSON accepts lists for tuples and tables for settings, and is strict
        # otherwise.
        return TypeAdapter(cls).validate_json(json.dumps(table, default=str))
    except ValidationError as error:
        raise _to_input_error(error, cls, key) from None


def _to_input_error(error: ValidationError, cls: type, key: str = "") -> ContstimError:
    """Convert an error raised by pydantic into an error with a one-line message.

    The message describes the first invalid value: its key, the value and what is expected instead.
    If there are unknown keys, the message describes the first of these.

    Parameters
    ----------
    error
        Error that pydantic raised because of one or more invalid values.
    cls
        Class whose fields were validated.
    key
        Key of the table from which the fields were read; empty for a complete file.
    """
    faults = error.errors(include_url=False)
    unknown = [fault for fault in faults if fault["type"] == "unexpected_keyword_argument"]
    fault = (unknown or faults)[0]
    context = fault.get("ctx", {})
    cause = context.get("error")
    if isinstance(cause, ContstimError):
        return cause
    # Follow the location of the fault through nested settings to the type of its field. Parts of
    # the location are keys of tables and indices of list elements.
    path, field_type = key, cls
    for part in fault["loc"]:
        types = field_type, *get_args(field_type)
        settings_class = next((item for item in types if is_dataclass(item)), None)
        if isinstance(part, int) and path == key and settings_class is cls:
            part = fields(cls)[part].name  # a positional argument
        if isinstance(part, int):
            path += f"[{part}]"
            continue
        path = f"{path}.{part}" if path else part
        if settings_class is not None:
            names = [item.name for item in fields(settings_class)]
            if unknown and part not in names:
                return InputError(f"unknown key {path}; {suggest_names(part, names)}")
            field_type = get_type_hints(settings_class).get(part, object)
    if fault["type"] == "missing":
        if is_dataclass(field_type):
            return InputError(f"the table [{path}] is missing")
        expected = "a list" if get_origin(field_type) is tuple else _TYPE_NAMES[field_type]
        return InputError(f"{path} is missing; give {expected}")
    value = truncate(repr(fault["input"]), 80)
    if isinstance(cause, _UnknownValueError):
        return UnknownNameError(f"{path} is {value}; {cause}")
    if cause is not None:
        return InputError(f"{path} is {value}; {cause}")
    if fault["type"] == "tuple_type" and isinstance(fault["input"], dict):
        return InputError(f"{path} is one table; write [[{path}]] above each")
    if fault["type"] == "dataclass_type":
        return InputError(f"{path} is {value}; make it a table, [{path}]")
    expected = _EXPECTED.get(fault["type"], fault["msg"]).format(**context)
    return InputError(f"{path} is {value}; give {expected}")


@cache
def _annotations(cls: type) -> dict[str, Any]:
    """Return the types of fields with their metadata, cached because this takes a millisecond."""
    return get_type_hints(cls, include_extras=True)


def field_bounds(cls: type, name: str) -> tuple[type, dict[str, Any]]:
    """Return the type and the allowed values of a field, to create a command-line option from it.

    Parameters
    ----------
    cls
        Class made by `settings`.
    name
        Name of the field. If the field is a tuple or may be None, its elements or other values are
        described.

    Returns
    -------
    scalar_type : type
        ``int``, ``float``, ``str`` or ``bool``.
    bounds : dict
        Bounds ``ge``, ``gt``, ``le`` and ``lt`` of numbers, and ``choices`` of texts.
    """
    bound_names = ("ge", "gt", "le", "lt", "choices")
    # Minimum and maximum, inclusive (ge, le) or exclusive (gt, lt), and the allowed texts.
    scalar_types = list[type]()
    bounds: dict[str, Any] = {}
    # Visit the annotation and the types nested in it, for example the `int` in `tuple[int] | None`.
    pending = [_annotations(cls)[name]]
    while pending:
        annotation = pending.pop(0)
        pending += get_args(annotation)
        if annotation in (int, float, str, bool):
            scalar_types.append(annotation)
        for item in getattr(annotation, "__metadata__", ()):
            # Pydantic's `Field` has the bounds in `metadata`, other validators have them directly.
            for constraint in (item, *getattr(item, "metadata", ())):
                for bound in bound_names:
                    if hasattr(constraint, bound):
                        bounds[bound] = getattr(constraint, bound)
    return scalar_types[0], bounds


def read_toml(path: Path, hint: str = "check the path") -> dict[str, Any]:
    """Read a TOML file.

    Parameters
    ----------
    path
        Path of the file.
    hint
        Instruction for the error message if the file does not exist.

    Returns
    -------
    dict
        Content of the file.

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
        raise InputError(f"{path} has too many levels of nested values; remove some") from None
    # No file can have a name with such a character.
    if _has_nul(table):
        raise InputError(f"{path} has a NUL character, \\u0000, in a text; remove it")
    return table


def _has_nul(value: object) -> bool:
    """Return whether a text in a nested value contains a NUL character."""
    if isinstance(value, dict):
        return any(map(_has_nul, (*value, *value.values())))
    return any(map(_has_nul, value)) if isinstance(value, list) else "\0" in str(value)
