"""Simulated studies: ratings, and their influence on the values of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import ndtr

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.design.simulate import (
    Simulation,
    draw_ratings,
    latent_preferences,
    require_pairs,
)
from contstim.display import displayed
from contstim.errors import InputError, require_known, require_whole
from contstim.evaluation.inference.quasi_f import MIN_PARTICIPANTS, MIN_UNITS
from contstim.evaluation.items import encode_items, normalise_trials
from contstim.evaluation.measures import MEASURES, Measure
from contstim.evaluation.options import EvaluationOptions
from contstim.evaluation.scores import (
    ScoreSource,
    find_unscored_catch,
    load_score_source,
    log_ratios,
    score_table,
)
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import TrialData, default_analyses, select_trials
from contstim.models.registry import Models
from contstim.trial_kinds import EXPERIMENTAL

#: Participants like those of the second experiment of Golan et al. (2023), in units of the noise
#: of an answer: `ResponseModel` in logits, divided by 1.81, the standard deviation of a standard
#: logistic variable.
GOLAN2023_PARTICIPANTS = Simulation(slope_sd=0.47, item_sd=0.75, lapse=0.011)

_MEASURES = EvaluationOptions().measures
_MAX_ANSWERS = 10**7  # of one study
_POOL = 5000  # items of which studies with a stated difference are drawn
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True, eq=False)
class SimulatedData:
    """The data that are tested, of n simulated studies of one size.

    Attributes
    ----------
    person
        The participant of each of C ratings, shape (C,).
    item
        The item of each rating in each study, shape (n, C).
    cells
        By analysis and measure, the influence of each rating on the value of each model
        (`Measure.trial_influence`), shape (M, n, C); NaN where there is none.
    """

    person: IntArray
    item: IntArray
    cells: list[tuple[str, Measure, FloatArray]]


@displayed
@dataclass(frozen=True, eq=False)
class StudySimulator:
    """Simulates studies: draws their sentence pairs, and ratings of participants.

    There are three ways to set the parameters: from a table of trials and models that participants
    follow (`from_trials`), from a stated difference in accuracy (`from_difference`), and from the
    choices of a pilot study (`from_pilot`).

    Attributes
    ----------
    models
        The M models that are compared.
    groups
        Indices of the pairs that each group of participants can judge.
    item
        Code of the item of each of P pairs, shape (P,).
    latent
        Participants' preference for sentence 2, shape (P,); see `draw_ratings`.
    ratios
        Log-ratios of the models, shape (P, M).
    simulation
        How participants answer.
    measures
        Names of measures.
    analyses
        As `evaluate` chooses them: name, and which pairs count for which model, (P, M), or None
        for all.
    followed
        Index of the model that participants follow; None if they follow none.
    resamples
        Whether items are drawn with replacement, each time as a new item. Otherwise a study with
        fewer pairs than the group has draws items without replacement, the last one in part.

    Examples
    --------
    >>> StudySimulator.from_difference(0.2).models
    ('first', 'second')
    """

    models: tuple[str, ...]
    groups: list[IntArray]
    item: IntArray
    latent: FloatArray
    ratios: FloatArray
    simulation: Simulation
    measures: tuple[str, ...] = _MEASURES
    analyses: Sequence[tuple[str, BoolArray | None]] = (("all", None),)
    followed: int | None = None
    resamples: bool = False

    def __post_init__(self) -> None:
        if len(set(self.models)) < 2:
            raise InputError(f"{len(set(self.models))} model cannot be compared; give two or more")
        for name in self.measures:
            require_known("measure", name, MEASURES)

    @classmethod
    def from_trials(
        cls,
        design: pd.DataFrame,
        scores: ScoreSource | Models,
        models: Sequence[str],
        simulation: Simulation,
        measures: Sequence[str] = _MEASURES,
    ) -> StudySimulator:
        """Take the pairs from a table of trials, and participants' preferences from models.

        Parameters
        ----------
        design
            One row per pair or trial: `sentence_1`, `sentence_2`, and optionally `group`, `item`,
            `condition`, `model_1`, `model_2`. Catch trials and fillers are left out. Each group
            judges its own pairs.
        scores
            As in `evaluate`, of the models compared and of those that participants follow.
        models
            The models compared, two or more.
        simulation
            How participants answer. Without weights they follow no model, and power is the rate of
            false positives.
        measures
            As in `evaluate`.

        Raises
        ------
        InputError
            If the design or the scores cannot be used.

        Examples
        --------
        >>> from contstim import datasets
        >>> from contstim.design import power_curve
        >>> choices = datasets.simulated_choices().query("condition == 'natural_controversial'")
        >>> trials = choices[["sentence_1", "sentence_2"]].drop_duplicates()
        >>> scores = datasets.natural_scores()[["contstim:gpt", "contstim:trigram"]]
        >>> simulation = Simulation.from_weights("contstim:gpt")
        >>> simulator = StudySimulator.from_trials(
        ...     trials, scores, tuple(scores), simulation, ("accuracy",)
        ... )
        >>> curve = power_curve(simulator, (5, 10), n_trials=(10,), n_simulations=100)
        >>> curve[["n_participants", "power", "recovery"]]
           n_participants  power  recovery
        0               5   0.74       1.0
        1              10   0.98       1.0
        """
        require_pairs(design)
        scores = load_score_source(scores)
        design = normalise_trials(design)
        design = design[~find_unscored_catch(design, scores)].reset_index(drop=True)
        for name, value in (("condition", "all"), ("model_1", None), ("model_2", None)):
            if name not in design:
                design = design.assign(**{name: value})
        counted = design[design["kind"] == EXPERIMENTAL]
        if counted.empty:
            raise InputError("the design has only catch trials or fillers; give other trials")
        keys = ["sentence_1", "sentence_2"]
        pairs = counted.drop_duplicates(keys).reset_index(drop=True)
        wide = score_table(scores, [*pairs["sentence_1"], *pairs["sentence_2"]])
        names = [str(column) for column in wide.columns]
        for name in models:
            require_known("model", name, names)
        ratios = log_ratios(wide, pairs)
        index = pd.MultiIndex.from_frame(pairs[keys])
        groups = counted["group"] if "group" in counted else pd.Series(0, counted.index)
        analyses: list[tuple[str, BoolArray | None]] = []
        for analysis in default_analyses(pairs):
            counts = select_trials(analysis, pairs, models)
            analyses.append((analysis.name, None if counts.all() else counts))
        weights = {name: weight for name, weight in simulation.weights if name in models}
        return cls(
            models=tuple(models),
            groups=[
                np.unique(index.get_indexer(pd.MultiIndex.from_frame(rows)))
                for _, rows in counted[keys].groupby(groups.to_numpy(), sort=False)
            ],
            item=encode_items(pairs),
            latent=latent_preferences(ratios, names, simulation),
            ratios=ratios[:, [names.index(name) for name in models]],
            simulation=simulation,
            measures=tuple(measures),
            analyses=analyses,
            followed=[*models].index(max(weights, key=weights.__getitem__)) if weights else None,
        )

    @classmethod
    def from_difference(
        cls,
        difference: float,
        simulation: Simulation = GOLAN2023_PARTICIPANTS,
        pairs_per_item: int = 1,
        n_groups: int = 1,
        measures: Sequence[str] = _MEASURES,
    ) -> StudySimulator:
        """Take pairs on which two models disagree, and a stated difference in accuracy.

        As each pair is one on which the models prefer different sentences, accuracies of .5 + d / 2
        and .5 - d / 2 differ by d. Preferences of the models are normally distributed.

        Parameters
        ----------
        difference
            d, the accuracy of the first model minus that of the second, from 0.
        simulation
            How participants answer. Preferences are in units of the noise.
        pairs_per_item
            Number of pairs of each item.
        n_groups
            Number of groups of participants, each with its own pairs.
        measures
            As in `evaluate`.

        Raises
        ------
        InputError
            If the lapse rate does not allow the difference.

        Examples
        --------
        >>> from contstim.design import power_curve
        >>> simulator = StudySimulator.from_difference(0.3)
        >>> curve = power_curve(simulator, (20,), n_simulations=100)
        >>> curve[["measure", "power", "stderr"]].round(2)
                      measure  power  stderr
        0            accuracy   0.94    0.02
        1  signed_rank_cosine   0.94    0.02
        """
        require_whole("pairs_per_item", pairs_per_item, 1)
        require_whole("n_groups", n_groups, 1)
        spread = max(float(np.hypot(simulation.noise, simulation.item_sd)), 1e-9)

        def difference_at(latent: float) -> float:
            chosen = _mean_choice(np.array([latent / spread]), simulation.slope_sd)
            return float((1 - simulation.lapse) * (2 * chosen[0] - 1))

        largest = difference_at(1e3)
        if not 0 <= difference < largest:
            raise InputError(
                f"difference is {difference}; give one from 0 to below {largest:.3g}, which "
                "participants with this lapse rate can show"
            )
        latent = brentq(lambda x: difference_at(x) - difference, 0.0, 1e3) if difference else 0.0
        n_pairs = _POOL * pairs_per_item
        strength = np.abs(np.random.default_rng(0).normal(size=(n_pairs, 2)))
        return cls(
            models=("first", "second"),
            groups=[np.arange(n_pairs)] * n_groups,
            item=np.arange(n_pairs) // pairs_per_item,
            latent=np.full(n_pairs, latent),
            ratios=strength * [1.0, -1.0],
            simulation=simulation,
            measures=tuple(measures),
            followed=0 if difference else None,
            resamples=True,
        )

    @classmethod
    def from_pilot(
        cls, data: TrialData, n_groups: int = 1, measures: Sequence[str] = _MEASURES
    ) -> StudySimulator:
        """Take the pairs of a pilot study, and estimate from its choices how participants answer.

        Parameters
        ----------
        data
            The choices (`Evaluation.data`). Catch trials and fillers are left out.
        n_groups
            Number of groups of participants, each with its own pairs.
        measures
            As in `evaluate`.

        Raises
        ------
        InputError
            If there are fewer than two models, four participants or three items.

        Notes
        -----
        Estimation is by moments. Let t_x be the share of choices of the sentence of pair x that the
        first model prefers. Pairs with the same preferences of all models form a class with the
        mean share m. The probability of pair x is m + sqrt(b) (t_x - m), where b is the share of
        the variance of t_x - m that is not binomial sampling error; so each model keeps the
        accuracy that it has in the pilot. `Simulation.slope_sd` is chosen such that participants
        agree with the majority as differently as in the pilot, and the limits of confidence such
        that the ratings have its distribution. All this is as uncertain as the pilot is small.

        Examples
        --------
        >>> from contstim import datasets, evaluate
        >>> from contstim.design import power_curve
        >>> choices = datasets.simulated_choices().query("condition == 'natural_controversial'")
        >>> scores = datasets.natural_scores()[["contstim:gpt", "contstim:trigram"]]
        >>> simulator = StudySimulator.from_pilot(evaluate(choices, scores).data)
        >>> power_curve(simulator, (5,), n_simulations=100)[["measure", "power"]]
                      measure  power
        0            accuracy    1.0
        1  signed_rank_cosine    1.0
        """
        require_whole("n_groups", n_groups, 1)
        data = data.select_pairs((data.pairs["kind"] == EXPERIMENTAL).to_numpy())
        n_choices = np.bincount(data.pair, minlength=data.n_pairs)
        n_people, n_items = len(np.unique(data.participant)), len(np.unique(data.item))
        if n_people < MIN_PARTICIPANTS or n_items < MIN_UNITS:
            raise InputError(
                f"the pilot has {n_people} participants and {n_items} items; inference about "
                f"others takes {MIN_PARTICIPANTS} and {MIN_UNITS}"
            )
        preferred = np.sign(np.nan_to_num(data.log_ratio))
        # The first preference of each pair is made positive.
        first = np.take_along_axis(preferred, (preferred != 0).argmax(axis=1)[:, None], axis=1)
        side = np.where(first[:, 0] < 0, -1.0, 1.0)
        kind = np.unique(preferred * side[:, None], axis=0, return_inverse=True)[1].ravel()
        chosen = (1 + side[data.pair] * np.sign(data.rating)) / 2
        share = np.bincount(data.pair, chosen, data.n_pairs) / np.maximum(n_choices, 1)
        mean = (np.bincount(kind, n_choices * share) / np.bincount(kind, n_choices))[kind]
        shrinkage = 1 - _sampling_share(share, mean, n_choices, int(kind.max()) + 1)
        probability = mean + np.sqrt(shrinkage) * (share - mean)
        slope_sd, latent = _participant_spread(data, chosen, probability, n_choices)
        rng = np.random.default_rng(0)
        slope = np.exp(slope_sd * rng.normal(size=len(data.pair)))
        felt = np.abs(slope * latent[data.pair] + rng.normal(size=len(data.pair)))
        limits = [float(np.quantile(felt, (np.abs(data.rating) <= k).mean())) for k in (1, 2)]
        accuracy = (n_choices * (2 * probability - 1)) @ (preferred * side[:, None])
        return cls(
            models=data.models,
            groups=[np.arange(data.n_pairs)] * n_groups,
            item=data.item,
            latent=side * latent,
            ratios=data.log_ratio,
            simulation=Simulation(
                slope_sd=slope_sd, lapse=0.0, confident=limits[0], very_confident=limits[1]
            ),
            measures=tuple(measures),
            followed=int(np.argmax(accuracy)),
            resamples=True,
        )

    @property
    def default_trials(self) -> int:
        """Number of trials per participant: all pairs of a group, or 40 if they are resampled."""
        return 40 if self.resamples else min(map(len, self.groups))

    def draw(
        self, n_participants: int, n_trials: int, n_studies: int, rng: np.random.Generator
    ) -> SimulatedData:
        """Simulate studies with so many participants per group and trials per participant.

        Raises
        ------
        InputError
            If the groups have fewer pairs, or a study is too large.
        """
        n_groups, m = len(self.groups), len(self.models)
        require_size(n_groups, n_participants, n_trials)
        n_people, n, k = n_groups * n_participants, n_studies, n_groups * n_trials
        drawn = [
            self._draw_pairs(number, pairs, n_trials, n, rng)
            for number, pairs in enumerate(self.groups)
        ]
        pair, unit, item = (np.concatenate(codes, axis=1) for codes in zip(*drawn, strict=True))
        person = np.repeat(np.arange(n_people), n_trials)
        position = np.repeat(
            np.arange(k).reshape(n_groups, n_trials), n_participants, axis=0
        ).ravel()
        study = np.arange(n)[:, None]
        rating = draw_ratings(
            self.latent[pair][:, position],
            person + study * n_people,
            (unit + study * (int(unit.max()) + 1))[:, position],
            (item + study * (int(item.max()) + 1))[:, position],
            self.simulation,
            rng,
        )
        # All studies are measured at once, as the participants of one.
        data = TrialData(
            participants=pd.RangeIndex(n * n_people),
            groups=pd.RangeIndex(1),
            group_codes=np.zeros(n * n_people, dtype=np.int64),
            participant=(person + study * n_people).ravel(),
            pair=(position + study * k).ravel(),
            rating=rating.ravel(),
            pairs=pd.DataFrame(index=range(n * k)),
            models=self.models,
            log_ratio=self.ratios[pair].reshape(n * k, m),
        )
        every = Subset(data, np.arange(len(data.pair)), np.arange(m))
        cells = []
        for name, counts in self.analyses:
            subsets = [every] * m
            if counts is not None:
                rows = counts[pair][:, position].reshape(-1, m).T
                subsets = [Subset(data, np.flatnonzero(r), np.arange(m)) for r in rows]
            for measure in (MEASURES[measure] for measure in self.measures):
                influence = np.full((m, len(data.pair)), np.nan)
                for model, subset in enumerate(subsets):
                    if subset.n_rows:
                        ratio = data.log_ratio[subset.pair, model]
                        influence[model, subset.rows] = measure.trial_influence(subset, ratio)
                cells.append((name, measure, influence.reshape(m, n, -1)))
        return SimulatedData(person, _renumber(item)[:, position], cells)

    def _draw_pairs(
        self, group: int, pairs: IntArray, k: int, n: int, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Return pairs of a group in n studies, and codes of pairs and items, each (n, k)."""
        if self.resamples:
            ordered = pairs[np.argsort(self.item[pairs], kind="stable")]
            sizes = np.unique(self.item[pairs], return_counts=True)[1]
            starts = np.cumsum(sizes) - sizes
            pair, number = np.empty((2, n, k), dtype=np.int64)
            for row, items in enumerate(rng.integers(len(sizes), size=(n, k))):
                number[row] = np.repeat(np.arange(k), sizes[items])[:k]
                within = np.arange(k) - (np.cumsum(sizes[items]) - sizes[items])[number[row]]
                pair[row] = ordered[starts[items[number[row]]] + within]
            return pair, np.tile(group * k + np.arange(k), (n, 1)), group * k + number
        if k > len(pairs):
            raise InputError(
                f"{k} trials per participant are more than the {len(pairs)} pairs of a group; "
                "ask for fewer"
            )
        pair = np.tile(pairs, (n, 1))
        if k < len(pairs):
            order = rng.random((n, int(self.item.max()) + 1))[:, self.item[pairs]]
            pair = pairs[np.argsort(order, axis=1, kind="stable")[:, :k]]
        return pair, pair, self.item[pair]


