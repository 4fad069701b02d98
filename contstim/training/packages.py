"""Models that lie in other packages, found and converted once.

A package is found by the metadata of its installation and never imported. What is made from its
files is kept in a folder of the user's, whole or not at all.

Here too: the English trigram of the package `pocketsphinx`, converted to ARPA. Its file
(``en-us.lm.bin``, 72,547 lower-case words) is a reversed trie: from the predicted word to ever
older history. All numbers are little-endian and packed fields begin at the least significant bit.
"""

from __future__ import annotations

import glob
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contstim.arrays import AnyArray, IntArray
from contstim.errors import MissingExtraError, ModelFileError, OutputError
from contstim.files import cache_folder, digest_parts, file_digest, lock, remove, replacing
from contstim.models.ngram import Level, NgramTable, find
from contstim.models.ngram.arpa import write_arpa
from contstim.models.words import START, UNKNOWN


def package_file(model: str, package: str, ending: str, install: str) -> Path:
    """Return the file of an installed package whose name ends in `ending`.

    Parameters
    ----------
    model
        The model that needs it, for messages.
    package
        The package's name, as pip knows it.
    ending
        How the file's name ends.
    install
        What to type to install the package.

    Raises
    ------
    MissingExtraError
        If the package is not installed.
    ModelFileError
        If it has no such file.
    """
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingExtraError(
            f"{model} is in the package {package}, which is not installed; {install}"
        ) from error
    for entry in files:
        path = Path(str(entry.locate()))
        if entry.name.endswith(ending) and path.is_file():
            return path
    version = importlib.metadata.version(package)
    raise ModelFileError(
        f"{model}: the package {package} {version} has no file *{ending}; install it again"
    )


