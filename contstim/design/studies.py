"""Simulation of studies in which participants rate sentence pairs and models are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.design import simulate
from contstim.design.pilot import estimate_pilot, mean_choice
from contstim.display import displayable
from contstim.errors import InputError, format_count, require_integer, require_known
from contstim.evaluation.inference.quasi_f import MIN_PARTICIPANTS, MIN_UNITS
from contstim.evaluation.items import encode_items, normalise_trials
from contstim.evaluation.measures import MEASURES, Measure
from contstim.evaluation.options import EvaluationOptions
from contstim.evaluation.scores import (
    ScoreSource,
    find_unscored_catch_trials,
    load_score_source,
    log_ratios,
    score_table,
)
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import TrialData, default_analyses, select_trials
from contstim.models.registry import Models
from contstim.trial_kinds import EXPERIMENTAL

#: Participants as in experiment 2 of Golan et al. (2023), in units of the noise: `ResponseModel` in
#: logits, divided by 1.81, the standard deviation of the standard logistic distribution.
GOLAN2023_PARTICIPANTS = simulate.Simulation(slope_sd=0.47, item_sd=0.75, lapse=0.011)

_MEASURES = EvaluationOptions().measures
_DEFAULT_TRIALS = 40
_N_ITEMS = 5000  # from which studies with a specified difference draw
_MAX_LATENT = 1e3


@displayable
@dataclass(frozen=True, eq=False)
class StudySimulator:
    """Simulator of studies in which participants rate sentence pairs and models are compared.

    `draw` simulates studies of a given size; `power_curve` and `required_sample_size` use it to
    compute statistical power. There are three ways to create a simulator: from a table of trials
    and the models that participants follow (`from_trials`), from an assumed difference in accuracy
    between two models (`from_difference`), or from the data of a pilot study (`from_pilot`).

    Attributes
    ----------
    models
        Names of the M models that are compared.
    groups
        Indices of the sentence pairs that each group of participants can judge.
    item : (P,) array
        Index of the item to which each of the P sentence pairs belongs. Pairs belong to the same
        item if they derive from the same natural sentence or share a sentence.
    latent : (P,) array
        Preference of participants for sentence 2 of each pair, in the unit of `simulation.noise`,
        without random effects and noise (`draw_ratings`).
    ratios : (P, M) array
        Preference of each model for sentence 2: log p(sentence 2) - log p(sentence 1), in nats.
    simulation
        Parameters of the simulated participants.
    measures
        Names of the measures by which models are compared (`evaluate`).
    analyses
        Name of each analysis, with a mask (P, M) of the pairs on which it evaluates each model;
        None for all pairs.
    followed_model
        Index of the model whose preferences the participants' choices follow; None if the choices
        follow no model.
    resamples_items
        Whether each study draws items with replacement, as a sample from a larger population of
        items. Otherwise the pairs of a group are used at most once per participant. If a study has
        fewer trials than the group has pairs, items are drawn without replacement.

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
    simulation: simulate.Simulation
    measures: tuple[str, ...] = _MEASURES
    analyses: Sequence[tuple[str, BoolArray | None]] = (("all", None),)
    followed_model: int | None = None
    resamples_items: bool = False

    def __post_init__(self) -> None:
        n_models = len(set(self.models))
        if n_models < 2:
            raise InputError(f"{n_models} model cannot be compared; give two or more")
        for name in self.measures:
            require_known("measure", name, MEASURES)

    @classmethod
    def from_trials(
        cls,
        design: pd.DataFrame,
        scores: ScoreSource | Models,
        models: Sequence[str],
        simulation: simulate.Simulation,
        measures: Sequence[str] = _MEASURES,
    ) -> StudySimulator:
        """Create a simulator of an experiment with given trials.

        The choices of simulated participants depend on the scores of the sentences under one or
        several models, with the weights in `simulation`. Participants are said to *follow* these
        models.

        Parameters
        ----------
        design
            One row per pair or trial, with the columns `sentence_1` and `sentence_2` and optionally
            `group`, `item`, `condition`, `model_1` and `model_2`. Each group judges its own pairs.
            Catch trials and fillers are excluded.
        scores
            Scores of the sentences under the compared models and under the models with a weight in
            `simulation`, in any form that `evaluate` accepts.
        models
            Names of the compared models, two or more.
        simulation
            Parameters of the participants. Without weights, choices do not depend on any model, and
            the power is the rate of false positives.
        measures
            Names of the measures, as in `evaluate`.

        Raises
        ------
        InputError
            If the design or the scores are invalid.

        Examples
        --------
        >>> from contstim import datasets
        >>> from contstim.design import Simulation, power_curve
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
        simulate.require_pairs(design)
        scores = load_score_source(scores)
        design = normalise_trials(design)
        design = design[~find_unscored_catch_trials(design, scores)].reset_index(drop=True)
        for name, value in (("condition", "all"), ("model_1", None), ("model_2", None)):
            if name not in design:
                design = design.assign(**{name: value})
        trials = design[design["kind"] == EXPERIMENTAL]
        if trials.empty:
            raise InputError("the design has only catch trials or fillers; give other trials")
        keys = ["sentence_1", "sentence_2"]
        pairs = trials.drop_duplicates(keys).reset_index(drop=True)
        wide = score_table(scores, [*pairs["sentence_1"], *pairs["sentence_2"]])
        names = [str(column) for column in wide.columns]
        for name in models:
            require_known("model", name, names)
        ratios = log_ratios(wide, pairs)

        index = pd.MultiIndex.from_frame(pairs[keys])
        group_labels = trials["group"] if "group" in trials else pd.Series(0, trials.index)
        groups = [
            np.unique(index.get_indexer(pd.MultiIndex.from_frame(rows)))
            for _, rows in trials[keys].groupby(group_labels.to_numpy(), sort=False)
        ]
        analyses: list[tuple[str, BoolArray | None]] = []
        for analysis in default_analyses(pairs):
            is_included = select_trials(analysis, pairs, models)
            analyses.append((analysis.name, None if is_included.all() else is_included))
        weights = {name: weight for name, weight in simulation.weights if name in models}
        strongest = max(weights, key=weights.__getitem__) if weights else None
        return cls(
            models=tuple(models),
            groups=groups,
            item=encode_items(pairs),
            latent=simulate.latent_preferences(ratios, names, simulation),
            ratios=ratios[:, [names.index(name) for name in models]],
            simulation=simulation,
            measures=tuple(measures),
            analyses=analyses,
            followed_model=None if strongest is None else [*models].index(strongest),
        )

    @classmethod
    def from_difference(
        cls,
        difference: float,
        simulation: simulate.Simulation = GOLAN2023_PARTICIPANTS,
        pairs_per_item: int = 1,
        n_groups: int = 1,
        measures: Sequence[str] = _MEASURES,
    ) -> StudySimulator:
        """Create a simulator from an assumed difference in accuracy between two models.

        The two models prefer different sentences of every pair. Their accuracies are 0.5 + d / 2
        and 0.5 - d / 2 with the difference d. The absolute values of their log-ratios have a
        half-normal distribution.

        Parameters
        ----------
        difference
            Difference d >= 0 between the accuracies of the first and the second model.
        simulation
            Parameters of the simulated participants.
        pairs_per_item : int, default 1
            Number of pairs of each item.
        n_groups : int, default 1
            Number of groups of participants, each with its own pairs.
        measures
            Names of the measures, as in `evaluate`.

        Raises
        ------
        InputError
            If the lapse rate does not allow the difference.

        Examples
        --------
        >>> from contstim.design import Simulation, power_curve
        >>> simulator = StudySimulator.from_difference(0.3)
        >>> curve = power_curve(simulator, (20,), n_simulations=100)
        >>> curve[["measure", "power", "stderr"]].round(2)
                      measure  power  stderr
        0            accuracy   0.94    0.02
        1  signed_rank_cosine   0.94    0.02
        """
        require_integer("pairs_per_item", pairs_per_item, 1)
        require_integer("n_groups", n_groups, 1)
        # Choices depend on the preference relative to the total noise of trials and pairs.
        noise = max(float(np.hypot(simulation.noise, simulation.item_sd)), 1e-9)

        def compute_excess(latent: float) -> float:
            """Return the difference in accuracy for a preference, minus `difference`."""
            probability = mean_choice(np.array([latent / noise]), simulation.slope_sd)
            return float((1 - simulation.lapse) * (2 * probability[0] - 1)) - difference

        if not (difference >= 0 and compute_excess(_MAX_LATENT) > 0):
            raise InputError(
                f"difference is {difference}; give one from 0 to below "
                f"{compute_excess(_MAX_LATENT) + difference:.3g}, which participants with this "
                "lapse rate can show"
            )
        latent = brentq(compute_excess, 0.0, _MAX_LATENT) if difference else 0.0
        n_pairs = _N_ITEMS * pairs_per_item
        strength = np.abs(np.random.default_rng(0).normal(size=(n_pairs, 2)))
        return cls(
            models=("first", "second"),
            groups=[np.arange(n_pairs)] * n_groups,
            item=np.arange(n_pairs) // pairs_per_item,
            latent=np.full(n_pairs, latent),
            ratios=strength * [1.0, -1.0],
            simulation=simulation,
            measures=tuple(measures),
            followed_model=0 if difference else None,
            resamples_items=True,
        )

    @classmethod
    def from_pilot(cls, data: TrialData) -> StudySimulator:
        """Create a simulator from the pairs and choices of a pilot study.

        The parameters of participants are estimated from the choices (`estimate_pilot`).

        Parameters
        ----------
        data
            Choices of the pilot study (`Evaluation.data`). Catch trials and fillers are excluded.

        Raises
        ------
        InputError
            If there are fewer than two models, four participants or three items.

        Examples
        --------
        >>> from contstim import datasets, evaluate
        >>> from contstim.design import Simulation, power_curve
        >>> choices = datasets.simulated_choices().query("condition == 'natural_controversial'")
        >>> scores = datasets.natural_scores()[["contstim:gpt", "contstim:trigram"]]
        >>> simulator = StudySimulator.from_pilot(evaluate(choices, scores).data)
        >>> power_curve(simulator, (5,), n_simulations=100)[["measure", "power"]]
                      measure  power
        0            accuracy    1.0
        1  signed_rank_cosine    1.0
        """
        data = data.select_pairs((data.pairs["kind"] == EXPERIMENTAL).to_numpy())
        n_participants, n_items = len(np.unique(data.participant)), len(np.unique(data.item))
        if n_participants < MIN_PARTICIPANTS or n_items < MIN_UNITS:
            raise InputError(
                f"the pilot has {format_count(n_participants, 'participant')} and "
                f"{format_count(n_items, 'item')}; inference about new participants and items "
                f"requires at least {MIN_PARTICIPANTS} and {MIN_UNITS}"
            )
        # The most accurate model counts as the model that participants follow.
        latent, simulation, best_model = estimate_pilot(data)
        return cls(
            models=data.models,
            groups=[np.arange(data.n_pairs)],
            item=data.item,
            latent=latent,
            ratios=data.log_ratio,
            simulation=simulation,
            followed_model=best_model,
            resamples_items=True,
        )

    @property
    def default_trials(self) -> int:
        """Default number of trials per participant.

        It is 40 if items are drawn with replacement, and the number of pairs of the smallest group
        otherwise.
        """
        return _DEFAULT_TRIALS if self.resamples_items else min(map(len, self.groups))

    def draw(
        self, n_participants: int, n_trials: int, n_studies: int, rng: np.random.Generator
    ) -> simulate.SimulatedData:
        """Simulate studies of the same size.

        Parameters
        ----------
        n_participants
            Number of participants per group.
        n_trials
            Number of trials per participant.
        n_studies
            Number of studies.
        rng
            Random number generator.

        Returns
        -------
        SimulatedData
            Influence of each simulated rating on the values of the models.

        Raises
        ------
        InputError
            If a group has fewer pairs than `n_trials`, or a study is too large.
        """
        n_groups, n_models = len(self.groups), len(self.models)
        simulate.require_size(n_groups, n_participants, n_trials)
        n_persons, n_pairs = n_groups * n_participants, n_groups * n_trials  # of one study
        # Draw the pairs of each group. Each of the three arrays has the shape (n_studies, n_pairs).
        draws = [
            self._draw_pairs(group, pairs, n_trials, n_studies, rng)
            for group, pairs in enumerate(self.groups)
        ]
        pair, pair_id, item_id = map(np.hstack, zip(*draws, strict=True))
        # Participant of each rating, and column of its pair in these arrays.
        participant_index = np.repeat(np.arange(n_persons), n_trials)
        by_group = np.arange(n_pairs).reshape(n_groups, n_trials)
        position = np.repeat(by_group, n_participants, axis=0).ravel()
        # Random effects differ between studies: give participants, pairs and items of different
        # studies different numbers.
        study = np.arange(n_studies)[:, None]
        rating = simulate.draw_ratings(
            self.latent[pair][:, position],
            participant_index + study * n_persons,
            (pair_id + study * (int(pair_id.max()) + 1))[:, position],
            (item_id + study * (int(item_id.max()) + 1))[:, position],
            self.simulation,
            rng,
        )

        # Compute measures for all studies at once, as if all participants took part in one study.
        data = TrialData(
            participants=pd.RangeIndex(n_studies * n_persons),
            groups=pd.RangeIndex(1),
            group_codes=np.zeros(n_studies * n_persons, dtype=np.int64),
            participant=(participant_index + study * n_persons).ravel(),
            pair=(position + study * n_pairs).ravel(),
            rating=rating.ravel(),
            pairs=pd.DataFrame(index=range(n_studies * n_pairs)),
            models=self.models,
            log_ratio=self.ratios[pair].reshape(n_studies * n_pairs, n_models),
        )
        influences = self._compute_influences(data, pair[:, position])

        # Number the items of each study in order of appearance. This is trivial if all pairs belong
        # to different items.
        ordered = np.sort(item_id, axis=1)
        if (ordered[:, 1:] != ordered[:, :-1]).all():
            item = np.broadcast_to(np.arange(n_pairs), item_id.shape)
        else:
            item = np.array([pd.factorize(row)[0] for row in item_id], dtype=np.int64)
        return simulate.SimulatedData(participant_index, item[:, position], influences)

    def _compute_influences(
        self, data: TrialData, rated_pairs: IntArray
    ) -> list[tuple[str, Measure, FloatArray]]:
        """Compute the influence of each simulated rating on the value of each model.

        Parameters
        ----------
        data
            Ratings of all simulated studies.
        rated_pairs : (n_studies, C) array
            Index of the sentence pair that was rated, for each of the C ratings of a study.

        Returns
        -------
        list of tuple
            Influences for each analysis and measure, see `SimulatedData.influences`.
        """
        n_models, n_studies = len(self.models), len(rated_pairs)
        model_indices = np.arange(n_models)
        all_rows = Subset(data, np.arange(len(data.pair)), model_indices)
        influences = []
        for name, is_included in self.analyses:
            subsets = [all_rows] * n_models
            if is_included is not None:
                # Whether each rating is used for each model, shape (M, n_studies * C).
                masks = is_included[rated_pairs].reshape(-1, n_models).T
                subsets = [Subset(data, np.flatnonzero(mask), model_indices) for mask in masks]
            for measure in [MEASURES[measure_name] for measure_name in self.measures]:
                # Ratings that an analysis does not use for a model stay NaN.
                influence = np.full((n_models, len(data.pair)), np.nan)
                for model, subset in enumerate(subsets):
                    if subset.n_rows:
                        ratio = data.log_ratio[subset.pair, model]
                        influence[model, subset.rows] = measure.trial_influence(subset, ratio)
                influences.append((name, measure, influence.reshape(n_models, n_studies, -1)))
        return influences

    def _draw_pairs(
        self, group: int, pairs: IntArray, n_trials: int, n_studies: int, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Draw the sentence pairs that a group of participants judges in each simulated study.

        Parameters
        ----------
        group
            Index of the group.
        pairs
            Indices of the pairs that the group can judge.
        n_trials, n_studies
            Number of trials per participant, and number of studies.
        rng
            Random number generator.

        Returns
        -------
        pair : (n_studies, n_trials) array
            Indices of the pairs.
        pair_id, item_id : (n_studies, n_trials) array
            Numbers that identify the pairs and their items. A random effect is drawn for each of
            them. A pair that is drawn twice has two numbers, because it represents two pairs of the
            population.
        """
        shape = (n_studies, n_trials)
        if self.resamples_items:
            # Draw items with replacement, and use all pairs of each drawn item until there are
            # enough pairs. The pairs of item i begin at index first_pair[i] of `sorted_pairs`.
            sorted_pairs = pairs[np.argsort(self.item[pairs], kind="stable")]
            _, n_pairs = np.unique(self.item[pairs], return_counts=True)
            first_pair = np.cumsum(n_pairs) - n_pairs
            trials = np.arange(n_trials)
            pair, draw_number = np.empty((2, *shape), dtype=np.int64)
            for study, items in enumerate(rng.integers(len(n_pairs), size=shape)):
                # Determine to which of the drawn items each trial belongs, and which of the pairs
                # of this item it uses.
                draw_number[study] = np.repeat(trials, n_pairs[items])[:n_trials]
                first_trial = np.cumsum(n_pairs[items]) - n_pairs[items]
                offsets = trials - first_trial[draw_number[study]]
                pair[study] = sorted_pairs[first_pair[items[draw_number[study]]] + offsets]
            pair_id = np.tile(group * n_trials + trials, (n_studies, 1))
            return pair, pair_id, group * n_trials + draw_number
        if n_trials > len(pairs):
            raise InputError(
                f"{format_count(n_trials, 'trial')} per participant are more than the "
                f"{format_count(len(pairs), 'pair')} of a group; ask for fewer"
            )
        pair = np.tile(pairs, (n_studies, 1))
        if n_trials < len(pairs):
            # Draw a random number for each item, sort the pairs by these numbers, and use the first
            # pairs.
            order = rng.random((n_studies, int(self.item.max()) + 1))[:, self.item[pairs]]
            pair = pairs[np.argsort(order, axis=1, kind="stable")[:, :n_trials]]
        return pair, pair, self.item[pair]
