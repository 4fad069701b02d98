"""Selection of natural sentence pairs about which two models disagree, for all pairs of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from contstim.arrays import IntArray
from contstim.errors import InputError, require_known
from contstim.plugins import Registry
from contstim.selection.assignment import POSITIONS, AssignmentProblem, Quota, assign
from contstim.selection.column_generation import assign_with_constraints
from contstim.selection.constraint_rows import ConstraintRows, SelectionConstraint
from contstim.selection.constraints import compute_pairing_blocks, merge_equal
from contstim.selection.highs import SOLVER
from contstim.selection.scores import RankedScores, find_eligible, rank_scores

ASSIGNMENT_SOLVER = "scipy linear_sum_assignment"

#: Maximum number of pairs or triplets for each pair of models.
MAX_PER_PAIR = 100_000

# Number of integer steps into which the range of a criterion's costs is divided.
_COST_STEPS = 1_000_000


@dataclass(frozen=True)
class NaturalCriterion:
    """Criterion that `select_natural_pairs` minimises to find controversial sentence pairs.

    Each sentence of a controversial pair has a high rank under one of two models, which accepts it,
    and a low rank under the other model, which rejects it. The criterion assigns a cost to each
    sentence and rejecting model. The lower the cost, the more clearly the model rejects the
    sentence. The selection minimises the total cost of all selected sentences.

    Attributes
    ----------
    costs
        Function that maps the log-probabilities of sentences, an (S, M) DataFrame in nats, to
        finite costs of shape (S, M).
    """

    costs: Callable[[pd.DataFrame], ArrayLike]

    def integer_costs(
        self, ranked: RankedScores, log_probs: pd.DataFrame
    ) -> tuple[IntArray, float]:
        """Return the cost of each sentence under each model as an integer.

        The costs are computed by `costs`, scaled and rounded. Sums of integers are exact, so the
        total costs of two selections can be compared without rounding errors.

        Parameters
        ----------
        ranked
            Ranks of the sentences by their scores under each model.
        log_probs : (S, M) DataFrame
            Log-probabilities in nats, with the sentences and models in the order of `ranked`.

        Returns
        -------
        integers : (S, M) array of int
            Costs multiplied by `n_steps` and rounded.
        n_steps : float
            Number of integer steps per unit of cost.
        """
        costs = np.asarray(self.costs(log_probs), dtype=np.float64)
        # Costs come from a function of the user: they must be finite, one for each score.
        if costs.shape != log_probs.shape or not np.isfinite(costs).all():
            raise InputError(
                f"the criterion returned costs of shape {costs.shape}, or costs that are not "
                f"finite, for scores of shape {log_probs.shape}; return a finite cost for each "
                "score"
            )
        # Divide the range of the costs into steps; equal costs have a range of 0, so use 1 instead.
        n_steps = _COST_STEPS / (float(np.ptp(costs)) or 1.0)
        return np.rint(costs * n_steps).astype(np.int64), n_steps


class _RankCriterion(NaturalCriterion):
    """Criterion with the fractional rank as cost, which is converted to an integer exactly."""

    def integer_costs(
        self, ranked: RankedScores, log_probs: pd.DataFrame
    ) -> tuple[IntArray, float]:
        return ranked.doubled_ranks, 2.0 * max(1, len(ranked.labels))


#: Criteria by name. ``rank``: fractional rank of a sentence under the model that rejects it.
NATURAL_CRITERIA = Registry[NaturalCriterion](
    "criterion",
    "contstim.natural_criteria",
    {"rank": _RankCriterion(lambda scores: scores.rank(pct=True))},
    NaturalCriterion,
)


def select_natural_pairs(
    log_probs: pd.DataFrame,
    per_pair: int | Mapping[tuple[str, str], int] = 10,
    *,
    criterion: str = "rank",
    accept_from: float = 0.5,
    reject_below: float | None = None,
    eligible: pd.Series | None = None,
    constraints: Sequence[SelectionConstraint] = (),
    time_limit: float | None = None,
) -> pd.DataFrame:
    """Select natural sentence pairs about which two models disagree most, for all pairs of models.

    In each pair, model 1 accepts sentence 1 (ranks it high) and model 2 rejects it (ranks it low);
    for sentence 2, the models are exchanged. The selection minimises the sum, over all selected
    sentences, of the cost under the rejecting model, by default its fractional rank.
    `AssignmentProblem` states the formulas. Each sentence is used at most once.

    Parameters
    ----------
    log_probs : (S, M) DataFrame
        Log-probabilities in nats, one row per sentence (unique labels), one column per model.
    per_pair : int or mapping, default 10
        Number of sentence pairs for each pair of models. A mapping from tuples (model 1, model 2)
        to numbers selects pairs for these models only.
    criterion : str, default "rank"
        Name of the cost in `NATURAL_CRITERIA`; ``rank`` is the fractional rank.
    accept_from : float, default 0.5
        Minimum fractional rank at which a model accepts a sentence; 0.5 is the median.
    reject_below : float, optional
        Fractional rank below which a model may reject a sentence; by default any.
    eligible : Series of bool, optional
        Whether each sentence may be selected, with the labels of the sentences as index. All
        sentences are ranked.
    constraints
        Constraints on the selected sentences, e.g. `Balance`. The problem is then solved by integer
        programming.
    time_limit : float, optional
        Time limit of each integer programme in seconds; by default none.

    Returns
    -------
    DataFrame
        One row per pair: ``model_1, model_2, sentence_1, sentence_2`` (labels; model 1 accepts
        sentence 1 and model 2 rejects it, sentence 2 the reverse), ``rank_1, rank_2`` (fractional
        rank of each sentence under the model that rejects it). In ``.attrs``: ``objective``,
        ``bound`` (lower bound on every selection), ``gap`` (their difference), ``solver``,
        ``status`` (``optimal``, or ``feasible`` after the time limit), ``relaxation`` (bound of the
        linear relaxation), ``objective_without_constraints``, ``ranked`` and ``candidates`` (number
        of sentences), and ``excluded`` (number of sentences by reason).

    Raises
    ------
    InfeasibleError
        If a pair of models has too few sentences or the constraints cannot be satisfied.
    InputError
        If the scores or arguments are invalid.

    Notes
    -----
    The method follows Golan et al. (2023), supplementary section 6.2, Eq. 5 and 6. As in the paper,
    sentences that all models accept, or none, are excluded first. Unlike in the paper, the problem
    is solved exactly, sentences with a missing or infinite score are excluded, ties are broken
    independently of the order of rows and columns, and sentences are paired by rank, lowest with
    lowest.

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
    log_probs = log_probs.set_axis([str(name) for name in log_probs.columns], axis=1)
    n_pairs = _parse_per_pair(per_pair, list(log_probs.columns))
    for name, value in (("accept_from", accept_from), ("reject_below", reject_below)):
        if value is not None and not 0 < value <= 1:
            raise InputError(f"{name} is {value}; fractional ranks lie above 0 and up to 1")
    if not (time_limit is None or time_limit > 0):
        raise InputError(f"time_limit is {time_limit}; give seconds above 0, or None")

    # Each pair of models needs n first sentences, which model 1 accepts, and n second sentences,
    # which model 2 accepts. The order of these quotas depends on the names of the models only.
    quotas = []
    for (model_1, model_2), n in n_pairs.items():
        column_1, column_2 = ranked.models.index(model_1), ranked.models.index(model_2)
        quotas.append(Quota((model_1, model_2), POSITIONS[0], column_2, column_1, n))
        quotas.append(Quota((model_1, model_2), POSITIONS[1], column_1, column_2, n))
    quotas.sort(key=lambda quota: (quota.reject_column, quota.accept_column))

    # Exclude sentences that all models accept, or none.
    rows, excluded = find_eligible(ranked, eligible)
    is_accepted = ranked.fractions[rows] >= accept_from
    is_candidate = is_accepted.any(axis=1) & ~is_accepted.all(axis=1)
    excluded["accepted by all models or by none"] = int((~is_candidate).sum())
    rows, is_accepted = rows[is_candidate], is_accepted[is_candidate]
    labels, ranks = ranked.labels[rows], ranked.fractions[rows]

    scores = log_probs.loc[ranked.labels, list(ranked.models)].astype(np.float64)
    costs, n_steps = NATURAL_CRITERIA[criterion].integer_costs(ranked, scores)
    is_rejected = ranks < (np.inf if reject_below is None else reject_below)
    problem = AssignmentProblem(costs[rows], is_accepted, is_rejected, tuple(quotas))

    # Solve the problem without constraints first, which detects pairs of models with too few
    # sentences.
    chosen = assign(problem)
    cost = unconstrained_cost = relaxation = problem.total_cost(chosen)
    is_proven, solver = True, ASSIGNMENT_SOLVER
    constraints = merge_equal(constraints)
    if constraints:
        constraint_rows = ConstraintRows(quotas, labels, constraints)
        chosen, relaxation, is_proven = assign_with_constraints(
            problem, constraint_rows, time_limit
        )
        cost, solver = problem.total_cost(chosen), SOLVER
    bound = cost if is_proven else min(cost, relaxation)

    # Pair the first and the second sentences of each pair of models: within blocks of sentences
    # with equal features, by rank.
    blocks = compute_pairing_blocks(constraints, labels)
    tables = {
        (model_1, model_2): pd.DataFrame({"model_1": model_1, "model_2": model_2}, index=range(n))
        for (model_1, model_2), n in n_pairs.items()
    }
    for quota, quota_rows in zip(quotas, chosen, strict=True):
        ordered = quota_rows[np.argsort(blocks[quota_rows], kind="stable")]
        table = tables[quota.models]
        table[quota.position] = labels[ordered]
        table[quota.position.replace("sentence", "rank")] = ranks[ordered, quota.reject_column]
    columns = ["model_1", "model_2", *POSITIONS, "rank_1", "rank_2"]
    pairs = pd.concat([table[columns] for table in tables.values()], ignore_index=True)
    pairs.attrs = {
        "objective": cost / n_steps,
        "bound": bound / n_steps,
        "gap": (cost - bound) / n_steps,
        "solver": solver,
        "status": "optimal" if is_proven else "feasible",
        "relaxation": relaxation / n_steps,
        "objective_without_constraints": unconstrained_cost / n_steps,
        "ranked": len(ranked.labels),
        "candidates": len(labels),
        "excluded": excluded,
    }
    return pairs


