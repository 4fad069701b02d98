"""Natural sentence pairs on which two models disagree most, for every pair of models at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pydantic import Field

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InfeasibleError, InputError, require_known
from contstim.plugins import Registry
from contstim.progress import waiting
from contstim.selection.assignment import ROLES, AssignmentProblem, Role, assign
from contstim.selection.column_generation import assign_with_constraints
from contstim.selection.constraints import (
    ConstraintRows,
    SelectionConstraint,
    merge_equal,
    pairing_codes,
)
from contstim.selection.highs import SOLVER
from contstim.selection.scores import RankedScores, eligible_rows, rank_scores
from contstim.settings import one_of, option, settings

ASSIGNMENT = "scipy linear_sum_assignment"

#: Pairs or triplets of two models, at most.
MAX_PER_PAIR = 100_000

# Parts of their range in which costs of sentences are counted.
_PARTS = 1_000_000


@dataclass(frozen=True)
class NaturalCriterion:
    """What a selection of natural pairs makes as small as possible.

    Attributes
    ----------
    costs
        From log-probabilities, shape (S, M), to what it costs that a model rejects a sentence:
        the lower, the better it is rejected; a finite number each, shape (S, M).
    """

    costs: Callable[[pd.DataFrame], ArrayLike]

    def counted(self, ranked: RankedScores, log_probs: pd.DataFrame) -> tuple[IntArray, float]:
        """Return the costs of the ranked sentences in whole parts, (R, M), and parts of one."""
        values = np.asarray(self.costs(log_probs), dtype=np.float64)
        if values.shape != log_probs.shape or not np.isfinite(values).all():
            raise InputError(
                f"the criterion gives costs of the shape {values.shape}, or not finite ones, for "
                f"scores of the shape {log_probs.shape}; give a finite cost for each score"
            )
        parts = _PARTS / (float(np.ptp(values)) or 1.0)
        return np.rint(values * parts).astype(np.int64), parts


class _Rank(NaturalCriterion):
    def counted(self, ranked: RankedScores, log_probs: pd.DataFrame) -> tuple[IntArray, float]:
        return ranked.doubled, 2.0 * max(1, len(ranked.labels))


#: Criteria by name. ``rank``: the fractional rank of a sentence under the model that rejects it.
NATURAL_CRITERIA = Registry[NaturalCriterion](
    "criterion",
    "contstim.natural_criteria",
    {"rank": _Rank(lambda scores: scores.rank(pct=True))},
    NaturalCriterion,
)


@settings
class NaturalSelection:
    """What commands and study plans ask of `select_natural_pairs`."""

    per_pair: Annotated[int, Field(ge=1, le=MAX_PER_PAIR)] = option(10, "", "N")
    criterion: Annotated[str, one_of(NATURAL_CRITERIA)] = option(
        "rank", "what is made small: the ranks of sentences under the models that reject them"
    )
    accept_from: Annotated[float, Field(ge=0, le=1)] = option(
        0.5,
        "fractional rank from which a model accepts a sentence (default: 0.5, the median)",
        "RANK",
    )


def select_natural_pairs(
    log_probs: pd.DataFrame,
    per_pair: int | Mapping[tuple[str, str], int] = 10,
    *,
    criterion: str = "rank",
    accept_from: float = 0.5,
    reject_below: float | None = None,
    eligible: pd.Series | None = None,
    match: pd.Series | None = None,
    constraints: Sequence[SelectionConstraint] = (),
    time_limit: float | None = None,
) -> pd.DataFrame:
    """Select the sentence pairs that set every two models most against each other.

    Parameters
    ----------
    log_probs
        Log-probabilities, shape (S, M): a row per sentence (unique labels), a column per model.
    per_pair
        Number of sentence pairs for each two models; or, for chosen model pairs only, a mapping
        from (model 1, model 2) to the number.
    criterion
        What is made small: ``rank``, the sum of the ranks of sentences under the models that reject
        them, or another of `NATURAL_CRITERIA`.
    accept_from
        A model accepts a sentence whose fractional rank under it is at least this; 0.5 is the
        median.
    reject_below
        If given, a model rejects only sentences whose fractional rank under it is below this.
    eligible
        True for each sentence that may be selected, by label. Ranks are taken over all sentences.
    match
        A feature (length, frequency ...) of each sentence, by label. Within each model pair the
        chosen sentences are then put together so that the summed absolute difference of the
        feature is least; the choice of sentences is the same as without. What constraints want to
        be equal comes first.
    constraints
        :class:`Balance`, :class:`AtMost`, :class:`Linear` or others. They need integer programming,
        through PuLP.
    time_limit
        Seconds for each integer programme; None: no limit.

    Returns
    -------
    pandas.DataFrame
        One row per pair: ``model_1, model_2, sentence_1, sentence_2`` (labels; sentence 1 is
        accepted by model 1 and rejected by model 2, sentence 2 the reverse), ``rank_1, rank_2``
        (each sentence's fractional rank under the model that rejects it). In ``.attrs``:
        ``objective`` (sum of both rank columns, or of the criterion's costs, made small), ``bound``
        (no selection has less), ``gap`` (their difference), ``solver``, ``status`` (``optimal``, or
        ``feasible`` where the solver stopped before that was proved), ``ranked`` and ``candidates``
        (numbers of sentences), ``excluded`` (numbers by reason), ``relaxation`` (the bound that was
        worked out apart from the solver, where that is PuLP) and ``objective_without_constraints``.

    Raises
    ------
    InfeasibleError
        Naming the model pair and role, or the constraints, that cannot be met.
    InputError
        If scores, labels or arguments cannot be used.

    Notes
    -----
    Source: Golan et al. (2023), Supplementary Section 6.2, Eq. 5 and 6. Sentences that no model
    ranks below `accept_from`, or none at or above it, are left out first, as there. Departures: the
    problem is an assignment problem and is solved as one, exactly; a sentence with a missing or
    infinite score is left out; equal ranks are settled by a rule that knows nothing of the order
    of rows or columns, so the same sentences are found in any order. The sentences of a pair,
    which the paper leaves open, are put together by rank: lowest with lowest.

    Examples
    --------
    >>> scores = pd.DataFrame(
    ...     {"a": [-9.0, -8.0, -3.0, -2.0], "b": [-2.0, -3.0, -8.0, -9.0]},
    ...     index=["Fine.", "Good.", "Odd.", "Strange."],
    ... )
    >>> pairs = select_natural_pairs(scores, per_pair=1)
    >>> pairs.loc[0, ["sentence_1", "sentence_2"]].to_list()
    ['Strange.', 'Fine.']
    >>> pairs.attrs["status"]
    'optimal'
    """
    ranked = rank_scores(log_probs)
    wanted = _wanted([str(name) for name in log_probs.columns], per_pair)
    for name, value in (("accept_from", accept_from), ("reject_below", reject_below)):
        if value is not None and not 0 < value <= 1:
            raise InputError(f"{name} is {value}; fractional ranks lie above 0 and up to 1")
    if not (time_limit is None or time_limit > 0):
        raise InputError(f"time_limit is {time_limit}; give seconds above 0, or None")
    keep, excluded = eligible_rows(ranked, eligible)
    roles = _roles(ranked.models, wanted)
    named = log_probs.set_axis([str(name) for name in log_probs.columns], axis=1)
    scores = named.loc[ranked.labels, list(ranked.models)].astype(np.float64)
    costs, unit = NATURAL_CRITERIA[criterion].counted(ranked, scores)
    high = ranked.fractions[keep] >= accept_from
    sides_differ = high.any(axis=1) & ~high.all(axis=1)
    split = keep[sides_differ]
    excluded["accepted by all models or by none"] = len(keep) - len(split)
    low = ranked.fractions[split] < (np.inf if reject_below is None else reject_below)
    problem = AssignmentProblem(costs[split], high[sides_differ], low, roles)
    labels = ranked.labels[split]
    constraints = merge_equal(constraints)
    # Also before a programme: it says what is impossible without the constraints, and their cost.
    with waiting("choosing pairs"):
        chosen = assign(problem)
    freely = cost = relaxation = _check(problem, chosen)
    proven, used = True, ASSIGNMENT
    if constraints:
        rows = ConstraintRows(roles, labels, constraints)
        with waiting("choosing pairs", time_limit):
            chosen, relaxation, proven = assign_with_constraints(problem, rows, time_limit)
        used, cost = SOLVER, _check(problem, chosen, rows)
    bound = cost if proven else min(cost, relaxation)
    ties = pairing_codes(constraints, labels)
    table = _rows(roles, chosen, labels, ranked.fractions[split], list(wanted), ties, match)
    table.attrs = {
        "objective": cost / unit,
        "bound": bound / unit,
        "gap": (cost - bound) / unit,
        "solver": used,
        "status": "optimal" if proven else "feasible",
        "relaxation": relaxation / unit,
        "objective_without_constraints": freely / unit,
        "ranked": len(ranked.labels),
        "candidates": len(labels),
        "excluded": excluded,
    }
    return table


def _wanted(
    models: list[str], per_pair: int | Mapping[tuple[str, str], int]
) -> dict[tuple[str, str], int]:
    """Return how many pairs each (model 1, model 2) is to have."""
    if isinstance(per_pair, Mapping):
        wanted = {
            (str(model_1), str(model_2)): number for (model_1, model_2), number in per_pair.items()
        }
    else:
        wanted = dict.fromkeys(combinations(models, 2), per_pair)
    if not wanted:
        raise InputError("per_pair names no model pair; name at least one")
    for (model_1, model_2), number in wanted.items():
        for model in (model_1, model_2):
            require_known("model", model, models)
        if model_1 == model_2:
            raise InputError(f"model {model_1!r} cannot be paired with itself")
        if (model_2, model_1) in wanted:
            raise InputError(
                f"the pair of {model_1!r} and {model_2!r} is named both ways; name it once"
            )
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
            raise InputError(
                f"per_pair is {number!r} for {model_1} and {model_2}; give a whole number >= 1"
            )
    return {pair: int(number) for pair, number in wanted.items()}


def _roles(models: tuple[str, ...], wanted: Mapping[tuple[str, str], int]) -> tuple[Role, ...]:
    """Return two roles a model pair, in an order that depends on names alone."""
    roles = []
    for (model_1, model_2), number in wanted.items():
        for role, accept, reject in zip(ROLES, (model_1, model_2), (model_2, model_1), strict=True):
            columns = models.index(reject), models.index(accept)
            roles.append(Role(model_1, model_2, role, *columns, number))
    return tuple(sorted(roles, key=lambda role: (role.reject, role.accept)))


def _check(
    problem: AssignmentProblem, chosen: Sequence[IntArray], rows: ConstraintRows | None = None
) -> float:
    """Check a selection, whatever found it, and return its cost in units of the criterion."""
    taken = np.concatenate([*chosen])
    for role, of_role in zip(problem.roles, chosen, strict=True):
        if len(of_role) != role.count or not problem.allowed(role)[of_role].all():
            raise InfeasibleError(f"the solver's selection is not valid: {role}")
    if len(np.unique(taken)) != len(taken):
        raise InfeasibleError("the solver's selection uses a sentence twice")
    if rows is not None and rows.names:
        sums = np.zeros(len(rows.names))
        for of_role, weights in zip(chosen, rows.weights, strict=True):
            sums += np.asarray(weights[of_role].sum(axis=0)).ravel()
        slack = 1e-6 * np.maximum(1.0, np.abs(sums))
        broken = (sums < rows.lower - slack) | (sums > rows.upper + slack)
        if broken.any():
            name = rows.names[int(np.flatnonzero(broken)[0])]
            raise InfeasibleError(f"the solver's selection breaks {name}")
    return problem.cost(chosen)


def _rows(
    roles: Sequence[Role],
    chosen: Sequence[IntArray],
    labels: pd.Index,
    ranks: FloatArray,
    pairs: Sequence[tuple[str, str]],
    ties: IntArray,
    match: pd.Series | None,
) -> pd.DataFrame:
    """Return the pairs as a table, in the order in which model pairs were named."""
    parts: dict[tuple[str, str], dict[str, object]] = {
        (one, two): {"model_1": one, "model_2": two} for one, two in pairs
    }
    for role, rows in zip(roles, chosen, strict=True):
        in_order = rows[np.lexsort((_values(match, labels[rows]), ties[rows]))]
        part = parts[role.model_1, role.model_2]
        part[role.role] = labels[in_order]
        part[role.role.replace("sentence", "rank")] = ranks[in_order, role.reject]
    columns = ["model_1", "model_2", *ROLES, "rank_1", "rank_2"]
    tables = [pd.DataFrame(part, columns=columns) for part in parts.values()]
    return pd.concat(tables, ignore_index=True)


def _values(match: pd.Series | None, labels: pd.Index) -> FloatArray:
    """Return what sentences of these labels are put together by; without `match` nothing."""
    if match is None:
        return np.zeros(len(labels))
    values = match.reindex(labels).to_numpy(dtype=np.float64, na_value=np.nan)
    if not np.isfinite(values).all():
        label = labels[int(np.argmin(np.isfinite(values)))]
        raise InputError(f"match has no finite value for sentence {label!r}; give one")
    return values
