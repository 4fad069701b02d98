"""Which sentences a model was trained on, as far as its file keeps them.

Scores of a training text are too high: its sentences are remembered, not predicted. So what
``contstim models train ngram`` writes holds a filter (Bloom 1970) of its sentences, and commands
say when most of the sentences they are given are among them.
"""

from __future__ import annotations

import base64
import gzip
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

# Bits a sentence and places a sentence sets: of other sentences 0.8 % are taken for training text.
_BITS, _PLACES = 10, 7
_HEAD = re.compile(rb"# filter of (\d+) training sentences\n")
_LINE = 4000


@dataclass(frozen=True, eq=False)
class BloomFilter:
    """A set of sentences that says of each whether it is in it, with few errors to one side.

    Two writings of a sentence that differ in case, white space or marks alone are one sentence.

    Attributes
    ----------
    bits
        The filter, eight bits a byte.
    n_sentences
        Number of different sentences in it.
    """

    bits: NDArray[np.uint8]
    n_sentences: int

    @classmethod
    def of(cls, letters: Iterable[str]) -> BloomFilter:
        """Make the filter from the `alphanumeric_key` of each sentence."""
        digests = np.unique(_digests(letters))
        n_bits = 8 * -(-max(1, len(digests)) * _BITS // 8)
        places = np.zeros(n_bits, dtype=np.bool_)
        places[_places(digests, n_bits)] = True
        return cls(np.packbits(places), len(digests))

    def contains(self, sentences: Iterable[str]) -> BoolArray:
        """Return for each of S sentences whether it is in the set; shape (S,).

        True for all that are, and for 0.8 % of those that are not.
        """
        places = _places(_digests(map(alphanumeric_key, sentences)), 8 * len(self.bits))
        inside: BoolArray = np.unpackbits(self.bits)[places].min(axis=1).astype(np.bool_)
        return inside

    def lines(self) -> Iterator[str]:
        """Yield the filter as lines of text that begin with ``#``."""
        yield f"# filter of {self.n_sentences} training sentences\n"
        text = base64.b64encode(self.bits.tobytes()).decode()
        yield from (f"# {text[i : i + _LINE]}\n" for i in range(0, len(text), _LINE))

    @classmethod
    def read(cls, path: Path) -> BloomFilter | None:
        """Read the filter that a file begins with; None for a file without one."""
        try:
            with path.open("rb") as raw:
                zipped = raw.read(2) == b"\x1f\x8b"
                raw.seek(0)
                file = cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if zipped else raw
                head = _HEAD.fullmatch(file.readline(100))
                if head is None:
                    return None
                n_bytes = -(-max(1, int(head[1])) * _BITS // 8)
                n_lines = -(-4 * -(-n_bytes // 3) // _LINE)
                lines = [file.readline(_LINE + 10) for _ in range(n_lines)]
                text = b"".join(line.removeprefix(b"# ").strip() for line in lines)
                bits = np.frombuffer(base64.b64decode(text), dtype=np.uint8)
        except (OSError, EOFError, ValueError, zlib.error):
            # Whoever loads the model says what is wrong with the file.
            return None
        return cls(bits, int(head[1])) if len(bits) == n_bytes else None


def _digests(letters: Iterable[str]) -> NDArray[np.uint64]:
    hashes = b"".join([blake2b(text.encode(), digest_size=8).digest() for text in letters])
    return np.frombuffer(hashes, dtype="<u8")


def _places(digests: NDArray[np.uint64], n_bits: int) -> NDArray[np.uint64]:
    """Return the bits of each digest, shape (S, 7), from its two halves.

    Source: Kirsch & Mitzenmacher 2006, Less hashing, same performance.
    """
    one, other = digests & np.uint64(0xFFFFFFFF), digests >> np.uint64(32)
    steps = np.arange(_PLACES, dtype=np.uint64)
    return (one[:, None] + steps * (other[:, None] | np.uint64(1))) % np.uint64(n_bits)


def training_overlap_notes(specs: Iterable[str], sentences: Sequence[str]) -> list[str]:
    """Say of which models most of some sentences are training text, one line per model.

    Parameters
    ----------
    specs
        Specs of models. Other names, as tables of scores may have, are passed over, and so are
        models that keep no filter.
    sentences
        S sentences.
    """
    notes = []
    for spec in dict.fromkeys(specs):
        try:
            bloom_filter = BloomFilter.read(ModelSpec.parse(spec).path)
        except SpecError:
            continue
        n_seen = 0 if bloom_filter is None else int(bloom_filter.contains(sentences).sum())
        if 2 * n_seen > len(sentences):
            notes.append(
                f"{spec} was trained on {n_seen} of the {len(sentences)} sentences, and scores of "
                "training text are too high; keep sentences apart with 'contstim sentences sample "
                "--rest FILE' and train on FILE"
            )
    return notes
