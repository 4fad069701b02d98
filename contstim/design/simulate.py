"""Simulation of participants who choose between the two sentences of each trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError, require_integer
from contstim.evaluation.choices import align_choices, check_choices, lacks_sentence
from contstim.evaluation.items import encode_items, normalise_trials
from contstim.evaluation.measures import Measure
from contstim.evaluation.rows import format_rows
from contstim.evaluation.scores import (
    ScoreSource,
    find_unscored_catch_trials,
    load_score_source,
    log_ratios,
    score_table,
)
from contstim.models.base import SentenceModel
from contstim.models.registry import Models
from contstim.settings import TupleFromList, settings
from contstim.tables import require_columns
from contstim.trial_kinds import CATCH

_MAX_RATINGS = 10**7  # of one study


@settings
class Simulation:
    """Parameters of simulated participants, in units of the root-mean-square preference.

    The preference of a participant for sentence 2 of a pair is a weighted sum of the log-ratios
    log p(sentence 2) - log p(sentence 1) of several models (the mixture), times the slope of the
    participant, plus random effects of the pair and of its item, plus noise. The sign of the
    preference is the choice, and its absolute value determines the confidence. `draw_ratings`
    states the formula.

    Attributes
    ----------
    weights
        Tuples of a model and its weight in the mixture. The log-ratios of each model are first
        divided by their root mean square over all pairs. Empty if no model affects preferences.
    noise
        Standard deviation of the normal noise in each trial, where the root mean square of the
        mixture is 1.
    lapse
        Proportion of trials with a random rating.
    slope_sd
        Standard deviation of the logarithm of the slope over participants.
    item_sd
        Standard deviation of the random effects of pairs, which no model predicts. It has the same
        unit as `noise`.
    shared
        Proportion of the variance of the random effects that is common to all pairs of an item.
    confident, very_confident
        Thresholds of the absolute preference, above which a participant is confident, or very
        confident. They have the same unit as `noise`.

    Examples
    --------
    >>> Simulation.from_weights("contstim:gpt").weights
    (('contstim:gpt', 1.0),)
    """

    weights: TupleFromList[tuple[str, float]] = ()
    noise: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    lapse: Annotated[float, Field(ge=0, le=1)] = 0.02
    slope_sd: Annotated[float, Field(ge=0, le=2)] = 0.0
    item_sd: Annotated[float, Field(ge=0, le=100)] = 0.0
    shared: Annotated[float, Field(ge=0, le=1)] = 0.5
    confident: float = 0.7
    very_confident: float = 1.4

    def __post_init__(self) -> None:
        if not 0 <= self.confident <= self.very_confident:
            raise InputError(
                f"confident and very_confident are {self.confident} and {self.very_confident}; "
                "give ascending thresholds of at least 0"
            )

    @classmethod
    def from_weights(cls, weights: str | Mapping[str, float], **options: float) -> Simulation:
        """Create participants with the preferences of one model, or of a mixture of models.

        Parameters
        ----------
        weights
            Name of a model, or a mapping from names of models to weights.
        **options
            Further attributes of `Simulation`.
        """
        mixture = {weights: 1.0} if isinstance(weights, str) else weights
        return cls(tuple(mixture.items()), **options)


def latent_preferences(ratios: FloatArray, models: list[str], simulation: Simulation) -> FloatArray:
    """Compute how strongly a mixture of models prefers sentence 2 of each pair.

    With the log-ratio d_mx = log p_m(sentence 2) - log p_m(sentence 1) of model m and pair x, and
    the root mean square RMS over pairs, the preference is h_x / RMS(h), where h_x is the sum over
    models of weight_m d_mx / RMS(d_m). Infinite log-ratios are first replaced with the largest
    finite value.

    Parameters
    ----------
    ratios : (P, M) array
        Log-ratios log p(sentence 2) - log p(sentence 1) of the models, in nats.
    models
        Names of the M models.
    simulation
        Parameters of the simulated participants, with the weights of the mixture.

    Returns
    -------
    (P,) array
        Preferences, with a root mean square of 1. All are 0 if participants follow no model.

    Raises
    ------
    InputError
        If a model of the mixture has no scores, a model prefers no sentence, or the preferences of
        the models cancel out.
    """
    mixture = np.zeros(len(ratios))
    if not simulation.weights:
        return mixture
    for model, weight in simulation.weights:
        if model not in models:
            raise InputError(f"the mixture names {model!r}, which has no scores")
        # Divide the log-ratios of each model by their root mean square, so that weights are
        # comparable.
        values = ratios[:, models.index(model)]
        finite = values[np.isfinite(values)]
        root_mean_square = np.sqrt((finite**2).mean()) if len(finite) else 0.0
        if root_mean_square == 0:
            raise InputError(f"model {model!r} prefers no sentence, so nobody can follow it")
        # An infinite log-ratio counts as much as the largest finite one.
        largest = float(np.abs(finite).max())
        mixture += weight * np.clip(values, -largest, largest) / root_mean_square
    root_mean_square = float(np.sqrt((mixture**2).mean()))
    if root_mean_square == 0:
        raise InputError("the mixture's models cancel out on every pair")
    return np.asarray(mixture / root_mean_square)


def simulate_choices(
    design: pd.DataFrame,
    scores: ScoreSource | Models | SentenceModel | str | None,
    simulation: Simulation,
    participants_per_group: int = 10,
    seed: int = 0,
) -> pd.DataFrame:
    """Simulate the choices of participants in the trials of a design.

    Parameters
    ----------
    design : DataFrame
        One row per trial, with the columns `sentence_1` and `sentence_2` and optionally `trial`,
        `condition`, `model_1`, `model_2` and other columns, which are kept. If there is a column
        `participant`, each participant answers the trials with this value. Otherwise all
        participants of a `group` answer the trials of the group.
    scores
        Scores of the sentences under the models that participants follow, in any form that
        `evaluate` accepts. None if participants follow no model. Catch trials without scores are
        answered correctly.
    simulation
        Parameters of the simulated participants.
    participants_per_group : int, default 10
        Number of participants per group, if the design has no column `participant`.
    seed : int, default 0
        Random seed.

    Returns
    -------
    DataFrame
        Choices in the form that `evaluate` reads. If the design has no column `expected`, this
        column is 1 (sentence 1 is correct) in catch trials.

    Raises
    ------
    InputError
        If the design or the scores are invalid.

    Examples
    --------
    >>> import contstim
    >>> from contstim import Simulation, datasets
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt"]]
    >>> pairs = contstim.select_natural_pairs(scores, per_pair=6)
    >>> trials = contstim.design_trials(pairs, layout=contstim.Layout(groups=1, participants=3))
    >>> choices = simulate_choices(trials, scores, Simulation.from_weights("contstim:gpt"), seed=1)
    >>> choices[["participant", "trial", "rating"]].head(3)
      participant  trial  rating
    0           1      1     2.5
    1           1      2     2.5
    2           1      3    -2.5
    """
    if participants_per_group < 1:
        raise InputError(f"a group needs at least one participant, not {participants_per_group}")
    require_pairs(design)
    trials = normalise_trials(design.reset_index(drop=True))
    if "participant" not in trials:
        trials["group"] = trials["group"].astype("str") if "group" in trials else "1"
        numbers = range(1, participants_per_group + 1)
        tables = [trials.assign(participant=trials["group"] + f"-{k}") for k in numbers]
        trials = pd.concat(tables, ignore_index=True)
    is_catch = trials["kind"] == CATCH
    if "expected" not in trials and is_catch.any():
        # Sentence 1 of a catch trial is the natural one, as in exports of an experiment.
        trials["expected"] = np.where(is_catch, 1.0, np.nan)

    if scores is None:
        latent = latent_preferences(np.zeros((len(trials), 0)), [], simulation)
    else:
        scores = load_score_source(scores)
        pairs = trials[["sentence_1", "sentence_2"]]
        is_unscored = find_unscored_catch_trials(trials, scores)
        distinct = pairs[~is_unscored].drop_duplicates().reset_index(drop=True)
        wide = score_table(scores, [*distinct["sentence_1"], *distinct["sentence_2"]])
        # Trials without scores have the index -1; their preferences are replaced below.
        index = pd.MultiIndex.from_frame(distinct).get_indexer(pd.MultiIndex.from_frame(pairs))
        models = [str(column) for column in wide.columns]
        latent = latent_preferences(log_ratios(wide, distinct)[index], models, simulation)
        if is_unscored.any():
            expected = trials.get("expected", pd.Series(np.nan, index=trials.index)).to_numpy()
            correct = np.select([expected == 1, expected == 2], [-np.inf, np.inf], 0.0)
            latent = np.where(is_unscored, correct, latent)

    # Trials with the same two sentences, in either order, have the same pair code. If the order is
    # opposite to the first trial of the pair, the random effect of the pair changes its sign.
    sentences = zip(trials["sentence_1"], trials["sentence_2"], strict=True)
    pair = pd.factorize(pd.Series([tuple(sorted(texts)) for texts in sentences]))[0]
    first = trials[~pd.Series(pair).duplicated()]
    is_swapped = trials["sentence_1"].to_numpy() != first["sentence_1"].to_numpy()[pair]
    rating = draw_ratings(
        latent,
        trials["participant"].factorize()[0],
        pair,
        encode_items(first)[pair],
        simulation,
        np.random.default_rng(seed),
        order_sign=np.where(is_swapped, -1.0, 1.0),
    )
    return align_choices(check_choices(trials.assign(rating=rating)))


def require_pairs(design: pd.DataFrame, table_name: str = "the design") -> None:
    """Check that a design has at least one trial and that no sentence is missing.

    Parameters
    ----------
    design
        Table with one row per trial or pair.
    table_name
        Description of the table in error messages.

    Raises
    ------
    InputError
        If a column or a sentence is missing, or there are no rows; the message names the rows.
    """
    require_columns(design, ("sentence_1", "sentence_2"), table_name)
    if design.empty:
        raise InputError(f"{table_name} has no rows; give trials or pairs of sentences")
    missing = lacks_sentence(design.reset_index(drop=True))
    if missing.any():
        raise InputError(f"{table_name} lacks a sentence ({format_rows(missing)}); fill it in")


def draw_ratings(
    latent: FloatArray,
    participant_index: IntArray,
    pair: IntArray,
    item: IntArray,
    simulation: Simulation,
    rng: np.random.Generator,
    order_sign: FloatArray | float = 1.0,
) -> FloatArray:
    """Draw the ratings that simulated participants give to sentence pairs.

    Participants follow a mixture of models, which prefers sentence 2 of pair x by latent_x (see
    `latent_preferences`). The preference of participant p for sentence 2 of this pair, which
    belongs to item j, is

        exp(slope_sd z_p) latent_x + item_sd (sqrt(1 - shared) z_x + sqrt(shared) z_j) + noise z,

    where z_p, z_x, z_j and z are independent standard normal variables: one for each participant,
    pair, item and trial. The constants are fields of `simulation`: slope_sd is the variation
    between participants, item_sd the standard deviation of effects that no model predicts, shared
    the proportion of their variance that all pairs of an item have in common, and noise the
    standard deviation of the noise in each trial.

    The sign of the preference is the choice, and its absolute value determines the confidence of
    the rating.

    Parameters
    ----------
    latent : array of any shape
        Preference latent_x of the mixture of models in each trial.
    participant_index, pair, item : arrays
        Index of the participant, of the pair and of the item of each trial, in shapes that can be
        broadcast to the shape of `latent`.
    simulation
        Parameters of the simulated participants.
    rng
        Random number generator.
    order_sign
        -1 for trials in which the two sentences of the pair are swapped, 1 for other trials.

    Returns
    -------
    array of the same shape
        Ratings in {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5}, negative for sentence 1.
    """
    preference = order_sign * latent
    # Random effects belong to the pair in its first order. The sign (±1) reverses the preference
    # before and after they are added. The slope of a participant is exp(slope_sd z_p).
    if simulation.slope_sd > 0:
        slopes = np.exp(simulation.slope_sd * rng.normal(size=int(participant_index.max()) + 1))
        preference = preference * slopes[participant_index]
    # item_sd (sqrt(1 - shared) z_x + sqrt(shared) z_j): one effect for each pair and each item.
    if simulation.item_sd > 0:
        pair_effects = np.sqrt(1 - simulation.shared) * rng.normal(size=int(pair.max()) + 1)[pair]
        item_effects = np.sqrt(simulation.shared) * rng.normal(size=int(item.max()) + 1)[item]
        preference = preference + simulation.item_sd * (pair_effects + item_effects)
    preference = order_sign * preference + simulation.noise * rng.normal(size=latent.shape)
    # The choice is random if the preference is exactly zero.
    random_signs = rng.choice([-1.0, 1.0], size=preference.shape)
    signs = np.where(preference == 0, random_signs, np.sign(preference))
    # The absolute rating is 0.5, 1.5 or 2.5, depending on the number of thresholds exceeded.
    thresholds = [simulation.confident, simulation.very_confident]
    rating = signs * (np.digitize(np.abs(preference), thresholds) + 0.5)
    # In lapses of attention, the rating is drawn from the whole scale.
    is_lapse = rng.random(size=preference.shape) < simulation.lapse
    random_ratings = rng.choice(np.arange(-2.5, 3.0), size=preference.shape)
    return np.where(is_lapse, random_ratings, rating)


@dataclass(frozen=True, eq=False)
class SimulatedData:
    """Results of n simulated studies of the same size, from which their power is computed.

    The value of a model in an analysis is a mean over ratings. Each rating contributes one number
    to this mean, which is called its *influence*. For accuracy, the influence is 1 if the model
    predicts the rating, otherwise 0. For other measures, it is the jackknife pseudo-value of the
    rating, that is, n times the value minus (n - 1) times the value without this rating.

    Attributes
    ----------
    participant_index : (C,) array
        Index of the participant who gave each of the C ratings of a study, the same in all studies.
    item : (n, C) array
        Index of the item of each rating in each study.
    influences
        One tuple for each analysis and measure: name of the analysis, measure, and influences of
        the ratings for each of M models, shape (M, n, C). NaN where an influence is undefined.
    """

    participant_index: IntArray
    item: IntArray
    influences: list[tuple[str, Measure, FloatArray]]


def require_size(n_groups: int, n_participants: int, n_trials: int) -> None:
    """Check that the size of a study is valid and small enough to simulate.

    Parameters
    ----------
    n_groups
        Number of groups of participants.
    n_participants
        Number of participants per group.
    n_trials
        Number of trials per participant.

    Raises
    ------
    InputError
        If a number is not a positive integer, or if a study has too many ratings.
    """
    require_integer("n_participants", n_participants, 1)
    require_integer("n_trials", n_trials, 1)
    # The ratings of a study are simulated at once, so their number is limited by memory.
    if n_groups * n_participants * n_trials > _MAX_RATINGS:
        raise InputError(
            f"{n_groups * n_participants} participants with {n_trials} trials each are more than "
            f"{_MAX_RATINGS} answers per study; ask for fewer"
        )