def _parse_per_pair(
    per_pair: int | Mapping[tuple[str, str], int], models: Sequence[str]
) -> dict[tuple[str, str], int]:
    """Check the argument `per_pair`, and convert it to a mapping.

    Parameters
    ----------
    per_pair
        Number of sentence pairs to select for every pair of models, or a mapping from pairs of
        models to numbers.
    models
        Names of all models.

    Returns
    -------
    dict
        Mapping from pairs of models to numbers of sentence pairs.

    Raises
    ------
    InputError
        If a pair or a number is invalid.
    """
    if isinstance(per_pair, Mapping):
        n_pairs = {(str(model_1), str(model_2)): n for (model_1, model_2), n in per_pair.items()}
    else:
        n_pairs = dict.fromkeys(combinations(models, 2), per_pair)  # the same number for all pairs
    if not n_pairs:
        raise InputError("per_pair names no model pair; name at least one")
    for (model_1, model_2), n in n_pairs.items():
        require_known("model", model_1, models)
        require_known("model", model_2, models)
        if model_1 == model_2:
            raise InputError(f"model {model_1!r} cannot be paired with itself")
        # Both orders of two models denote the same pair of models.
        if (model_2, model_1) in n_pairs:
            raise InputError(
                f"the pair of {model_1!r} and {model_2!r} is named in both orders; name it once"
            )
        # In Python, True is an integer.
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise InputError(
                f"per_pair is {n!r} for {model_1} and {model_2}; give a whole number >= 1"
            )
    return n_pairs
