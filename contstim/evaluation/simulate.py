"""Simulated participants: choices and confidences from models, through a design's trials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from contstim.arrays import FloatArray
from contstim.errors import InputError
from contstim.evaluation.choices import align_choices, check_choices
from contstim.evaluation.scores import ScoreSource, log_ratios, score_table, unscored_catch
from contstim.settings import Several, settings


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
        own = ratios[:, models.index(model)]
        finite = own[np.isfinite(own)]
        size = np.sqrt((finite**2).mean()) if len(finite) else 0.0
        if size == 0:
            raise InputError(f"model {model!r} prefers no sentence, so nobody can follow it")
        # An infinite ratio counts as the largest finite one.
        most = float(np.abs(finite).max())
        total += weight * np.clip(own, -most, most) / size
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
        One row a trial: `sentence_1`, `sentence_2`, and where there are such `group` (or
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
    for column in ("sentence_1", "sentence_2"):
        if column not in design:
            raise InputError(f"the design lacks the column {column!r}")
    rows = _people(design.reset_index(drop=True), participants_per_group)
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
        told = rows.get("expected", pd.Series(np.nan, index=rows.index)).to_numpy()
        sure = np.select([told == 1, told == 2], [-np.inf, np.inf], 0.0)
        latent = np.where(unscored, sure, latent)
    rng = np.random.default_rng(seed)
    rows = rows.assign(rating=answers(latent, simulation, rng))
    return align_choices(check_choices(rows))


def answers(latent: FloatArray, simulation: Simulation, rng: np.random.Generator) -> FloatArray:
    """Return a rating for each latent preference."""
    felt = latent + simulation.noise * rng.normal(size=latent.shape)
    # A preference of exactly zero is settled by the toss of a coin.
    side = np.where(felt == 0, rng.choice([-1.0, 1.0], size=felt.shape), np.sign(felt))
    limits = [simulation.confident, simulation.very_confident]
    rating = side * (np.digitize(np.abs(felt), limits) + 0.5)
    lapsed = rng.random(size=felt.shape) < simulation.lapse
    return np.where(lapsed, rng.choice(np.arange(-2.5, 3.0), size=felt.shape), rating)


def _people(design: pd.DataFrame, per_group: int) -> pd.DataFrame:
    if "participant" in design:
        return design
    group = design["group"].astype("str") if "group" in design else pd.Series("1", design.index)
    copies = [
        design.assign(group=group, participant=group + "-" + str(k + 1)) for k in range(per_group)
    ]
    return pd.concat(copies, ignore_index=True)
