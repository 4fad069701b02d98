"""How often a design would tell two models apart, by simulation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import beta

from contstim.arrays import FloatArray
from contstim.errors import InputError, UnknownNameError
from contstim.evaluation.inference import wilcoxon_signed_rank
from contstim.evaluation.scores import ScoreSource, log_ratios, score_table, unscored_catch
from contstim.evaluation.simulate import Simulation, answers, latent_preferences
from contstim.evaluation.subset import MEASURES, Subset
from contstim.evaluation.trials import TrialData
from contstim.progress import track
from contstim.selection.planning import MIN_GROUPS, unit_of_tests

_MOST_ANSWERS = 10**7
# What an experiment costs beside its answers, in answers.
_COST = 2000


def power(
    design: pd.DataFrame,
    scores: ScoreSource,
    models: tuple[str, str],
    simulation: Simulation,
    n_groups: Sequence[int] = (10,),
    n_participants: Sequence[int] = (10,),
    n_trials: Sequence[int] = (),
    measure: str = "accuracy",
    unit: str = "auto",
    min_groups: int = MIN_GROUPS,
    alpha: float = 0.05,
    n_simulations: int = 500,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the share of simulated experiments in which two models differ significantly.

    Each experiment draws, without replacement, `n_trials` of the design's pairs for each group (a
    design with groups gives each of its groups its own pairs), lets participants answer them, and
    compares the two models by a two-sided signed-rank test across groups or participants, as
    `evaluate` does. Across participants who share their pairs the test holds for those pairs: two
    models that are equally good on average differ on any one set, and many participants will
    show it. Across groups with pairs of their own it holds for pairs in general.

    Parameters
    ----------
    design
        One row a pair: `sentence_1`, `sentence_2`, and `group` if groups have their own pairs.
    scores
        As in `evaluate`.
    models
        The two models compared.
    simulation
        How people answer; without weights nobody follows a model, and the share is the false
        alarm rate.
    n_groups, n_participants, n_trials
        The numbers tried, each with each: groups, participants a group, trials a group (empty for
        all the pairs that a group has).
    measure, unit, min_groups
        As in `evaluate`.
    alpha
        Significance level.
    n_simulations
        Experiments simulated for each combination.

    Returns
    -------
    DataFrame
        One row a combination: `n_groups`, `n_participants` (a group), `n_trials`, `power` with its
        exact 95 % interval `low`, `high` (Clopper and Pearson), `first_better` (share of
        experiments with a significant difference in favour of the first model), `unit`,
        `n_units`, `n_simulations`.

    Raises
    ------
    InputError
        If a number cannot be met by the design, or a model has no scores.
    """
    if measure not in MEASURES:
        raise UnknownNameError.among("measure", measure, MEASURES)
    if n_simulations < 1:
        raise InputError(f"at least one simulation is needed, not {n_simulations}")
    pairs = design[~unscored_catch(design, scores)].reset_index(drop=True)
    wide = score_table(scores, [*pairs["sentence_1"], *pairs["sentence_2"]])
    for model in models:
        if model not in wide:
            raise UnknownNameError.among("model", model, [str(c) for c in wide.columns])
    pool = _Pool(pairs, wide, models, simulation)
    rng = np.random.default_rng(seed)
    sizes = [
        (groups, people, trials)
        for groups in n_groups
        for people in n_participants
        for trials in n_trials or (pool.smallest(groups),)
    ]
    for groups, people, trials in sizes:
        if groups * people * trials > _MOST_ANSWERS:
            raise InputError(
                f"{groups} groups of {people} participants with {trials} trials each are "
                f"more than {_MOST_ANSWERS} answers an experiment; ask for fewer"
            )
    by_group = [
        (unit_of_tests(groups, min_groups) if unit == "auto" else unit) == "group"
        for groups, _, _ in sizes
    ]
    significant = np.zeros((len(sizes), 2), dtype=np.int64)  # any way, for the first model
    costs = [_COST + groups * people * trials for groups, people, trials in sizes]
    work = np.repeat(np.arange(len(sizes)), n_simulations)
    weights = np.repeat(costs, n_simulations).tolist()
    for number in track(work, len(work), "simulating experiments", weights=weights):
        groups, people, trials = sizes[number]
        difference = pool.experiment(groups, people, trials, measure, rng)
        if by_group[number]:
            difference = difference.reshape(groups, people).mean(axis=1)
        test = wilcoxon_signed_rank(difference)
        significant[number] += (test.p < alpha, test.p < alpha and test.effect > 0)
    rows = []
    for (groups, people, trials), grouped, (hits, better) in zip(
        sizes, by_group, significant.tolist(), strict=True
    ):
        low, high = exact_interval(hits, n_simulations)
        rows.append(
            {
                "n_groups": groups,
                "n_participants": people,
                "n_trials": trials,
                "power": hits / n_simulations,
                "low": low,
                "high": high,
                "first_better": better / n_simulations,
                "unit": "group" if grouped else "participant",
                "n_units": groups if grouped else groups * people,
                "n_simulations": n_simulations,
            }
        )
    return pd.DataFrame(rows)


