"""How often the default tests err where pairs were made of one another, with and without items."""

from __future__ import annotations

import argparse
import itertools
import sys
from dataclasses import replace

import numpy as np
from run import NAMES, row_of
from study import Cell

#: People, items, and pairs of each.
SHAPES = ((15, 6, 4), (30, 6, 8), (20, 12, 4), (30, 24, 4))
#: How much of the variance of predictions and effects the pairs of an item share.
SHARED = (1.0, 0.5, 0.0)


def main() -> int:
    """Simulate, and print a row for each shape as the guide has it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=400, help="a row (400)")
    parser.add_argument("--measure", choices=NAMES, help="only this one")
    parser.add_argument("--effects", type=float, default=1.0, help="of pairs, in units of noise")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    measures = NAMES if arguments.measure is None else (arguments.measure,)
    print(
        "| measure | people | items x pairs | shared | without | p < .05 | value | lower | upper |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for measure, (people, items, kin), shared in itertools.product(measures, SHAPES, SHARED):
        cell = Cell("crossed", people, items * kin, arguments.effects, kin=kin, shared=shared)
        seeds = np.random.SeedSequence([people, items, kin, int(10 * shared), arguments.seed])
        rows = [
            row_of(one, measure, arguments.studies, arguments.seed, np.random.default_rng(seeds))
            for one in (replace(cell, named=False), cell)
        ]
        before, now = rows
        print(
            f"| {measure} | {people} | {items} x {kin} | {shared:.0%} | "
            f"{before['error']:.1%} | "
            + "".join(f"{now[name]:.1%} | " for name in ("error", "value", "lower", "upper")),
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
