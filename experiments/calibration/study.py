"""Simulated studies of two models, and the default inference of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from contstim.evaluation.inference.crossed import add_pseudo_items
from contstim.evaluation.inference.estimate import MeanEstimate
from contstim.evaluation.inference.quasi_f import Contrast, CrossedDesign, SampleMean
from contstim.evaluation.measures import MEASURES, compute_ceilings
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import TrialData

KINDS = ("crossed", "own pairs", "shared pairs", "unequal trials")
PEOPLE = (10, 30, 100)
PAIRS = (20, 40, 120)
ITEMS = (0.0, 0.5, 1.0, 2.0, 4.0)
#: Distributions of item effects; ``uneven``: normal effects, and noise that varies between trials.
SHAPES = ("normal", "heavy", "skewed", "uneven")
#: Standard deviations of participant effects, in units of the noise of a trial: logarithm of how
#: strongly they follow both models, bias to one side, and preference for one of the models.
GAIN, LEANING, TASTE = 0.5, 0.35, 0.25
#: Thresholds between adjacent ratings.
LIMITS = (-2.0, -1.0, 0.0, 1.0, 2.0)
_GROUPS = 5
# Number of choices that are simulated at once.
_CHOICES = 24_000


@dataclass(frozen=True)
class Cell:
    """A design, and the effects on choices.

    Attributes
    ----------
    kind
        ``crossed``: all participants judge all pairs. ``own pairs``: five groups with different
        pairs. ``shared pairs``: five groups, each with a random half of the pairs. ``unequal
        trials``: two participants judge all pairs, the others a random share of 0.3 to 1.
    people, pairs
        Number of participants, and maximum number of pairs per participant.
    items
        Standard deviation of pair effects that neither model predicts, in units of the noise.
    lead
        Difference in how strongly participants follow the two models, in units of the noise; 0 if
        both predict them equally well.
    shape
        One of `SHAPES`: ``heavy`` is the t distribution with 3 degrees of freedom, ``skewed`` the
        exponential distribution, both with mean 0 and standard deviation 1. With ``uneven``,
        participants differ three times as much in gain, and one pair in ten is pure guessing.
    kin, shared, named
        Number of related pairs per item, share of the variance of predictions and effects that
        they have in common, and whether the data name their item.
    """

    kind: str
    people: int
    pairs: int
    items: float
    lead: float = 0.0
    shape: str = "normal"
    kin: int = 1
    shared: float = 1.0
    named: bool = True

    @property
    def n_pairs(self) -> int:
        """Total number of pairs."""
        return self.pairs * {"own pairs": _GROUPS, "shared pairs": 2}.get(self.kind, 1)

    def effects(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw the effects of `n` pairs."""
        if self.shape == "heavy":
            return self.items * rng.standard_t(3, size=n) / np.sqrt(3)
        if self.shape == "skewed":
            return self.items * (rng.exponential(size=n) - 1)
        return self.items * rng.normal(size=n)

    def design(self, rng: np.random.Generator) -> CrossedDesign:
        """Draw the pairs of each participant, sorted by participant."""
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
            seen[:2] = True  # Each pair needs two judges for a noise ceiling.
        return CrossedDesign(*np.nonzero(seen))