def require_size(n_groups: int, n_participants: int, n_trials: int) -> None:
    """Refuse sizes of studies that are no numbers, or too large to simulate."""
    require_whole("n_participants", n_participants, 1)
    require_whole("n_trials", n_trials, 1)
    if n_groups * n_participants * n_trials > _MAX_ANSWERS:
        raise InputError(
            f"{n_groups * n_participants} participants with {n_trials} trials each are more than "
            f"{_MAX_ANSWERS} answers per study; ask for fewer"
        )


def _mean_choice(latent: FloatArray, slope_sd: float) -> FloatArray:
    """Return the mean over participants of Phi(slope * latent), shape of `latent`."""
    return np.asarray(ndtr(latent[..., None] * np.exp(slope_sd * _NODES)) @ _WEIGHTS)


def _sampling_share(
    share: FloatArray, mean: FloatArray, n_choices: IntArray, n_classes: int
) -> float:
    """Return which share of the variance of pairs about their means is binomial sampling error."""
    variance = float(n_choices @ (share - mean) ** 2)
    variance *= len(share) / max(len(share) - n_classes, 1)
    sampling = float(n_choices @ (share * (1 - share) / np.maximum(n_choices - 1, 1)))
    if n_choices.max() < 2 or variance == 0:
        return 1.0
    return min(sampling / variance, 1.0)


