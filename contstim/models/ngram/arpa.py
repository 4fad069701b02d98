"""Reader and writer of ARPA files, vectorised over n-grams."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import ModelFileError
from contstim.files import replace_atomically
from contstim.models.ngram import NgramLevel, NgramTable, find_sorted
from contstim.models.word_tokenizer import END, START

_BINARY_MAGIC = b"mmap lm http://kheafield.com/code"
_READ_BYTES = 1 << 20  # per read while only the unigrams are needed
_BLOCK_BYTES = 1 << 20  # parsed at a time: fits the cache of a processor
_MAX_HEADER_BYTES = 1 << 16
_ROWS_PER_WRITE = 200_000
_MAX_DIGITS = 17  # of numbers that are parsed as integers

_IS_SEPARATOR = np.zeros(256, dtype=np.bool_)
_IS_SEPARATOR[[0x09, 0x0A, 0x0D, 0x20]] = True
_LOW_BYTES = np.array([(1 << (8 * n)) - 1 for n in range(9)], dtype=np.uint64)
_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplication is invertible
_COUNT = re.compile(rb"ngram\s+(\d+)\s*=\s*(\d+)\s*")


def _open(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise ModelFileError(
            f"cannot read the n-gram model {str(path)!r}: {error.strerror}"
        ) from error


def is_kenlm_binary(path: Path) -> bool:
    """Return whether a file starts with the signature of a KenLM binary.

    Raises
    ------
    ModelFileError
        If the file cannot be opened.
    """
    with _open(path) as file:
        return file.read(len(_BINARY_MAGIC)) == _BINARY_MAGIC


def _read_bytes(path: Path, stop_after: bytes | None = None) -> bytes:
    """Read a file, and decompress it if it is gzipped.

    If `stop_after` is not None, reading stops soon after its first occurrence, which saves time if
    only the first part of a large file is needed.
    """
    blocks: list[bytes] = []
    try:
        with _open(path) as raw:
            # Gzipped files begin with two fixed bytes.
            is_gzip = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            file = cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if is_gzip else raw
            # -1: read the whole file at once.
            while block := file.read(_READ_BYTES if stop_after else -1):
                blocks.append(block)
                # The text to stop after may extend over two blocks.
                if stop_after and stop_after in b"".join(blocks[-2:]):
                    break
    except (OSError, EOFError, zlib.error) as error:
        raise ModelFileError(f"the n-gram model {str(path)!r} is damaged: {error}") from error
    return b"".join(blocks).removeprefix(codecs.BOM_UTF8)


def _parse_header(data: bytes, path: Path) -> tuple[list[int], int]:
    """Return the number of n-grams of each order and the offset of the byte after the header."""
    offset = 0
    # Skip comments before the header.
    while data[offset : offset + 1] == b"#":
        offset = data.find(b"\n", offset) + 1 or len(data)
    # The header is a line "\data\", followed by lines such as "ngram 2=12345" (12345 bigrams).
    counts: list[int] = []
    is_in_header = False
    for line in data[offset : offset + _MAX_HEADER_BYTES].split(b"\n"):
        text = line.strip()
        if text == b"\\data\\":
            is_in_header = True
        elif text:
            match = _COUNT.fullmatch(text) if is_in_header else None
            if match is None or int(match.group(1)) != len(counts) + 1:  # the header has ended
                break
            counts.append(int(match.group(2)))
        offset += len(line) + 1
    if not counts:
        raise ModelFileError(
            f"{str(path)!r} is not an n-gram model: it begins neither with \\data\\ as ARPA does "
            "nor as a KenLM binary"
        )
    return counts, offset


class _LineBlock:
    """Consecutive lines of an ARPA file, each with one n-gram, split into fields.

    The fields of a line are the log-probability, the n words and, optionally, the back-off weight.
    The lines are parsed with array operations, which is much faster than line by line.

    Parameters
    ----------
    data
        Text of the lines.
    order
        Number of words n of each n-gram.
    name
        Name of the n-grams in error messages.

    Attributes
    ----------
    bytes
        Text of the lines, as an array of bytes.
    starts, ends
        Offsets of the first byte of all fields, and of the byte after each.
    first_fields
        Index of the first field of each line.
    has_backoff
        Whether each line has a back-off weight.
    """

    def __init__(self, data: bytes, order: int, name: str) -> None:
        self.name = name
        # Add a line end before the data, and eight bytes after it that `hash_fields` may read.
        self.bytes = np.frombuffer(b"\n" + data + b"\n" * 8, dtype=np.uint8)

        # Find the fields: white space separates them, so each change between white space and other
        # bytes is the start or the end of a field, alternately.
        is_separator = _IS_SEPARATOR[self.bytes]
        boundaries = np.flatnonzero(is_separator[1:] != is_separator[:-1]) + 1
        self.starts, self.ends = boundaries[::2], boundaries[1::2]

        # Find the lines: the first field of a line is the first one that starts after a line end.
        line_ends = np.flatnonzero(self.bytes == ord("\n"))
        next_fields = np.searchsorted(self.starts, line_ends)
        n_fields = np.diff(next_fields)
        is_empty = n_fields == 0
        self.first_fields, n_fields = next_fields[:-1][~is_empty], n_fields[~is_empty]
        if ((n_fields < order + 1) | (n_fields > order + 2)).any():
            raise ModelFileError(f"a line of {name} has too few or many fields; repair the file")
        self.has_backoff = n_fields == order + 2

    def parse_text(self, field: int) -> list[str]:
        """Return one field of each line as text."""
        raw = self.bytes.tobytes()
        # The fields of all lines are numbered consecutively.
        fields = self.first_fields + field
        spans = zip(self.starts[fields].tolist(), self.ends[fields].tolist(), strict=True)
        try:
            return [raw[start:end].decode() for start, end in spans]
        except UnicodeDecodeError as error:
            raise ModelFileError(f"{self.name} are not UTF-8; the file is damaged") from error

    def hash_fields(self, field: int) -> NDArray[np.uint64]:
        """Return a 64-bit hash of the text of one field of each line.

        This is a multiplicative hash (Knuth 1998, section 6.4). The bytes of a field are read as
        integers x_1, x_2, ... of eight bytes. With an odd constant m and all operations modulo
        2^64, the hash is computed by h_1 = x_1 m and h_i = ((h_(i-1) xor (h_(i-1) >> 29)) + x_i) m.
        Multiplication carries information to higher bits only. The shifts carry it back to the
        lower half, so that each bit of the result h xor (h >> 32) depends on the whole text.
        """
        starts = self.starts[self.first_fields + field]
        lengths = self.ends[self.first_fields + field] - starts
        # View the eight bytes after each offset as one integer. The views overlap.
        chunks = np.ndarray(
            (len(self.bytes) - 7,), dtype="<u8", buffer=self.bytes.data, strides=(1,)
        )
        # Hash the first eight bytes of each text. The mask sets bytes beyond its end to zero.
        first_chunks = chunks[starts] & _LOW_BYTES[np.minimum(lengths, 8)]
        hashes: NDArray[np.uint64] = first_chunks * _HASH_MULTIPLIER
        # Mix in the next eight bytes of longer texts, until all bytes are hashed.
        n_hashed = 8
        rows = np.flatnonzero(lengths > n_hashed)  # lines with further bytes
        while len(rows):
            n_bytes = np.minimum(lengths[rows] - n_hashed, 8)
            next_chunks = chunks[starts[rows] + n_hashed] & _LOW_BYTES[n_bytes]
            previous = hashes[rows]
            shifted = previous ^ (previous >> np.uint64(29))
            hashes[rows] = (shifted + next_chunks) * _HASH_MULTIPLIER
            n_hashed += 8
            rows = rows[lengths[rows] > n_hashed]
        hashes ^= hashes >> np.uint64(32)
        return hashes

    def parse_numbers(self, field: int, has_field: BoolArray | None = None) -> FloatArray:
        """Return one field of each line as a number.

        Parameters
        ----------
        field
            Index of the field in its line, from 0.
        has_field
            Whether each line has the field; the result is 0 for other lines. By default all lines
            have it.
        """
        if has_field is None:
            has_field = np.ones(len(self.first_fields), np.bool_)
        fields = self.first_fields[has_field] + field
        starts, lengths = self.starts[fields], self.ends[fields] - self.starts[fields]

        # Parse all decimal numbers at once, digit by digit.
        mantissas = np.zeros(len(fields), dtype=np.int64)
        n_decimals = np.zeros(len(fields), dtype=np.int64)
        is_after_point = np.zeros(len(fields), dtype=np.bool_)
        is_decimal = lengths <= _MAX_DIGITS
        for index in range(min(int(lengths.max(initial=0)), _MAX_DIGITS)):
            is_inside = lengths > index
            byte = self.bytes[np.where(is_inside, starts + index, 0)]
            is_digit = is_inside & (byte >= ord("0")) & (byte <= ord("9"))
            np.copyto(mantissas, mantissas * 10 + (byte - np.uint8(ord("0"))), where=is_digit)
            n_decimals += is_digit & is_after_point
            is_point = is_inside & (byte == ord(".")) & ~is_after_point
            is_sign = (byte == ord("-")) & (index == 0)
            is_decimal &= ~is_inside | is_digit | is_point | is_sign
            is_after_point |= is_point
        numbers: FloatArray = mantissas / 10.0**n_decimals
        numbers[self.bytes[starts] == ord("-")] *= -1

        # Parse the few other numbers (exponents, infinity) one by one.
        for row in np.flatnonzero(~is_decimal).tolist():
            text = self.bytes[starts[row] : starts[row] + lengths[row]].tobytes()
            try:
                numbers[row] = float(text)
            except ValueError as error:
                raise ModelFileError(
                    f"{self.name} contain {text.decode(errors='replace')!r} where a number "
                    "belongs; the file is damaged"
                ) from error
        values = np.zeros(len(self.first_fields))
        values[has_field] = numbers
        return values


def _split_section(data: bytes, order: int, offset: int, name: str) -> Iterator[_LineBlock]:
    """Find the section with the n-grams of one order, and yield it in blocks of whole lines.

    `data` is the content of an ARPA file, in which the section is searched from `offset` on. `name`
    is the name of the n-grams in error messages.
    """
    heading = data.find(b"\\%d-grams:" % order, max(offset - 1, 0))
    # The section extends from the line after its heading to the next line with a backslash.
    begin = data.find(b"\n", heading) + 1
    end = data.find(b"\n\\", begin - 1) + 1
    if heading < 0 or not begin or not end:  # `find` returns -1 if there is no match.
        raise ModelFileError(f"{name} break off; the file is truncated or damaged")
    # Limit the size of the blocks, and split only at line ends.
    while begin < end:
        stop = data.rfind(b"\n", begin, min(begin + _BLOCK_BYTES, end)) + 1
        if stop <= begin:  # a line that is longer than a block
            stop = end
        yield _LineBlock(data[begin:stop], order, name)
        begin = stop


def _check_count(n_read: int, n_stated: int, name: str) -> None:
    if n_read != n_stated:
        raise ModelFileError(
            f"{name} are {n_read}, but the header states {n_stated}; the file is truncated or "
            "damaged"
        )


def read_unigrams(path: Path) -> tuple[int, tuple[str, ...], FloatArray]:
    """Read only the unigrams of an ARPA file.

    Returns
    -------
    order
        Length of the longest n-grams.
    words
        The V words of the vocabulary.
    log_probs
        Base-10 logarithms of their probabilities, shape (V,).

    Raises
    ------
    ModelFileError
        If the file is not ARPA, or ends within the unigrams.
    """
    data = _read_bytes(path, stop_after=b"\n\\2-grams:")
    # The header of the file states the number of n-grams of each order.
    counts, offset = _parse_header(data, path)
    name = f"the 1-grams of {str(path)!r}"  # for error messages
    # A line contains a log-probability (field 0), a word (field 1) and perhaps a back-off weight.
    words: list[str] = []
    log_probs: list[FloatArray] = []
    for block in _split_section(data, 1, offset, name):
        words += block.parse_text(1)
        log_probs.append(block.parse_numbers(0))
    _check_count(len(words), counts[0], name)
    return len(counts), tuple(words), np.concatenate(log_probs)


class _WordIndex:
    """Index that finds the ids of words from their hashes, by binary search.

    Parameters
    ----------
    hashes
        Hashes of all V words, shape (V,). The id of a word is its index in this array.
    name
        Name of the n-grams in error messages.
    """

    def __init__(self, hashes: NDArray[np.uint64], name: str) -> None:
        self.ids = np.argsort(hashes)
        self.hashes = hashes[self.ids]
        if (self.hashes[1:] == self.hashes[:-1]).any():
            raise ModelFileError(f"{name} list a word twice; the file is damaged")

    def find_ids(self, block: _LineBlock, field: int) -> IntArray:
        """Look up the id of the word in one field of each line; shape (L,) for L lines.

        Raises
        ------
        ModelFileError
            If a word is not in the list of unigrams.
        """
        hashes = block.hash_fields(field)
        # Most lines have the same words as the line before, because files are sorted by context:
        # search only for the first word of each run of equal words.
        is_new = np.ones(len(hashes), dtype=np.bool_)
        is_new[1:] = hashes[1:] != hashes[:-1]
        distinct = hashes[is_new]
        # Hashes above all known ones get any valid index; the comparison below then fails.
        indices = np.searchsorted(self.hashes, distinct)
        indices[indices == len(self.hashes)] = 0
        if (self.hashes[indices] != distinct).any():
            raise ModelFileError(
                f"{block.name} contain a word that is not a unigram; the file is damaged"
            )
        # Repeat the id of each distinct hash for the lines that share it.
        ids: IntArray = self.ids[indices][np.cumsum(is_new) - 1]
        return ids


def _find_ngram_keys(
    block: _LineBlock, levels: Sequence[NgramLevel], n_words: int, index: _WordIndex
) -> IntArray | None:
    """Return integers that identify the n-grams in L lines of a file, shape (L,).

    The key of an n-gram is (id of its first n - 1 words) * V + (id of its last word), where V is
    `n_words`. The ids are looked up in `levels`, the shorter n-grams of the file. The result is
    None if they are incomplete. For example, a file with "the big dog" must also contain "the big".
    """
    order = len(levels) + 1
    # The fields 1, 2, ..., n of a line are the words of its n-gram.
    keys = index.find_ids(block, 1)
    # Look up the n-gram of the first two words, then of the first three, and so on.
    for field in range(2, order + 1):
        keys = keys * n_words + index.find_ids(block, field)
        if field < order:
            keys = find_sorted(levels[field - 1].keys, keys)
            if (keys < 0).any():  # -1: the lower orders lack an n-gram.
                return None
    return keys


def read_arpa(path: Path) -> NgramTable | None:
    """Read an n-gram model from an ARPA file.

    Returns
    -------
    table
        N-gram model. None if an n-gram is listed without the (n-1)-gram of its first or of its last
        n-1 words, as in files that some programs write after pruning a model.

    Raises
    ------
    ModelFileError
        If the file is not ARPA, truncated or damaged.
    """
    data = _read_bytes(path)
    counts, offset = _parse_header(data, path)
    levels: list[NgramLevel] = []
    words: list[str] = []
    index: _WordIndex | None = None
    for order, count in enumerate(counts, start=1):
        name = f"the {order}-grams of {str(path)!r}"
        hashes: list[NDArray[np.uint64]] = []
        # The arrays begin with an empty block, because a section can be empty.
        keys = [np.zeros(0, dtype=np.int64)]
        log_probs, log_backoffs = [np.zeros(0)], [np.zeros(0)]
        for block in _split_section(data, order, offset, name):
            if index is None:
                # The key of a unigram is its word id.
                block_keys: IntArray | None = np.arange(len(block.first_fields)) + len(words)
                words += block.parse_text(1)
                hashes.append(block.hash_fields(1))
            else:
                block_keys = _find_ngram_keys(block, levels, len(words), index)
            if block_keys is None:
                return None
            keys.append(block_keys)
            log_probs.append(block.parse_numbers(0))
            log_backoffs.append(block.parse_numbers(order + 1, block.has_backoff))
        _check_count(sum(map(len, keys)), count, name)
        level = NgramLevel(
            np.concatenate(keys), np.concatenate(log_probs), np.concatenate(log_backoffs)
        )
        if index is None:
            for symbol in (START, END):
                if symbol not in words:
                    raise ModelFileError(f"{name} lack {symbol}; the file is damaged")
            index = _WordIndex(np.concatenate(hashes), name)
        elif not (level.keys[1:] > level.keys[:-1]).all():
            by_key = np.argsort(level.keys)
            level = NgramLevel(
                level.keys[by_key], level.log_probs[by_key], level.log_backoffs[by_key]
            )
            if (level.keys[1:] == level.keys[:-1]).any():
                raise ModelFileError(f"{name} list an n-gram twice; the file is damaged")
        levels.append(level)
        heading = data.find(b"\\%d-grams:" % order, max(offset - 1, 0))
        offset = data.find(b"\n\\", heading) + 1
    if data.find(b"\\end\\", offset) < 0:
        raise ModelFileError(f"{str(path)!r} lacks its last line, \\end\\; it is truncated")
    table = NgramTable(tuple(words), tuple(levels))
    has_all_suffixes = all((ids >= 0).all() for ids in table.suffix_ids)
    return table if has_all_suffixes else None


def _format_arpa(table: NgramTable, digits: int) -> Iterator[str]:
    """Yield an n-gram model as text in ARPA format, part by part; see `write_arpa`."""
    n_words = len(table.words)
    words = np.array(table.words, dtype=object)
    # Header with the number of n-grams of each order.
    yield "\\data\\\n"
    for order, level in enumerate(table.levels, start=1):
        yield f"ngram {order}={len(level.keys)}\n"
    contexts = words  # Texts of the n-grams of the next lower order.
    for order, level in enumerate(table.levels, start=1):
        yield f"\n\\{order}-grams:\n"
        # N-grams below the highest order have a back-off weight at the end of their line.
        is_highest = order == table.order
        template = f"%.{digits}f\t%s\n" if is_highest else f"%.{digits}f\t%s\t%.{digits + 1}f\n"
        ngrams = []
        for begin in range(0, len(level.keys), _ROWS_PER_WRITE):
            rows = slice(begin, begin + _ROWS_PER_WRITE)
            # The key of an n-gram is (id of its first n-1 words) * V + (id of its last word).
            keys = level.keys[rows]
            texts = words[keys % n_words]
            if order > 1:
                texts = contexts[keys // n_words] + " " + texts
            columns = [level.log_probs[rows].tolist(), texts.tolist()]
            if not is_highest:
                ngrams.append(texts)
                columns.append(level.log_backoffs[rows].tolist())
            yield "".join(map(template.__mod__, zip(*columns, strict=True)))
        if ngrams:
            contexts = np.concatenate(ngrams)
    yield "\n\\end\\\n"


def write_arpa(table: NgramTable, path: Path, *, digits: int = 7) -> None:
    """Write a model as an ARPA file, atomically; gzip-compressed if the name ends in ``.gz``.

    Parameters
    ----------
    table
        N-gram model.
    path
        File to write.
    digits
        Number of decimals of the base-10 log-probabilities. Back-off weights have one more,
        because an error in one affects all words of the context. Default 7.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    with replace_atomically(path) as temporary, contextlib.ExitStack() as stack:
        raw = stack.enter_context(temporary.open("wb"))
        binary: IO[bytes] = raw
        if path.name.endswith(".gz"):
            # Without file name and time, so that equal models give equal bytes.
            zipped = gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0)
            binary = cast(IO[bytes], stack.enter_context(zipped))
        text = stack.enter_context(io.TextIOWrapper(binary, encoding="utf-8", newline="\n"))
        text.writelines(_format_arpa(table, digits))
