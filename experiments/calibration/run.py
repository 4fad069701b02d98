"""How often the default tests err, cover and find, in simulated studies."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from public import differences
from study import (
    ITEMS,
    KINDS,
    PAIRS,
    PEOPLE,
    SHAPES,
    Cell,
    Said,
    blur_at_ceiling,
    gaps,
    studies,
)

from contstim.evaluation.inference import ALPHA
from contstim.evaluation.measures import MEASURES

#: The measures, in the order of their seeds.
NAMES = ("accuracy", "signed_rank_cosine")
#: The commonest studies, simulated five times as often.
COMMON = (("crossed", 10, 40, 1.0), ("crossed", 30, 40, 1.0), ("own pairs", 100, 40, 1.0))
#: The columns that say which cell a row is of.
PLACE = ("measure", "kind", "people", "pairs", "items", "shape")
#: What the summary shows, and as what.
SHOWN = {
    "error": "p < .05",
    "naive": "Wilcoxon",
    "value": "value",
    "lower": "lower ceiling",
    "upper": "upper ceiling",
    "below": "found below",
    "above": "found above",
    "either": "either",
    "standard error": "standard error, of the true",
}
Row = dict[str, Any]
Cells = Callable[[Sequence[int], Sequence[int]], Iterator[Cell]]
# Shares that are right, of tests at 0.05 and of 95 % intervals.
_ERRORS, _COVERAGE = (0.035, 0.065), (0.93, 0.97)
_BOUNDS = {
    "error": _ERRORS,
    **dict.fromkeys(("value", "lower", "upper"), _COVERAGE),
    "either": (0.0, _ERRORS[1]),
}
# Wider than the default of 0.1, which studies of these sizes seldom show.
_MARGIN = 0.5
_MOST_GROWN = 20
# How many standard errors an oracle finds in 80 % of studies.
_DETECTED = 2.8


def main() -> int:
    """Run the parts asked for, print each cell as it is done and the summary at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=tuple(PARTS), help="what to find out")
    parser.add_argument("--studies", type=int, default=400, help="a cell (400)")
    parser.add_argument("--measure", choices=NAMES, help="only this one")
    parser.add_argument("--people", type=int, choices=PEOPLE, help="only so many")
    parser.add_argument("--pairs", type=int, choices=PAIRS, help="only so many")
    parser.add_argument("--out", type=Path, help="write a row a cell to this CSV file; go on there")
    parser.add_argument("--only-show", action="store_true", help="what --out has; simulate nothing")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    measures = NAMES if arguments.measure is None else (arguments.measure,)
    people = PEOPLE if arguments.people is None else (arguments.people,)
    pairs = PAIRS if arguments.pairs is None else (arguments.pairs,)
    cells, one = PARTS[arguments.part]
    rows: list[Row] = []
    if arguments.out and arguments.out.exists():
        rows = cast(list[Row], pd.read_csv(arguments.out).to_dict("records"))
    done = {tuple(row[name] for name in PLACE) for row in rows}
    for measure, cell in itertools.product(measures, cells(people, pairs)):
        if arguments.only_show or tuple(place(cell, measure).values()) in done:
            continue
        start = time.process_time()
        row = place(cell, measure) | one(cell, measure, arguments.studies, arguments.seed)
        rows.append(row)
        print(f"{line_of(row)}  ({time.process_time() - start:.1f} s)", flush=True)
        if arguments.out:
            pd.DataFrame(rows).to_csv(arguments.out, index=False)
    table = pd.DataFrame(rows)
    summarised = "naive" in table or "either" in table
    print(summary(table) if summarised else table.to_string(index=False))
    return 0


def every_cell(people: Sequence[int], pairs: Sequence[int]) -> Iterator[Cell]:
    """Yield all designs and effects of pairs of these sizes."""
    for n, k, kind, items in itertools.product(people, pairs, KINDS, ITEMS):
        yield Cell(kind, n, k, items)


