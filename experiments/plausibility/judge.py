"""Make a sheet of sentences to be judged blind, and count the verdicts.

Usage: python experiments/plausibility/judge.py sheet PUBLISHED.csv SENTENCES.csv --out sheet.csv
       python experiments/plausibility/judge.py count PUBLISHED.csv SENTENCES.csv verdicts.csv

SENTENCES.csv is what ``table.py --sentences`` writes, PUBLISHED.csv
``synthetic_exp1_best10.csv`` of Golan et al. (2023). The sheet has an id and a sentence a row, in
an order that tells nothing of where a sentence is from; verdicts.csv an id and 1 (reads as a
sentence of English) or 0.
"""

import argparse
import csv
import hashlib
import random
import sys
from pathlib import Path

import pandas as pd

EACH = 30


def drawn(published: Path, sentences: Path, seed: int = 0) -> dict[str, list[str]]:
    """Return sentences of each source: published ones, and ours by floor."""
    rng = random.Random(seed)  # noqa: S311
    theirs = pd.read_csv(published)
    ours = pd.read_csv(sentences)
    sources = {"published": [f"{text}." for text in [*theirs["S1"], *theirs["S2"]]]}
    for floor, own in ours.groupby("floor", sort=True):
        sources[str(floor)] = [*own["synthetic_1"], *own["synthetic_2"]]
    return {
        name: rng.sample(sorted(set(texts)), min(EACH, len(set(texts))))
        for name, texts in sources.items()
    }


def name_of(text: str) -> str:
    """Return a sentence's id."""
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def main() -> None:
    """Write the sheet, or print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("sheet", "count"))
    parser.add_argument("published", type=Path)
    parser.add_argument("sentences", type=Path)
    parser.add_argument("verdicts", type=Path, nargs="?")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    sources = drawn(args.published, args.sentences)
    if args.what == "sheet":
        rows = sorted((name_of(text), text) for texts in sources.values() for text in texts)
        with args.out.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([("id", "sentence"), *rows])
        return
    with args.verdicts.open(encoding="utf-8", newline="") as file:
        verdicts = {row["id"]: int(row["reads"]) for row in csv.DictReader(file)}
    for name, texts in sources.items():
        reads = [verdicts[name_of(text)] for text in texts]
        sys.stdout.write(f"{name}: {sum(reads)} of {len(reads)} read as a sentence of English\n")


if __name__ == "__main__":
    main()
