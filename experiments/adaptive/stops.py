"""What each stopping rule costs in people, and how often it errs.

    python experiments/adaptive/stops.py --out results

`looks`: 2,000 studies a row without a difference, three and five looks, both spendings. With item
share 0 each participant has trials of their own; else all see the same items, and so large a share
of the variance after the last look is due to them: crossed test, and limits by the share that is
estimated at each look. `models`: the same for three and six models with trials of their own, each
two at alpha / M a side: how often one is called best though two at least are as good, and how often
any two that are alike are apart. `ever`: how often an asymptotic sequence ever names a winner
within 1,000 participants where there is none, by the participant from which it speaks. `people`:
how many participants each rule needs at differences of .16, .25 and .35, where a participant has 20
trials and participants differ by .16 (together a standard deviation of .27).
"""

from __future__ import annotations

import argparse
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr
from scipy.stats import binomtest, nct, t

from contstim.adaptive.anytime_valid import asymptotic_confidence_sequence
from contstim.adaptive.group_sequential import (
    SPENDING,
    alpha_spent,
    interim_boundaries,
)
from contstim.evaluation.inference.quasi_f import CrossedDesign

Floats = NDArray[np.float64]
ALPHA, POWER, TRIALS, PERSON_SD = 0.05, 0.8, 20, 0.16
STARTS = (5, 8, 10, 15, 20, 30)


def people(rng: np.random.Generator, difference: float, shape: tuple[int, int]) -> Floats:
    """Return participants' mean differences of two models' scores."""
    of_person = np.clip(difference + PERSON_SD * rng.normal(size=shape), -1, 1)
    return np.asarray(2 * rng.binomial(TRIALS, (1 + of_person) / 2) / TRIALS - 1)


def student(values: Floats, looks: tuple[int, ...]) -> Floats:
    """Return z of Student's test over the participants at each look, shape (studies, K)."""
    found = np.empty((len(values), len(looks)))
    for k, n in enumerate(looks):
        stderr = values[:, :n].std(axis=1, ddof=1) / np.sqrt(n)
        of_t = values[:, :n].mean(axis=1) / np.maximum(stderr, 1e-12)
        found[:, k] = np.sign(of_t) * -t_to_z(np.abs(of_t), n - 1)
    return found


def t_to_z(of_t: Floats, df: float) -> Floats:
    """Return the normal quantile with the tail of Student's distribution beyond |t|."""
    return np.asarray(ndtri(stdtr(df, -np.minimum(of_t, 1e3))))


def crossed_errors(
    rng: np.random.Generator, looks: tuple[int, ...], spending: str, share: float, studies: int
) -> int:
    """Return in how many studies without a difference a crossed test passes a limit at a look."""
    n, n_items = looks[-1], 24
    # Of the mean's variance after the last look: items' share, the rest people's and cells'.
    item_sd = np.sqrt(share * n_items)
    person_sd, cell_sd = np.sqrt((1 - share) * n / 2), np.sqrt((1 - share) * n * n_items / 2)
    spent, wrong = tuple(alpha_spent(looks, ALPHA, spending).tolist()), 0
    for _ in range(studies):
        cells = (
            person_sd * rng.normal(size=(n, 1))
            + item_sd * rng.normal(size=n_items)
            + cell_sd * rng.normal(size=(n, n_items))
        )
        items: tuple[float, ...] = ()
        for look in looks:
            design = CrossedDesign(
                np.repeat(np.arange(look), n_items), np.tile(np.arange(n_items), look)
            )
            mean = design.estimate(cells[:look].ravel())
            items = (*items, float(np.clip(np.nan_to_num(mean.item_share), 0, 0.99).round(2)))
            if mean.p_value() < 2 * ndtr(-interim_boundaries(looks, spent, items)[-1]):
                wrong += 1
                break
    return wrong


