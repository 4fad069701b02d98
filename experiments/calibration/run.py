"""Type-I error, coverage and power of the default inference in simulated studies.

The script prints a row per design and writes it to ``--out``. The same command continues a run.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from study import Cell, Result, blur_at_ceiling, gaps, studies

from contstim.evaluation.inference import ALPHA

NAMES = ("accuracy", "signed_rank_cosine")
#: Numbers of participants and of pairs per participant, and standard deviations of pair effects.
CROSSED = ((10, 12), (10, 24), (10, 96), (30, 24), (30, 96), (100, 24), (100, 96))
INCOMPLETE = ((10, 20), (30, 40))
EFFECTS = (0.5, 2.0)
#: Numbers of participants, items and pairs per item, and the variance share of an item's pairs.
FAMILIES = ((15, 6, 4), (30, 6, 8), (20, 12, 4), (30, 24, 4), (30, 12, 8))
SHARED = (1.0, 0.5)
#: Difference in how strongly participants follow the two models, for the power.
LEAD = 0.5


def main() -> int:
    """Simulate the designs and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000, help="per design (2000)")
    parser.add_argument("--measure", choices=NAMES, help="only this one")
    parser.add_argument("--out", type=Path, help="CSV file with a row per design")
    parser.add_argument("--ceiling", action="store_true", help="also test a model at the ceiling")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if arguments.out and arguments.out.exists():
        rows = pd.read_csv(arguments.out).to_dict("records")
    done = {name_of(row) for row in rows}
    measures = NAMES if arguments.measure is None else (arguments.measure,)
    for number, (measure, cell) in enumerate(itertools.product(NAMES, designs())):
        place = {"measure": measure, **asdict(cell)}
        if measure not in measures or name_of(place) in done:
            continue
        start = time.process_time()
        found = row_of(cell, measure, arguments.studies, [arguments.seed, number])
        if arguments.ceiling and cell.kind == "crossed" and cell.kin == 1:
            found |= at_ceiling(cell, measure, arguments.studies, [arguments.seed, number, 1])
        rows.append(place | found)
        shares = "  ".join(f"{name} {100 * value:.1f}" for name, value in found.items())
        seconds = time.process_time() - start
        print(f"{name_of(place)}  {shares}  ({seconds:.0f} s)", flush=True)
        if arguments.out:
            pd.DataFrame(rows).to_csv(arguments.out, index=False, float_format="%.6g")
    return 0


def designs() -> Iterator[Cell]:
    """Yield all designs."""
    for (people, pairs), effects in itertools.product(CROSSED, EFFECTS):
        yield Cell("crossed", people, pairs, effects)
    kinds = ("own pairs", "shared pairs", "unequal trials")
    for (people, pairs), kind, effects in itertools.product(INCOMPLETE, kinds, EFFECTS):
        yield Cell(kind, people, pairs, effects)
    for (people, items, kin), shared in itertools.product(FAMILIES, SHARED):
        yield Cell("crossed", people, items * kin, 1.0, kin=kin, shared=shared)


def name_of(row: dict[str, Any]) -> str:
    """Return the name of a design."""
    text = f"{row['measure']}, {row['kind']}, {row['people']} x {row['pairs']}"
    if row["kin"] > 1:
        return f"{text} in items of {row['kin']}, {row['shared']:.0%} shared"
    return f"{text}, effects of {row['items']:g}"


def row_of(cell: Cell, measure: str, n: int, seed: list[int]) -> dict[str, float]:
    """Return type-I error, coverage of intervals, and power at a lead of `LEAD`, as shares."""
    rng = np.random.default_rng(seed)
    found = list(studies(cell, measure, n, rng))
    ahead = studies(replace(cell, lead=LEAD), measure, n, rng)
    return {
        "error": share_significant(found),
        **{name: coverage(found, name) for name in ("value", "lower", "upper")},
        "power": share_significant(ahead),
    }


def share_significant(found: Iterator[Result] | list[Result]) -> float:
    """Return the share of studies with p < .05 for the difference of the models."""
    return float(np.mean([one.means["difference"].p_value() < ALPHA for one in found]))


def at_ceiling(cell: Cell, measure: str, n: int, seed: list[int]) -> dict[str, float]:
    """Return the type-I error of the test of a model that is as good as the lower ceiling."""
    rng = np.random.default_rng(seed)
    blur = blur_at_ceiling(cell, measure, n, rng)
    p = [mean.p_value() for mean in gaps(cell, measure, n, rng, blur)] if blur == blur else []
    return {"ceiling": float(np.mean(np.array(p) < ALPHA)) if p else np.nan}


def coverage(found: list[Result], name: str) -> float:
    """Return the share of studies whose interval contains the average estimate."""
    tested = [one for one in found if one.means[name].stderr == one.means[name].stderr]
    if not tested:
        return np.nan
    truth = float(np.mean([one.means[name].value for one in tested]))
    low, high = np.array([one.intervals[name] for one in tested]).T
    return float(np.mean((low <= truth) & (truth <= high)))


if __name__ == "__main__":
    sys.exit(main())
