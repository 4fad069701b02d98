"""How often a study will find a difference: the tests of `evaluate` over simulated studies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
import pandas as pd
from scipy.special import ndtri

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.design.simulate import Simulation, exact_interval
from contstim.design.studies import (
    FITTED,
    Drawn,
    StatedStudies,
    Studies,
    StudySize,
)
from contstim.display import displayed
from contstim.errors import InputError, require_whole
from contstim.evaluation.inference import ALPHA, benjamini_hochberg
from contstim.evaluation.inference.quasi_f import (
    MIN_PARTICIPANTS,
    MIN_UNITS,
    CellDesign,
    SampledMean,
    mean_differences,
)
from contstim.evaluation.stopping import Stopping, first_crossing
from contstim.progress import track

_MOST_PEOPLE = 500  # of all groups, before the last step of a search
_CELLS = 50_000  # simulated at once


def power(
    studies: Studies,
    n_participants: Sequence[int] = (10,),
    n_trials: Sequence[int] = (40,),
    n_groups: Sequence[int] = (1,),
    n_simulations: int = 1000,
    seed: int = 0,
    stopping: Stopping | None = None,
) -> pd.DataFrame:
    """Return how often `evaluate` would find that two models differ, in studies of each size.

    Every simulated study is tested as `evaluate` does it by default: the difference of each two
    models, in each analysis and by each measure, with people and items both sampled, and all of
    these p-values corrected together. Or it is looked at as a rule of announced looks says.

    Parameters
    ----------
    studies
        `TrialStudies`, `StatedStudies` or `PilotStudies`.
    n_participants, n_trials, n_groups
        The numbers tried, each with each: participants in a group, pairs that each judges, groups.
    n_simulations
        Studies of each size.
    seed
        Of all that is random.
    stopping
        A rule of looks, by accuracy; its numbers of participants are taken as shares of each size,
        which is then the most there can be.

    Returns
    -------
    DataFrame
        One row a size, analysis, measure and two models: `power`, the share of studies with q <
        .05, with its exact 95 % interval `low`, `high` (Clopper and Pearson), `alone` (p < .05, as
        of a comparison planned by itself), `first_better` (q < .05 in favour of the first model),
        `difference` (its mean over studies). With looks the rows are those of accuracy over all
        trials: `power` and `first_better` are of models that are apart at a look, `alone` is p <
        .05 of all participants, looked at once, `looks` says after how many participants of each
        group there are some, and `mean_participants` when a study ends, on average, that
        goes by this difference.

    Raises
    ------
    InputError
        If a number makes no sense or is more than the trials have.

    Examples
    --------
    >>> from contstim.design.studies import StatedStudies
    >>> curve = power(StatedStudies(0.3), n_participants=(5, 20), n_simulations=100)
    >>> curve[["n_participants", "measure", "power"]]
       n_participants             measure  power
    0               5            accuracy   0.60
    1               5  signed_rank_cosine   0.60
    2              20            accuracy   0.89
    3              20  signed_rank_cosine   0.88
    """
    if stopping is not None and not stopping.analyses:
        raise InputError("the stopping rule has no analyses; give the numbers of participants")
    require_whole("n_simulations", n_simulations, 1)
    sizes = [StudySize(g, n, k) for g, n, k in product(n_groups, n_participants, n_trials)]
    costs = [size.answers for size in sizes]
    shown = track(sizes, len(sizes), "simulating studies", weights=costs)
    tables = [_of_size(studies, size, n_simulations, seed, stopping) for size in shown]
    return pd.concat(tables, ignore_index=True)


def people_needed(
    studies: Studies,
    n_trials: int = 40,
    n_groups: int = 1,
    target: float = 0.8,
    n_simulations: int = 1000,
    seed: int = 0,
    stopping: Stopping | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Search for how many participants find a difference as often as `target` asks.

    Numbers are doubled until every difference is surely found so often, or no oftener than before,
    and then tried in between; the last step is interpolated (normal quantiles of power, logarithms
    of numbers).

    Parameters
    ----------
    studies, n_simulations, seed, stopping
        As of `power`.
    n_trials, n_groups
        Of each participant, and groups.
    target
        Of power, between 0 and 1.

    Returns
    -------
    tuple
        A row a difference: `n_participants` (in each group) and, by the error of simulation, `low`
        and `high`; missing where more people than were tried, up to 1,000 or until more of them
        change nothing, are needed; `alone`, how many find it if it is tested by itself, once. And
        the sizes tried, as `power` has them.

    Examples
    --------
    >>> from contstim.design.studies import StatedStudies
    >>> needed, curve = people_needed(StatedStudies(0.3), n_trials=60, n_simulations=100)
    >>> needed[["measure", "n_participants", "low", "high"]]
                  measure  n_participants  low  high
    0            accuracy               7    5     7
    1  signed_rank_cosine               6    5     7
    """
    if not 0 < target < 1:
        raise InputError(f"target is {target}; give a share between 0 and 1")
    tried: dict[int, pd.DataFrame] = {}

    def try_size(people: int) -> pd.DataFrame:
        if people not in tried:
            (tried[people],) = [
                power(studies, (people,), (n_trials,), (n_groups,), n_simulations, seed, stopping)
            ]
        return tried[people]

    people = MIN_PARTICIPANTS if n_groups == 1 else -(-MIN_PARTICIPANTS // n_groups)
    rising = np.ones(len(try_size(people)), dtype=np.bool_)
    while people * n_groups < _MOST_PEOPLE:
        before = tried[people]["power"].to_numpy()
        if not (rising & (tried[people]["low"].to_numpy() < target)).any():
            break
        people *= 2
        # From some number on more people change nothing, since the items are as few as before.
        rising = try_size(people)["power"].to_numpy() > before + (0.01 if people > 16 else -1)
    for _ in range(2):
        between = {_crossing(tried, row, "power", target) for row in range(len(tried[people]))}
        for number in sorted(number for number in between if number is not None):
            try_size(number)
    rows = []
    by = {"n_participants": "power", "low": "high", "high": "low", "alone": "alone"}
    for row in range(len(tried[people])):
        numbers = {name: _crossing(tried, row, column, target) for name, column in by.items()}
        named = tried[people].iloc[row][["analysis", "measure", "model_1", "model_2"]]
        rows.append({**named, **numbers})
    needed = pd.DataFrame(rows).astype(dict.fromkeys(by, "Int64"))
    return needed, pd.concat([tried[n] for n in sorted(tried)], ignore_index=True)


def _crossing(tried: dict[int, pd.DataFrame], row: int, column: str, target: float) -> int | None:
    """Return from how many people on the numbers of a column are at the target."""
    people = np.array(sorted(tried))
    shares = np.array([tried[n][column].iloc[row] for n in people])
    below = np.flatnonzero(shares < target)
    if not len(below):
        return int(people[0])
    last = int(below[-1])
    if last == len(people) - 1:
        return None
    ends = ndtri(np.clip(shares[last : last + 2], 1e-4, 1 - 1e-4))
    part = (ndtri(target) - ends[0]) / max(ends[1] - ends[0], 1e-9)
    step = np.log(people[last + 1] / people[last])
    return int(np.ceil(people[last] * np.exp(np.clip(part, 0, 1) * step) - 1e-9))


def _of_size(
    studies: Studies, size: StudySize, n: int, seed: int, stopping: Stopping | None
) -> pd.DataFrame:
    rng = np.random.default_rng([seed, size.groups, size.people, size.pairs])
    parts = []
    for some in _portions(n, size):
        drawn = studies.draw(size, some, rng)
        if stopping is None:
            p, difference = _tests(drawn, len(studies.models))
            q = np.apply_along_axis(benjamini_hochberg, 1, p)
            parts.append((q < ALPHA, p < ALPHA, difference, np.full(p.shape, size.people)))
        else:
            by = "all", "accuracy"
            cells = [part for part in drawn.cells if (part[0], part[1].name) == by]
            if not cells:
                raise InputError(
                    "looks go by accuracy over all trials, which these studies do not "
                    "have; add it to their measures"
                )
            drawn = replace(drawn, cells=cells)
            parts.append(_looked_at(drawn, size, _scaled_to(stopping, size), len(studies.models)))
    apart, alone, difference, people = (np.concatenate(x) for x in zip(*parts, strict=True))
    hits = apart.sum(axis=0)
    ends = [exact_interval(k, n) for k in hits.tolist()]
    names = [
        (analysis, measure.name, *pair)
        for analysis, measure, _ in drawn.cells
        for pair in combinations(studies.models, 2)
    ]
    table = pd.DataFrame(names, columns=["analysis", "measure", "model_1", "model_2"])
    table.insert(0, "n_trials", size.pairs)
    table.insert(0, "n_participants", size.people)
    table.insert(0, "n_groups", size.groups)
    table = table.assign(
        power=hits / n,
        low=[low for low, _ in ends],
        high=[high for _, high in ends],
        alone=alone.mean(axis=0),
        first_better=(apart & (difference > 0)).mean(axis=0),
        difference=difference.mean(axis=0),
        n_simulations=n,
    )
    if stopping is None:
        return table
    looks = " ".join(map(str, _scaled_to(stopping, size).analyses))
    return table.assign(looks=looks, mean_participants=people.mean(axis=0))


def _scaled_to(stopping: Stopping, size: StudySize) -> Stopping:
    """Return the rule with its looks at the same shares of another number of participants."""
    shares = np.array(stopping.analyses) / stopping.participants
    looks = np.maximum(np.round(shares * size.people), 1).astype(int)
    return replace(stopping, analyses=tuple(np.unique(looks).tolist()), participants=size.people)


def _looked_at(
    drawn: Drawn, size: StudySize, stopping: Stopping, n_models: int
) -> tuple[BoolArray, BoolArray, FloatArray, IntArray]:
    """Return of each study and comparison what its looks show, each (n, comparisons).

    Whether the two are apart, whether they are if all are looked at once, their difference when the
    study ends, and after how many participants of each group that is.
    """
    group, within = drawn.person // size.people, drawn.person % size.people
    at_looks = []
    for look in stopping.analyses:
        there = within < look
        person = (group * look + within)[there]
        cells = [(name, measure, x[:, :, there]) for name, measure, x in drawn.cells]
        at_looks.append(_means(Drawn(person, drawn.item[:, there], cells), n_models))
    last = np.vectorize(SampledMean.p)(np.array(at_looks[-1], dtype=object))
    apart, people = np.zeros(last.shape, dtype=bool), np.zeros(last.shape, dtype=np.int64)
    difference = np.zeros(last.shape)
    for row, study in np.ndindex(last.shape):
        means = [look[row][study] for look in at_looks]
        number, apart[row, study] = first_crossing(means, stopping, n_models)
        people[row, study] = stopping.analyses[number]
        difference[row, study] = means[number].value
    return apart.T, (last < ALPHA).T, difference.T, people.T


def _portions(n: int, size: StudySize) -> Iterator[int]:
    """Yield how many of `n` studies are simulated at once."""
    most = max(1, _CELLS // size.answers)
    for start in range(0, n, most):
        yield min(most, n - start)


def _tests(drawn: Drawn, n_models: int) -> tuple[FloatArray, FloatArray]:
    """Return p-value and difference of each study and comparison, each (n, comparisons)."""
    means = _means(drawn, n_models)
    p = [[mean.p() for mean in of_studies] for of_studies in means]
    return np.array(p).T, np.array([[mean.value for mean in of] for of in means]).T


def _means(drawn: Drawn, n_models: int) -> list[list[SampledMean]]:
    """Return the difference of each comparison in each study."""
    compared = []
    for _, _, cells in drawn.cells:
        for i, j in combinations(range(n_models), 2):
            there: BoolArray = np.isfinite(cells[[i, j]])
            means: list[SampledMean] = [SampledMean(np.nan, np.nan, np.nan)] * cells.shape[1]
            for alike in _alike(drawn.item, there):
                rows = _rows_of_both(drawn.person, there[:, alike[0]])
                if not rows.any(axis=1).all():
                    continue
                item = drawn.item[alike[0]]
                designs = [_design(drawn.person, item, here) for here in rows]
                if (rows[0] == rows[1]).all():
                    designs[1] = designs[0]
                first, second = (
                    (np.flatnonzero(here), design, cells[m, alike][:, here])
                    for m, here, design in zip((i, j), rows, designs, strict=True)
                )
                differences = mean_differences(first, second, drawn.person, item)
                for study, mean in zip(alike, differences, strict=True):
                    means[study] = mean
            compared.append(means)
    return compared


def _alike(item: IntArray, there: BoolArray) -> Iterator[IntArray]:
    """Yield the studies that have their cells at the same participants and items."""
    if there.all() and (item == item[0]).all():
        yield np.arange(len(item))
        return
    kinds: dict[bytes, list[int]] = {}
    for study in range(len(item)):
        key = item[study].tobytes() + there[:, study].tobytes()
        kinds.setdefault(key, []).append(study)
    for members in kinds.values():
        yield np.array(members)


def _rows_of_both(person: IntArray, there: BoolArray) -> BoolArray:
    """Return the cells (2, C) of those participants who have some of either model."""
    n = int(person.max()) + 1
    counts = np.array([np.bincount(person[here], minlength=n) for here in there])
    in_both: BoolArray = counts.min(axis=0) > 0
    return there & in_both[person]


def _design(person: IntArray, item: IntArray, rows: BoolArray) -> CellDesign:
    return CellDesign(np.unique(person[rows], return_inverse=True)[1], item[rows])


@displayed
@dataclass(frozen=True)
class DesignPlan:
    """What a design can show at best; printed, it is a plain sentence or two.

    Attributes
    ----------
    groups, participants, pairs, items
        Groups, participants of each, pairs that each of these judges, and items of these.
    comparisons, alpha, target
        As asked.
    alone, among
        The difference of accuracy that is found as often as `target` says: by itself (p < alpha),
        and as the only one among the comparisons (p < alpha / comparisons, by Benjamini and
        Hochberg). NaN where none is.

    Examples
    --------
    >>> print(plan_design(20, 40))
    With 20 participants, 40 pairs each, of two models that disagree on every pair `evaluate` finds
    a difference of accuracy of 0.23 in 80% of studies (p < 0.05).
    """

    groups: int
    participants: int
    pairs: int
    items: int
    comparisons: int
    alpha: float
    target: float
    alone: float
    among: float

    def __str__(self) -> str:
        people = self.groups * self.participants
        text = f"{people} participant{'s' * (people != 1)}"
        if self.groups > 1:
            text += f" in {self.groups} groups with pairs of their own"
        items = "" if self.items == self.pairs else f" of {self.items} items"
        text += f", {self.pairs} pair{'s' * (self.pairs != 1)}{items} each"
        if people < MIN_PARTICIPANTS or self.items * self.groups < MIN_UNITS:
            return (
                f"With {text}, nothing can be significant: a test over people and items takes "
                f"{MIN_PARTICIPANTS} people and {MIN_UNITS} items."
            )
        text = f"With {text}, of two models that disagree on every pair `evaluate` finds "
        if np.isnan(self.alone):
            return f"{text}no difference in {self.target:.0%} of studies."
        text += (
            f"a difference of accuracy of {self.alone:.2f} in {self.target:.0%} of studies "
            f"(p < {self.alpha:g})"
        )
        if self.comparisons == 1:
            return text + "."
        bar = f"if it is the only one among {self.comparisons} comparisons"
        if np.isnan(self.among):
            return f"{text}, and none so often {bar}."
        return f"{text}, and of {self.among:.2f} {bar} (p < {self.alpha / self.comparisons:.3g})."


def plan_design(
    participants: int,
    pairs: int,
    comparisons: int = 1,
    *,
    groups: int = 1,
    kin: int = 1,
    alpha: float = ALPHA,
    target: float = 0.8,
    people: Simulation = FITTED,
    seed: int = 0,
) -> DesignPlan:
    """Work out which difference of accuracy a design finds, by the default test, by simulation.

    Parameters
    ----------
    participants, pairs, groups
        Participants in each group, pairs that each judges, groups, which have pairs of their own.
    comparisons
        How many are tested together, e.g. 36 pairs of nine models.
    kin
        Pairs of one item.
    alpha, target
        Level of the test, and how often it is to find the difference.
    people, seed
        How they answer, see `StatedStudies`, and the seed.

    Raises
    ------
    InputError
        If a number makes no sense.

    Notes
    -----
    Of 16 differences from .02 to .9 some are simulated, in 100 to 400 studies each, and the share
    with p below the bar is interpolated, so that the last digit is uncertain.

    Examples
    --------
    >>> round(plan_design(20, 40).alone, 2)
    0.23
    """
    require_whole("comparisons", comparisons, 1)
    require_whole("kin", kin, 1)
    for name, rate in (("alpha", alpha), ("target", target)):
        if not 0 < rate < 1:
            raise InputError(f"{name} is {rate}; give a rate between 0 and 1")
    size = StudySize(groups, participants, pairs)
    n = int(np.clip(500_000 // size.answers, 100, 400))
    least = [np.nan, np.nan]
    items = -(-pairs // kin)
    if groups * participants < MIN_PARTICIPANTS or groups * items < MIN_UNITS:
        return DesignPlan(groups, participants, pairs, items, comparisons, alpha, target, *least)
    differences = np.geomspace(0.02, 0.9, 16).tolist()
    most = StatedStudies(0.0, people, kin, ("accuracy",)).most
    simulated: dict[int, FloatArray] = {}

    def share(number: int, bar: float) -> float:
        if differences[number] >= most:
            return 0.0  # such people do not show it
        if number not in simulated:
            studies = StatedStudies(differences[number], people, kin, ("accuracy",))
            rng = np.random.default_rng(seed)
            parts = [_tests(studies.draw(size, some, rng), 2)[0] for some in _portions(n, size)]
            simulated[number] = np.concatenate(parts)[:, 0]
        return float((simulated[number] < bar).mean())

    for which, bar in enumerate((alpha, alpha / comparisons)):
        below, above = -1, len(differences)
        while above - below > 1:
            middle = (below + above) // 2
            below, above = (middle, above) if share(middle, bar) < target else (below, middle)
        if above == 0:
            least[which] = differences[0]
        elif above < len(differences):
            ends = [share(below, bar), share(above, bar)]
            least[which] = float(np.interp(target, ends, differences[below : above + 1]))
    return DesignPlan(groups, participants, pairs, items, comparisons, alpha, target, *least)
