"""Draw what share of written sentences read as English against what they are worth.

    python experiments/readable/figure.py experiments/readable/sheet-2 --out figure.svg

Reads `points.csv` (pair, floor, triplets, nats) and `results.csv` (shares by source, as
`contstim review --blind` writes them; a source is named pair and floor) of a folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd


def main() -> None:
    """Draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sheet", type=Path, help="folder of a sheet")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    points, shares = pd.read_csv(args.sheet / "points.csv"), pd.read_csv(args.sheet / "results.csv")
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    titles = {"sentence": "one sentence", "row": "both of a triplet"}
    for panel, (unit, title) in zip(panels, titles.items(), strict=True):
        judged = shares[shares["unit"] == unit].groupby("source")
        table = judged[["share", "ci_low", "ci_high"]].mean()
        for pair, of_pair in points.groupby("pair", sort=False):
            rows = of_pair.assign(source=of_pair["pair"] + of_pair["floor"].map("{:g}".format))
            rows = rows.join(table, on="source").dropna(subset="share").sort_values("nats")
            errors = [rows["share"] - rows["ci_low"], rows["ci_high"] - rows["share"]]
            panel.errorbar(rows["nats"], rows["share"], errors, marker="o", ms=4, lw=1, label=pair)
        panel.axhline(0.8 if unit == "sentence" else 0.65, color="0.7", lw=0.8, ls="--")
        panel.set(title=title, xlabel="controversiality (nats)", ylim=(0, 1))
    panels[0].set_ylabel("share that reads as English")
    panels[1].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(args.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
