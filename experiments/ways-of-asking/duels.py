"""Set two ways of asking one model against each other, and write sentences on which they differ.

  python experiments/ways-of-asking/duels.py --kept written --out duels.csv

From each of five natural sentences two are written, one for each way round. What is finished stays
in the folder `--kept`, and the same command goes on from there.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd

import contstim
from contstim.cli import main as command
from contstim.errors import InputError

TEXTS = Path(__file__).parent / "texts"
MODEL = "contstim:smollm2"
WAYS = {
    "Yes/No 1": f"{MODEL}?metric=yesno&prompt={TEXTS / 'question_1.txt'}",
    "Yes/No 2": f"{MODEL}?metric=yesno&prompt={TEXTS / 'question_2.txt'}",
    "LP": MODEL,
}
# Natural sentences of eight words.
NATURAL = [text for text in contstim.pool() if len(text.split()) == 8]
# Two questions: few words change, each to one of its kind, which shows what a question goes by.
EDITED = ["--strategy", "bounded", "--inputs", "300", "--most-changes", "3", "--alike", "tag",
          "--agree", *NATURAL[:5]]  # fmt: skip
# Where probability is one of the two, what is written from the left may follow it. Not each of the
# nine natural sentences gets two.
WRITTEN = ["--strategy", "fluent", "--begun", "96", *NATURAL[:9]]
TRIPLETS = 5
DUELS = {("Yes/No 1", "Yes/No 2"): EDITED, ("Yes/No 1", "LP"): WRITTEN}


def written(pair: tuple[str, str], kept: Path) -> pd.DataFrame:
    """Return the triplets of two ways, written where they are not there yet."""
    out = kept / f"{' and '.join(pair)}.csv".replace("/", "-")
    models = [WAYS[way] for way in pair]
    if command(["synthesize", "--pair", *models, *DUELS[pair], "--out", str(out)]):
        sys.exit(f"{out} could not be written")
    return pd.read_csv(out).head(TRIPLETS)


def sides(pair: tuple[str, str], triplets: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each written sentence, with the scores of both ways, computed again.

    Raises
    ------
    InputError
        If a sentence breaks its constraint.
    """
    models = {way: contstim.load_model(WAYS[way]) for way in pair}
    tables = []
    for side, (accepts, rejects) in enumerate((pair, pair[::-1]), start=1):
        table = pd.DataFrame(
            {"duel": " and ".join(pair), "accepts": accepts, "rejects": rejects}, triplets.index
        )
        for name, column in (("natural", "natural"), ("written", f"synthetic_{side}")):
            table[name] = triplets[column]
            for way, role in ((accepts, "accepts"), (rejects, "rejects")):
                table[f"{name}_{role}"] = models[way].score(triplets[column].tolist())
        tables.append(table)
    both = pd.concat(tables, ignore_index=True)
    broken = both[both["written_accepts"] < both["natural_accepts"]]
    if len(broken):
        raise InputError(
            f"{broken['written'].iloc[0]!r} is accepted less than its natural sentence"
        )
    return both


def main() -> None:
    """Write the sentences of each duel, and show them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kept", type=Path, required=True, help="a folder for what is written")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.kept.mkdir(parents=True, exist_ok=True)
    tables = [sides(pair, written(pair, args.kept)) for pair in DUELS]
    table = pd.concat(tables, ignore_index=True).round(3)
    table.to_csv(args.out, index=False)
    for duel, rows in table.groupby("duel", sort=False):
        print(f"\n{duel}")
        for row in rows.to_dict("records"):
            print(f"  {row['written']}  (beside: {row['natural']})")
            for role in ("accepts", "rejects"):
                print(
                    f"    {row[role]}: {row[f'natural_{role}']:.2f} -> {row[f'written_{role}']:.2f}"
                )


if __name__ == "__main__":
    main()
