"""Counted out and in closed form: what intervals of a share hold, and what Student's test finds.

    python experiments/calibration/closed.py

For the guide's remarks on calibration: how often the interval of an accuracy holds where ten people
always agree with one another, so that 20 pairs are right or wrong as a whole; and how often
Student's test finds what a test that knows the standard error finds in 75, 80 and 85 % of studies;
and at which shares two models that are equally good can be found to differ by accuracy where items
are few, all pairs of an item are right or wrong together, and people agree: each item then says 1,
0 or -1, with chances of a quarter, a half and a quarter.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import binom, multinomial, nct, norm, t

from contstim.evaluation.inference import ALPHA
from contstim.sampling import CellDesign


def coverage(n: int, chances: np.ndarray) -> np.ndarray:
    """Return how often the interval of n pairs holds, on each of which a model is right or not."""
    person, item = np.repeat(np.arange(10), n), np.tile(np.arange(n), 10)
    holds = np.zeros(len(chances))
    for right in range(n + 1):
        mean = CellDesign(person, item).mean(np.tile(np.arange(n) < right, 10).astype(float))
        low, high = mean.bounded_interval(0.5)
        holds += binom.pmf(right, n, chances) * ((low <= chances) & (chances <= high))
    return holds


def levels(n: int) -> list[tuple[float, float]]:
    """Return, from the least p-value on, p-values of n such items, and how often p is as small."""
    person, item = np.repeat(np.arange(10), n), np.tile(np.arange(n), 10)
    chances: dict[float, float] = {}
    for first in range(n + 1):
        for second in range(n + 1 - first):
            says = np.repeat([1.0, -1.0, 0.0], [first, second, n - first - second])
            p = round(CellDesign(person, item).mean(np.tile(says, 10)).p(), 12)
            chance = multinomial.pmf([first, second, n - first - second], n, [0.25, 0.25, 0.5])
            chances[p] = chances.get(p, 0.0) + float(chance)
    ps = sorted(chances)
    return list(zip(ps, np.cumsum([chances[p] for p in ps]).tolist(), strict=True))


def main() -> None:
    """Count and print."""
    chances = np.linspace(0.55, 0.57, 201)
    held = 100 * coverage(20, chances)
    print(
        f"20 pairs, chance .55 to .57: the interval holds in {held.min():.1f} to {held.max():.1f} %"
    )
    for df in (9, 15):
        parts = []
        for oracle in (0.75, 0.8, 0.85):
            away = norm.isf(0.025) + norm.ppf(oracle)
            limit = t.isf(0.025, df)
            finds = nct.sf(limit, df, away) + nct.cdf(-limit, df, away)
            parts.append(f"{100 * finds:.1f} where it finds {100 * oracle:.0f}")
        print(f"Student's test with {df} degrees of freedom finds {', '.join(parts)} %")
    away = np.linspace(0.5, 6, 2000)
    limit = t.isf(0.025, 9)
    oracle = norm.sf(norm.isf(0.025) - away) + norm.cdf(-norm.isf(0.025) - away)
    lost = oracle - nct.sf(limit, 9, away) - nct.cdf(-limit, 9, away)
    print(f"with 9 never more than {100 * lost.max():.1f} points fewer")
    for n in (6, 8, 12):
        every = levels(n)
        erring = [share for p, share in every if p < ALPHA]
        p, beyond = every[len(erring)]
        print(
            f"{n} items that all people agree on: p < .05 in {100 * erring[-1]:.1f} % of studies; "
            f"with the next, p = {p:.3f}, in {100 * beyond:.1f}"
        )


if __name__ == "__main__":
    main()
