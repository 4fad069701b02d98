"""How often the default test errs, and how often its intervals cover, in simulated studies."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from study import ITEMS, KINDS, PAIRS, PEOPLE, Cell, studies

from contstim.evaluation.crossed import SampledMean
from contstim.evaluation.inference import ALPHA
from contstim.evaluation.subset import MEASURES

#: The commonest studies, simulated five times as often.
_COMMON = (("crossed", 10, 40, 1.0), ("crossed", 30, 40, 1.0), ("own pairs", 100, 40, 1.0))


def main() -> int:
    """Simulate every cell, print each as it is done and the summary at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=400, help="a cell (400)")
    parser.add_argument("--measure", choices=MEASURES, help="only this one")
    parser.add_argument("--out", type=Path, help="write a row a cell to this CSV file")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rows: list[dict[str, object]] = []
    measures = MEASURES if arguments.measure is None else (arguments.measure,)
    for measure, people, pairs in itertools.product(measures, PEOPLE, PAIRS):
        start = time.process_time()
        for kind, items in itertools.product(KINDS, ITEMS):
            cell = Cell(kind, people, pairs, items)
            n = arguments.studies * (5 if (kind, people, pairs, items) in _COMMON else 1)
            rows.append(row_of(cell, measure, n, arguments.seed))
        print(
            f"{measure}, {people} people, {pairs} pairs: {time.process_time() - start:.0f} s",
            *(line_of(row) for row in rows[-len(KINDS) * len(ITEMS) :]),
            sep="\n  ",
            flush=True,
        )
        if arguments.out:
            pd.DataFrame(rows).to_csv(arguments.out, index=False)
    print(summary(pd.DataFrame(rows)))
    return 0


def row_of(cell: Cell, measure: str, n: int, seed: int) -> dict[str, object]:
    """Return how often tests and intervals err in `n` studies, as shares."""
    place = [KINDS.index(cell.kind), cell.people, cell.pairs, ITEMS.index(cell.items)]
    rng = np.random.default_rng([seed, MEASURES.index(measure), *place])
    said = list(studies(cell, measure, n, rng))
    found = {name: [one.means[name] for one in said] for name in said[0].means}
    return {
        "measure": measure,
        "kind": cell.kind,
        "people": cell.people,
        "pairs": cell.pairs,
        "items": cell.items,
        "studies": n,
        "error": errors(found["difference"], 0.0),
        "error_naive": float(np.mean([one.naive < ALPHA for one in said])),
        "coverage_value": coverage(found["value"]),
        "coverage_ceiling": coverage(found["ceiling"]),
        "error_ceiling": 1.0 - coverage(found["gap"]),
    }


def errors(means: list[SampledMean], null: float) -> float:
    """Return in which share of studies `null` is rejected."""
    return float(np.mean([mean.p(null) < ALPHA for mean in means]))


def coverage(means: list[SampledMean]) -> float:
    """Return in which share of studies the interval holds what is estimated on average."""
    return 1.0 - errors(means, float(np.mean([mean.value for mean in means])))


def line_of(row: dict[str, object]) -> str:
    """Return a cell as a line."""
    numbers = (f"{100 * float(str(row[name])):5.1f}" for name in list(row)[6:])
    return f"{row['kind']:15s} items {row['items']:<4} {' '.join(numbers)}"


def summary(table: pd.DataFrame) -> str:
    """Return the table of the guide: per cent, mean and range over the effects of items."""
    lines = [
        "| measure | design | people | pairs | error | naive | value | ceiling | below ceiling |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    names = ("error", "error_naive", "coverage_value", "coverage_ceiling", "error_ceiling")
    keys = ["measure", "kind", "people", "pairs"]
    for key, block in table.groupby(keys, sort=False):
        shown = []
        for name in names:
            share = 100 * block[name]
            shown.append(f"{share.mean():.1f} ({share.min():.1f}-{share.max():.1f})")
        lines.append("| " + " | ".join([*map(str, key), *shown]).replace("_", " ") + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