def other_shapes(people: Sequence[int], pairs: Sequence[int]) -> Iterator[Cell]:
    """Yield cells whose effects of pairs are not normal, or whose noise is uneven."""
    for n, k, kind, items in itertools.product(people, pairs, KINDS, (1.0, 4.0)):
        for shape in SHAPES[1:]:
            yield Cell(kind, n, k, items, shape=shape)


def every_shape(people: Sequence[int], pairs: Sequence[int]) -> Iterator[Cell]:
    """Yield the cells of both."""
    yield from every_cell(people, pairs)
    yield from other_shapes(people, pairs)


def large_effects(people: Sequence[int], pairs: Sequence[int]) -> Iterator[Cell]:
    """Yield the cells in which power is looked at."""
    for n, k, kind, items in itertools.product(people, pairs, ("crossed", "own pairs"), (0.5, 2.0)):
        yield Cell(kind, n, k, items)


def errors(cell: Cell, measure: str, n: int, seed: int) -> Row:
    """Return how often tests and intervals err.

    A cell whose share of errors, or of intervals that hold, lies outside the bounds is simulated
    again with another seed, three times as often, and if it is outside again nine times as often;
    the last result stands.
    """
    row = {}
    for again, many in enumerate((n * (5 if common(cell) else 1), 3 * n, 9 * n)):
        row = row_of(cell, measure, many, seed + 10 * again)
        held = [row[name] for name in ("value", "lower", "upper") if row[name] == row[name]]
        inside = _ERRORS[0] <= row["error"] <= _ERRORS[1]
        if inside and all(_COVERAGE[0] <= share <= _COVERAGE[1] for share in held):
            break
    return row


def against_ceiling(cell: Cell, measure: str, n: int, seed: int) -> Row:
    """Return how often a model that is as good as the lower ceiling is found to be below or above.

    A cell whose share of errors is too high is simulated again, as in `errors`. No share where no
    such model is as good as the ceiling, or where pairs were seen by two people.
    """
    row: Row = {"studies": n}
    blur = blur_at_ceiling(cell, measure, n, generator(cell, measure, seed + 1))
    for again, many in enumerate((n, 3 * n, 9 * n) if blur == blur else ()):
        found = list(gaps(cell, measure, many, generator(cell, measure, seed + 10 * again), blur))
        if not found:
            break
        value, stderr, p = np.array([(mean.value, mean.stderr, mean.p()) for mean in found]).T
        row = {
            "studies": many,
            "below": float(np.mean((p < ALPHA) & (value < 0))),
            "above": float(np.mean((p < ALPHA) & (value > 0))),
            "either": float(np.mean(p < ALPHA)),
            "standard error": float(np.sqrt(np.mean(stderr**2)) / np.std(value)),
            "bias": float(np.mean(value) / np.std(value)),
        }
        if row["either"] <= _ERRORS[1]:
            break
    return row


def common(cell: Cell) -> bool:
    """Return whether a cell is one of the commonest studies."""
    return (cell.kind, cell.people, cell.pairs, cell.items) in COMMON and cell.shape == "normal"


def row_of(
    cell: Cell, measure: str, n: int, seed: int, rng: np.random.Generator | None = None
) -> Row:
    """Return how often tests and intervals err in `n` studies, as shares."""
    said = list(studies(cell, measure, n, rng or generator(cell, measure, seed)))
    return {
        "studies": n,
        "error": float(np.mean([one.means["difference"].p() < ALPHA for one in said])),
        "naive": float(np.mean([one.naive < ALPHA for one in said])),
        **{name: coverage(said, name) for name in ("value", "lower", "upper")},
    }


def place(cell: Cell, measure: str) -> Row:
    """Return the columns that say which cell a row is of."""
    return {
        "measure": measure,
        "kind": cell.kind,
        "people": cell.people,
        "pairs": cell.pairs,
        "items": cell.items,
        "shape": cell.shape,
    }


