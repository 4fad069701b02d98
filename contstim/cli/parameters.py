"""Types of command parameters: each checks the text that was given and names its value in the help.

Combine them with a group and a default in the signature of a command; see `contstim.cli`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import CoercionError, Parameter, Token

from contstim.errors import ContstimError, InputError, OutputError, truncate
from contstim.files import is_stream


class Output(str):
    """The path of a file that a command writes, or ``-``; no two options may share one."""


#: Where a command writes unless ``--out`` is given.
STANDARD_OUTPUT = Output("-")


def parsed_by(read: Callable[[str], Any], metavar: str) -> Parameter:
    """Return the parameter that reads one text with `read` and is called `metavar` in the help.

    `read` raises an `InputError` that names the value and says what to write.
    """

    def convert(_: Any, tokens: tuple[Token, ...]) -> Any:
        text = tokens[0].value
        if text.startswith("--"):
            # Where an argument is expected it is an unknown option.
            raise CoercionError(msg=f"needs a value, and {text} is an option", token=tokens[0])
        try:
            return read(text)
        except ContstimError as error:
            raise CoercionError(msg=str(error), token=tokens[0]) from error

    return Parameter(converter=convert, metavar=metavar, allow_leading_hyphen=True)


def integer_parameter(least: int, most: int = 10**9, metavar: str = "N") -> Parameter:
    """Return the parameter of a whole number from `least` to `most`."""

    def read(text: str) -> int:
        # int() would also accept 1_000 and the digits of other scripts.
        digits = text.isascii() and text.isdigit()
        if digits and len(text) <= 99 and least <= int(text) <= most:
            return int(text)
        if digits and int(text[-99:]) >= least:
            raise InputError(f"{_quoted(text)} is too large, the most is {most}")
        raise InputError(f"{_quoted(text)} is not a whole number from {least} up")

    return parsed_by(read, metavar)


def float_parameter(
    least: float = -math.inf,
    most: float = math.inf,
    metavar: str = "NUMBER",
    *,
    above: float | None = None,
    below: float | None = None,
) -> Parameter:
    """Return the parameter of a finite number; `above` and `below` are exclusive bounds."""
    low = f"above {above:g}" if above is not None else f"from {least:g}"
    high = f"below {below:g}" if below is not None else f"to {most:g}"
    bounds = [bound for bound in (low, high) if not bound.endswith("inf")]

    def read(text: str) -> float:
        try:
            value = float(text) if text.isascii() and "_" not in text else math.nan
        except ValueError:
            value = math.nan
        within = math.isfinite(value) and least <= value <= most
        within &= (above is None or value > above) and (below is None or value < below)
        if not within:
            raise InputError(f"{_quoted(text)} is not {' '.join(['a finite number', *bounds])}")
        return value

    return parsed_by(read, metavar)


def read_output(text: str) -> Output:
    """Return a path that a file can be written to, or ``-``.

    Raises
    ------
    OutputError
        If the path is a folder, leads nowhere, or has a name that is not UTF-8.
    """
    if text != "-":
        _check_place(text)
        if os.path.isdir(text):
            raise OutputError(f"cannot write {text}: it is a folder; give a file name")
    return Output(text)


def read_new_file(text: str) -> Output:
    """Return the path of a file that is put in place in one step, so no device or pipe."""
    path = read_output(text)
    if is_stream(Path(path)):
        raise OutputError(f"cannot write {text}: it is not a file; give a file name")
    return path


def read_output_folder(text: str) -> str:
    """Return the path of a folder that can be written into; it need not exist.

    Raises
    ------
    OutputError
        If the path is a file or the root of the file system, leads nowhere, or has a name that is
        not UTF-8.
    """
    _check_place(text)
    if os.path.lexists(text) and not os.path.isdir(text):
        raise OutputError(f"cannot write into {text}: it is not a folder; give another")
    if os.path.isdir(text) and os.path.samefile(text, os.sep):
        raise OutputError(
            f"cannot write into {text}: it is the root of the file system; give another folder"
        )
    return text


def _check_place(text: str) -> None:
    try:
        text.encode()
        os.stat(text)
    except UnicodeEncodeError:
        raise OutputError(
            f"cannot write {text!a}: the name is not UTF-8; choose another output"
        ) from None
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OutputError(f"cannot write {text}: {reason}; choose another output") from None


def _quoted(text: str) -> str:
    return repr(truncate(text, 40))


#: Text that stands for itself; `File` may be ``-``, standard input.
Text = Annotated[str, parsed_by(str, "TEXT")]
Name = Annotated[str, parsed_by(str, "NAME")]
ExecutorName = Annotated[str, parsed_by(str, "WHERE")]
Spec = Annotated[str, parsed_by(str, "SPEC")]
File = Annotated[str, parsed_by(str, "FILE")]
OutputFile = Annotated[str, parsed_by(read_output, "FILE")]
NewFile = Annotated[str, parsed_by(read_new_file, "FILE")]
OutputFolder = Annotated[str, parsed_by(read_output_folder, "FOLDER")]
PositiveInteger = Annotated[int, integer_parameter(1)]
RandomSeed = Annotated[int, integer_parameter(0, 2**63 - 1)]
Port = Annotated[int, integer_parameter(0, 65_535)]
Share = Annotated[float, float_parameter(0, 1, "SHARE")]
