"""Simulated studies in which two models predict people equally well, and what is said of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from contstim.evaluation.crossed import CellDesign, SampledMean, mean_of
from contstim.evaluation.inference import wilcoxon_signed_rank
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import TrialData

KINDS = ("crossed", "own pairs", "shared pairs", "unequal trials")
PEOPLE = (10, 30, 100)
PAIRS = (20, 40, 120)
ITEMS = (0.0, 0.5, 1.0, 2.0, 4.0)
# People's effects, in units of the noise of a trial: spread of the logarithm of how strongly they
# follow both models, of their leaning to one side, and of how much more they follow one model.
_GAIN, _LEANING, _TASTE = 0.5, 0.35, 0.25
_LIMITS = (-2.0, -1.0, 0.0, 1.0, 2.0)
_GROUPS = 5
# So many choices are simulated at once.
_CHOICES = 24_000


@dataclass(frozen=True)
class Cell:
    """One design, and the effects on people's choices in it.

    Attributes
    ----------
    kind
        ``crossed``: all people judge all pairs. ``own pairs``: five groups, each with pairs of its
        own. ``shared pairs``: five groups, each with a random half of the pairs. ``unequal
        trials``: everyone but two with a share of 0.3 to 1 of the pairs, chosen at
        random.
    people, pairs
        How many people, and how many pairs each of them judges (at most).
    items
        Standard deviation of the effect of a pair that neither model knows of.
    """

    kind: str
    people: int
    pairs: int
    items: float

    @property
    def n_pairs(self) -> int:
        """How many pairs there are in all."""
        return self.pairs * {"own pairs": _GROUPS, "shared pairs": 2}.get(self.kind, 1)

    def design(self, rng: np.random.Generator) -> CellDesign:
        """Draw who judges what, sorted by participant."""
        groups = np.arange(self.people) % _GROUPS
        seen = np.ones((self.people, self.n_pairs), dtype=bool)
        if self.kind == "own pairs":
            seen = groups[:, None] == np.arange(self.n_pairs) // self.pairs
        elif self.kind == "shared pairs":
            order = np.argsort(rng.random((_GROUPS, self.n_pairs)), axis=1)
            seen = (order < self.pairs)[groups]
        elif self.kind == "unequal trials":
            share = rng.uniform(0.3, 1.0, size=(self.people, 1))
            seen = rng.random((self.people, self.n_pairs)) < share
            seen[:2] = True  # so that every pair has a noise ceiling
        return CellDesign(*np.nonzero(seen))


def simulate(cell: Cell, design: CellDesign, n: int, rng: np.random.Generator) -> TrialData:
    """Return the choices of `n` studies, whose people and pairs are numbered on.

    Neither model predicts people better in the population.
    """
    n_people, n_pairs = n * cell.people, n * cell.n_pairs
    study = np.repeat(np.arange(n), len(design.person))
    person = np.tile(design.person, n) + study * cell.people
    pair = np.tile(design.pair, n) + study * cell.n_pairs
    models = rng.normal(size=(n_pairs, 2))
    item = cell.items * rng.normal(size=n_pairs)
    gain = np.exp(_GAIN * rng.normal(size=n_people))
    leaning, taste = rng.normal(size=(2, n_people)) * [[_LEANING], [_TASTE]]
    both, rather = (models @ [[1, 1], [1, -1]] / np.sqrt(2)).T
    felt = gain[person] * both[pair] + taste[person] * rather[pair]
    felt += leaning[person] + item[pair] + rng.normal(size=len(pair))
    return TrialData(
        participants=pd.Index(range(n_people)),
        groups=pd.Index(["all"]),
        group_of=np.zeros(n_people, dtype=np.int64),
        participant=person,
        pair=pair,
        rating=np.digitize(felt, _LIMITS) - 2.5,
        pairs=pd.DataFrame(index=range(n_pairs)),
        models=("a", "b"),
        log_ratio=models,
    )


@dataclass(frozen=True)
class Said:
    """What is said of one study.

    Attributes
    ----------
    means
        The ``difference`` of the models, the first one's ``value``, the lower noise ``ceiling``
        and the ``gap`` between the two.
    naive
        The p-value of Wilcoxon's test of the difference across participants.
    """

    means: dict[str, SampledMean]
    naive: float


def studies(cell: Cell, measure: str, n: int, rng: np.random.Generator) -> Iterator[Said]:
    """Yield what is said of each of `n` studies."""
    while n > 0:
        design = cell.design(rng)
        size = min(n, max(1, _CHOICES // len(design.person)))
        n -= size
        data = simulate(cell, design, size, rng)
        subset = Subset(data, np.arange(len(data.pair)), np.arange(2))
        value = subset.values(measure)
        first, second = (subset.cells(measure, data.log_ratio[data.pair, m]) for m in range(2))
        parts = {"difference": (value[:, 0] - value[:, 1], first - second)}
        parts["value"] = (value[:, 0], first)
        lower = subset.ceilings(measure)
        parts["ceiling"] = (lower.lower, lower.lower_cells)
        parts["gap"] = (value[:, 0] - lower.lower, first - lower.lower_cells)
        split = {
            name: (values.reshape(size, -1), cells.reshape(size, -1))
            for name, (values, cells) in parts.items()
        }
        for k in range(size):
            means = {
                name: _mean(design, values[k], cells[k]) for name, (values, cells) in split.items()
            }
            differences = split["difference"][0][k]
            differences = differences[~np.isnan(differences)]
            yield Said(means, wilcoxon_signed_rank(differences, method="asymptotic").p)


def _mean(design: CellDesign, values: np.ndarray, cells: np.ndarray) -> SampledMean:
    """Return the mean of the values of those people for whom the measure is defined."""
    there = ~np.isnan(cells)
    if not there.all():
        person, pair = design.person[there], design.pair[there]
        design = CellDesign(np.unique(person, return_inverse=True)[1], pair)
    return mean_of(
        float(np.nanmean(values)),
        design.deviations(cells[there]),
        design.person,
        design.pair,
        (design,),
    )
