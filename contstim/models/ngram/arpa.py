"""Reading ARPA files into arrays, without a Python loop over n-grams, and writing them."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import ModelFileError
from contstim.files import replacing
from contstim.models.ngram import NgramLevel, NgramTable, find_sorted
from contstim.models.word_tokenizer import END, START

_BINARY_MAGIC = b"mmap lm http://kheafield.com/code"
_CHUNK = 1 << 20
_BLOCK = 1 << 20  # small enough for a processor's cache
_SEPARATORS = np.zeros(256, dtype=np.bool_)
_SEPARATORS[[0x09, 0x0A, 0x0D, 0x20]] = True
_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(9)], dtype=np.uint64)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, bits well spread: multiplication permutes
_COUNT = re.compile(rb"ngram\s+(\d+)\s*=\s*(\d+)\s*")


def _open(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise ModelFileError(
            f"cannot read the n-gram model {str(path)!r}: {error.strerror}"
        ) from error


def is_kenlm_binary(path: Path) -> bool:
    """Return whether a file begins as a KenLM binary does.

    Raises
    ------
    ModelFileError
        If it cannot be opened.
    """
    with _open(path) as file:
        return file.read(len(_BINARY_MAGIC)) == _BINARY_MAGIC


def _read(path: Path, until: bytes | None = None) -> bytes:
    """Return the file, or its beginning up to a little after `until`."""
    blocks: list[bytes] = []
    try:
        with _open(path) as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            file = cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if zipped else raw
            while block := file.read(_CHUNK if until else -1):
                blocks.append(block)
                tail = b"".join(blocks[-2:]) if until else b""
                if until and until in tail:
                    break
    except (OSError, EOFError, zlib.error) as error:
        raise ModelFileError(f"the n-gram model {str(path)!r} is damaged: {error}") from error
    return b"".join(blocks).removeprefix(codecs.BOM_UTF8)


def _header(data: bytes, path: Path) -> tuple[list[int], int]:
    """Return the number of n-grams by order, and where the header ends."""
    at = 0
    while data[at : at + 1] == b"#":
        at = data.find(b"\n", at) + 1 or len(data)
    lines = data[at : at + (1 << 16)].split(b"\n")
    counts: list[int] = []
    seen = False
    for line in lines:
        text = line.strip()
        if text == b"\\data\\":
            seen = True
        elif text.startswith(b"\\"):
            break
        elif seen and text:
            match = _COUNT.fullmatch(text)
            if match is None or int(match.group(1)) != len(counts) + 1:
                break
            counts.append(int(match.group(2)))
        elif text:
            break
        at += len(line) + 1
    if not counts:
        raise ModelFileError(
            f"{str(path)!r} is not an n-gram model: it begins neither with \\data\\ as ARPA does "
            "nor as a KenLM binary"
        )
    return counts, at


class _Lines:
    """Some lines of one section: where each field lies, and what it holds."""

    def __init__(self, data: bytes, n: int, name: str) -> None:
        self.name = name
        # A separator before and seven bytes behind let every field be read eight bytes at a time.
        self.bytes = np.frombuffer(b"\n" + data + b"\n" * 8, dtype=np.uint8)
        separator = _SEPARATORS[self.bytes]
        edges = np.flatnonzero(separator[1:] != separator[:-1]) + 1
        self.starts, self.ends = edges[::2], edges[1::2]
        newlines = np.flatnonzero(self.bytes == 0x0A)
        first = np.searchsorted(self.starts, newlines)
        fields = np.diff(first)
        self.first = first[:-1][fields > 0]
        fields = fields[fields > 0]
        if ((fields < n + 1) | (fields > n + 2)).any():
            raise ModelFileError(f"{name} have a line of the wrong length; the file is damaged")
        self.weighted = fields == n + 2

    def text(self, field: int) -> list[str]:
        """Return a field of each line as text."""
        raw = self.bytes.tobytes()
        at = self.first + field
        pairs = zip(self.starts[at].tolist(), self.ends[at].tolist(), strict=True)
        try:
            return [raw[start:end].decode() for start, end in pairs]
        except UnicodeDecodeError as error:
            raise ModelFileError(f"{self.name} are not UTF-8") from error

    def hashes(self, field: int) -> NDArray[np.uint64]:
        """Return a field of each line as a 64-bit hash."""
        at = self.first + field
        starts = self.starts[at]
        left = self.ends[at] - starts
        eights = np.ndarray(
            (len(self.bytes) - 7,), dtype="<u8", buffer=self.bytes.data, strides=(1,)
        )
        hashes: NDArray[np.uint64] = (eights[starts] & _MASKS[np.minimum(left, 8)]) * _MULTIPLIER
        rows = np.flatnonzero(left > 8)
        done = 8
        while len(rows):
            part = eights[starts[rows] + done] & _MASKS[np.minimum(left[rows] - done, 8)]
            mixed = hashes[rows]
            hashes[rows] = ((mixed ^ (mixed >> np.uint64(29))) + part) * _MULTIPLIER
            done += 8
            rows = rows[left[rows] > done]
        hashes ^= hashes >> np.uint64(32)
        return hashes

    def numbers(self, field: int, rows: BoolArray | None = None) -> FloatArray:
        """Return a field as numbers, 0 in lines outside `rows`."""
        at = (self.first if rows is None else self.first[rows]) + field
        starts, length = self.starts[at], self.ends[at] - self.starts[at]
        mantissa = np.zeros(len(at), dtype=np.int64)
        decimals = np.zeros(len(at), dtype=np.int64)
        point = np.zeros(len(at), dtype=np.bool_)
        plain = length <= 17
        for place in range(min(int(length.max(initial=0)), 17)):
            inside = length > place
            byte = self.bytes[np.where(inside, starts + place, 0)]
            digit = inside & (byte >= 0x30) & (byte <= 0x39)
            np.copyto(mantissa, mantissa * 10 + (byte - np.uint8(0x30)), where=digit)
            decimals += digit & point
            mark = inside & (byte == 0x2E) & ~point
            plain &= ~inside | digit | mark | ((byte == 0x2D) & (place == 0))
            point |= mark
        values: FloatArray = mantissa / 10.0**decimals
        values[self.bytes[starts] == 0x2D] *= -1
        for row in np.flatnonzero(~plain).tolist():  # exponents, inf: rare
            token = self.bytes[starts[row] : starts[row] + length[row]].tobytes()
            try:
                values[row] = float(token)
            except ValueError as error:
                raise ModelFileError(
                    f"{self.name} hold {token.decode(errors='replace')!r} where a number belongs"
                ) from error
        if rows is None:
            return values
        out = np.zeros(len(self.first))
        out[rows] = values
        return out


def _blocks(data: bytes, n: int, at: int, name: str) -> Iterator[_Lines]:
    """Cut the section of order `n`, which begins after `at`, into blocks of whole lines."""
    heading = data.find(b"\\%d-grams:" % n, max(at - 1, 0))
    begin = data.find(b"\n", heading) + 1
    end = data.find(b"\n\\", begin - 1) + 1
    if heading < 0 or not begin or not end:
        raise ModelFileError(f"{name} break off; the file is truncated or damaged")
    while begin < end:
        cut = data.rfind(b"\n", begin, min(begin + _BLOCK, end)) + 1
        cut = cut if cut > begin else end
        yield _Lines(data[begin:cut], n, name)
        begin = cut


def _check_count(found: int, promised: int, name: str) -> None:
    if found != promised:
        raise ModelFileError(
            f"{name} are {found}, but the header promises {promised}; the file is truncated or "
            "damaged"
        )


def read_unigrams(path: Path) -> tuple[int, tuple[str, ...], FloatArray]:
    """Return the order, the V words and their base-10 logarithms, from the head of an ARPA file.

    Raises
    ------
    ModelFileError
        If the file is not ARPA, or breaks off before the unigrams end.
    """
    data = _read(path, until=b"\n\\2-grams:")
    counts, at = _header(data, path)
    name = f"the 1-grams of {str(path)!r}"
    words: list[str] = []
    log_probs: list[FloatArray] = []
    for block in _blocks(data, 1, at, name):
        words += block.text(1)
        log_probs.append(block.numbers(0))
    _check_count(len(words), counts[0], name)
    return len(counts), tuple(words), np.concatenate(log_probs)


class _Lookup:
    """From the hashes of words to their ids."""

    def __init__(self, hashes: NDArray[np.uint64], name: str) -> None:
        self.places = np.argsort(hashes)
        self.hashes = hashes[self.places]
        if (self.hashes[1:] == self.hashes[:-1]).any():
            raise ModelFileError(f"{name} list a word twice")

    def __call__(self, block: _Lines, field: int) -> IntArray:
        wanted = block.hashes(field)
        # Files list n-grams by context, so that most neighbours agree.
        new = np.ones(len(wanted), dtype=np.bool_)
        new[1:] = wanted[1:] != wanted[:-1]
        distinct = wanted[new]
        places = np.searchsorted(self.hashes, distinct)
        places[places == len(self.hashes)] = 0
        if (self.hashes[places] != distinct).any():
            raise ModelFileError(f"{block.name} hold a word that is not a unigram")
        ids: IntArray = self.places[places][np.cumsum(new) - 1]
        return ids


def _keys_of(
    block: _Lines, levels: Sequence[NgramLevel], n_words: int, lookup: _Lookup
) -> IntArray | None:
    """Return the keys of a block's n-grams; None if the first n-1 words of one are no n-gram."""
    n = len(levels) + 1
    ids = lookup(block, 1)
    for field in range(2, n + 1):
        ids = ids * n_words + lookup(block, field)
        if field < n:
            ids = find_sorted(levels[field - 1].keys, ids)
            if (ids < 0).any():
                return None
    return ids