def simulate(
    cell: Cell, design: CrossedDesign, n: int, rng: np.random.Generator, blurs: Sequence[float] = ()
) -> TrialData:
    """Return the choices of `n` studies with consecutive codes of participants and pairs.

    Further models predict the average preference of participants plus normal noise with the
    standard deviations `blurs`.
    """
    n_people, n_pairs = n * cell.people, n * cell.n_pairs
    study = np.repeat(np.arange(n), len(design.participant))
    person = np.tile(design.participant, n) + study * cell.people
    pair = np.tile(design.item, n) + study * cell.n_pairs
    models = rng.normal(size=(n_pairs, 2))
    item = cell.effects(n_pairs, rng)
    pairs = pd.DataFrame({"item": range(n_pairs)})
    if cell.kin > 1:
        of = np.arange(n_pairs) // cell.kin
        common, own = np.sqrt(cell.shared), np.sqrt(1 - cell.shared)
        models = own * models + common * rng.normal(size=(n_pairs, 2))[of]
        item = own * item + common * cell.effects(n_pairs, rng)[of]
        if cell.named:
            pairs["item"] = of
    uneven = cell.shape == "uneven"
    noise = np.where(rng.random(n_pairs) < 0.1, 20.0, 1.0) if uneven else np.ones(n_pairs)
    both, rather = (models @ [[1, 1], [1, -1]] / np.sqrt(2)).T
    gain = np.exp((3 if uneven else 1) * GAIN * rng.normal(size=n_people))
    leaning, taste = rng.normal(size=(2, n_people)) * [[LEANING], [TASTE]]
    felt = gain[person] * both[pair] + (cell.lead + taste[person]) * rather[pair]
    felt += leaning[person] + item[pair] + noise[pair] * rng.normal(size=len(pair))
    average = np.exp(GAIN**2 / 2) * both + item
    blurred = average[:, None] + np.outer(rng.normal(size=n_pairs), blurs)
    return TrialData(
        participants=pd.Index(range(n_people)),
        groups=pd.Index(["all"]),
        group_codes=np.zeros(n_people, dtype=np.int64),
        participant=person,
        pair=pair,
        rating=np.digitize(felt, LIMITS) - 2.5,
        pairs=pairs,
        models=("a", "b", *(f"average {k}" for k in range(len(blurs)))),
        log_ratio=np.column_stack([models, blurred]),
    )


def blur_at_ceiling(cell: Cell, measure: str, n: int, rng: np.random.Generator) -> float:
    """Return the blur of a model whose mean value over `n` studies equals the lower ceiling.

    A model without blur knows the average preference, of which the mean of few participants is an
    estimate, so its value is above the ceiling. If it is not, the result is NaN.
    """
    blurs = np.array([0.0, 0.15, 0.3, 0.45, 0.6, 0.8, 1.0, 1.4, 2.0, 3.0, 5.0, 9.0])
    above = np.zeros(len(blurs))
    for design, size in _batches(cell, n, rng):
        data = simulate(cell, design, size, rng, blurs)
        subset = Subset(data, np.arange(len(data.pair)), np.arange(2, 2 + len(blurs)))
        lower = compute_ceilings(subset, MEASURES[measure]).lower
        above += size * np.nanmean(MEASURES[measure].values(subset) - lower[:, None], axis=0)
    if above[0] <= 0:
        return float("nan")
    # The loss is nearly proportional to the squared blur if it is small.
    return float(np.sqrt(np.interp(0.0, np.maximum.accumulate(-above), blurs**2)))


def gaps(
    cell: Cell, measure: str, n: int, rng: np.random.Generator, blur: float
) -> Iterator[MeanEstimate]:
    """Yield the difference of a blurred model from the lower noise ceiling in `n` studies.

    Studies in which pairs were judged by two participants only are left out.
    """
    for design, size in _batches(cell, n, rng):
        yield from gaps_of(simulate(cell, design, size, rng, (blur,)), design, measure, size)


def gaps_of(
    data: TrialData, design: CrossedDesign, measure: str, size: int
) -> Iterator[MeanEstimate]:
    """Yield the difference of the third model from the lower ceiling in each of `size` studies."""
    design = _of_items(data, design)
    subset = Subset(data, np.arange(len(data.pair)), np.arange(3))
    kind = MEASURES[measure]
    ceilings = compute_ceilings(subset, kind)
    if not ceilings.has_test:  # as in `evaluate`
        return
    value = kind.trial_influence(subset, data.log_ratio[data.pair, 2]).reshape(size, -1)
    lower = ceilings.lower_influence.reshape(size, -1)
    gaps = _differences(design, value, lower)
    n_items = len(np.unique(design.item))
    for gap in gaps:
        yield add_pseudo_items(gap, n_items, 0.5) if kind.is_trial_mean else gap


