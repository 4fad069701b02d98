"""Reading lines of text from files as people have them: UTF-8, gzip by ending, ``-`` for input."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from typing import IO, cast

from contstim.errors import InputError

__all__ = ["numbered_lines"]

_BOM = "\ufeff"


def numbered_lines(path: str | PathLike[str]) -> Iterator[tuple[int, str]]:
    """Yield each line of a text file, without its line end, and its number from 1.

    Parameters
    ----------
    path
        A UTF-8 file (a byte-order mark is skipped), gzip-compressed if its name ends in
        ``.gz``; ``-`` is standard input.

    Raises
    ------
    InputError
        If the file cannot be opened, is not what its ending promises, or holds a line that is
        not UTF-8; the message names the file and the line.
    """
    name = "standard input" if str(path) == "-" else str(path)
    number = 0
    try:
        with _open(path) as file:
            for number, raw in enumerate(file, start=1):
                line = raw.decode("utf-8").rstrip("\r\n")
                yield number, line.removeprefix(_BOM) if number == 1 else line
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name}, line {number} is not UTF-8 text ({error.reason}); save the file as UTF-8"
        ) from None
    except FileNotFoundError:
        raise InputError(f"there is no file {name}; check the path") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{name} is not a whole gzip file ({error}); make it anew") from None
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror or error}") from None


def _open(path: str | PathLike[str]) -> IO[bytes] | nullcontext[IO[bytes]]:
    if str(path) == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed; give a file")
        return nullcontext(sys.stdin.buffer)
    if Path(path).suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return Path(path).open("rb")