def boundaries(looks: tuple[int, ...], alpha: float, spending: str) -> np.ndarray:
    """Return the stopping boundaries of all analyses if items contribute no variance."""
    spent = tuple(alpha_spent(looks, alpha, spending).tolist())
    return np.array(interim_boundaries(looks, spent, (0.0,) * len(looks)))


def said(wrong: float, studies: int) -> str:
    """Return a share in per cent with its exact 95 % interval."""
    low, high = binomtest(int(wrong), studies).proportion_ci()
    return f"{100 * wrong / studies:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def looks_table(studies: int) -> pd.DataFrame:
    """Return how often looks err, over all of them."""
    rows, rng = [], np.random.default_rng(1)
    for n_people in (15, 30, 60):
        for k in (3, 5):
            looks = tuple(n_people * (i + 1) // k for i in range(k))
            for spending in SPENDING:
                upper = boundaries(looks, ALPHA, spending)
                z = student(people(rng, 0.0, (studies, n_people)), looks)
                wrong = (np.abs(z) > upper)[:, [n > 3 for n in looks]].any(axis=1).sum()
                row = {"people": n_people, "looks": k, "spending": spending}
                row["trials of their own"] = said(wrong, studies)
                for share in (0.3, 0.7) if n_people == 30 else ():
                    errors = crossed_errors(rng, looks, spending, share, studies)
                    row[f"items {share:g}"] = said(errors, studies)
                rows.append(row)
                print(row, flush=True)
    return pd.DataFrame(rows).fillna("")


def models_table(studies: int) -> pd.DataFrame:
    """Return how often looks err among several models, over all of them."""
    rows, rng, n_people = [], np.random.default_rng(4), 30
    for m in (2, 3, 6):
        chances = {"all alike": np.full(m, 0.65), "two alike, others worse": np.full(m, 0.5)}
        chances["two alike, others worse"][:2] = 0.75
        for truth, chance in chances.items():
            if m == 2 and truth != "all alike":
                continue
            of_model = rng.normal(chance, PERSON_SD / np.sqrt(2), (studies, n_people, m))
            right = rng.binomial(TRIALS, np.clip(of_model, 0, 1)) / TRIALS
            for k in (3, 5):
                looks = tuple(n_people * (i + 1) // k for i in range(k))
                z = np.zeros((studies, k, m, m))
                for i, j in combinations(range(m), 2):
                    z[..., i, j] = student(right[..., i] - right[..., j], looks)
                    z[..., j, i] = -z[..., i, j]
                for spending in SPENDING:
                    upper = boundaries(looks, 2 * ALPHA / m, spending)
                    above = z > upper[:, None, None]
                    best = (above.sum(axis=3) == m - 1).any(axis=(1, 2)).sum()
                    alike = above[..., chance == chance[0], :][..., chance == chance[0]]
                    row = {"models": m, "people": truth, "looks": k, "spending": spending}
                    row["one is called best"] = said(best, studies)
                    row["two alike are apart"] = said(alike.any(axis=(1, 2, 3)).sum(), studies)
                    rows.append(row)
                    print(row, flush=True)
    return pd.DataFrame(rows)


def shapes(rng: np.random.Generator, shape: tuple[int, int]) -> dict[str, Floats]:
    """Return participants of several kinds, none of whom is better predicted by either model."""
    few = rng.choice([-0.05, 0.45], p=[0.9, 0.1], size=shape)
    apart = rng.binomial(TRIALS, 0.1, size=shape)
    return {
        "as below": people(rng, 0.0, shape),
        "models differ on a tenth of 20 trials": (2 * rng.binomial(apart, 0.5) - apart) / TRIALS,
        "a tenth of the people go the other way": 2 * rng.binomial(40, (1 + few) / 2) / 40 - 1,
        "one trial": 2.0 * rng.binomial(1, 0.5, size=shape) - 1,
    }


def ever_table(studies: int) -> pd.DataFrame:
    """Return how often the asymptotic sequence ever names a winner within 1,000 participants."""
    rows, rng = [], np.random.default_rng(2)
    for name, values in shapes(rng, (studies, 1000)).items():
        row = {"people": name}
        for start in STARTS:
            low, high = asymptotic_confidence_sequence(values, ALPHA, start=start)
            row[f"from {start}"] = said(((low > 0) | (high < 0)).any(axis=1).sum(), studies)
        rows.append(row)
        print(row, flush=True)
    return pd.DataFrame(rows)


def fixed_people(difference: float, sd: float) -> int:
    """Return how many participants Student's test needs."""
    n = 3
    while nct.sf(t.isf(ALPHA / 2, n - 1), n - 1, difference / sd * np.sqrt(n)) < POWER:
        n += 1
    return n


def ahead(low: Floats, high: Floats) -> Floats:
    """Return after how many participants a winner is named, infinite if never."""
    over = (low > 0) | (high < 0)
    return np.where(over.any(axis=1), over.argmax(axis=1) + 1, np.inf)


def inflation(upper: Floats, k: int) -> float:
    """Return the maximum sample size of k equally spaced analyses over that of a single one."""
    z = np.random.default_rng(0).normal(size=(200_000, k)).cumsum(axis=1)
    steps = np.arange(1, k + 1)
    low, high = 2.0, 5.0
    while high - low > 1e-3:
        drift = (low + high) / 2
        at_analyses = (z + drift * steps / np.sqrt(k)) / np.sqrt(steps)
        is_enough = (np.abs(at_analyses) > upper).any(axis=1).mean() > POWER
        low, high = (low, drift) if is_enough else (drift, high)
    return float((high / (ndtri(1 - ALPHA / 2) + ndtri(POWER))) ** 2)


def people_table(studies: int) -> pd.DataFrame:
    """Return the participants that each rule needs, of the same studies."""
    rng = np.random.default_rng(3)
    rows: dict[str, dict[object, str]] = {}
    for difference in (0.16, 0.25, 0.35):
        values = people(rng, difference, (studies, 300))
        sd = float(values.std())
        n = fixed_people(difference, sd)
        rows.setdefault("fixed", {})[difference] = f"{n}"
        for k in (3, 5):
            for spending in SPENDING:
                steps = tuple(range(1, k + 1))
                upper = boundaries(steps, ALPHA, spending)
                more = inflation(upper, k)
                rule = rows.setdefault(
                    f"{k} analyses, {spending}", {"most": f"{100 * more - 100:.1f} %"}
                )
                most = int(np.ceil(more * n))
                looks = tuple(max(4, round(most * (i + 1) / k)) for i in range(k))
                looks = tuple(dict.fromkeys(looks))
                upper = boundaries(looks, ALPHA, spending)
                z = np.abs(student(values, looks))
                outside = z > upper
                first = np.where(outside.any(axis=1), outside.argmax(axis=1), len(looks) - 1)
                last = np.array(looks)[first]
                power = outside[np.arange(len(z)), first].mean()
                rule[difference] = f"{last.mean():.1f} of {looks[-1]}, power {power:.2f}"
        after = ahead(*asymptotic_confidence_sequence(values, ALPHA))
        rows.setdefault("confidence sequence", {})[difference] = (
            f"{np.minimum(after, 300).mean():.1f}, median {np.median(after):.0f}, "
            f"80 % by {np.quantile(after, 0.8):.0f}"
        )
    for name, row in rows.items():
        print(name, row, flush=True)
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("rule").reset_index()


def main() -> None:
    """Simulate, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("parts", nargs="*", default=["people", "ever", "looks", "models"])
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    tables = {"people": people_table, "ever": ever_table, "looks": looks_table}
    tables["models"] = models_table
    for part in args.parts:
        tables[part](args.studies).to_csv(args.out / f"stops-{part}.csv", index=False)


if __name__ == "__main__":
    main()
