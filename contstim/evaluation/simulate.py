"""Simulated participants, and how often a design would tell two models apart by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field
from scipy.stats import beta

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError, require_known
from contstim.evaluation.choices import align_choices, check_choices, missing_text, name_rows
from contstim.evaluation.inference.wilcoxon import wilcoxon_signed_rank
from contstim.evaluation.measures import MEASURES
from contstim.evaluation.options import UNITS
from contstim.evaluation.scores import ScoreSource, log_ratios, score_table, unscored_catch
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import TrialData
from contstim.people import MIN_GROUPS, unit_of_tests
from contstim.progress import track
from contstim.settings import Several, settings
from contstim.tables import require_columns

_MOST_ANSWERS = 10**7
# What an experiment costs beside its answers, in answers.
_COST = 2000


@settings
class Simulation:
    """How simulated people answer.

    Attributes
    ----------
    weights
        Pairs (model, weight) of the mixture that people follow; each model's log-ratios are
        divided by their root mean square over the pairs first, so that weights compare.
        Empty: nobody follows any model, and choices are noise.
    noise
        Standard deviation of the normal noise added on each trial, in units of the mixture's root
        mean square.
    lapse
        Share of trials answered at random, each rating as likely as any other.
    confident, very_confident
        Size of the noisy preference, in the same units, from which people are confident and very
        confident.
    """

    weights: Several[tuple[str, float]] = ()
    noise: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    lapse: Annotated[float, Field(ge=0, le=1)] = 0.02
    confident: float = 0.7
    very_confident: float = 1.4

    def __post_init__(self) -> None:
        if not 0 <= self.confident <= self.very_confident:
            raise InputError(
                f"confidence limits must rise from 0, not {self.confident}, {self.very_confident}"
            )

    @classmethod
    def of(cls, weights: str | Mapping[str, float], **options: float) -> Simulation:
        """Make a simulation that follows one model, or a mixture ``{model: weight}``."""
        mixture = {weights: 1.0} if isinstance(weights, str) else weights
        return cls(tuple(mixture.items()), **options)


def latent_preferences(ratios: FloatArray, models: list[str], simulation: Simulation) -> FloatArray:
    """Return the mixture's preference for sentence 2 of each of P pairs, root mean square 1.

    Zero throughout if nobody follows any model.

    Raises
    ------
    InputError
        If a model of the mixture has no scores, or the mixture has no preference at all.
    """
    total = np.zeros(len(ratios))
    for model, weight in simulation.weights:
        if model not in models:
            raise InputError(f"the mixture names {model!r}, which has no scores")
        values = ratios[:, models.index(model)]
        finite = values[np.isfinite(values)]
        size = np.sqrt((finite**2).mean()) if len(finite) else 0.0
        if size == 0:
            raise InputError(f"model {model!r} prefers no sentence, so nobody can follow it")
        # An infinite ratio counts as the largest finite one.
        most = float(np.abs(finite).max())
        total += weight * np.clip(values, -most, most) / size
    if not simulation.weights:
        return total
    size = float(np.sqrt((total**2).mean()))
    if size == 0:
        raise InputError("the mixture's models cancel out on every pair")
    return np.asarray(total / size)


def simulate_choices(
    design: pd.DataFrame,
    scores: ScoreSource | None,
    simulation: Simulation,
    participants_per_group: int = 10,
    seed: int = 0,
) -> pd.DataFrame:
    """Let simulated participants go through a design's trials.

    Parameters
    ----------
    design
        One row per trial: `sentence_1`, `sentence_2`, and where there are such `group` (or
        `participant`), `trial`, `condition`, `model_1`, `model_2`; other columns are kept. With
        `participant` the design's own participants answer their own trials; otherwise each
        group has `participants_per_group`, who all see the group's trials.
    scores
        As in `evaluate`; None if nobody follows a model. Catch trials that have none are answered
        with the sentence expected.
    simulation
        How they answer.
    seed
        Of all that is random.

    Returns
    -------
    DataFrame
        An aligned choices table, ready for `evaluate`; `expected` is 1 in trials of condition
        ``catch``, unless the design has such a column.

    Raises
    ------
    InputError
        If the design or the scores cannot be used.
    """
    if participants_per_group < 1:
        raise InputError(f"a group needs at least one participant, not {participants_per_group}")
    require_pairs(design)
    rows = design.reset_index(drop=True)
    if "participant" not in rows:
        group, numbers = _groups(rows), range(1, participants_per_group + 1)
        people = [rows.assign(group=group, participant=group + f"-{k}") for k in numbers]
        rows = pd.concat(people, ignore_index=True)
    unscored = np.zeros(len(rows), dtype=np.bool_)
    if scores is None:
        ratios, models = np.zeros((len(rows), 0)), []
    else:
        pairs = rows[["sentence_1", "sentence_2"]]
        unscored = unscored_catch(rows, scores)
        distinct = pairs[~unscored].drop_duplicates().reset_index(drop=True)
        wide = score_table(scores, [*distinct["sentence_1"], *distinct["sentence_2"]])
        where = pd.MultiIndex.from_frame(distinct).get_indexer(pd.MultiIndex.from_frame(pairs))
        # The place of a trial without scores is -1, the last; it is answered below.
        ratios, models = log_ratios(wide, distinct)[where], [str(c) for c in wide.columns]
    if "expected" not in rows and "condition" in rows and (rows["condition"] == "catch").any():
        # As an experiment's export has it: sentence 1 of a catch trial is the natural one.
        rows["expected"] = np.where(rows["condition"] == "catch", 1.0, np.nan)
    latent = latent_preferences(ratios, models, simulation)
    if unscored.any():
        expected = rows.get("expected", pd.Series(np.nan, index=rows.index)).to_numpy()
        sure = np.select([expected == 1, expected == 2], [-np.inf, np.inf], 0.0)
        latent = np.where(unscored, sure, latent)
    rng = np.random.default_rng(seed)
    rows = rows.assign(rating=answers(latent, simulation, rng))
    return align_choices(check_choices(rows))


def require_pairs(design: pd.DataFrame, what: str = "the design") -> None:
    """Refuse a design without trials, or with one that lacks a sentence.

    Parameters
    ----------
    design
        A row per trial or pair.
    what
        What it is, for the message.

    Raises
    ------
    InputError
        If a column or a sentence is missing, or every row; the message names the rows.
    """
    require_columns(design, ("sentence_1", "sentence_2"), what)
    if design.empty:
        raise InputError(f"{what} has no rows; give trials or pairs of sentences")
    missing = missing_text(design.reset_index(drop=True))
    if missing.any():
        raise InputError(f"{what} lacks a sentence ({name_rows(missing)}); fill it in")


def answers(latent: FloatArray, simulation: Simulation, rng: np.random.Generator) -> FloatArray:
    """Return a rating for each latent preference."""
    felt = latent + simulation.noise * rng.normal(size=latent.shape)
    # A preference of exactly zero is settled by the toss of a coin.
    side = np.where(felt == 0, rng.choice([-1.0, 1.0], size=felt.shape), np.sign(felt))
    limits = [simulation.confident, simulation.very_confident]
    rating = side * (np.digitize(np.abs(felt), limits) + 0.5)
    lapsed = rng.random(size=felt.shape) < simulation.lapse
    return np.where(lapsed, rng.choice(np.arange(-2.5, 3.0), size=felt.shape), rating)


def _groups(design: pd.DataFrame) -> pd.Series:
    return design["group"].astype("str") if "group" in design else pd.Series("1", design.index)


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
        One row per pair: `sentence_1`, `sentence_2`, and `group` if groups have their own pairs.
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
        If a number cannot be met by the design, a model has no scores, or the measure or unit is
        not offered.
    """
    require_known("measure", measure, MEASURES)
    require_known("unit", unit, UNITS)
    if n_simulations < 1:
        raise InputError(f"at least one simulation is needed, not {n_simulations}")
    require_pairs(design)
    pairs = design[~unscored_catch(design, scores)].reset_index(drop=True)
    wide = score_table(scores, [*pairs["sentence_1"], *pairs["sentence_2"]])
    for model in models:
        require_known("model", model, [str(c) for c in wide.columns])
    rng = np.random.default_rng(seed)
    pool = _Pairs.of(pairs, wide, models, simulation)
    sizes = [
        (groups, people, trials)
        for groups, people in product(n_groups, n_participants)
        for trials in n_trials or (pool.smallest(groups),)
    ]
    for groups, people, trials in sizes:
        pool.check(groups, people, trials)
    significant = np.zeros((len(sizes), 2), dtype=np.int64)  # any way, for the first model
    units = [unit_of_tests(size[0], min_groups) if unit == "auto" else unit for size in sizes]
    numbers = np.repeat(np.arange(len(sizes)), n_simulations)
    weights = np.repeat([_COST + int(np.prod(size)) for size in sizes], n_simulations).tolist()
    for number in track(numbers, len(numbers), "simulating experiments", weights=weights):
        difference = pool.experiment(*sizes[number], measure, rng)
        if units[number] == "group":
            difference = difference.reshape(sizes[number][:2]).mean(axis=1)
        test = wilcoxon_signed_rank(difference)
        significant[number] += (test.p < alpha, test.p < alpha and test.effect > 0)
    table = pd.DataFrame(sizes, columns=["n_groups", "n_participants", "n_trials"])
    hits, better = significant.T
    ends = [exact_interval(n, n_simulations) for n in hits.tolist()]
    everybody = table["n_groups"] * table["n_participants"]
    return table.assign(
        power=hits / n_simulations,
        low=[low for low, _ in ends],
        high=[high for _, high in ends],
        first_better=better / n_simulations,
        unit=units,
        n_units=np.where(np.array(units) == "group", table["n_groups"], everybody),
        n_simulations=n_simulations,
    )


