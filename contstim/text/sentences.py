"""Natural sentences: the bundled pool, and files of sentences and of words."""

from __future__ import annotations

from importlib.resources import files
from os import PathLike

from contstim.errors import InputError
from contstim.tables import csv_header, csv_rows, numbered_lines

_MOST_CHARACTERS = 20_000  # of a sentence in a file


def pool() -> list[str]:
    """Return the natural English sentences that come with contstim, most of eight words.

    They were written for this project and are free to use (CC0).

    Examples
    --------
    >>> pool()[0]
    'The curtains she chose were much too dark.'
    """
    text = (files("contstim") / "data" / "pool.txt").read_text(encoding="utf-8")
    return text.splitlines()


def read_sentences(path: str | PathLike[str]) -> list[str]:
    """Read a file of sentences: one a line, or a CSV with a column ``sentence``.

    The file is a CSV if its name says so or its first line names that column. Blank lines at the
    end are ignored.

    Parameters
    ----------
    path
        A UTF-8 file, gzip-compressed if its name ends in ``.gz``; ``-`` is standard input.

    Raises
    ------
    InputError
        If there is no such file, it is not UTF-8 or holds no sentence, a line is empty, has more
        than 20,000 characters or holds a carriage return, or a row of a CSV has more cells than
        the header; the message names the file and the line.
    """
    name = "standard input" if str(path) == "-" else str(path)
    lines = [line for _, line in numbered_lines(path)]
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise InputError(f"{name} holds no sentence; give one sentence a line")
    header = csv_header(path, lines, "sentence")
    if header is not None:
        rows = _column(name, lines, header)
    else:
        rows = list(zip(lines, range(1, len(lines) + 1), strict=True))
        for line, number in rows:
            if "\r" in line:
                raise InputError(
                    f"{name}, line {number} holds a carriage return; save the file with the line "
                    "ends of Unix or Windows"
                )
    for text, number in rows:
        if not text.strip():
            raise InputError(f"{name}, line {number} has no sentence; fill or remove the line")
        if len(text) > _MOST_CHARACTERS:
            raise InputError(
                f"{name}, line {number} has {len(text)} characters, more than the "
                f"{_MOST_CHARACTERS} that a sentence may have; give one sentence a line"
            )
    return [text.strip() for text, _ in rows]


def _column(name: str, lines: list[str], header: list[str]) -> list[tuple[str, int]]:
    """Return each cell of the column `sentence`, and the number of the line it ends on."""
    if header.count("sentence") > 1:
        raise InputError(f"{name} has two columns 'sentence'; leave one")
    column = header.index("sentence")
    rows = [(row[column], number) for number, row in csv_rows(lines, name, fill=True)]
    if len(rows) < 2:
        raise InputError(f"{name} holds no sentence, only a header; add rows")
    return rows[1:]


def read_words(path: str | PathLike[str]) -> tuple[str, ...]:
    """Read a list of words between white space, such as one a line; each counts once."""
    return tuple(dict.fromkeys(word for _, line in numbered_lines(path) for word in line.split()))


def length_range(text: str) -> tuple[int, int]:
    """Read ``8`` or ``6-12`` as the shortest and the longest length in words."""
    shortest, dash, longest = text.partition("-")
    try:
        limits = int(shortest), int(longest if dash else shortest)
    except ValueError:
        raise InputError(f"{text!r} is no length; write 8 or 6-12") from None
    return limits
