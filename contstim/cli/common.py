"""What the commands share: reading sentences, writing results, checking arguments."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NoReturn

from contstim.errors import OutputError, near_matches
from contstim.vocabulary import Vocabulary

__all__ = [
    "CommandParser",
    "add_seed",
    "add_vocabulary",
    "positive",
    "read_vocabulary",
    "write_output",
]


class CommandParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line that says what to do."""

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with status 2."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def positive(text: str) -> int:
    """Read a whole number above 0, for ``type=``."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return value


def add_seed(parser: argparse.ArgumentParser) -> None:
    """Add ``--seed``."""
    parser.add_argument(
        "--seed",
        type=_seed,
        default=0,
        metavar="N",
        help="seed of everything left to chance (default: 0)",
    )


def _seed(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 up")
    return value


def add_vocabulary(parser: argparse.ArgumentParser) -> None:
    """Add ``--vocabulary``."""
    parser.add_argument(
        "--vocabulary",
        metavar="FILE",
        help="words that may be used: one a line, or a CSV with a column 'word' (default: the "
        "bundled 20,000 English words)",
    )


def read_vocabulary(path: str | None) -> Vocabulary:
    """Read the vocabulary given by ``--vocabulary``, or the bundled one."""
    from contstim.defaults import bundled_vocabulary

    return bundled_vocabulary() if path is None else Vocabulary.read(path)


@contextmanager
def write_output(path: str) -> Iterator[IO[str]]:
    """Open `path` for writing text, ``-`` for standard output.

    A file appears under its name only when everything is written; until then it is a temporary
    file beside it, removed if an error stops the work.

    Raises
    ------
    OutputError
        If the place cannot be written to; before any work is done.
    """
    if path == "-":
        yield sys.stdout
        return
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    if target.is_dir():
        raise OutputError(f"cannot write {target}: it is a folder; give a file name")
    try:
        file = temporary.open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise OutputError(
            f"cannot write {target}: {error.strerror}; choose another output"
        ) from None
    try:
        with file:
            yield file
        temporary.replace(target)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from None
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def one_of(kind: str, value: str, known: tuple[str, ...]) -> str:
    """Return `value` if it is `known`, for ``type=`` with near matches in the message."""
    if value not in known:
        raise argparse.ArgumentTypeError(f"unknown {kind} {value!r}; {near_matches(value, known)}")
    return value