def _participant_spread(
    data: TrialData, chosen: FloatArray, probability: FloatArray, n_choices: IntArray
) -> tuple[float, FloatArray]:
    """Return the standard deviation of log slopes, and the latent preference of each pair."""
    lean = 2 * probability - 1
    person = np.unique(data.participant, return_inverse=True)[1]
    trials = np.bincount(person)
    deviation = lean[data.pair] * (chosen - probability[data.pair])
    observed = np.var(np.bincount(person, deviation) / trials)
    binomial = lean**2 * probability * (1 - probability)
    sampling = np.mean(np.bincount(person, binomial[data.pair]) / trials**2)
    grid = np.linspace(-8.0, 8.0, 1601)
    weight = n_choices / n_choices.sum()

    def latent_at(slope_sd: float) -> FloatArray:
        return np.interp(probability, _mean_choice(grid, slope_sd), grid)

    def excess(slope_sd: float) -> float:
        by_slope = ndtr(latent_at(slope_sd)[:, None] * np.exp(slope_sd * _NODES))
        agreement = (weight * lean) @ by_slope
        variance = _WEIGHTS @ (agreement - _WEIGHTS @ agreement) ** 2
        return float(variance - (observed - sampling))

    slope_sd = 0.0
    if excess(0.0) < 0:
        slope_sd = 2.0 if excess(2.0) < 0 else float(brentq(excess, 0.0, 2.0))
    return slope_sd, latent_at(slope_sd)


def _renumber(item: IntArray) -> IntArray:
    """Return the items of each study, (n, K), numbered by first appearance."""
    ordered = np.sort(item, axis=1)
    if (ordered[:, 1:] != ordered[:, :-1]).all():
        return np.broadcast_to(np.arange(item.shape[1]), item.shape)
    return np.array([pd.factorize(row)[0] for row in item], dtype=np.int64)
