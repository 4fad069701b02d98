"""Controversiality against plausibility: one row per pair of models and floor.

Usage: python experiments/plausibility/table.py [--floor-model contstim:gpt] FLOOR=TRIPLETS.csv ...
           [--sentences sentences.csv] [--figure plausibility.svg]

FLOOR names what was asked for (none, plausible, strict). Plausibility is the floor model's
log-probability, nats a word, of the synthetic sentences; the natural ones' stands beside it.
"""

import argparse
import csv
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from contstim import load_model
from contstim.experiment.sentence_flags import sentence_flags
from contstim.selection import read_triplets
from contstim.selection.triplet_objectives import controversiality

COLUMNS = (
    *("model_1", "model_2", "floor", "triplets", "controversiality", "per_word"),
    *("natural_per_word", "flagged_agreement", "flagged_repetition", "flagged_rare"),
)


def main() -> None:
    """Print the table; write sentences and figure where they are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("triplets", nargs="+", metavar="FLOOR=CSV")
    parser.add_argument("--floor-model", default="contstim:gpt")
    parser.add_argument("--sentences", type=Path)
    parser.add_argument("--figure", type=Path)
    args = parser.parse_args()
    model = load_model(args.floor_model)
    rows, sentences = [], []
    for given in args.triplets:
        floor, _, path = given.partition("=")
        table = read_triplets(path)
        written = [*table["synthetic_1"], *table["synthetic_2"]]
        natural = list(table["natural"])
        per_word = model.score(written) / [len(text.split()) for text in written]
        usual = model.score(natural) / [len(text.split()) for text in natural]
        flags = [" ".join(sentence_flags(text)) for text in written]
        share = {
            kind: np.mean([kind in one for one in flags])
            for kind in ("agreement:", "word twice:", "rare word:")
        }
        pair = (table["model_1"].iloc[0], table["model_2"].iloc[0])
        values = (controversiality(table).mean(), per_word.mean(), usual.mean(), *share.values())
        rows.append((*pair, floor, len(table), *(round(float(v), 2) for v in values)))
        kept = table[["model_1", "model_2", "natural", "synthetic_1", "synthetic_2"]]
        sentences.append(
            kept.assign(floor=floor, controversiality=controversiality(table).round(2))
        )
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows)
    if args.sentences is not None:
        pd.concat(sentences).to_csv(args.sentences, index=False, lineterminator="\n")
    if args.figure is not None:
        draw(pd.DataFrame(rows, columns=list(COLUMNS)), args.figure)


def draw(table: pd.DataFrame, path: Path) -> None:
    """Draw controversiality against plausibility, a line per pair of models."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    for (one, two), own in table.groupby(["model_1", "model_2"], sort=False):
        (line,) = ax.plot(own["per_word"], own["controversiality"], "o-", label=f"{one}, {two}")
        for _, row in own.iterrows():
            place = (row["per_word"], row["controversiality"])
            ax.annotate(row["floor"], place, (4, 4), textcoords="offset points", fontsize=8)
        ax.axvline(own["natural_per_word"].iloc[0], color=line.get_color(), ls=":", lw=0.8)
    ax.set_xlabel("log-probability under the floor's model (nats a word); dotted: natural")
    ax.set_ylabel("controversiality (nats)")
    ax.legend(fontsize=8)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
