"""Simulated participants: how they answer a design's trials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError
from contstim.evaluation.choices import align_choices, check_choices, lacks_sentence
from contstim.evaluation.items import encode_items, normalise_trials
from contstim.evaluation.rows import format_rows
from contstim.evaluation.scores import (
    ScoreSource,
    find_unscored_catch,
    load_score_source,
    log_ratios,
    score_table,
)
from contstim.models.base import SentenceModel
from contstim.models.registry import Models
from contstim.settings import Several, settings
from contstim.tables import require_columns
from contstim.trial_kinds import CATCH


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
    slope_sd
        Standard deviation, over people, of the logarithm of how strongly they follow the mixture.
    item_sd
        Standard deviation of the effects of pairs, in the same units as the noise: what everybody
        sees in a pair and no model does.
    shared
        How much of the variance of these effects the pairs of an item have in common.
    confident, very_confident
        Size of the noisy preference, in the same units, from which people are confident and very
        confident.

    Examples
    --------
    >>> Simulation.from_weights("contstim:gpt").weights
    (('contstim:gpt', 1.0),)
    """

    weights: Several[tuple[str, float]] = ()
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
                f"confidence limits must rise from 0, not {self.confident}, {self.very_confident}"
            )

    @classmethod
    def from_weights(cls, weights: str | Mapping[str, float], **options: float) -> Simulation:
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
    scores: ScoreSource | Models | SentenceModel | str | None,
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
        As in `evaluate`, models or their specs among them; None if nobody follows a model. Catch
        trials that have none are answered with the sentence expected.
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
    rows = normalise_trials(design.reset_index(drop=True))
    if "participant" not in rows:
        rows["group"] = rows["group"].astype("str") if "group" in rows else "1"
        numbers = [f"-{k}" for k in range(1, participants_per_group + 1)]
        people = [rows.assign(participant=rows["group"] + number) for number in numbers]
        rows = pd.concat(people, ignore_index=True)
    unscored = np.zeros(len(rows), dtype=np.bool_)
    if scores is None:
        ratios, models = np.zeros((len(rows), 0)), []
    else:
        scores = load_score_source(scores)
        pairs = rows[["sentence_1", "sentence_2"]]
        unscored = find_unscored_catch(rows, scores)
        distinct = pairs[~unscored].drop_duplicates().reset_index(drop=True)
        wide = score_table(scores, [*distinct["sentence_1"], *distinct["sentence_2"]])
        where = pd.MultiIndex.from_frame(distinct).get_indexer(pd.MultiIndex.from_frame(pairs))
        # The place of a trial without scores is -1, the last; it is answered below.
        ratios, models = log_ratios(wide, distinct)[where], [str(c) for c in wide.columns]
    if "expected" not in rows and (rows["kind"] == CATCH).any():
        # As an experiment's export has it: sentence 1 of a catch trial is the natural one.
        rows["expected"] = np.where(rows["kind"] == CATCH, 1.0, np.nan)
    latent = latent_preferences(ratios, models, simulation)
    if unscored.any():
        expected = rows.get("expected", pd.Series(np.nan, index=rows.index)).to_numpy()
        sure = np.select([expected == 1, expected == 2], [-np.inf, np.inf], 0.0)
        latent = np.where(unscored, sure, latent)
    # A pair is the same whichever of its sentences is first.
    both = zip(rows["sentence_1"], rows["sentence_2"], strict=True)
    pair = pd.factorize(pd.Series([tuple(sorted(pair)) for pair in both]))[0]
    first = rows[~pd.Series(pair).duplicated()]
    swapped = rows["sentence_1"].to_numpy() != first["sentence_1"].to_numpy()[pair]
    rating = draw_ratings(
        latent,
        rows["participant"].factorize()[0],
        pair,
        encode_items(first)[pair],
        simulation,
        np.random.default_rng(seed),
        side=np.where(swapped, -1.0, 1.0),
    )
    return align_choices(check_choices(rows.assign(rating=rating)))


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
    missing = lacks_sentence(design.reset_index(drop=True))
    if missing.any():
        raise InputError(f"{what} lacks a sentence ({format_rows(missing)}); fill it in")


def draw_ratings(
    latent: FloatArray,
    person: IntArray,
    pair: IntArray,
    item: IntArray,
    simulation: Simulation,
    rng: np.random.Generator,
    side: FloatArray | float = 1.0,
) -> FloatArray:
    """Return a simulated rating of each trial.

    Parameters
    ----------
    latent
        The mixture's preference for sentence 2 on each trial, any shape.
    person, pair, item
        Codes of the participant, the pair and its item on each trial, broadcast to its shape.
    simulation
        How participants answer.
    rng
        Random number generator for all effects.
    side
        -1 for trials in which the two sentences of the pair are swapped.
    """
    felt = side * latent
    if simulation.slope_sd > 0:
        felt = felt * np.exp(simulation.slope_sd * rng.normal(size=int(person.max()) + 1))[person]
    if simulation.item_sd > 0:
        of_pair, of_item = (
            np.sqrt(share) * rng.normal(size=int(codes.max()) + 1)[codes]
            for share, codes in ((1 - simulation.shared, pair), (simulation.shared, item))
        )
        felt = felt + simulation.item_sd * (of_pair + of_item)
    felt = side * felt + simulation.noise * rng.normal(size=latent.shape)
    # A preference of exactly zero is settled by the toss of a coin.
    sign = np.where(felt == 0, rng.choice([-1.0, 1.0], size=felt.shape), np.sign(felt))
    limits = [simulation.confident, simulation.very_confident]
    rating = sign * (np.digitize(np.abs(felt), limits) + 0.5)
    lapsed = rng.random(size=felt.shape) < simulation.lapse
    return np.where(lapsed, rng.choice(np.arange(-2.5, 3.0), size=felt.shape), rating)
