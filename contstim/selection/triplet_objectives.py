"""Objectives for the selection of triplets: a value for each triplet; the sum is optimised."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from contstim.errors import InputError, require_known
from contstim.models.registry import score_kind
from contstim.plugins import Registry
from contstim.tables import require_columns

#: Log-probabilities that are needed for a selection (columns of :data:`contstim.columns.TRIPLETS`).
LOG_PROB_COLUMNS = ("natural_lp_1", "natural_lp_2", "synthetic_1_lp_2", "synthetic_2_lp_1")

#: Rules of `worst_ranks` for triplets with equal ranks.
TIE_RULES = ("average", "row-order")


@dataclass(frozen=True)
class TripletObjective:
    """Objective of the selection of triplets: the sum of a value over the selected triplets.

    Attributes
    ----------
    value
        Function that maps a DataFrame of triplets for one pair of models to a Series with a value
        for each triplet. If `takes_ties` is true, it has a second parameter ``ties``, one of
        :data:`TIE_RULES`.
    sign
        1 to maximise the sum, -1 to minimise it.
    requires_nats
        Whether the value adds log-probabilities under two models, which must then be in nats.
    takes_ties
        Whether `value` has the parameter ``ties``.

    Examples
    --------
    >>> from contstim import datasets, select_triplets
    >>> def min_drop(triplets):
    ...     drop_2 = triplets["natural_lp_2"] - triplets["synthetic_1_lp_2"]
    ...     return np.minimum(drop_2, triplets["natural_lp_1"] - triplets["synthetic_2_lp_1"])
    >>> TRIPLET_OBJECTIVES["min-drop"] = TripletObjective(min_drop, sign=1.0)
    >>> len(select_triplets(datasets.readable_triplets(), 5, "min-drop"))
    10
    >>> del TRIPLET_OBJECTIVES["min-drop"]  # only for this example
    """

    value: Callable[..., pd.Series]
    sign: float
    requires_nats: bool = False
    takes_ties: bool = False


def controversiality(triplets: pd.DataFrame) -> pd.Series:
    """Sum the two synthetic sentences' decreases in log-probability (nats) for each triplet.

    Each decrease is relative to the natural sentence, under the model that rejects the synthetic
    sentence. Controversiality (Golan et al. 2023, Eq. 4) is therefore

        [log p2(n) - log p2(s1)] + [log p1(n) - log p1(s2)],

    where pk is the probability under model k, n the natural sentence, and sk the synthetic sentence
    that model k accepts.

    Parameters
    ----------
    triplets
        Table with the columns `LOG_PROB_COLUMNS`.

    Returns
    -------
    Series
        Controversiality in nats.

    Examples
    --------
    >>> from contstim import datasets
    >>> controversiality(datasets.readable_triplets()).head(3).round(1).tolist()
    [27.1, 20.9, 18.8]
    """
    triplets = numeric_log_probs(triplets)
    # [log p2(n) - log p2(s1)] + [log p1(n) - log p1(s2)]: how much less probable each synthetic
    # sentence is than the natural one under the model that rejects it.
    value: pd.Series = (
        triplets["natural_lp_2"]
        - triplets["synthetic_1_lp_2"]
        + triplets["natural_lp_1"]
        - triplets["synthetic_2_lp_1"]
    )
    return value


def worst_ranks(triplets: pd.DataFrame, ties: str = "average") -> pd.Series:
    """Rank the triplets for one pair of models by their weaker synthetic sentence; 1 is best.

    With probabilities p1 and p2 under the two models, natural sentence n and synthetic sentences s1
    and s2:

    1. The losses log p2(s1) - log p2(n) are ranked over the triplets from the lowest (rank 1) to
       the highest, and so are the losses log p1(s2) - log p1(n).
    2. Triplets are ranked by the larger of their two ranks.

    Parameters
    ----------
    triplets
        Triplets for one pair of models, with the columns `LOG_PROB_COLUMNS`.
    ties
        Rule for triplets that are equal in step 2: ``average`` gives all the same average rank;
        ``row-order`` ranks them in the order of the rows, as in Golan et al. (2023).

    Returns
    -------
    Series
        Rank of each triplet.

    Examples
    --------
    >>> from contstim import datasets
    >>> table = datasets.readable_triplets().query("model_1 == 'contstim:bigram'")
    >>> worst_ranks(table).head(3).tolist()
    [1.0, 17.5, 7.5]
    """
    require_known("tie rule", ties, TIE_RULES)
    triplets = numeric_log_probs(triplets)
    # Log-probability of each synthetic sentence relative to the natural sentence, under the model
    # that should reject it. Lower is better.
    loss_1 = triplets["synthetic_1_lp_2"] - triplets["natural_lp_2"]
    loss_2 = triplets["synthetic_2_lp_1"] - triplets["natural_lp_1"]
    # The larger rank belongs to the weaker synthetic sentence. Rank the triplets by it again.
    ranks = pd.DataFrame({1: loss_1, 2: loss_2}).rank()
    return ranks.max(axis=1).rank(method="average" if ties == "average" else "first")


#: Objectives by name.
TRIPLET_OBJECTIVES = Registry[TripletObjective](
    "objective",
    "contstim.triplet_objectives",
    {
        "controversiality": TripletObjective(controversiality, 1.0, requires_nats=True),
        "worst-rank": TripletObjective(worst_ranks, -1.0, takes_ties=True),
    },
    TripletObjective,
)


def check_objective(objective: str, models: Iterable[str] | Mapping[str, str]) -> None:
    """Check that an objective is known and valid for the scores of the models.

    Parameters
    ----------
    objective
        Name of an objective in `TRIPLET_OBJECTIVES`.
    models
        Model specification strings, or a mapping from names of models to these strings.

    Raises
    ------
    UnknownNameError
        If there is no such objective.
    InputError
        If the objective requires nats and a model's scores are not in nats.
    """
    requires_nats = TRIPLET_OBJECTIVES[objective].requires_nats
    # Specification strings without names are the names of their models.
    spec_by_name = models if isinstance(models, Mapping) else {spec: spec for spec in models}
    for name, spec in spec_by_name.items():
        # `differs_in_nats`: a difference between two scores is a log-probability ratio in nats.
        if requires_nats and not score_kind(spec).differs_in_nats:
            raise InputError(
                f"the objective {objective!r} adds score differences in nats under two models, and "
                f"{name!r} does not score in nats; use the objective 'worst-rank'"
            )


def numeric_log_probs(triplets: pd.DataFrame) -> pd.DataFrame:
    """Return a table of triplets with its log-probabilities as numbers, NaN where missing.

    Parameters
    ----------
    triplets
        Table with the columns `LOG_PROB_COLUMNS`.

    Returns
    -------
    DataFrame
        Copy of the table in which these columns contain float64 numbers.

    Raises
    ------
    InputError
        If a column is missing or a value is not a number; the message names its row.
    """
    require_columns(triplets, LOG_PROB_COLUMNS, "the triplets table")
    numbers = {}
    for column in LOG_PROB_COLUMNS:
        values = triplets[column]
        numbers[column] = pd.to_numeric(values, errors="coerce").astype(np.float64)
        # A value that is present but not a number, for example text.
        invalid = np.flatnonzero(numbers[column].isna() & values.notna())
        if len(invalid):
            # Messages count rows from 1.
            row = invalid[0]
            raise InputError(
                f"{column} is {values.iloc[row]!r} in row {row + 1} of the triplets table; "
                "give a number, or leave the row out"
            )
    return triplets.assign(**numbers)
