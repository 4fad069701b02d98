"""Say how varied the words of written sets are, before and after.

Usage: python experiments/words/diversity.py TRIPLETS.csv [TRIPLETS.csv ...]

Prints a row a file: how many triplets, words and different words there are, the word that most
sentences have beyond what their natural sentences have, and in what share; whether a word is in
more than 2 % of the sentences and in more than its natural sentences; mean Zipf frequency and
controversiality.
"""

import argparse
import csv
import sys

from contstim.selection import read_triplets
from contstim.selection.triplet_objectives import controversiality
from contstim.text.diversity import measure_diversity

COLUMNS = (
    *("file", "triplets", "words", "different", "share_different", "zipf", "zipf_natural"),
    *("above_2_percent", "most_above", "controversiality"),
)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("triplets", nargs="+")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    for path in parser.parse_args().triplets:
        table = read_triplets(path)
        both = list(zip(table["synthetic_1"], table["synthetic_2"], strict=True))
        natural = list(table["natural"])
        found = measure_diversity([text for pair in both for text in pair], natural)
        first = found.overused[0] if found.overused else ("", 0.0)
        writer.writerow(
            [
                path,
                len(table),
                found.n_words,
                found.n_distinct,
                round(found.type_token_ratio, 3),
                round(found.mean_zipf, 2),
                round(measure_diversity(natural).mean_zipf, 2),
                len(found.overused),
                f"{first[0]} {first[1]:.1%}" if first[0] else "",
                round(float(controversiality(table).mean()), 1),
            ]
        )


if __name__ == "__main__":
    main()