def digest_of_files(paths: Iterable[Path]) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of files' SHA-256s, in order.

    Raises
    ------
    ModelFileError
        If a file cannot be read.
    """
    digests = []
    for path in paths:
        try:
            digests.append(bytes.fromhex(file_digest(path)))
        except OSError as error:
            raise ModelFileError(f"cannot read {str(path)!r}: {error.strerror}") from error
    return digest_parts(digests)[:16]


def convert_once(name: str, write: Callable[[Path], object]) -> Path:
    """Return the file or folder `name` of the cache folder, made by `write` if it is not there.

    It is written beside its place and moved there when it is whole and on the disk, so whatever
    interrupts the writing leaves nothing that could be taken for it. Other processes that want it
    at the same time wait.

    Parameters
    ----------
    name
        Its name, which should change with what it is made from.
    write
        Makes the file or folder at the path it is given.

    Raises
    ------
    OutputError
        If the cache folder cannot be written.
    """
    target = cache_folder() / name
    if target.exists():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with lock(target.with_name(f".{name}.lock"), str(target), wait=True):
            if not target.exists():
                print(f"converting a model, once, into {target}", file=sys.stderr)
                for left in target.parent.glob(f".{glob.escape(name)}.*.tmp"):
                    remove(left)  # of a conversion that was cut short
                with replacing(target) as temporary:
                    write(temporary)
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(
            f"cannot write the cache folder {str(target.parent)!r}: {error.strerror or error}; set "
            "CONTSTIM_CACHE to a folder that can be written"
        ) from error
    return target


_MAGIC = b"Trie Language Model"
_BASE = np.log10(1.0001)  # its logarithms are to the base 1.0001
_BINS = 1 << 16  # probabilities and weights are 16-bit indices into tables
_UNKNOWN_LOG10 = -7.0  # the file has no unknown-word class; the rarest of its words are near 1e-7


def converted_trigram() -> Path:
    """Return the trigram of the installed `pocketsphinx` as an ARPA file, converted if need be.

    Raises
    ------
    MissingExtraError
        If `pocketsphinx` is not installed.
    ModelFileError
        If it lacks the model, or the model is not laid out as expected.
    OutputError
        If the cache folder cannot be written.
    """
    package = importlib.util.find_spec("pocketsphinx")  # finds the package without importing it
    if package is None or package.origin is None:
        raise MissingExtraError(
            "contstim:pocketsphinx-trigram is in the package pocketsphinx, which is not "
            'installed; pip install "contstim[models]"'
        )
    source = Path(package.origin).parent / "model" / "en-us" / "en-us.lm.bin"
    version = importlib.metadata.version("pocketsphinx")

    def write(path: Path) -> None:
        write_arpa(read_sphinx_trie(source), path, digits=4)

    return convert_once(f"pocketsphinx-{version}-en-us.arpa", write)


@dataclass
class _Cursor:
    """A place in the bytes of the file."""

    data: bytes
    path: Path
    at: int = 0

    def take(self, n_bytes: int) -> bytes:
        """Return the next bytes."""
        part = self.data[self.at : self.at + n_bytes]
        if len(part) < n_bytes:
            raise ModelFileError(f"{str(self.path)!r} is truncated at byte {len(self.data)}")
        self.at += n_bytes
        return part

    def array(self, kind: str, count: int) -> AnyArray:
        """Return the next `count` values of a type."""
        dtype = np.dtype(kind)
        return np.frombuffer(self.take(count * dtype.itemsize), dtype=dtype)


def _fields(packed: NDArray[np.uint8], count: int, widths: list[int]) -> list[IntArray]:
    """Unpack `count` records of bit fields, each field at most 57 bits wide."""
    words = np.ndarray((len(packed) - 7,), dtype="<u8", buffer=packed.data, strides=(1,))
    first = np.arange(count, dtype=np.int64) * sum(widths)
    fields = []
    for width in widths:
        shifted = words[first >> 3] >> (first & 7).astype(np.uint64)
        fields.append((shifted & np.uint64((1 << width) - 1)).astype(np.int64))
        first = first + width
    return fields


def read_sphinx_trie(path: Path) -> NgramTable:
    """Read a trigram in the trie format of CMU Sphinx, and add an unknown-word class to it.

    Raises
    ------
    ModelFileError
        If the file is missing, truncated or not a trigram of this format.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelFileError(f"cannot read {str(path)!r}: {error.strerror}") from error
    cursor = _Cursor(data, path)
    if data[: len(_MAGIC)] != _MAGIC:
        raise ModelFileError(f"{str(path)!r} is not a language model of CMU Sphinx")
    cursor.take(len(_MAGIC))
    order = cursor.take(1)[0]
    if order != 3:
        raise ModelFileError(f"{str(path)!r} is of order {order}; only trigrams can be converted")
    n1, most2, most3 = cursor.array("<u4", 3).astype(np.int64).tolist()
    cursor.take(4)
    probs2, backoffs2, probs3 = (
        cursor.array("<f4", _BINS).astype(np.float64) * _BASE for _ in range(3)
    )
    unigrams = cursor.array("<f4, <f4, <u4", n1 + 1)
    word_bits, next_bits = int(n1).bit_length(), int(most3).bit_length()
    widths2, widths3 = [word_bits, 16, 16, next_bits], [word_bits, 16]
    packed2, packed3 = (
        cursor.array("u1", ((count + 1) * sum(widths) + 7) // 8 + 8)
        for count, widths in ((most2, widths2), (most3, widths3))
    )
    length = int(cursor.array("<u4", 1)[0])
    words = tuple(cursor.take(length).decode(errors="replace").split("\0")[:n1])
    if len(words) != n1 or START not in words:
        raise ModelFileError(f"{str(path)!r} does not list its {n1} words; it is damaged")
    # Header and records may disagree: the last unigram's bound says how many bigrams there are.
    n2 = min(int(unigrams["f2"][-1]), most2)
    before2, backoff2, prob2, next2 = _fields(packed2, n2 + 1, widths2)
    n3 = min(int(next2[-1]), most3)
    before3, prob3 = _fields(packed3, n3, widths3)
    last2 = _parents(unigrams["f2"].astype(np.int64), n2, path)
    parent3 = _parents(next2, n3, path)
    size = n1 + 1
    first = unigrams["f0"][:n1].astype(np.float64) * _BASE
    weights = unigrams["f1"][:n1].astype(np.float64) * _BASE
    words = (*words, UNKNOWN)
    level1 = Level(
        np.arange(size, dtype=np.int64),
        np.append(np.minimum(first, 0.0), _UNKNOWN_LOG10),
        np.append(weights, 0.0),
    )
    keys2 = before2[:n2] * size + last2
    by_key = np.argsort(keys2)
    logs2 = np.minimum(probs2[prob2[:n2]], 0.0)
    level2 = Level(keys2[by_key], logs2[by_key], backoffs2[backoff2[:n2]][by_key])
    contexts = find(level2.keys, before3 * size + before2[parent3])
    if (contexts < 0).any():
        raise ModelFileError(
            f"{str(path)!r} has a trigram that begins with no bigram of its own; it is damaged"
        )
    keys3 = contexts * size + last2[parent3]
    logs3 = np.minimum(probs3[prob3], 0.0)
    by_key = np.argsort(keys3)
    level3 = Level(keys3[by_key], logs3[by_key], np.zeros(len(keys3)))
    return NgramTable(words, (level1, level2, level3))


def _parents(following: IntArray, count: int, path: Path) -> IntArray:
    """Return whose child each record is; those of i run from ``following[i]`` to the next's."""
    sizes = np.diff(following)
    if following[0] != 0 or (sizes < 0).any() or following[-1] != count:
        raise ModelFileError(f"{str(path)!r} has its records out of order; it is damaged")
    return np.repeat(np.arange(len(sizes)), sizes)
