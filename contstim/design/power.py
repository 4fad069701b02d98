"""Statistical power by simulation: the default test of `evaluate` applied to simulated studies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product

import numpy as np
import pandas as pd
from scipy.special import ndtri

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.design.studies import SimulatedData, StudySimulator, require_size
from contstim.errors import InputError, require_whole
from contstim.evaluation.inference import ALPHA, benjamini_hochberg
from contstim.evaluation.inference.quasi_f import (
    MIN_PARTICIPANTS,
    CellMean,
    CrossedDesign,
    estimate_differences,
)
from contstim.progress import track

_MAX_PARTICIPANTS = 500  # of all groups, before the last step of a search
_CELLS = 50_000  # ratings simulated at once


def power_curve(
    simulator: StudySimulator,
    n_participants: Sequence[int] = (10,),
    n_trials: Sequence[int] | None = None,
    n_simulations: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the share of simulated studies in which two models differ significantly.

    Each simulated study is tested as `evaluate` does by default: the difference of each two models,
    in each analysis and by each measure, with participants and items random (Clark's quasi-F), and
    with the false discovery rate controlled over all these tests.

    Parameters
    ----------
    simulator
        How studies are simulated.
    n_participants
        Numbers of participants per group.
    n_trials
        Numbers of trials per participant; by default `simulator.default_trials`.
    n_simulations
        Number of simulated studies of each size.
    seed
        Random seed.

    Returns
    -------
    DataFrame
        One row per size, analysis, measure and pair of models. `power` is the share of studies with
        q < .05, and `stderr` its Monte Carlo standard error, sqrt(power (1 - power) /
        n_simulations). `power_unadjusted` is the share with p < .05, `first_better` that with
        q < .05 and model 1 better, `difference` the mean difference. `recovery` is the share of
        studies in which the model that participants follow has the highest value of all models;
        models with equal values share a study.

    Raises
    ------
    InputError
        If a number makes no sense or the simulator has fewer pairs.

    Examples
    --------
    >>> from contstim.design.studies import StudySimulator
    >>> curve = power_curve(StudySimulator.from_difference(0.3), (5, 20), n_simulations=100)
    >>> curve[["n_participants", "measure", "power"]]
       n_participants             measure  power
    0               5            accuracy   0.58
    1               5  signed_rank_cosine   0.65
    2              20            accuracy   0.94
    3              20  signed_rank_cosine   0.94
    """
    require_whole("n_simulations", n_simulations, 1)
    sizes = list(product(n_participants, n_trials or [simulator.default_trials]))
    for size in sizes:
        require_size(len(simulator.groups), *size)
    shown = track(sizes, len(sizes), "simulating studies", weights=[n * k for n, k in sizes])
    tables = [_power_of_size(simulator, n, k, n_simulations, seed) for n, k in shown]
    return pd.concat(tables, ignore_index=True)


