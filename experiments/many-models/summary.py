"""Print what the tables of these experiments show, as Markdown."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from contstim import load_model

_EXAMPLES = 10


def named(reject: str, accept: str) -> str:
    """Return a target's name: the one model that stands alone, or both sides."""
    one, other = (side.replace("contstim:", "").split() for side in (reject, accept))
    if len(one) == 1:
        return f"{one[0]} alone rejects"
    if len(other) == 1:
        return f"{other[0]} alone accepts"
    return f"{', '.join(one)} reject"


def sets(path: Path) -> None:
    """Print the share of starts that succeed and the margins, by target; and examples.

    The margin is the least by which an accepting model's score rose, nats. Examples are the lowest
    loss of each target in turn, then the second lowest, and so on.
    """
    table = pd.read_csv(path)
    print("| target | starts | succeed | median loss | median margin |")
    print("|---|---|---|---|---|")
    for (reject, accept), rows in table.groupby(["reject", "accept"], sort=False):
        done = rows[rows["loss"] < 0]
        margin = pd.concat(
            [done[f"synthetic_lp {m}"] - done[f"natural_lp {m}"] for m in accept.split()], axis=1
        ).min(axis=1)
        unit = "nats" if " " not in reject else "sd"
        values = f"{done['loss'].median():.2f} {unit} | {margin.median():.2f}" if len(done) else "|"
        print(f"| {named(reject, accept)} | {len(rows)} | {len(done)} | {values} |")
    print(f"\n{(table['loss'] < 0).sum()} of {len(table)} starts succeed.")
    print("\n| target | natural | synthetic | loss |\n|---|---|---|---|")
    found = table[table["loss"] < 0].sort_values("loss", kind="stable")
    place = found.groupby(["reject", "accept"]).cumcount()
    for row in found.loc[place.sort_values(kind="stable").index].head(_EXAMPLES).itertuples():
        name = named(row.reject, row.accept)
        print(f"| {name} | {row.natural} | {row.synthetic} | {row.loss:.2f} |")


def minimal(paths: list[Path]) -> None:
    """Print which share of sentences has a controversial change of one word."""
    print("| rejecting | accepting | sentences | have one | median fall, nats |")
    print("|---|---|---|---|---|")
    for path in paths:
        rows = pd.read_csv(path)
        done = -rows["loss"]
        print(
            f"| {rows['reject'][0]} | {rows['accept'][0]} | {len(rows)} "
            f"| {len(done) / len(rows):.0%} | {done.median():.2f} |"
        )


def floors(paths: list[Path], spec: str) -> None:
    """Print what floors by a model cost and bring; and the sentences."""
    model = load_model(spec)
    print(
        f"| floor | pair | triplets | controversiality, nats | {spec}, nats a word "
        "| distinct words |"
    )
    print("|---|---|---|---|---|---|")
    pages = []
    for path in paths:
        table = pd.read_csv(path)
        for (one, two), rows in table.groupby(["model_1", "model_2"], sort=False):
            texts = [*rows["synthetic_1"], *rows["synthetic_2"]]
            words = [word.strip(".,!?").casefold() for text in texts for word in text.split()]
            per_word = model.score(texts) / [len(text.split()) for text in texts]
            falls = (rows["natural_lp_2"] - rows["synthetic_1_lp_2"]) + (
                rows["natural_lp_1"] - rows["synthetic_2_lp_1"]
            )
            print(
                f"| {path.stem} | {one}, {two} | {len(rows)} | {falls.mean():.1f} "
                f"| {per_word.mean():.2f} | {len(set(words))} of {len(words)} |"
            )
        pages.append((path.stem, table))
    for name, table in pages:
        print(f"\n## {name}\n\n| natural | accepted by 1, rejected by 2 | accepted by 2 |")
        print("|---|---|---|")
        for row in table.itertuples():
            print(f"| {row.natural} | {row.synthetic_1} | {row.synthetic_2} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("sets", "minimal", "floors"))
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--floor", default="contstim:gpt", help="the model of the floors")
    given = parser.parse_args()
    if given.what == "sets":
        for each in given.tables:
            sets(each)
    elif given.what == "minimal":
        minimal(given.tables)
    else:
        floors(given.tables, given.floor)
