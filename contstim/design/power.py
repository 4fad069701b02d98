"""Statistical power and sample size by simulation, with the default test of `evaluate`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
import pandas as pd
from scipy.special import ndtri

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.design.simulate import SimulatedData, require_size
from contstim.design.studies import StudySimulator
from contstim.errors import InputError, require_integer
from contstim.evaluation.inference import ALPHA, benjamini_hochberg, quasi_f
from contstim.progress import track

_MAX_PARTICIPANTS = 500  # of all groups, before the last doubling of a search
_MAX_RATINGS = 50_000  # simulated at once
_SIZE_COLUMNS = ["n_groups", "n_participants", "n_trials"]
_COMPARISON_COLUMNS = ["analysis", "measure", "model_1", "model_2"]


def power_curve(
    simulator: StudySimulator,
    n_participants: Sequence[int] = (10,),
    n_trials: Sequence[int] | None = None,
    n_simulations: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Compute the statistical power of studies of several sizes by simulation.

    Each simulated study is tested with the default test of `evaluate`: the difference between every
    pair of models is tested in each analysis and measure, with participants and items as random
    effects (Clark's quasi-F). The false discovery rate is controlled over all tests of a study.

    Parameters
    ----------
    simulator
        Simulator of studies.
    n_participants : sequence of int, default (10,)
        Numbers of participants per group.
    n_trials : sequence of int, optional
        Numbers of trials per participant; by default `simulator.default_trials`.
    n_simulations : int, default 1000
        Number of simulated studies of each size.
    seed : int, default 0
        Random seed.

    Returns
    -------
    DataFrame
        One row per size, analysis, measure and pair of models, with the columns

        - `power`: proportion of studies with q < .05,
        - `stderr`: Monte Carlo standard error of power, sqrt(power (1 - power) / n_simulations),
        - `power_unadjusted`: proportion of studies with p < .05,
        - `first_better`: proportion of studies with q < .05 in which model 1 is better,
        - `difference`: mean difference between the two models,
        - `recovery`: proportion of studies in which the model that participants follow has the
          highest value of all models. If k models share the highest value, the study counts as
          1 / k.

    Raises
    ------
    InputError
        If a number is out of range, or the simulator has fewer pairs than `n_trials`.

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
    require_integer("n_simulations", n_simulations, 1)
    n_groups = len(simulator.groups)
    sizes = list(product(n_participants, n_trials or [simulator.default_trials]))
    for n, k in sizes:
        require_size(n_groups, n, k)
    weights = [n * k for n, k in sizes]
    tables = []
    for n, k in track(sizes, len(sizes), "simulating studies", weights=weights):
        # Simulate and test n participants with k trials each, in batches of studies.
        rng = np.random.default_rng([seed, n_groups, n, k])
        batch_size = max(1, _MAX_RATINGS // (n_groups * n * k))
        batches = []
        for start in range(0, n_simulations, batch_size):
            data = simulator.draw(n, k, min(batch_size, n_simulations - start), rng)
            p, difference = _test_differences(data)
            q = np.apply_along_axis(benjamini_hochberg, 1, p)
            batches.append((q, p, difference, _find_recovery(data, simulator.followed_model)))
        q, p, difference, recovery = map(np.concatenate, zip(*batches, strict=True))
        comparisons = [
            (n_groups, n, k, analysis, measure.name, model_1, model_2)
            for analysis, measure, _ in data.influences
            for model_1, model_2 in combinations(simulator.models, 2)
        ]
        table = pd.DataFrame(comparisons, columns=[*_SIZE_COLUMNS, *_COMPARISON_COLUMNS])
        power = (q < ALPHA).mean(axis=0)
        tables.append(
            table.assign(
                power=power,
                stderr=np.sqrt(power * (1 - power) / n_simulations),
                power_unadjusted=(p < ALPHA).mean(axis=0),
                first_better=((q < ALPHA) & (difference > 0)).mean(axis=0),
                difference=difference.mean(axis=0),
                recovery=np.repeat(recovery.mean(axis=0), len(table) // len(data.influences)),
                n_simulations=n_simulations,
            )
        )
    return pd.concat(tables, ignore_index=True)


def required_sample_size(
    simulator: StudySimulator,
    n_trials: int | None = None,
    target: float = 0.8,
    n_simulations: int = 1000,
    seed: int = 0,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Search for the number of participants at which statistical power reaches a target.

    The number of participants is doubled until the power of every comparison clearly exceeds the
    target or no longer increases. The number at which the power reaches the target is then
    interpolated, with the normal quantile of power as a linear function of the logarithm of the
    number. The interpolated numbers are simulated, and the interpolation is repeated.

    Parameters
    ----------
    simulator, n_simulations, seed
        Parameters of `power_curve`.
    n_trials : int, optional
        Number of trials per participant; by default `simulator.default_trials`.
    target : float, default 0.8
        Power, between 0 and 1.

    Returns
    -------
    needed : DataFrame
        One row per analysis, measure and pair of models. `n_participants` is the number of
        participants per group; `low` and `high` are this number if the power is two Monte Carlo
        standard errors higher and lower. Missing if no number up to 1,000 reaches the target.
    curve : DataFrame
        Result of `power_curve` for all numbers that were tried.

    Raises
    ------
    InputError
        If a number is out of range.

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
    curves: dict[int, pd.DataFrame] = {}

    def power(n: int, n_stderr: float = 0.0) -> FloatArray:
        """Return the power of each comparison with n participants, plus `n_stderr` standard errors.

        Studies with n participants are simulated only once.
        """
        if n not in curves:
            curves[n] = power_curve(simulator, (n,), (n_trials,), n_simulations, seed)
        values = curves[n]["power"] + n_stderr * curves[n]["stderr"]
        return values.to_numpy(dtype=np.float64)

    def find_crossings(n_stderr: float = 0.0) -> list[int | None]:
        """Find the number of participants at which the power of each comparison reaches the target.

        The number is interpolated between the simulated numbers.

        Parameters
        ----------
        n_stderr
            Number of Monte Carlo standard errors that are added to the power.

        Returns
        -------
        list
            Number for each comparison; None if its power does not reach the target.
        """
        numbers = np.array(sorted(curves))
        power_by_number = np.array([power(n, n_stderr) for n in numbers])
        return [_find_crossing(numbers, values, target) for values in power_by_number.T]

    n_groups = len(simulator.groups)
    n = math.ceil(quasi_f.MIN_PARTICIPANTS / n_groups)
    is_growing: BoolArray = np.ones(len(power(n)), dtype=np.bool_)
    while n * n_groups < _MAX_PARTICIPANTS and (is_growing & (power(n, -2) < target)).any():
        n *= 2
        # The number of items limits power: at some point, more participants do not increase it. Up
        # to 16 participants, the search continues in any case.
        min_increase = 0.01 if n > 16 else -1.0
        is_growing = power(n) > power(n // 2) + min_increase
    # Simulate the interpolated numbers, and interpolate again.
    for _ in range(2):
        for number in {number for number in find_crossings() if number is not None}:
            power(number)
    needed = curves[n][_COMPARISON_COLUMNS].copy()
    for name, n_stderr in (("n_participants", 0.0), ("low", 2.0), ("high", -2.0)):
        needed[name] = pd.array(find_crossings(n_stderr), dtype="Int64")
    return needed, pd.concat([curves[n] for n in sorted(curves)], ignore_index=True)


def _find_crossing(numbers: IntArray, power: FloatArray, target: float) -> int | None:
    """Find the number of participants at which the power of a comparison reaches a target.

    Parameters
    ----------
    numbers
        Numbers of participants, ascending.
    power
        Power of the comparison with each of these numbers.
    target
        Power that should be reached.

    Returns
    -------
    int or None
        Number of participants, interpolated between two elements of `numbers`. The smallest of
        `numbers` if its power is sufficient; None if the power of the largest is not.
    """
    index = int(np.flatnonzero(power < target).max(initial=-1)) + 1
    # This is the first number from which power does not drop below the target again.
    if index == 0:
        return int(numbers[0])
    if index == len(numbers):
        return None
    # Interpolate the normal quantile of power linearly in the logarithm of numbers.
    quantile_before, quantile_after = ndtri(np.clip(power[index - 1 : index + 1], 1e-4, 1 - 1e-4))
    step = max(quantile_after - quantile_before, 1e-9)
    fraction = np.clip((ndtri(target) - quantile_before) / step, 0, 1)
    log_step = np.log(numbers[index] / numbers[index - 1])
    number = numbers[index - 1] * np.exp(fraction * log_step)
    return int(np.ceil(number - 1e-9))


def _find_recovery(data: SimulatedData, followed_model: int | None) -> FloatArray:
    """Return whether the model that participants follow has the highest value in each study.

    The choices of simulated participants follow the preferences of one model. The study recovers
    this model if it has the highest value, for example the highest accuracy.

    Parameters
    ----------
    data
        Simulated studies.
    followed_model
        Index of the model that participants follow; None if they follow no model.

    Returns
    -------
    (n_studies, n_analyses * n_measures) array
        1 if only this model has the highest value, 1 / k if k models share the highest value, 0 if
        other models have the highest value, and NaN if participants follow no model.
    """
    if followed_model is None:
        return np.full((data.item.shape[0], len(data.influences)), np.nan)
    # Compute, for each analysis and measure, in which studies the model that the simulated
    # participants followed has the highest value.
    recovery = []
    n_participants = int(data.participant_index.max()) + 1
    # The influence of a rating on the value of a model is, for example, 1 if the model predicts the
    # rating and 0 otherwise. Their mean is the value (here, the accuracy).
    for _, _, influence in data.influences:
        # Ratings are sorted by participant, and each participant gives the same number of ratings.
        n_models, n_studies, _ = influence.shape
        by_participant = influence.reshape(n_models, n_studies, n_participants, -1)
        # Average over the ratings of each participant, then over participants, without NaN.
        is_defined = np.isfinite(by_participant)
        n_ratings = is_defined.sum(axis=-1)
        means = np.where(is_defined, by_participant, 0).sum(axis=-1) / np.maximum(n_ratings, 1)
        values = means.sum(axis=-1) / np.maximum((n_ratings > 0).sum(axis=-1), 1)
        # Round, so that equal values are ties in spite of rounding errors.
        is_best = np.round(values, 9) == np.round(values.max(axis=0), 9)
        recovery.append(is_best[followed_model] / np.maximum(is_best.sum(axis=0), 1))
    return np.stack(recovery, axis=1)


def _test_differences(data: SimulatedData) -> tuple[FloatArray, FloatArray]:
    """Test the difference between every pair of models in each simulated study (quasi-F test).

    Parameters
    ----------
    data
        Simulated studies, with one number per rating and model: the influence of the rating on the
        value of the model.

    Returns
    -------
    p_values, differences : (n_studies, n_comparisons) array
        p-value and difference of each comparison. Comparisons are ordered by analysis and measure,
        then by pair of models. Both values are NaN if no participant has ratings for both models.
    """
    p_values, differences = [], []
    for _, _, influence in data.influences:
        n_models, n_studies, _ = influence.shape
        for i, j in combinations(range(n_models), 2):
            p, difference = np.full((2, n_studies), np.nan)
            is_defined: BoolArray = np.isfinite(influence[[i, j]])
            # Test studies together if they have the same items and the same defined values.
            groups: dict[bytes, list[int]] = {}
            for study in range(n_studies):
                key = data.item[study].tobytes() + is_defined[:, study].tobytes()
                groups.setdefault(key, []).append(study)
            for studies in groups.values():
                # Exclude participants without ratings for one of the models.
                is_included = is_defined[:, studies[0]]
                counts = np.array([np.bincount(data.participant_index, row) for row in is_included])
                is_included = is_included & (counts.min(axis=0) > 0)[data.participant_index]
                if not is_included.any():
                    continue
                # Crossed design of participants and items, among the ratings of either model.
                item = data.item[studies[0]]
                designs = []
                for row in is_included:
                    _, participants = np.unique(data.participant_index[row], return_inverse=True)
                    designs.append(quasi_f.CrossedDesign(participants, item[row]))
                if (is_included[0] == is_included[1]).all():
                    designs[1] = designs[0]
                whole = quasi_f.CrossedDesign(data.participant_index, item)
                for study in studies:
                    means = []
                    for model, row, design in zip((i, j), is_included, designs, strict=True):
                        observations = influence[model, study][row]
                        means.append(quasi_f.SampleMean(np.flatnonzero(row), design, observations))
                    estimate = quasi_f.Contrast.from_means(means, whole).estimate()
                    p[study], difference[study] = estimate.p_value(), estimate.value
            p_values.append(p)
            differences.append(difference)
    return np.stack(p_values, axis=1), np.stack(differences, axis=1)
