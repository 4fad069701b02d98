"""Writing ARPA files."""

from __future__ import annotations

import contextlib
import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

import numpy as np

from contstim.files import replacing
from contstim.models.ngram.table import NgramTable

__all__ = ["write_arpa"]

_ROWS = 200_000


def _sections(table: NgramTable, digits: int) -> Iterator[str]:
    size = len(table.words)
    names = np.array(table.words, dtype=object)
    yield "\\data\\\n"
    for n, level in enumerate(table.levels, start=1):
        yield f"ngram {n}={len(level.keys)}\n"
    grams = names
    for n, level in enumerate(table.levels, start=1):
        yield f"\n\\{n}-grams:\n"
        highest = n == table.order
        line = f"%.{digits}f\t%s\n" if highest else f"%.{digits}f\t%s\t%.{digits + 1}f\n"
        longer = []
        for begin in range(0, len(level.keys), _ROWS):
            rows = slice(begin, begin + _ROWS)
            keys = level.keys[rows]
            here = names[keys % size]
            if n > 1:
                here = grams[keys // size] + " " + here
            if not highest:
                longer.append(here)
            probs = level.log_probs[rows].tolist()
            if highest:
                values = zip(probs, here.tolist(), strict=True)
                yield "".join(map(line.__mod__, values))
            else:
                weights = level.log_backoffs[rows].tolist()
                yield "".join(map(line.__mod__, zip(probs, here.tolist(), weights, strict=True)))
        if longer:
            grams = np.concatenate(longer)
    yield "\n\\end\\\n"


def write_arpa(table: NgramTable, path: Path, *, digits: int = 7) -> None:
    """Write a model as ARPA text, gzipped if the name ends in ``.gz``; never half a file.

    Parameters
    ----------
    table
        The model.
    path
        The file.
    digits
        Decimals of the base-10 logarithms of probabilities. Back-off weights have one more, since
        the error of one is shared by all words that it scales.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    with replacing(path) as place, contextlib.ExitStack() as stack:
        raw = stack.enter_context(place.open("wb"))
        binary: IO[bytes] = raw
        if path.name.endswith(".gz"):
            # Without name and time of writing, so that the same model gives the same bytes.
            zipped = gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0)
            binary = cast(IO[bytes], stack.enter_context(zipped))
        text = stack.enter_context(io.TextIOWrapper(binary, encoding="utf-8", newline="\n"))
        for part in _sections(table, digits):
            text.write(part)