def read_arpa(path: Path) -> NgramTable | None:
    """Read an ARPA file.

    Returns
    -------
    table
        The model, or None if some n-gram's first or last n-1 words are not in the file as an
        n-gram, which pruning by other tools may leave.

    Raises
    ------
    ModelFileError
        If the file is not ARPA, truncated or damaged.
    """
    data = _read(path)
    counts, at = _header(data, path)
    levels: list[NgramLevel] = []
    words: list[str] = []
    lookup: _Lookup | None = None
    for n, count in enumerate(counts, start=1):
        name = f"the {n}-grams of {str(path)!r}"
        hashes: list[NDArray[np.uint64]] = []
        parts: list[tuple[IntArray, FloatArray, FloatArray]] = []
        for block in _blocks(data, n, at, name):
            if lookup is None:
                ids: IntArray | None = np.arange(len(block.first)) + len(words)
                words += block.text(1)
                hashes.append(block.hashes(1))
            else:
                ids = _keys_of(block, levels, len(words), lookup)
            if ids is None:
                return None
            parts.append((ids, block.numbers(0), block.numbers(n + 1, block.weighted)))
        _check_count(sum(len(part[0]) for part in parts), count, name)
        keys, log_probs, log_backoffs = (
            np.concatenate([part[k] for part in parts]) if parts else np.empty(0) for k in range(3)
        )
        if lookup is None:
            if missing := {START, END} - set(words):
                raise ModelFileError(f"{name} lack {missing.pop()}")
            lookup = _Lookup(np.concatenate(hashes), name)
        level = NgramLevel(keys.astype(np.int64), log_probs, log_backoffs)
        if n > 1 and not (level.keys[1:] > level.keys[:-1]).all():
            order = np.argsort(level.keys)
            level = NgramLevel(level.keys[order], log_probs[order], log_backoffs[order])
            if (level.keys[1:] == level.keys[:-1]).any():
                raise ModelFileError(f"{name} list an n-gram twice")
        levels.append(level)
        at = data.find(b"\n\\", data.find(b"\\%d-grams:" % n, max(at - 1, 0))) + 1
    if data.find(b"\\end\\", at) < 0:
        raise ModelFileError(f"{str(path)!r} lacks its last line, \\end\\; it is truncated")
    table = NgramTable(tuple(words), tuple(levels))
    return None if any((s < 0).any() for s in table.suffix_ids) else table


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
            columns = [level.log_probs[rows].tolist(), here.tolist()]
            if not highest:
                longer.append(here)
                columns.append(level.log_backoffs[rows].tolist())
            yield "".join(map(line.__mod__, zip(*columns, strict=True)))
        if longer:
            grams = np.concatenate(longer)
    yield "\n\\end\\\n"


def write_arpa(
    table: NgramTable, path: Path, *, digits: int = 7, comments: Iterable[str] = ()
) -> None:
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
    comments
        Lines to begin with, each of which begins with ``#``.

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
        for part in chain(comments, _sections(table, digits)):
            text.write(part)
