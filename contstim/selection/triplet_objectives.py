"""Objectives of a selection of triplets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pandas as pd

from contstim.errors import InputError, require_known
from contstim.models.registry import score_kind
from contstim.plugins import Registry
from contstim.tables import SPEC, require_columns

_TEXTS = ("natural", "synthetic_1", "synthetic_2")
_MOST_STRATA = 10  # unless more are asked for
LOG_PROB_COLUMNS = ("natural_lp_1", "natural_lp_2", "synthetic_1_lp_2", "synthetic_2_lp_1")

LOG_PROB_COLUMNS = ("natural_lp_1", "natural_lp_2", "synthetic_1_lp_2", "synthetic_2_lp_1")


#: How `worst_ranks` settles triplets whose weaker members have equal ranks.
TIE_RULES = ("average", "row-order")


@dataclass(frozen=True)
class TripletObjective:
    """What the total over the chosen triplets is made of.

    Attributes
    ----------
    value
        From the triplets of one model pair to a value for each; with `ties`, also from how ties are
        settled.
    sign
        1 where the total is made large, -1 where it is made small.
    adds_nats
        Whether it adds log-probabilities of two models, which then must be in nats.
    ties
        Whether `value` takes a rule of :data:`TIE_RULES`.
    """

    value: Callable[..., pd.Series]
    sign: float
    adds_nats: bool = False
    ties: bool = False


_Value = TypeVar("_Value", bound=Callable[..., pd.Series])


def triplet_objective(
    name: str, *, larger_is_better: bool, adds_nats: bool = False, ties: bool = False
) -> Callable[[_Value], _Value]:
    """Add a function to `TRIPLET_OBJECTIVES`, for this process; see `TripletObjective`.

    Examples
    --------
    >>> from contstim import datasets
    >>> @triplet_objective("least-fall", larger_is_better=True)
    ... def least_fall(triplets):
    ...     falls = triplets["natural_lp_2"] - triplets["synthetic_1_lp_2"]
    ...     return np.minimum(falls, triplets["natural_lp_1"] - triplets["synthetic_2_lp_1"])
    >>> len(select_triplets(datasets.written_triplets(), 5, "least-fall"))
    10
    >>> del TRIPLET_OBJECTIVES["least-fall"]  # for this example alone
    """

    def register(value: _Value) -> _Value:
        TRIPLET_OBJECTIVES[name] = TripletObjective(
            value, 1.0 if larger_is_better else -1.0, adds_nats, ties
        )
        return value

    return register


def controversiality(triplets: pd.DataFrame) -> pd.Series:
    """Return the controversiality of each triplet, nats.

    It is [log p2(n) - log p2(s1)] + [log p1(n) - log p1(s2)], Golan et al. (2023), Eq. 4, where
    model k gives ``log pk``, n is the natural sentence and sk the synthetic one that model k
    accepts.

    Examples
    --------
    >>> from contstim import datasets
    >>> controversiality(datasets.written_triplets()).head(3).round(1).tolist()
    [27.1, 20.9, 18.8]
    """
    triplets = numeric_log_probs(triplets)
    value: pd.Series = (
        triplets["natural_lp_2"]
        - triplets["synthetic_1_lp_2"]
        + triplets["natural_lp_1"]
        - triplets["synthetic_2_lp_1"]
    )
    return value


def worst_ranks(triplets: pd.DataFrame, ties: str = "average") -> pd.Series:
    """Rank the triplets of one model pair by their weaker member, 1 for the best.

    Each synthetic sentence's loss (its log-probability less the natural sentence's, under the
    model that rejects it) is ranked ascending over the triplets, average ties; w is the larger of a
    triplet's two ranks; the result is the rank of w.

    Parameters
    ----------
    triplets
        The triplets of one model pair.
    ties
        Triplets with equal w get their ``average`` rank, or ranks in ``row-order``.

    Notes
    -----
    The published selection settles equal w by row order; averaging them, the default, makes the
    result independent of the order of rows.

    Examples
    --------
    >>> from contstim import datasets
    >>> table = datasets.written_triplets().query("model_1 == 'contstim:bigram'")
    >>> worst_ranks(table).head(3).tolist()
    [1.0, 17.5, 7.5]
    """
    require_known("tie rule", ties, TIE_RULES)
    triplets = numeric_log_probs(triplets)
    loss_1 = triplets["synthetic_1_lp_2"] - triplets["natural_lp_2"]
    loss_2 = triplets["synthetic_2_lp_1"] - triplets["natural_lp_1"]
    ranks = pd.DataFrame({1: loss_1, 2: loss_2}).rank()
    return ranks.max(axis=1).rank(method="average" if ties == "average" else "first")


#: Objectives by name.
TRIPLET_OBJECTIVES = Registry[TripletObjective](
    "objective",
    "contstim.triplet_objectives",
    {
        "controversiality": TripletObjective(controversiality, 1.0, adds_nats=True),
        "worst-rank": TripletObjective(worst_ranks, -1.0, ties=True),
    },
    TripletObjective,
)


def check_objective(objective: str, models: Iterable[str] | Mapping[str, str]) -> None:
    """Refuse an unknown objective, and one that adds up what has no common unit.

    Parameters
    ----------
    objective
        One of `TRIPLET_OBJECTIVES`.
    models
        Specs of the models, or of each name the spec.

    Raises
    ------
    UnknownNameError
        If there is no such objective.
    InputError
        If it adds two models' falls in nats and a model's scores are no log-probabilities.
    """
    adds_nats = TRIPLET_OBJECTIVES[objective].adds_nats
    specs = models if isinstance(models, Mapping) else {model: model for model in models}
    for model, spec in specs.items():
        if adds_nats and not score_kind(spec).differs_in_nats:
            raise InputError(
                f"the objective {objective!r} adds two models' falls in nats, and {model!r} does "
                "not score in nats; use the objective 'worst-rank'"
            )


def triplet_specs(triplets: pd.DataFrame) -> dict[str, str]:
    """Return the spec of each model of a table of triplets, by its name.

    They are the columns ``spec_1`` and ``spec_2`` where models have names; else the name is the
    spec.
    """
    specs: dict[str, str] = {}
    for number in (1, 2):
        names = triplets[f"model_{number}"].astype(str)
        stated = triplets.get(f"{SPEC}_{number}", names)
        stated = stated.where(stated.notna() & (stated != ""), names)
        specs |= zip(names, stated.astype(str), strict=True)
    return specs


def numeric_log_probs(triplets: pd.DataFrame) -> pd.DataFrame:
    """Return the table with numbers for log-probabilities, NaN where one is missing.

    Raises
    ------
    InputError
        Naming the first that is something else, and its row.
    """
    require_columns(triplets, LOG_PROB_COLUMNS, "the triplets table")
    numbers = {}
    for column in LOG_PROB_COLUMNS:
        given = triplets[column]
        numbers[column] = pd.to_numeric(given, errors="coerce").astype(np.float64)
        odd = np.flatnonzero(numbers[column].isna() & given.notna())
        if len(odd):
            raise InputError(
                f"{column} is {given.iloc[odd[0]]!r} in row {odd[0] + 1} of the triplets table; "
                "give a number, or leave the row out"
            )
    return triplets.assign(**numbers)
