"""Exceptions of contstim, and parts of error messages.

All exceptions are subclasses of `ContstimError` and of a suitable built-in exception. The message
is one line that names the invalid value and states what to do. The command line prints this line
and exits with status 2.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from numbers import Integral


class ContstimError(Exception):
    """Base class of all exceptions that contstim raises.

    Examples
    --------
    >>> import contstim
    >>> try:
    ...     contstim.load_model("contstim:tigram")
    ... except ContstimError as error:
    ...     print(error)
    unknown bundled model 'tigram'; did you mean 'trigram' or 'bigram' or 'unigram'?
    """


class InputError(ContstimError, ValueError):
    """Invalid value, sentence or file given by the user."""


class NoDataError(InputError):
    """Missing data: no file, an empty file, or a study without choices."""


class UnknownNameError(InputError):
    """Unknown name of a model, metric, strategy, column or other object."""

    @classmethod
    def with_suggestions(cls, kind: str, name: str, names: Iterable[str]) -> UnknownNameError:
        """Create the error ``unknown KIND 'name'`` with similar names, or else all known ones."""
        return cls(f"unknown {kind} {name!r}; {suggest_names(name, names)}")


class UnknownWordError(InputError):
    """Word outside a model's vocabulary, if the model refuses unknown words."""


class SpecError(InputError):
    """Malformed model specification ``FAMILY:LOCATION?key=value&...``, or invalid option in it."""


class ModelFileError(InputError):
    """Model file that is missing, incomplete or in another format than stated."""


class EngineError(InputError):
    """Inference engine or server that does not respond, or sends unusable responses."""


class BudgetError(EngineError):
    """Exhausted budget of requests to an engine; the responses so far are saved."""


class InfeasibleError(ContstimError, ValueError):
    """Request without a solution; the message names the constraint."""


class ValidationError(ContstimError, AssertionError):
    """Model or table that violates a requirement of `check_model` or another public check."""


class OutputError(ContstimError, OSError):
    """Output file or folder that cannot be written."""


class MissingExtraError(ContstimError, ImportError):
    """Optional dependency that is not installed; the message gives the install command."""


def truncate(text: str, max_length: int) -> str:
    """Shorten a text to a maximum length for a message, ending with ``...``."""
    return text if len(text) <= max_length else f"{text[: max_length - 3]}..."


def format_count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, e.g. ``1 sentence`` or ``3,000 sentences``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def list_names(names: Sequence[str]) -> str:
    """Join the first three names for an error message, and add the number of further names."""
    listed = "; ".join(names[:3])
    return listed if len(names) <= 3 else f"{listed} and {len(names) - 3} more"


def suggest_names(name: str, names: Iterable[str], introduction: str = "choose one of") -> str:
    """Return a suggestion for a message: similar names, or else all known names.

    Parameters
    ----------
    name
        Unknown name.
    names
        Known names.
    introduction
        Text before the list of all known names.

    Returns
    -------
    str
        ``did you mean 'a' or 'b'?``, or ``choose one of 'a', 'b', 'c'``.
    """
    choices = sorted({*names})
    similar = difflib.get_close_matches(name, choices, n=3, cutoff=0.6)
    if similar:
        return "did you mean " + " or ".join(map(repr, similar)) + "?"
    return f"{introduction} " + ", ".join(map(repr, choices))


def require_integer(name: str, value: object, minimum: int) -> None:
    """Check that a value is an integer of at least `minimum`.

    Parameters
    ----------
    name
        Name of the value for the error message.
    value
        Value to check.
    minimum
        Inclusive lower bound.

    Raises
    ------
    InputError
        If the value is smaller or not an integer; the message gives the name and the value.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise InputError(f"{name} is {value!r}; give a whole number of at least {minimum}")


def require_known(kind: str, name: str, names: Collection[str]) -> None:
    """Check that a name is known.

    Parameters
    ----------
    kind
        Noun for the error message, e.g. ``"column"``.
    name
        Name to check.
    names
        Known names.

    Raises
    ------
    UnknownNameError
        If not; the message suggests similar names, or else all known names.
    """
    if name not in names:
        raise UnknownNameError.with_suggestions(kind, name, names)
