"""Detection of sentences that a model was trained on.

Models overestimate the probability of training sentences, which they have memorised. Files written
by ``contstim models train ngram`` therefore contain a Bloom filter (Bloom 1970) of the training
sentences, and commands warn if most of their input sentences are in it.
"""

from __future__ import annotations

import base64
import gzip
import math
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray

from contstim.arrays import BoolArray
from contstim.errors import SpecError
from contstim.models import ModelSpec
from contstim.text.normalise import alphanumeric_key

# 10 bits and 7 hash functions per sentence give a false positive rate of 0.8 %.
_BITS_PER_SENTENCE, _N_HASHES = 10, 7
_HEADER = re.compile(rb"# filter of (\d+) training sentences\n")
_LINE_LENGTH = 4000


@dataclass(frozen=True, eq=False)
class BloomFilter:
    """A Bloom filter: a compact set of sentences with a small rate of false positives.

    Sentences that differ only in case, whitespace or punctuation are considered equal.

    Attributes
    ----------
    bits
        Bit array of the filter, eight bits per byte.
    n_sentences
        Number of distinct sentences in the set.
    """

    bits: NDArray[np.uint8]
    n_sentences: int

    @classmethod
    def from_letters(cls, letters: Iterable[str]) -> BloomFilter:
        """Build the filter from the letters and digits of each sentence, see `alphanumeric_key`."""
        hashes = np.unique(_hash_letters(letters))
        n_bits = 8 * _n_bytes(len(hashes))
        is_set = np.zeros(n_bits, dtype=np.bool_)
        is_set[_bit_indices(hashes, n_bits)] = True
        return cls(np.packbits(is_set), len(hashes))

    def contains(self, sentences: Iterable[str]) -> BoolArray:
        """Return whether each of S sentences is in the set, shape (S,).

        The answer is wrong for 0.8 % of the sentences that are not in the set, and for none that
        are.
        """
        indices = _bit_indices(_hash_letters(map(alphanumeric_key, sentences)), 8 * len(self.bits))
        is_member: BoolArray = np.unpackbits(self.bits)[indices].min(axis=1).astype(np.bool_)
        return is_member

    def format_lines(self) -> Iterator[str]:
        """Yield the filter as lines of base64 text that begin with ``#``."""
        yield f"# filter of {self.n_sentences} training sentences\n"
        text = base64.b64encode(self.bits.tobytes()).decode()
        yield from (f"# {text[i : i + _LINE_LENGTH]}\n" for i in range(0, len(text), _LINE_LENGTH))

    @classmethod
    def read(cls, path: Path) -> BloomFilter | None:
        """Read the filter at the beginning of a file, gzipped or not; None if there is none."""
        try:
            with path.open("rb") as raw:
                is_gzipped = raw.read(2) == b"\x1f\x8b"
                raw.seek(0)
                file = cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if is_gzipped else raw
                header = _HEADER.fullmatch(file.readline(100))
                if header is None:
                    return None
                n_sentences = int(header[1])
                n_bytes = _n_bytes(n_sentences)
                # Base64 encodes 3 bytes as 4 characters.
                n_lines = math.ceil(4 * math.ceil(n_bytes / 3) / _LINE_LENGTH)
                lines = [file.readline(_LINE_LENGTH + 10) for _ in range(n_lines)]
                text = b"".join(line.removeprefix(b"# ").strip() for line in lines)
                bits = np.frombuffer(base64.b64decode(text), dtype=np.uint8)
        except (OSError, EOFError, ValueError, zlib.error):
            return None  # Loading the model reports what is wrong with the file.
        return cls(bits, n_sentences) if len(bits) == n_bytes else None


def _n_bytes(n_sentences: int) -> int:
    """Return the size of the filter of a number of sentences, in bytes."""
    return math.ceil(max(1, n_sentences) * _BITS_PER_SENTENCE / 8)


def _hash_letters(letters: Iterable[str]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each text."""
    hashes = b"".join([blake2b(text.encode(), digest_size=8).digest() for text in letters])
    return np.frombuffer(hashes, dtype="<u8")


def _bit_indices(hashes: NDArray[np.uint64], n_bits: int) -> NDArray[np.uint64]:
    """Return the indices of the seven bits that represent each sentence, shape (S, 7).

    By double hashing, index k is (a + k b) modulo the number of bits, where a and b are the lower
    and the upper half of the sentence's hash, and b is made odd (Kirsch & Mitzenmacher 2006, Less
    hashing, same performance).
    """
    lower, upper = hashes & np.uint64(0xFFFFFFFF), hashes >> np.uint64(32)
    odd_steps = upper | np.uint64(1)
    k = np.arange(_N_HASHES, dtype=np.uint64)
    return (lower[:, None] + k * odd_steps[:, None]) % np.uint64(n_bits)


def training_overlap_notes(specs: Iterable[str], sentences: Sequence[str]) -> list[str]:
    """Return a warning for each model that was trained on most of the given sentences.

    Parameters
    ----------
    specs
        Model specifications, for example ``ngram:my.arpa.gz``. Other names and models without a
        list of training sentences are ignored.
    sentences
        The S sentences to look up.

    Returns
    -------
    list of str
        Warnings, with the number of training sentences and advice.
    """
    notes = []
    for spec in dict.fromkeys(specs):
        try:
            bloom_filter = BloomFilter.read(ModelSpec.parse(spec).path)
        except SpecError:
            continue
        n_matches = 0 if bloom_filter is None else int(bloom_filter.contains(sentences).sum())
        if 2 * n_matches > len(sentences):
            notes.append(
                f"{spec} was trained on {n_matches} of the {len(sentences)} sentences, so their "
                "scores are too high; set sentences apart with 'contstim sentences sample "
                "--unsampled FILE' and train on FILE"
            )
    return notes