def generator(cell: Cell, measure: str, seed: int) -> np.random.Generator:
    """Return the source of chance of a cell, another one for each."""
    where = [KINDS.index(cell.kind), cell.people, cell.pairs, ITEMS.index(cell.items)]
    shape = SHAPES.index(cell.shape)
    return np.random.default_rng([seed, NAMES.index(measure), *where, *[shape] * (shape > 0)])


def coverage(said: list[Said], name: str) -> float:
    """Return in which share of studies the interval holds what is estimated on average.

    NaN where there are no intervals.
    """
    there = [one for one in said if one.means[name].stderr == one.means[name].stderr]
    if not there:
        return np.nan
    truth = float(np.mean([one.means[name].value for one in there]))
    bounds = np.array([one.intervals[name] for one in there])
    return float(np.mean((bounds[:, 0] <= truth) & (truth <= bounds[:, 1])))


def power(cell: Cell, measure: str, n: int, seed: int) -> Row:
    """Return how often differences and equivalence are found, beside what an oracle finds.

    The oracle knows the standard error, that of the estimates over all studies, and so tests by
    the normal distribution. The true difference is one that it finds in about 80 % of studies. For
    equivalence the true difference is at the margin, where every finding is an error, or 0.
    """
    rng = generator(cell, measure, seed + 2)
    leads = {"found": 0.3, "margin": 0.3, "null": 0.0}
    for name in ("found", "found", "margin", "margin", "margin"):  # it bends as it grows
        pilot = replace(cell, lead=leads[name])
        value, _, margin, _ = _differences(studies(pilot, measure, n // 2, rng), measure)
        wanted = _DETECTED * value.std() if name == "found" else margin.mean()
        leads[name] *= wanted / value.mean()
    row: Row = {"studies": n}
    for name, lead in leads.items():
        said = studies(replace(cell, lead=lead), measure, n, rng)
        value, p, margin, p_equivalence = _differences(said, measure)
        spread = value.std()
        if name == "found":
            row["oracle"] = float(np.mean(np.abs(value) > 1.96 * spread))
            row["power"] = float(np.mean(p < ALPHA))
        else:
            # The oracle of equivalence knows the margin too.
            row[f"equivalent at {name}"] = float(np.mean(p_equivalence < ALPHA))
            inside = np.abs(value) + 1.645 * spread < margin.mean()
            row[f"oracle at {name}"] = float(np.mean(inside))
            row[f"difference at {name}"] = float(value.mean() / margin.mean())
    return row


def enough(cell: Cell, measure: str, n: int, seed: int) -> Row:
    """Return how often studies find a difference that are as large as `evaluate` says would do.

    The difference is about 1.4 standard errors of studies as they are. The numbers of people, and
    of pairs, are the medians of what such studies say for it; none beyond 20 times as many.
    """
    rng = generator(cell, measure, seed + 4)
    lead = 0.2
    for _ in range(2):
        value, *_ = _differences(studies(replace(cell, lead=lead), measure, n, rng), measure)
        lead *= _DETECTED / 2 * value.std() / value.mean()
    cell = replace(cell, lead=lead)
    said = [one.means["difference"] for one in studies(cell, measure, n, rng)]
    distance = float(np.mean([mean.value for mean in said]))
    row: Row = {"studies": n, "power as it is": _power(cell, measure, n, rng)}
    factors = np.median([mean.factors(distance) for mean in said], axis=0)
    people, pairs = (
        int(np.ceil(factor * size)) if factor <= _MOST_GROWN else 0
        for factor, size in zip(factors, (cell.people, cell.pairs), strict=True)
    )
    grown = {"people": replace(cell, people=people), "pairs": replace(cell, pairs=pairs)}
    for name, larger in grown.items():
        size = getattr(larger, name)
        row[f"{name} said"] = size or None
        row[f"power with {name}"] = _power(larger, measure, n, rng) if size else None
    return row


def _power(cell: Cell, measure: str, n: int, rng: np.random.Generator) -> float:
    return float(np.mean(_differences(studies(cell, measure, n, rng), measure)[1] < ALPHA))


def _differences(said: Iterable[Said], measure: str) -> tuple[np.ndarray, ...]:
    """Return difference, p-value, margin and p-value of equivalence of each study."""
    rows = []
    for one in said:
        difference = one.means["difference"]
        margin = _MARGIN * (one.means["lower"].value - MEASURES[measure].chance)
        equivalence = difference.p_equivalence(margin) if margin > 0 else 1.0
        rows.append((difference.value, difference.p(), margin, equivalence))
    return tuple(np.array(rows).T)


def public(cell: Cell, measure: str, n: int, seed: int) -> Row:
    """Return how far `evaluate` is from the fast path, and how often it errs.

    One study a cell is evaluated; of the commonest cells `n`, whose errors are counted.
    """
    many = n if common(cell) else 1
    found = differences(cell, measure, many, generator(cell, measure, seed + 3))
    row: Row = {"studies": many, "largest difference": found["largest"]}
    return row | {name: found[name] for name in ("error", "value") if many > 1}


#: What can be found out: of which cells, and how.
PARTS: dict[str, tuple[Cells, Callable[[Cell, str, int, int], Row]]] = {
    "errors": (every_cell, errors),
    "shapes": (other_shapes, errors),
    "ceiling": (every_shape, against_ceiling),
    "power": (large_effects, power),
    "enough": (large_effects, enough),
    "public": (every_cell, public),
}


def line_of(row: Row) -> str:
    """Return a cell as a line."""
    said = [
        f"{name} {100 * value:.1f}" if name != "largest difference" else f"{name} {value:.1e}"
        for name, value in row.items()
        if name not in PLACE and isinstance(value, float)
    ]
    return "  ".join([*(str(row[name]) for name in PLACE), *said])


def summary(table: pd.DataFrame) -> str:
    """Return the tables of the guide: per cent, means and ranges of cells, and who is outside."""
    lines = []
    for measure, block in table.groupby("measure", sort=True):
        shown = [name for name in SHOWN if name in block]
        shaped = bool((block["shape"] != SHAPES[0]).any())
        keys = ["people", "pairs", *["shape"] * shaped]
        heads = [*keys, "cells", *(SHOWN[name] for name in shown)]
        lines += [
            f"| {str(measure).replace('_', ' ')}: {' | '.join(heads)} |",
            "| ---: |" + " ---: |" * (len(heads) - 1),
        ]
        for key, cells in block.groupby(keys, sort=True):
            shares = [spread(100 * cells[name].dropna()) for name in shown]
            lines.append("| " + " | ".join([*map(str, key), str(len(cells)), *shares]) + " |")
        lines.append("")
        for name in shown:
            if name in _BOUNDS:
                lines.append(f"- {SHOWN[name]}: {judged(block, name, _BOUNDS[name])}")
        lines.append("")
    return "\n".join(lines)


def spread(share: pd.Series) -> str:
    """Return the mean and range of a column."""
    return f"{share.mean():.1f} ({share.min():.1f} to {share.max():.1f})" if len(share) else ""


def judged(block: pd.DataFrame, name: str, bounds: tuple[float, float]) -> str:
    """Say how many cells lie outside the bounds, and which."""
    block = block[block[name].notna()]
    share = block[name]
    out = block[(share < bounds[0]) | (share > bounds[1])]
    where = "; ".join(
        f"{row['kind']}, {row['people']} x {row['pairs']}, effects of {row['items']:g}"
        + f", {row['shape']}" * (row["shape"] != SHAPES[0])
        + f": {100 * row[name]:.1f}"
        for row in out.to_dict("records")
    )
    return (
        f"{100 * share.mean():.1f} on average, {len(out)} of {len(block)} cells outside "
        f"{100 * bounds[0]:g} to {100 * bounds[1]:g}" + f" ({where})" * bool(where)
    )


if __name__ == "__main__":
    sys.exit(main())