@dataclass(frozen=True)
class Result:
    """The inference of one study.

    Attributes
    ----------
    means
        Estimates of the ``difference`` of the models, the ``value`` of the first model, and the
        ``lower`` and ``upper`` noise ceilings.
    intervals
        95 % intervals of the value and of both ceilings.
    """

    means: dict[str, MeanEstimate]
    intervals: dict[str, tuple[float, float]]


def studies(cell: Cell, measure: str, n: int, rng: np.random.Generator) -> Iterator[Result]:
    """Yield the inference of each of `n` studies."""
    for design, size in _batches(cell, n, rng):
        yield from results_of(simulate(cell, design, size, rng), design, measure, size)


def _batches(cell: Cell, n: int, rng: np.random.Generator) -> Iterator[tuple[CrossedDesign, int]]:
    """Yield designs and the number of the `n` studies that have each design."""
    while n > 0:
        design = cell.design(rng)
        size = min(n, max(1, _CHOICES // len(design.participant)))
        n -= size
        yield design, size


def results_of(data: TrialData, design: CrossedDesign, measure: str, size: int) -> Iterator[Result]:
    """Yield the inference of each of the `size` studies in `data`."""
    design = _of_items(data, design)
    subset = Subset(data, np.arange(len(data.pair)), np.arange(2))
    kind = MEASURES[measure]
    ceilings = compute_ceilings(subset, kind)
    cells = [kind.trial_influence(subset, data.log_ratio[data.pair, m]) for m in (0, 1)]
    cells += [ceilings.lower_influence, ceilings.upper_influence]
    cells += kind.maximum_influence(subset)
    value, other, lower, upper, most, most_upper = (x.reshape(size, -1) for x in cells)
    differences = _differences(design, value, other)
    for k, difference in enumerate(differences):
        means = {"difference": difference}
        intervals = {}
        sides = (("value", value, most), ("lower", lower, most), ("upper", upper, most_upper))
        for name, x, largest in sides:
            rows, of_defined, defined = _side(design, x[k])
            means[name], end = of_defined.estimate_ratio(defined, largest[k][rows], kind.chance)
            if name != "value" and not ceilings.has_test:  # as in `evaluate`
                means[name] = MeanEstimate(means[name].value, np.nan, np.nan)
            intervals[name] = means[name].bounded_interval(kind.chance, maximum=end)
        yield Result(means, intervals)


def _differences(
    design: CrossedDesign, first: np.ndarray, second: np.ndarray
) -> list[MeanEstimate]:
    """Return the difference of two means in each study, from cells of shape (studies, C)."""
    found = []
    for pair in zip(first, second, strict=True):
        means = [SampleMean(*_side(design, cells)) for cells in pair]
        found.append(Contrast.from_means(means, design).estimate())
    return found


def _of_items(data: TrialData, design: CrossedDesign) -> CrossedDesign:
    """Return the design with the items of the pairs."""
    return CrossedDesign(design.participant, data.item[data.pair[: len(design.participant)]])


def _side(design: CrossedDesign, cells: np.ndarray) -> tuple[np.ndarray, CrossedDesign, np.ndarray]:
    """Return the rows, the design and the cells where a mean is defined."""
    defined = ~np.isnan(cells)
    if defined.all():
        return np.arange(len(cells)), design, cells
    person = np.unique(design.participant[defined], return_inverse=True)[1]
    return np.flatnonzero(defined), CrossedDesign(person, design.item[defined]), cells[defined]


def choices_and_scores(data: TrialData) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the choices and the scores of a study as tables."""
    first = [f"first {pair}" for pair in range(data.n_pairs)]
    second = [f"second {pair}" for pair in range(data.n_pairs)]
    choices = pd.DataFrame(
        {
            "participant": data.participant,
            "sentence_1": np.array(first)[data.pair],
            "sentence_2": np.array(second)[data.pair],
            "rating": data.rating,
        }
    )
    if "item" in data.pairs:
        choices["item"] = data.item[data.pair]
    zeros = np.zeros_like(data.log_ratio)
    scores = pd.DataFrame(np.concatenate([zeros, data.log_ratio]), columns=list(data.models))
    scores.insert(0, "sentence", [*first, *second])
    return choices, scores
