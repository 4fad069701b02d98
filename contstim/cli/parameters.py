"""Types of command parameters, which validate values and name their placeholders in the help.

Combine them with a group and a default in the signature of a command; see `contstim.cli`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import CoercionError, Parameter, Token

from contstim.errors import ContstimError, InputError, OutputError, truncate
from contstim.files import is_stream


class Output(str):
    """Path of an output file, or ``-``; two options of a command cannot share one."""


#: Default of ``--out``.
STANDARD_OUTPUT = Output("-")


def custom_parameter(parse: Callable[[str], Any], metavar: str) -> Parameter:
    """Create the annotation of a command parameter with a function that parses its value.

    Parameters
    ----------
    parse
        Function that converts the text of the value. The message of a `ContstimError` that it
        raises becomes the error message of the command.
    metavar
        Placeholder of the value in the help, e.g. ``FILE``.

    Returns
    -------
    Parameter
        Annotation of a parameter type.
    """

    def convert(_: Any, tokens: tuple[Token, ...]) -> Any:
        text = tokens[0].value
        # The value was forgotten, and the parser took the next option for it.
        if text.startswith("--"):
            raise CoercionError(msg=f"needs a value, and {text} is an option", token=tokens[0])
        try:
            return parse(text)
        except ContstimError as error:
            raise CoercionError(msg=str(error), token=tokens[0]) from error

    return Parameter(converter=convert, metavar=metavar, allow_leading_hyphen=True)


def integer_parameter(minimum: int, maximum: int = 10**9, metavar: str = "N") -> Parameter:
    """Create the annotation of a command parameter for an integer.

    Parameters
    ----------
    minimum, maximum
        Inclusive bounds.
    metavar
        Placeholder of the value in the help.
    """
    return custom_parameter(partial(_parse_integer, minimum=minimum, maximum=maximum), metavar)


def _parse_integer(text: str, minimum: int, maximum: int) -> int:
    """Convert text to an integer within inclusive bounds; other text raises `InputError`."""
    # int() would also accept 1_000 and the digits of other scripts.
    is_number = text.isascii() and text.isdigit()
    # int() refuses thousands of digits, so compare the number of digits before the value.
    digits = text.lstrip("0") or "0"
    quoted = repr(truncate(text, 40))
    if is_number and (len(digits) > len(str(maximum)) or int(digits) > maximum):
        raise InputError(f"{quoted} is too large, the maximum is {maximum}")
    if not is_number or int(digits) < minimum:
        raise InputError(f"{quoted} is not a whole number from {minimum} up")
    return int(digits)


def float_parameter(
    minimum: float = -math.inf,
    maximum: float = math.inf,
    metavar: str = "NUMBER",
    *,
    above: float | None = None,
    below: float | None = None,
) -> Parameter:
    """Create the annotation of a command parameter for a finite number.

    Parameters
    ----------
    minimum, maximum
        Inclusive bounds.
    metavar
        Placeholder of the value in the help.
    above, below
        Exclusive bounds; None for no exclusive bound.
    """
    lower = f"above {above:g}" if above is not None else f"from {minimum:g}"
    upper = f"below {below:g}" if below is not None else f"to {maximum:g}"
    # State only the finite bounds in error messages.
    bounds = [bound for bound in (lower, upper) if not bound.endswith("inf")]

    def parse(text: str) -> float:
        # float() would also accept 1_000 and the digits of other scripts.
        try:
            value = float(text) if text.isascii() and "_" not in text else math.nan
        except ValueError:
            value = math.nan
        is_valid = math.isfinite(value) and minimum <= value <= maximum
        is_valid &= (above is None or value > above) and (below is None or value < below)
        if not is_valid:
            expected = " ".join(["a finite number", *bounds])
            raise InputError(f"{truncate(text, 40)!r} is not {expected}")
        return value

    return custom_parameter(parse, metavar)


def parse_floats(text: str) -> tuple[float, ...]:
    """Parse comma-separated numbers, such as ``0.5,1,1.5``."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{text!r} is not a list of numbers; write, e.g., 0.5,1,1.5") from None


def check_output_file(text: str) -> Output:
    """Check that a file can be written to a path, and return the path; ``-`` is accepted.

    Raises
    ------
    OutputError
        If the path is a folder, cannot be accessed, or is not valid UTF-8.
    """
    if text != "-":
        _check_accessible(text)
        if os.path.isdir(text):
            raise OutputError(f"cannot write {text}: it is a folder; give a file name")
    return Output(text)


def check_new_file(text: str) -> Output:
    """Check that a regular file, not a device or a pipe, can be written, and return its path.

    Raises
    ------
    OutputError
        If the path is a device or a pipe, or for the reasons of `check_output_file`.
    """
    path = check_output_file(text)
    if is_stream(Path(path)):
        raise OutputError(f"cannot write {text}: it is not a file; give a file name")
    return path


def check_figure_file(text: str) -> Output:
    """Check that a figure can be written to a path, and return the path.

    Raises
    ------
    InputError
        If the path does not end in ``.svg``, ``.pdf`` or ``.png``.
    OutputError
        If the path is not writable, or is a device or a pipe.
    """
    if Path(text).suffix not in (".svg", ".pdf", ".png"):
        raise InputError(f"{text} does not end in .svg, .pdf or .png; choose one of these")
    return check_new_file(text)


def check_output_folder(text: str) -> str:
    """Check that a folder can be used for output, and return its path; it need not exist.

    Raises
    ------
    OutputError
        If the path is a file or the root of the file system, cannot be accessed, or is not valid
        UTF-8.
    """
    _check_accessible(text)
    if os.path.lexists(text) and not os.path.isdir(text):
        raise OutputError(f"cannot write into {text}: it is not a folder; give another")
    # Files in the root of the file system are hardly ever intended.
    if os.path.isdir(text) and os.path.samefile(text, os.sep):
        raise OutputError(
            f"cannot write into {text}: it is the root of the file system; give another folder"
        )
    return text


def _check_accessible(text: str) -> None:
    """Refuse a path that is not valid UTF-8 or cannot be accessed."""
    try:
        text.encode()
        os.stat(text)
    # A name with bytes that are not UTF-8 contains surrogates, which cannot be encoded.
    except UnicodeEncodeError:
        raise OutputError(f"cannot write {text!a}: the name is not UTF-8; choose another") from None
    except FileNotFoundError:
        pass  # the file will be created
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OutputError(f"cannot write {text}: {reason}; choose another output") from None


Text = Annotated[str, custom_parameter(str, "TEXT")]
Name = Annotated[str, custom_parameter(str, "NAME")]
ExecutorName = Annotated[str, custom_parameter(str, "WHERE")]
Spec = Annotated[str, custom_parameter(str, "SPEC")]
#: Path of an input file, or ``-`` for standard input.
File = Annotated[str, custom_parameter(str, "FILE")]
OutputFile = Annotated[str, custom_parameter(check_output_file, "FILE")]
NewFile = Annotated[str, custom_parameter(check_new_file, "FILE")]
FigureFile = Annotated[str, custom_parameter(check_figure_file, "FILE")]
OutputFolder = Annotated[str, custom_parameter(check_output_folder, "FOLDER")]
PositiveInteger = Annotated[int, integer_parameter(1)]
RandomSeed = Annotated[int, integer_parameter(0, 2**63 - 1)]
Port = Annotated[int, integer_parameter(0, 65_535)]
Share = Annotated[float, float_parameter(0, 1, "SHARE")]