@dataclass(frozen=True, eq=False)
class _Pairs:
    """The design's pairs, by group, and what people and the two models prefer on them."""

    members: list[IntArray]
    ratios: FloatArray
    latent: FloatArray
    simulation: Simulation
    models: tuple[str, str]

    @classmethod
    def of(
        cls,
        pairs: pd.DataFrame,
        wide: pd.DataFrame,
        models: tuple[str, str],
        simulation: Simulation,
    ) -> _Pairs:
        ratios, names = log_ratios(wide, pairs), [str(c) for c in wide.columns]
        group = _groups(pairs)
        return cls(
            members=[np.flatnonzero(group == g) for g in dict.fromkeys(group)],
            ratios=ratios[:, [names.index(m) for m in models]],
            latent=latent_preferences(ratios, names, simulation),
            simulation=simulation,
            models=models,
        )

    def smallest(self, n_groups: int) -> int:
        """Return how many trials each of so many groups can have."""
        return min(len(own) for own in self._of_groups(n_groups))

    def _of_groups(self, n_groups: int) -> list[IntArray]:
        """Return the pairs of each group, or those of all in a design without groups."""
        if n_groups < 1:
            raise InputError(f"an experiment needs at least one group, not {n_groups}")
        if len(self.members) == 1:
            return self.members
        if n_groups > len(self.members):
            raise InputError(f"{n_groups} groups are asked for, the design has {len(self.members)}")
        return self.members[:n_groups]

    def check(self, n_groups: int, people: int, n_trials: int) -> None:
        """Refuse an experiment that the design cannot give, or that would never end."""
        if n_groups * people * n_trials > _MOST_ANSWERS:
            raise InputError(
                f"{n_groups} groups of {people} participants with {n_trials} trials each are "
                f"more than {_MOST_ANSWERS} answers an experiment; ask for fewer"
            )
        if people < 1 or n_trials < 1:
            raise InputError(f"{people} participants with {n_trials} trials are no experiment")
        if n_trials > (most := self.smallest(n_groups)):
            raise InputError(
                f"{n_trials} trials a group are asked for and a group has {most} pairs; "
                "ask for fewer"
            )

    def experiment(
        self, n_groups: int, people: int, n_trials: int, measure: str, rng: np.random.Generator
    ) -> FloatArray:
        """Return each participant's difference between the models, group by group."""
        members = self._of_groups(n_groups)
        pools = (members[g % len(members)] for g in range(n_groups))
        chosen = [rng.choice(pairs, n_trials, replace=False) for pairs in pools]
        rows = np.repeat(np.stack(chosen), people, axis=0)  # participants by trials
        rating = answers(self.latent[rows], self.simulation, rng)
        n_people = n_groups * people
        order = np.argsort(rows, axis=1)
        data = TrialData(
            participants=pd.RangeIndex(n_people),
            groups=pd.RangeIndex(n_groups),
            group_of=np.repeat(np.arange(n_groups), people),
            participant=np.repeat(np.arange(n_people), n_trials),
            pair=np.take_along_axis(rows, order, axis=1).ravel(),
            rating=np.take_along_axis(rating, order, axis=1).ravel(),
            pairs=pd.DataFrame(index=range(len(self.latent))),
            models=self.models,
            log_ratio=self.ratios,
        )
        subset = Subset(data, np.arange(rows.size), np.array([0, 1]))
        values = np.nan_to_num(MEASURES[measure].values(subset))  # 0 without a preference
        return np.asarray(values[:, 0] - values[:, 1])


def exact_interval(hits: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return Clopper and Pearson's interval of a rate, from `hits` among `n`."""
    tail = (1 - level) / 2
    low = float(beta.ppf(tail, hits, n - hits + 1)) if hits else 0.0
    high = float(beta.isf(tail, hits + 1, n - hits)) if hits < n else 1.0
    return low, high
