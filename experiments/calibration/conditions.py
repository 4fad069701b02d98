"""Type-I error, coverage and power of differences between two conditions.

Participants and items are random. By default conditions are groups of participants, who judge the
same or different items. With ``--pairs`` all participants judge both conditions: the conditions are
versions of the same items in a Latin square, or different items. The script prints a row per
design: type-I error of the interaction of model and condition and of the difference of one model
between conditions, coverage of the 95 % interval of the interaction, and power of its test. For
coverage and power, participants of the first condition follow one model more by `LEAD`.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from run import LEAD, NAMES
from study import GAIN, ITEMS, LEANING, LIMITS, TASTE

from contstim.evaluation.inference import ALPHA
from contstim.evaluation.inference.conditions import estimate_contrast
from contstim.evaluation.inference.estimate import MeanEstimate
from contstim.evaluation.inference.quasi_f import CrossedDesign, SampleMean
from contstim.evaluation.measures import MEASURES
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import TrialData

#: Numbers of participants in the two conditions, and of pairs per participant.
SHAPES = ((10, 10, 20), (30, 30, 40), (30, 10, 40), (100, 100, 40))
#: Number of participants, 0, and number of pairs per participant in each of two conditions.
SHAPES_OF_PAIRS = ((10, 0, 8), (20, 0, 12), (30, 0, 20), (100, 0, 20))
# Standard deviation of item effects in one condition, relative to those in both conditions.
_CONDITION_SHARE = 0.5
_CHOICES = 40_000


@dataclass(frozen=True)
class Conditions:
    """A design with two conditions, and the effects on participants.

    Attributes
    ----------
    people
        Numbers of participants in the two conditions; (n, 0) if n participants judge both.
    pairs
        Number of pairs per participant and condition.
    shared
        Whether both conditions have the same pairs; if participants judge both conditions, whether
        the conditions are versions of the same items, of which each participant judges one.
    items
        Standard deviation of item effects that neither model predicts, in units of the noise.
    alike
        Share of the variance of predictions that the versions of an item have in common.
    lead
        Difference in how strongly participants of the first condition follow the two models, in
        units of the noise; participants of the second condition follow both equally.
    """

    people: tuple[int, int]
    pairs: int
    shared: bool
    items: float
    alike: float = 0.0
    lead: float = 0.0

    @property
    def within_participants(self) -> bool:
        """Whether all participants judge both conditions."""
        return self.people[1] == 0

    def designs(self) -> tuple[CrossedDesign, CrossedDesign]:
        """Return the participants and items of each condition."""
        if self.within_participants:
            person, item = np.indices((self.people[0], 2 * self.pairs)).reshape(2, -1)
            second = (person + item) % 2 if self.shared else item >= self.pairs
            return tuple(CrossedDesign(person[second == k], item[second == k]) for k in (0, 1))
        first, second = (np.indices((n, self.pairs)).reshape(2, -1) for n in self.people)
        second[0] += self.people[0]
        second[1] += 0 if self.shared else self.pairs
        return CrossedDesign(*first), CrossedDesign(*second)


def simulate(cell: Conditions, n: int, rng: np.random.Generator) -> TrialData:
    """Return the choices of `n` studies with consecutive codes of participants and pairs."""
    one, two = cell.designs()
    versions = cell.within_participants and cell.shared
    n_people, n_pairs = sum(cell.people), cell.pairs * (1 if cell.shared else 2)
    n_pairs *= 4 if versions else 1
    study = np.repeat(np.arange(n), len(one.participant) + len(two.participant))
    second = np.tile(np.repeat([0, 1], [len(one.participant), len(two.participant)]), n)
    person = np.tile(np.append(one.participant, two.participant), n) + study * n_people
    of_items = np.append(one.item, two.item)
    pair = np.tile(of_items, n) + study * n_pairs
    if versions:  # The first half of the pairs of a study carries the effects that versions share.
        pair += second * (n_pairs // 2)
    models = rng.normal(size=(n * n_pairs, 2))
    if versions and cell.alike:
        first, own = models.reshape(n, 2, -1, 2).swapaxes(0, 1)
        own[:] = np.sqrt(cell.alike) * first + np.sqrt(1 - cell.alike) * own
    both, rather = (models @ [[1, 1], [1, -1]] / np.sqrt(2)).T
    effects = (
        cell.items * rng.normal(size=(n * n_pairs, 3)) * [1, _CONDITION_SHARE, _CONDITION_SHARE]
    )
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


def simulate_contrasts(
    cell: Conditions, measure: str, n: int, rng: np.random.Generator, models: Sequence[int] = (2,)
) -> list[list[MeanEstimate]]:
    """Return the contrasts of two conditions in each of `n` studies.

    Parameters
    ----------
    cell
        Design.
    measure
        Name of the measure.
    n
        Number of studies.
    rng
        Random numbers.
    models
        Numbers of models of the contrasts: 2 for the interaction, 1 for the first model alone.

    Returns
    -------
    list of list of MeanEstimate
        One list of `n` estimates per element of `models`.
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
                [SampleMean(where, design, model[number]) for model in of_models]
                for where, design, of_models in zip(places, designs, of_levels, strict=True)
            ]
            for found, n_models in zip(contrasts, models, strict=True):
                found.append(estimate_contrast(*(level[:n_models] for level in levels), whole))
    return contrasts


