"""Make the vocabulary that comes with contstim from the books.

Usage: python models/vocabulary.py CORPUS_FOLDER [--size 20000] [--min-count 8]

Writes ``contstim/data/vocabulary.csv``: the most frequent lower-case words of
``sentences.txt.gz``, and the capitalised words that begin its sentences at least as often as a word
must occur to be known to the bundled models.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from contstim.text.sentence import WordList
from contstim.text.vocabulary import Vocabulary

OUT = Path(__file__).parents[1] / "contstim" / "data" / "vocabulary.csv"


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--size", type=int, default=20_000)
    parser.add_argument("--min-count", type=int, default=8)
    args = parser.parse_args()
    seen = Vocabulary.from_text(args.corpus / "sentences.txt.gz", min_count=args.min_count)
    lower = {word for word in seen.elsewhere if word.islower()}
    # A name is no word to open a sentence with unless it is also a word in lower case.
    first = [word for word in seen.first if word == "I" or word.lower() in lower]
    elsewhere = seen.elsewhere.words[: args.size]
    used = {*first, *elsewhere}
    frequencies = {w: float(f"{p:.3g}") for w, p in seen.frequencies.items() if w in used}
    vocabulary = Vocabulary(
        WordList.of(first), WordList.of(elsewhere), seen.repeatable, frequencies
    )
    vocabulary.save(OUT)
    print(vocabulary)


if __name__ == "__main__":
    main()
