"""How often the default tests err, cover and find, in simulated studies."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from public import differences
from scipy.stats import binomtest, false_discovery_control
from study import ITEMS, KINDS, PAIRS, PEOPLE, Cell, Said, studies

from contstim.evaluation.contrasts import CHANCE
from contstim.evaluation.inference import ALPHA
from contstim.evaluation.subset import MEASURES

#: The commonest studies, simulated five times as often.
COMMON = (("crossed", 10, 40, 1.0), ("crossed", 30, 40, 1.0), ("own pairs", 100, 40, 1.0))
Row = dict[str, Any]
# Shares that are right, of tests at 0.05 and of 95 % intervals.
_ERRORS, _COVERAGE = (0.035, 0.065), (0.93, 0.97)
# Wider than the default of 0.1, which studies of these sizes seldom show.
_MARGIN = 0.5
# How many standard errors an oracle finds in 80 % of studies.
_DETECTED = 2.8


def main() -> int:
    """Run the parts asked for, print each cell as it is done and the summary at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("errors", "power", "public"), help="what to find out")
    parser.add_argument("--studies", type=int, default=400, help="a cell (400)")
    parser.add_argument("--measure", choices=MEASURES, help="only this one")
    parser.add_argument("--out", type=Path, help="write a row a cell to this CSV file")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    measures = MEASURES if arguments.measure is None else (arguments.measure,)
    sizes = list(itertools.product(measures, PEOPLE, PAIRS))
    rows: list[Row] = []
    for measure, people, pairs in sizes:
        start = time.process_time()
        part = PARTS[arguments.part](measure, people, pairs, arguments.studies, arguments.seed)
        for row in part:
            rows.append(row)
            print(line_of(row), flush=True)
        print(f"{measure}, {people} people, {pairs} pairs: {time.process_time() - start:.0f} s")
        if arguments.out and rows:
            pd.DataFrame(rows).to_csv(arguments.out, index=False)
    table = pd.DataFrame(rows)
    print(summary(table) if arguments.part == "errors" else table.to_string(index=False))
    return 0


def errors(measure: str, people: int, pairs: int, n: int, seed: int) -> Iterator[Row]:
    """Yield how often tests and intervals err in each design and with each effect of items.

    Cells whose share of errors lies outside the bounds are simulated again with another seed, five
    times as often, and the second result stands.
    """
    for kind, items in itertools.product(KINDS, ITEMS):
        cell = Cell(kind, people, pairs, items)
        many = n * (5 if (kind, people, pairs, items) in COMMON else 1)
        row = row_of(cell, measure, many, seed)
        if not _ERRORS[0] <= row["error"] <= _ERRORS[1]:
            row = row_of(cell, measure, 5 * n, seed + 1)
        yield row


def row_of(cell: Cell, measure: str, n: int, seed: int) -> Row:
    """Return how often tests and intervals err in `n` studies, as shares."""
    said = list(studies(cell, measure, n, generator(cell, measure, seed)))
    chance = CHANCE[measure]
    return {
        **place(cell, measure),
        "studies": n,
        "error": float(np.mean([one.means["difference"].p() < ALPHA for one in said])),
        "naive": float(np.mean([one.naive < ALPHA for one in said])),
        **{name: coverage(said, name, chance) for name in ("value", "lower", "upper")},
        "below": float(np.mean([one.means["gap"].p() < ALPHA for one in said])),
    }


def place(cell: Cell, measure: str) -> Row:
    """Return the columns that say which cell a row is of."""
    return {
        "measure": measure,
        "kind": cell.kind,
        "people": cell.people,
        "pairs": cell.pairs,
        "items": cell.items,
    }


def generator(cell: Cell, measure: str, seed: int) -> np.random.Generator:
    """Return the source of chance of a cell, another one for each."""
    where = [KINDS.index(cell.kind), cell.people, cell.pairs, ITEMS.index(cell.items)]
    return np.random.default_rng([seed, MEASURES.index(measure), *where])


def coverage(said: list[Said], name: str, chance: float) -> float:
    """Return in which share of studies the interval holds what is estimated on average."""
    means = [one.means[name] for one in said]
    truth = float(np.mean([mean.value for mean in means]))
    bounds = np.array([mean.bounded_interval(chance) for mean in means])
    return float(np.mean((bounds[:, 0] <= truth) & (truth <= bounds[:, 1])))


