"""How often models are found to differ otherwise in one condition than in another.

People and sentences are both sampled. In conditions of participants people are nested, and the
sentences are the same in both or not. With ``--pairs`` conditions are those of pairs, which all
people see: of items in two versions, in a Latin square, or of items of one version. Prints a row
for each design as the guide has it: how often the interaction of model and condition, and the
difference of one model between conditions, are found at p < .05 where there is none, how often the
95 % interval holds a difference that there is, and how often it is found, beside an oracle that
knows the standard error.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from run import NAMES
from scipy.stats import norm
from study import GAIN, ITEMS, LEANING, LIMITS, TASTE

from contstim.evaluation.inference import ALPHA
from contstim.evaluation.inference.conditions import estimate_contrast
from contstim.evaluation.inference.estimate import MeanEstimate
from contstim.evaluation.inference.quasi_f import CellMean, CrossedDesign
from contstim.evaluation.measures import MEASURES
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import TrialData

#: People in the one condition and in the other, and sentence pairs that each judges.
SHAPES = ((10, 10, 20), (30, 30, 40), (30, 10, 40), (100, 100, 40))
#: People in all, and sentence pairs of each of two conditions that each of them judges.
SHAPES_OF_PAIRS = ((10, 0, 8), (20, 0, 12), (30, 0, 20), (100, 0, 20))
# Effects of pairs in one condition alone, as a share of those in both.
_OWN = 0.5
_CHOICES = 40_000
_POWER = 0.8


@dataclass(frozen=True)
class Conditions:
    """One design.

    Attributes
    ----------
    people
        In either condition; (n, 0): of n people each is in both, which are of pairs.
    pairs
        That each person judges, in a condition.
    shared
        Whether both conditions have the same pairs; where they are of pairs, versions of the same
        items, of which each person judges one.
    items
        Standard deviation of the effect of a pair that neither model knows of.
    alike
        How much of the variance of what models predict the versions of an item have in common.
    lead
        How much more people of the first condition follow the first model than the second, in
        units of the noise of a trial; people of the second follow both alike.
    """

    people: tuple[int, int]
    pairs: int
    shared: bool
    items: float
    alike: float = 0.0
    lead: float = 0.0

    @property
    def of_pairs(self) -> bool:
        """Whether the conditions are those of pairs."""
        return self.people[1] == 0

    def designs(self) -> tuple[CrossedDesign, CrossedDesign]:
        """Return who judges which items in either condition."""
        if self.of_pairs:
            person, item = np.indices((self.people[0], 2 * self.pairs)).reshape(2, -1)
            second = (person + item) % 2 if self.shared else item >= self.pairs
            return tuple(CrossedDesign(person[second == k], item[second == k]) for k in (0, 1))
        first, second = (np.indices((n, self.pairs)).reshape(2, -1) for n in self.people)
        second[0] += self.people[0]
        second[1] += 0 if self.shared else self.pairs
        return CrossedDesign(*first), CrossedDesign(*second)


def simulate(cell: Conditions, n: int, rng: np.random.Generator) -> TrialData:
    """Return the choices of `n` studies, whose people and pairs are numbered on."""
    one, two = cell.designs()
    versions = cell.of_pairs and cell.shared
    n_people, n_pairs = sum(cell.people), cell.pairs * (1 if cell.shared else 2)
    n_pairs *= 4 if versions else 1
    study = np.repeat(np.arange(n), len(one.participant) + len(two.participant))
    second = np.tile(np.repeat([0, 1], [len(one.participant), len(two.participant)]), n)
    person = np.tile(np.append(one.participant, two.participant), n) + study * n_people
    of_items = np.append(one.item, two.item)
    pair = np.tile(of_items, n) + study * n_pairs
    if versions:  # each item has two pairs, of which the first have what is common to both
        pair += second * (n_pairs // 2)
    models = rng.normal(size=(n * n_pairs, 2))
    if versions and cell.alike:
        first, own = models.reshape(n, 2, -1, 2).swapaxes(0, 1)
        own[:] = np.sqrt(cell.alike) * first + np.sqrt(1 - cell.alike) * own
    both, rather = (models @ [[1, 1], [1, -1]] / np.sqrt(2)).T
    effects = cell.items * rng.normal(size=(n * n_pairs, 3)) * [1, _OWN, _OWN]
    gain = np.exp(GAIN * rng.normal(size=n * n_people))
    leaning, taste = rng.normal(size=(2, n * n_people)) * [[LEANING], [TASTE]]
    lead = np.array([cell.lead, 0.0])[second]
    felt = gain[person] * both[pair] + (lead + taste[person]) * rather[pair] + leaning[person]
    common = pair - second * (n_pairs // 2) if versions else pair
    felt += effects[common, 0] + effects[pair, 1 + second] + rng.normal(size=len(pair))
    return TrialData(
        participants=pd.Index(range(n * n_people)),
        groups=pd.Index(["all"]),
        group_codes=np.zeros(n * n_people, dtype=np.int64),
        participant=person,
        pair=pair,
        rating=np.digitize(felt, LIMITS) - 2.5,
        pairs=pd.DataFrame({"item": range(n * n_pairs)}),
        models=("a", "b"),
        log_ratio=models,
    )


def said(
    cell: Conditions, measure: str, n: int, rng: np.random.Generator, models: Sequence[int] = (2,)
) -> list[list[MeanEstimate]]:
    """Return, of each of `n` studies, the interaction, or the difference of the first model alone.

    One or the other, or both, by the numbers of `models`.
    """
    designs = one, two = cell.designs()
    codes = [np.append(getattr(one, k), getattr(two, k)) for k in ("participant", "item")]
    person, whole = codes[0], CrossedDesign(*codes)
    places = np.arange(len(one.participant)), np.arange(len(one.participant), len(person))
    contrasts: list[list[MeanEstimate]] = [[] for _ in models]
    while n > 0:
        size = min(n, max(1, _CHOICES // len(person)))
        n -= size
        data, kind = simulate(cell, size, rng), MEASURES[measure]
        of_levels = []
        for where in places:
            rows = (where + len(person) * np.arange(size)[:, None]).ravel()
            subset = Subset(data, rows, np.arange(2))
            ratios = data.log_ratio[subset.pair].T
            of_levels.append(
                [kind.trial_influence(subset, ratio).reshape(size, -1) for ratio in ratios]
            )
        for number in range(size):
            levels = [
                [CellMean(where, design, model[number]) for model in of_models]
                for where, design, of_models in zip(places, designs, of_levels, strict=True)
            ]
            for found, n_models in zip(contrasts, models, strict=True):
                found.append(estimate_contrast(*(level[:n_models] for level in levels), whole))
    return contrasts


def row_of(cell: Conditions, measure: str, n: int, rng: np.random.Generator) -> list[float]:
    """Return the shares of one design, in per cent."""
    null, difference = said(cell, measure, n, rng, (2, 1))
    true = float(np.std([mean.value for mean in null]))
    # A lead at which the oracle finds the interaction in about 80 % of studies.
    pilot = replace(cell, lead=0.5)
    size = np.mean([mean.value for mean in said(pilot, measure, n // 4, rng)[0]])
    wanted = norm.isf(ALPHA / 2) + norm.ppf(_POWER)
    lead = min(0.5 * wanted * true / size, 3.0)
    there = replace(cell, lead=float(lead))
    found = said(there, measure, n, rng)[0]
    values = np.array([mean.value for mean in found])
    oracle = np.abs(values) / values.std() > norm.isf(ALPHA / 2)
    held = [low <= values.mean() <= high for low, high in (mean.interval() for mean in found)]
    shares = (
        [mean.p_value() < ALPHA for mean in null],
        [mean.p_value() < ALPHA for mean in difference],
        held,
        [mean.p_value() < ALPHA for mean in found],
        oracle,
    )
    return [100 * float(np.mean(share)) for share in shares]


def main() -> int:
    """Simulate, and print a row for each design."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=1000, help="a row (1000)")
    parser.add_argument("--measure", choices=NAMES, help="only rows of this one")
    parser.add_argument("--people", type=int, nargs="+", help="only rows with so many in the first")
    parser.add_argument("--items", type=float, nargs="+", default=ITEMS[1:4:2])
    parser.add_argument("--pairs", action="store_true", help="conditions of pairs")
    parser.add_argument("--alike", type=float, default=0.0, help="shared by versions of items (0)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(
        "| measure | people | pairs | pairs of both | effects of pairs | interaction, none there | "
        "difference, none there | interval | interaction found | by the oracle |"
    )
    print("| --- " * 2 + "| ---: | --- " + "| ---: " * 6 + "|")
    shapes = SHAPES_OF_PAIRS if arguments.pairs else SHAPES
    words = ("versions", "items") if arguments.pairs else ("the same", "others")
    every = itertools.product(NAMES, shapes, (True, False), arguments.items)
    for number, (measure, (one, two, pairs), shared, items) in enumerate(every):
        if arguments.measure not in (None, measure) or one not in (arguments.people or (one,)):
            continue
        if arguments.alike and not (arguments.pairs and shared):
            continue
        cell = Conditions((one, two), pairs, shared, items, arguments.alike)
        rng = np.random.default_rng([arguments.seed, number])
        row = row_of(cell, measure, arguments.studies, rng)
        print(
            f"| {measure} | {one if arguments.pairs else f'{one} + {two}'} | "
            f"{2 * pairs if arguments.pairs else pairs} | {words[not shared]} | "
            f"{items:g} | " + " | ".join(f"{share:.1f}" for share in row) + " |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