def summarize_design(
    cell: Conditions, measure: str, n: int, rng: np.random.Generator
) -> list[float]:
    """Return type-I errors, coverage and power of one design, in per cent."""
    null, difference = simulate_contrasts(cell, measure, n, rng, (2, 1))
    found = simulate_contrasts(replace(cell, lead=LEAD), measure, n, rng)[0]
    average = np.mean([mean.value for mean in found])
    covered = [low <= average <= high for low, high in (mean.interval() for mean in found)]
    shares = (
        [mean.p_value() < ALPHA for mean in null],
        [mean.p_value() < ALPHA for mean in difference],
        covered,
        [mean.p_value() < ALPHA for mean in found],
    )
    return [100 * float(np.mean(share)) for share in shares]


def main() -> int:
    """Simulate the designs and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000, help="studies per design (2000)")
    parser.add_argument("--measure", choices=NAMES, help="measure to simulate (both)")
    parser.add_argument(
        "--participants", type=int, nargs="+", help="sizes of the first condition (all)"
    )
    parser.add_argument(
        "--items", type=float, nargs="+", default=ITEMS[1:4:2], help="standard deviations of items"
    )
    parser.add_argument("--pairs", action="store_true", help="conditions within participants")
    parser.add_argument(
        "--alike", type=float, default=0.0, help="variance share of item versions (0)"
    )
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(
        "| measure | participants | pairs | conditions share | item effects | error, interaction | "
        "error, difference | coverage | power |"
    )
    print("| --- " * 2 + "| ---: | --- " + "| ---: " * 5 + "|")
    shapes = SHAPES_OF_PAIRS if arguments.pairs else SHAPES
    words = ("items" if arguments.pairs else "pairs", "nothing")
    every = itertools.product(NAMES, shapes, (True, False), arguments.items)
    for number, (measure, (one, two, pairs), shared, items) in enumerate(every):
        if arguments.measure not in (None, measure) or one not in (
            arguments.participants or (one,)
        ):
            continue
        if arguments.alike and not (arguments.pairs and shared):
            continue
        cell = Conditions((one, two), pairs, shared, items, arguments.alike)
        rng = np.random.default_rng([arguments.seed, number])
        row = summarize_design(cell, measure, arguments.studies, rng)
        print(
            f"| {measure} | {one if arguments.pairs else f'{one} + {two}'} | "
            f"{2 * pairs if arguments.pairs else pairs} | {words[not shared]} | "
            f"{items:g} | " + " | ".join(f"{share:.1f}" for share in row) + " |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