class _Pool:
    """The design's pairs, by group, and what people prefer on them."""

    def __init__(
        self,
        pairs: pd.DataFrame,
        wide: pd.DataFrame,
        models: tuple[str, str],
        simulation: Simulation,
    ) -> None:
        ratios = log_ratios(wide, pairs)
        names = [str(c) for c in wide.columns]
        self._ratios = ratios[:, [names.index(m) for m in models]]
        self._latent = latent_preferences(ratios, names, simulation)
        self._simulation = simulation
        self._models = models
        group = pairs["group"].astype("str") if "group" in pairs else pd.Series("1", pairs.index)
        self._members = [np.flatnonzero(group == g) for g in dict.fromkeys(group)]

    def smallest(self, n_groups: int) -> int:
        """Trials that each of so many groups can have."""
        return min(len(m) for m in self._members[: self._needed(n_groups)])

    def _needed(self, n_groups: int) -> int:
        if n_groups < 1:
            raise InputError(f"an experiment needs at least one group, not {n_groups}")
        if len(self._members) == 1:
            return 1
        if n_groups > len(self._members):
            raise InputError(
                f"{n_groups} groups are asked for, the design has {len(self._members)}"
            )
        return n_groups

    def experiment(
        self, n_groups: int, people: int, n_trials: int, measure: str, rng: np.random.Generator
    ) -> FloatArray:
        """Return each participant's difference between the models, group by group."""
        if people < 1 or n_trials < 1:
            raise InputError(f"{people} participants with {n_trials} trials are no experiment")
        chosen = []
        members = self._members[: self._needed(n_groups)]
        for g in range(n_groups):
            own = members[g % len(members)]
            if n_trials > len(own):
                raise InputError(
                    f"{n_trials} trials a group are asked for and a group has {len(own)} pairs; "
                    "ask for fewer"
                )
            chosen.append(rng.choice(own, size=n_trials, replace=False))
        rows = np.repeat(np.stack(chosen), people, axis=0)  # participants by trials
        rating = answers(self._latent[rows], self._simulation, rng)
        n_people = n_groups * people
        order = np.argsort(rows, axis=1)
        participant = np.repeat(np.arange(n_people), n_trials)
        data = TrialData(
            participants=pd.RangeIndex(n_people),
            groups=pd.RangeIndex(n_groups),
            group_of=np.repeat(np.arange(n_groups), people),
            participant=participant,
            pair=np.take_along_axis(rows, order, axis=1).ravel(),
            rating=np.take_along_axis(rating, order, axis=1).ravel(),
            pairs=pd.DataFrame(index=range(len(self._latent))),
            models=self._models,
            log_ratio=self._ratios,
        )
        subset = Subset(data, np.arange(len(participant)), np.array([0, 1]))
        values = np.nan_to_num(subset.values(measure))  # a model without preference scores 0
        return np.asarray(values[:, 0] - values[:, 1])


def exact_interval(hits: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return Clopper and Pearson's interval of a rate, from `hits` among `n`."""
    tail = (1 - level) / 2
    low = float(beta.ppf(tail, hits, n - hits + 1)) if hits else 0.0
    high = float(beta.isf(tail, hits + 1, n - hits)) if hits < n else 1.0
    return low, high