def power(measure: str, people: int, pairs: int, n: int, seed: int) -> Iterator[Row]:
    """Yield how often differences and equivalence are found, beside what an oracle finds.

    The oracle knows the standard error, that of the estimates over all studies, and so tests by
    the normal distribution. The true difference is one that it finds in about 80 % of studies. For
    equivalence the true difference is at the margin, where every finding is an error, or 0.
    """
    for kind, items in itertools.product(("crossed", "own pairs"), (0.5, 2.0)):
        null = Cell(kind, people, pairs, items)
        rng = generator(null, measure, seed + 2)
        leads = {"found": 0.3, "margin": 0.3, "null": 0.0}
        for name in ("found", "found", "margin", "margin"):  # the difference bends as it grows
            pilot = Cell(kind, people, pairs, items, leads[name])
            value, _, margin, _ = _differences(studies(pilot, measure, n // 2, rng), measure)
            wanted = _DETECTED * value.std() if name == "found" else margin.mean()
            leads[name] *= wanted / value.mean()
        row = place(null, measure)
        for name, lead in leads.items():
            cell = Cell(kind, people, pairs, items, lead)
            value, p, margin, p_equivalence = _differences(studies(cell, measure, n, rng), measure)
            spread = value.std()
            if name == "found":
                row["oracle"] = float(np.mean(np.abs(value) > 1.96 * spread))
                row["power"] = float(np.mean(p < ALPHA))
            else:
                row[f"equivalent at {name}"] = float(np.mean(p_equivalence < ALPHA))
                inside = np.abs(value) + 1.645 * spread < margin.mean()
                row[f"oracle at {name}"] = float(np.mean(inside))
        yield row


def _differences(said: Iterable[Said], measure: str) -> tuple[np.ndarray, ...]:
    """Return difference, p-value, margin and p-value of equivalence of each study."""
    rows = []
    for one in said:
        difference = one.means["difference"]
        margin = _MARGIN * (one.means["lower"].value - CHANCE[measure])
        equivalence = difference.p_equivalence(margin) if margin > 0 else 1.0
        rows.append((difference.value, difference.p(), margin, equivalence))
    return tuple(np.array(rows).T)


def public(measure: str, people: int, pairs: int, n: int, seed: int) -> Iterator[Row]:
    """Yield how far `evaluate` is from the fast path, and how often it errs.

    One study a cell is evaluated; of the commonest cells `n`, whose errors are counted.
    """
    for kind, items in itertools.product(KINDS, ITEMS):
        cell = Cell(kind, people, pairs, items)
        many = n if (kind, people, pairs, items) in COMMON else 1
        found = differences(cell, measure, many, generator(cell, measure, seed + 3))
        row = place(cell, measure) | {"studies": many, "largest difference": found["largest"]}
        yield row | {name: found[name] for name in ("error", "value") if many > 1}


PARTS = {"errors": errors, "power": power, "public": public}


def line_of(row: Row) -> str:
    """Return a cell as a line."""
    said = [
        f"{name} {100 * value:.1f}" if name != "largest difference" else f"{name} {value:.1e}"
        for name, value in list(row.items())[5:]
        if isinstance(value, float)
    ]
    return "  ".join([*(str(value) for value in list(row.values())[:5]), *said])


def summary(table: pd.DataFrame) -> str:
    """Return the table of the guide: per cent, mean and range over the effects of items."""
    names = ("error", "naive", "value", "lower", "upper", "below")
    lines = [
        "| measure | design | people | pairs | " + " | ".join(names) + " |",
        "| --- | --- | ---: | ---: |" + " ---: |" * len(names),
    ]
    keys = ["measure", "kind", "people", "pairs"]
    for key, block in table.groupby(keys, sort=False):
        shown = []
        for name in names:
            share = 100 * block[name]
            shown.append(f"{share.mean():.1f} ({share.min():.1f}-{share.max():.1f})")
        lines.append("| " + " | ".join([*map(str, key), *shown]).replace("_", " ") + " |")
    for measure, block in table.groupby("measure", sort=False):
        lines += ["", f"{measure}:"]
        for name, bounds in (("error", _ERRORS), ("below", (0.0, _ERRORS[1]))):
            lines.append(f"  {name}: {judged(block, name, bounds)}")
        for name in ("value", "lower", "upper"):
            lines.append(f"  {name}: {judged(block, name, _COVERAGE)}")
    return "\n".join(lines)


def judged(block: pd.DataFrame, name: str, bounds: tuple[float, float]) -> str:
    """Say how many cells lie outside the bounds, and how many surely do.

    Surely is by exact binomial tests of the nearer bound, at a false discovery rate of 0.05.
    """
    share = block[name].to_numpy()
    counts = np.round(share * block["studies"]).astype(int)
    p = []
    for count, n, value in zip(counts, block["studies"], share, strict=True):
        side: Literal["less", "greater"] = "less" if value < sum(bounds) / 2 else "greater"
        bound = bounds[0] if side == "less" else bounds[1]
        p.append(binomtest(int(count), int(n), bound, alternative=side).pvalue if bound else 1.0)
    outside = (share < bounds[0]) | (share > bounds[1])
    sure = (false_discovery_control(p) < ALPHA) & outside
    where = ", ".join(
        f"{row['kind']} {row['people']} x {row['pairs']} items {row['items']:g}: "
        f"{100 * row[name]:.1f}"
        for row in block[sure].to_dict("records")
    )
    return (
        f"mean {100 * share.mean():.2f}, {100 * share.min():.1f} to {100 * share.max():.1f}; "
        f"{outside.sum()} of {len(block)} cells outside {100 * bounds[0]:g} to "
        f"{100 * bounds[1]:g}, {sure.sum()} surely" + (f" ({where})" if where else "")
    )


if __name__ == "__main__":
    sys.exit(main())