def required_sample_size(
    simulator: StudySimulator,
    n_trials: int | None = None,
    target: float = 0.8,
    n_simulations: int = 1000,
    seed: int = 0,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Search for the number of participants at which power reaches a target.

    The number is doubled until the power of every comparison surely exceeds the target or no longer
    grows, and then interpolated twice (normal quantiles of power over logarithms of numbers).

    Parameters
    ----------
    simulator, n_simulations, seed
        As in `power_curve`.
    n_trials
        Number of trials per participant.
    target
        Power, between 0 and 1.

    Returns
    -------
    tuple
        A table with one row per comparison: `n_participants` per group, and `low` and `high`, the
        same with power two standard errors higher and lower; missing where no number up to 1,000
        reaches the target. And the `power_curve` of all numbers that were tried.

    Examples
    --------
    >>> from contstim.design.studies import StudySimulator
    >>> simulator = StudySimulator.from_difference(0.3)
    >>> needed, curve = required_sample_size(simulator, n_trials=60, n_simulations=100)
    >>> needed[["measure", "n_participants", "low", "high"]]
                  measure  n_participants  low  high
    0            accuracy               6    5     9
    1  signed_rank_cosine               6    4     9
    """
    if not 0 < target < 1:
        raise InputError(f"target is {target}; give a share between 0 and 1")
    n_trials = n_trials or simulator.default_trials
    tried: dict[int, pd.DataFrame] = {}

    def power_of(n: int, errors: float = 0.0) -> FloatArray:
        """Return the power of each comparison, plus so many standard errors."""
        if n not in tried:
            tried[n] = power_curve(simulator, (n,), (n_trials,), n_simulations, seed)
        return (tried[n]["power"] + errors * tried[n]["stderr"]).to_numpy(dtype=np.float64)

    def crossings(errors: float = 0.0) -> list[int | None]:
        """Return the number from which each comparison stays at the target."""
        numbers = np.array(sorted(tried))
        powers = np.array([power_of(n, errors) for n in numbers])
        return [_crossing(numbers, column, target) for column in powers.T]

    n = -(-MIN_PARTICIPANTS // len(simulator.groups))
    grows: BoolArray = np.ones(len(power_of(n)), dtype=np.bool_)
    while (
        n * len(simulator.groups) < _MAX_PARTICIPANTS and (grows & (power_of(n, -2) < target)).any()
    ):
        n *= 2
        # Items limit power: from some number on, more participants do not increase it.
        grows = power_of(n) > power_of(n // 2) + (0.01 if n > 16 else -1)
    for _ in range(2):
        for between in {number for number in crossings() if number is not None}:
            power_of(between)
    needed = tried[n][["analysis", "measure", "model_1", "model_2"]].copy()
    for name, errors in (("n_participants", 0.0), ("low", 2.0), ("high", -2.0)):
        needed[name] = pd.array(crossings(errors), dtype="Int64")
    return needed, pd.concat([tried[n] for n in sorted(tried)], ignore_index=True)


def _crossing(numbers: IntArray, power: FloatArray, target: float) -> int | None:
    """Return the number from which power stays at the target, interpolated; None if it does not."""
    below = np.flatnonzero(power < target)
    if not len(below):
        return int(numbers[0])
    last = int(below[-1])
    if last == len(numbers) - 1:
        return None
    ends = ndtri(np.clip(power[last : last + 2], 1e-4, 1 - 1e-4))
    part = np.clip((ndtri(target) - ends[0]) / max(ends[1] - ends[0], 1e-9), 0, 1)
    step = np.log(numbers[last + 1] / numbers[last])
    return int(np.ceil(numbers[last] * np.exp(part * step) - 1e-9))


def _power_of_size(
    simulator: StudySimulator, n_participants: int, n_trials: int, n: int, seed: int
) -> pd.DataFrame:
    n_groups = len(simulator.groups)
    rng = np.random.default_rng([seed, n_groups, n_participants, n_trials])
    at_once = max(1, _CELLS // (n_groups * n_participants * n_trials))
    parts = []
    for start in range(0, n, at_once):
        some = min(at_once, n - start)
        data = simulator.draw(n_participants, n_trials, some, rng)
        p, difference = _test_differences(data)
        q = np.apply_along_axis(benjamini_hochberg, 1, p)
        parts.append((q, p, difference, _recovered(data, simulator.followed)))
    q, p, difference, recovered = (np.concatenate(part) for part in zip(*parts, strict=True))
    size = {"n_groups": n_groups, "n_participants": n_participants, "n_trials": n_trials}
    rows = [
        {**size, "analysis": analysis, "measure": measure.name, "model_1": first, "model_2": second}
        for analysis, measure, _ in data.cells
        for first, second in combinations(simulator.models, 2)
    ]
    power = (q < ALPHA).mean(axis=0)
    return pd.DataFrame(rows).assign(
        power=power,
        stderr=np.sqrt(power * (1 - power) / n),
        power_unadjusted=(p < ALPHA).mean(axis=0),
        first_better=((q < ALPHA) & (difference > 0)).mean(axis=0),
        difference=difference.mean(axis=0),
        recovery=np.repeat(recovered.mean(axis=0), len(rows) // len(data.cells)),
        n_simulations=n,
    )


def _recovered(data: SimulatedData, followed: int | None) -> FloatArray:
    """Return whether the followed model is best in each study, shape (n, analyses x measures)."""
    if followed is None:
        return np.full((data.item.shape[0], len(data.cells)), np.nan)
    shares = []
    for _, _, cells in data.cells:
        # Influence on undefined values is missing for all of a participant's ratings or none.
        values = np.stack([_participant_means(data.person, model) for model in cells], axis=-1)
        best = np.round(values, 9) == np.round(values.max(axis=-1, keepdims=True), 9)
        shares.append(best[:, followed] / np.maximum(best.sum(axis=-1), 1))
    return np.stack(shares, axis=1)


def _participant_means(person: IntArray, cells: FloatArray) -> FloatArray:
    """Return the mean over participants of their mean cells, shape (n,), from (n, C)."""
    by_person = cells.reshape(len(cells), int(person.max()) + 1, -1)
    present = np.isfinite(by_person)
    counts = present.sum(axis=2)
    means = np.where(present, by_person, 0).sum(axis=2) / np.maximum(counts, 1)
    return np.asarray(means.sum(axis=1) / np.maximum((counts > 0).sum(axis=1), 1))


def _test_differences(data: SimulatedData) -> tuple[FloatArray, FloatArray]:
    """Return p-value and difference of each study and comparison, each (n, comparisons)."""
    p_values, differences = [], []
    for _, _, cells in data.cells:
        for i, j in combinations(range(len(cells)), 2):
            p, difference = np.full((2, cells.shape[1]), np.nan)
            defined: BoolArray = np.isfinite(cells[[i, j]])
            for studies in _same_design(data.item, defined):
                # Participants who have no ratings for one of the models do not count.
                rows = defined[:, studies[0]]
                counts = np.array([np.bincount(data.person, row) for row in rows])
                rows = rows & (counts.min(axis=0) > 0)[data.person]
                if not rows.any():
                    continue
                item = data.item[studies[0]]
                designs = [
                    CrossedDesign(np.unique(data.person[row], return_inverse=True)[1], item[row])
                    for row in rows
                ]
                if (rows[0] == rows[1]).all():
                    designs[1] = designs[0]
                first, second = (
                    CellMean(np.flatnonzero(row), design, cells[model, studies][:, row])
                    for model, row, design in zip((i, j), rows, designs, strict=True)
                )
                whole = CrossedDesign(data.person, item)
                means = estimate_differences(first, second, whole)
                p[studies] = [mean.p_value() for mean in means]
                difference[studies] = [mean.value for mean in means]
            p_values.append(p)
            differences.append(difference)
    return np.stack(p_values, axis=1), np.stack(differences, axis=1)


def _same_design(item: IntArray, defined: BoolArray) -> Iterator[IntArray]:
    """Yield sets of studies whose cells have the same items and are defined alike."""
    if defined.all() and (item == item[0]).all():
        yield np.arange(len(item))
        return
    sets: dict[bytes, list[int]] = {}
    for study in range(len(item)):
        key = item[study].tobytes() + defined[:, study].tobytes()
        sets.setdefault(key, []).append(study)
    for members in sets.values():
        yield np.array(members)
