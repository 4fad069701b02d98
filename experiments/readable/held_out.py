"""Ask how well numbers of a language model tell sentences that read as English, sheet by sheet.

    python experiments/readable/held_out.py verdicts.csv

The file has the columns sheet, source, sentence and reads (1 yes, 0 no). Of each sheet is printed
the area under the curve of the number that is best on the other sheets, and those of all numbers;
first with all sentences, then without those whose source is ``natural`` or ``published``.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from contstim import load_model
from contstim.synthesis.problem import MinScore


def area(values: np.ndarray, reads: np.ndarray) -> float:
    """Return how often a sentence that reads as English has the higher value, ties half."""
    n = int(reads.sum())
    ranks = rankdata(values)[reads]
    return float((ranks.sum() - n * (n + 1) / 2) / (n * (len(reads) - n)))


def numbers(sentences: list[str]) -> dict[str, np.ndarray]:
    """Return the reading scores of sentences, (S,) each."""
    spec = MinScore.readable().model
    said = {
        name: load_model(spec.replace("=reading", f"={name}")).score(sentences)
        for name in ("reading", "end", "worst")
    }
    return {**said, "mean of a word": said["reading"] - said["end"]}


def main() -> None:
    """Print the areas."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verdicts")
    table = pd.read_csv(parser.parse_args().verdicts)
    said = numbers(list(table["sentence"]))
    print_areas(table, said)
    written = (~table["source"].isin(["natural", "published"])).to_numpy()
    print("written ones alone")
    print_areas(table[written], {name: values[written] for name, values in said.items()})


def print_areas(table: pd.DataFrame, said: dict[str, np.ndarray]) -> None:
    """Print the areas of each sheet."""
    reads = table["reads"].to_numpy(dtype=bool)
    for sheet in sorted(table["sheet"].unique()):
        here = (table["sheet"] == sheet).to_numpy()
        elsewhere = {name: area(values[~here], reads[~here]) for name, values in said.items()}
        best = max(elsewhere, key=elsewhere.__getitem__)
        areas = {name: area(values[here], reads[here]) for name, values in said.items()}
        every = ", ".join(f"{name} {value:.3f}" for name, value in areas.items())
        print(f"sheet {sheet} ({here.sum()}): {areas[best]:.3f} by {best!r}; {every}")


if __name__ == "__main__":
    main()
