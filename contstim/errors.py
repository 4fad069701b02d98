"""The errors that contstim raises on purpose.

Every one descends from :class:`ContstimError`, so one ``except`` catches them all, and each
also is the built-in error a caller would expect. The message is one line: what was wrong, with
which value, and what to do. The command line prints that line and exits with status 2.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from numbers import Integral


class ContstimError(Exception):
    """Root of every error raised on purpose.

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
    """A value, sentence or file given by the user cannot be used."""


class NoDataError(InputError):
    """Data that are not there, or not yet: no file, an empty one, a study without answers."""


class UnknownNameError(InputError):
    """A name (model, metric, strategy, column ...) that is not among those offered."""

    @classmethod
    def with_suggestions(cls, kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
        """Build the error for `name`, listing near matches or, failing those, all of `known`."""
        return cls(f"unknown {kind} {name!r}; {suggest_names(name, known)}")


class UnknownWordError(InputError):
    """A word that a model does not know, where its event says unknown words are errors."""


class SpecError(InputError):
    """A model spec that does not read ``FAMILY:LOCATION?key=value&...``, or a bad option in one."""


class ModelFileError(InputError):
    """A model file that is missing, truncated or not of the promised format."""


class EngineError(InputError):
    """An engine that does not answer, or whose answers cannot be used."""


class BudgetError(EngineError):
    """What may be asked of an engine has been asked; what it answered is there."""


class InfeasibleError(ContstimError, ValueError):
    """A request that no solution can meet; the message says which part."""


class ValidationError(ContstimError, AssertionError):
    """A model or table that breaks the contract which a public check tests."""


class OutputError(ContstimError, OSError):
    """A place to which results cannot be written."""


class MissingExtraError(ContstimError, ImportError):
    """An optional dependency that is not installed; the message gives the install line."""


def truncate(text: str, most: int) -> str:
    """Return text for a message: of more than `most` characters the first, and dots."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def format_count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, e.g. ``1 sentence`` or ``3,000 sentences``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def suggest_names(name: str, known: Iterable[str], all_of: str = "choose one of") -> str:
    """Say which of `known` resemble `name`, or list them all, after `all_of`, when none does."""
    choices = sorted({*known})
    close = difflib.get_close_matches(name, choices, n=3, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(repr(c) for c in close) + "?"
    return f"{all_of} " + ", ".join(repr(c) for c in choices)


def require_integer(name: str, value: object, least: int) -> None:
    """Refuse what is not a whole number of at least `least`.

    Raises
    ------
    InputError
        Naming the value.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"{name} is {value!r}; give a whole number of at least {least}")


def require_known(kind: str, name: str, known: Collection[str]) -> None:
    """Refuse a name that is not among `known`, as an unknown `kind` of thing.

    Raises
    ------
    UnknownNameError
        Naming near matches or, failing those, all of `known`.
    """
    if name not in known:
        raise UnknownNameError.with_suggestions(kind, name, known)
