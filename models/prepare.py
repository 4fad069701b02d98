"""Tokenise the books and fix the vocabulary that all bundled word-level models share.

Usage: python models/prepare.py CORPUS_FOLDER BUILD_FOLDER [--min-count 8]

CORPUS_FOLDER holds ``sentences.txt.gz`` and ``heldout.txt.gz``, one sentence a line. Written to
BUILD_FOLDER: ``train.txt`` and ``heldout.txt`` (tokens separated by spaces, punctuation split off
as ``tokenize_word(word, "split")`` does) and ``vocabulary.txt`` (tokens seen at least
``--min-count`` times in the training text, most frequent first).
"""

from __future__ import annotations

import argparse
import gzip
from collections import Counter
from pathlib import Path

from contstim.text import tokenize_word


def tokenize(line: str) -> list[str]:
    """Tokens of one line, each mark of punctuation its own token."""
    return [token for word in line.split() for token in tokenize_word(word, "split")]


def main() -> None:
    """Write the three files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("build", type=Path)
    parser.add_argument("--min-count", type=int, default=8)
    args = parser.parse_args()
    args.build.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    for source, target in (("sentences", "train"), ("heldout", "heldout")):
        with (
            gzip.open(args.corpus / f"{source}.txt.gz", "rt", encoding="utf-8") as lines,
            (args.build / f"{target}.txt").open("w", encoding="utf-8") as out,
        ):
            for line in lines:
                tokens = tokenize(line)
                if target == "train":
                    counts.update(tokens)
                out.write(" ".join(tokens) + "\n")
    kept = [word for word, n in counts.most_common() if n >= args.min_count]
    (args.build / "vocabulary.txt").write_text("\n".join(kept) + "\n", encoding="utf-8")
    covered = sum(counts[word] for word in kept) / counts.total()
    print(f"{counts.total()} tokens, {len(kept)} kept, {covered:.4f} of the text covered")


if __name__ == "__main__":
    main()
