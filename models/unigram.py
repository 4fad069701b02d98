"""Count words without context: what SLOR takes off the scores of models.

Usage: python models/unigram.py CORPUS_FOLDER BUILD_FOLDER [--out models/bundled]

CORPUS_FOLDER holds ``sentences.txt.gz``, BUILD_FOLDER is what ``models/prepare.py`` wrote from it.
Written are, the same text giving the same bytes:

``unigram.arpa.gz``
    The words and marks of ``vocabulary.txt`` with their probabilities in ``train.txt``, for models
    of whole words.
``word_counts.tsv.gz``
    Each word of the sentences as it stands between spaces, punctuation attached, how often it
    occurs there and how often it comes first; those that occur at least five times. Models of
    sub-word units count their own units in it.
"""

from __future__ import annotations

import argparse
import gzip
from collections import Counter
from pathlib import Path

from contstim.text import read_words
from contstim.training.ngram import NgramVocabulary, train_ngram

LEAST = 5
DIGITS = 4


def count_words(path: Path, out: Path) -> int:
    """Write the counts of the words in `path`; return how many words are kept."""
    everywhere: Counter[str] = Counter()
    first: Counter[str] = Counter()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            everywhere.update(words)
            first.update(words[:1])
    kept = sorted((-n, word) for word, n in everywhere.items() if n >= LEAST)
    rows = "".join(f"{word}\t{-n}\t{first[word]}\n" for n, word in kept)
    # Without a name and a time in its header the file depends on the text alone.
    with out.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        file.write(f"word\tn\tn_first\n{rows}".encode())
    return len(kept)


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("build", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "bundled")
    args = parser.parse_args()
    n = count_words(args.corpus / "sentences.txt.gz", args.out / "word_counts.tsv.gz")
    trained = train_ngram(
        args.build / "train.txt",
        args.out / "unigram.arpa.gz",
        order=1,
        vocabulary=NgramVocabulary(read_words(args.build / "vocabulary.txt")),
        # Every word of the vocabulary is frequent, so nothing is there to estimate discounts from.
        fallback=(0.5, 1.0, 1.5),
        digits=DIGITS,
    )
    print(f"{n} words counted, {trained.n_ngrams[0]} unigrams")


if __name__ == "__main__":
    main()
