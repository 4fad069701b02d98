"""Write the words that were judged, without verdicts: 300 of each of two vocabularies.

Usage: python experiments/words/sample.py OLD.csv [--seed 2026] > sheet.csv
"""

import argparse
import csv
import random
import sys

from contstim import Vocabulary, bundled_vocabulary


def main() -> None:
    """Print the sheet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", help="the vocabulary of before, as a revision of contstim has it")
    parser.add_argument("--seed", type=int, default=2026)
    args = parser.parse_args()
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["list", "word", "verdict", "why"])
    for name, words in (("new", bundled_vocabulary()), ("old", Vocabulary.read(args.old))):
        drawn = random.Random(args.seed).sample(sorted(words.elsewhere), 300)  # noqa: S311
        writer.writerows([name, word, "", ""] for word in drawn)


if __name__ == "__main__":
    main()
