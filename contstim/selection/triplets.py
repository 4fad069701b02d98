"""Selection of the triplets about which two models disagree most.

A triplet consists of a natural sentence and two synthetic sentences. The same number of triplets is
selected from each stratum, a range of the log-probabilities of natural sentences under one model.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import block_diag, csr_array, vstack

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.columns import SPEC
from contstim.errors import InfeasibleError, InputError
from contstim.selection.highs import SOLVER
from contstim.selection.natural import ASSIGNMENT_SOLVER
from contstim.selection.strata import StratifiedSelection, resolve_n_strata
from contstim.selection.triplet_objectives import (
    LOG_PROB_COLUMNS,
    TRIPLET_OBJECTIVES,
    check_objective,
    numeric_log_probs,
)
from contstim.tables import require_columns
from contstim.text.diversity import MIN_WORD_LIMIT, check_word_share, folded_words
from contstim.text.normalise import normalise_sentence

_SENTENCES = ("natural", "synthetic_1", "synthetic_2")


def select_triplets(
    triplets: pd.DataFrame,
    per_pair: int = 10,
    objective: str = "controversiality",
    *,
    strata: int | None = None,
    reference: pd.DataFrame | None = None,
    ties: str = "average",
    max_word_share: float = 1.0,
    distinct_items: bool = False,
) -> pd.DataFrame:
    """Select triplets for each pair of models, with equal numbers from each stratum.

    A triplet consists of a natural sentence and two synthetic sentences on which the models
    disagree. A stratum is a quantile range of a model's log-probabilities of natural sentences. If
    strata contain too few triplets, as many triplets as possible are selected. Among the selections
    of this size, the selection with the best total objective is returned. `StratifiedSelection`
    states the formulas.

    Parameters
    ----------
    triplets
        Table with the columns of :data:`contstim.columns.TRIPLETS`; the log-probabilities of the
        synthetic sentences under the models that accept them may be missing.
    per_pair : int, default 10
        Number of triplets for each pair of models; a multiple of `strata`.
    objective : str, default "controversiality"
        Name of an objective in `TRIPLET_OBJECTIVES`: ``controversiality`` (total of
        :func:`controversiality`, maximised) or ``worst-rank`` (total of :func:`worst_ranks`,
        minimised).
    strata : int, optional
        Number of strata per model; by default the largest divisor of `per_pair` up to ten. A value
        on the border of two strata belongs to the lower.
    reference : (S, M) DataFrame, optional
        Log-probabilities of a corpus in nats. Their quantiles define the strata. By default, the
        log-probabilities of the natural sentences of the triplets.
    ties : str, default "average"
        Rule for equal ranks with the objective ``worst-rank``, see :func:`worst_ranks`.
    max_word_share : float, default 1
        Maximum fraction of the selected synthetic sentences for a pair of models that may contain
        the same word; 1 for no limit. The limit is never below two sentences, nor below the
        fraction of natural sentences that contain the word.
    distinct_items : bool, default False
        Whether no two selected triplets, for the same or different models, may share a sentence.
        Each triplet is then a separate item (see :func:`contstim.design.design_trials`).

    Returns
    -------
    DataFrame
        The selected rows in their order, with all columns. In ``.attrs``: ``objective`` (total over
        all pairs of models), ``strata`` (number), ``bound``, ``gap``, ``solver``, ``status``, and
        ``pairs``: for each pair of models the number of triplets considered, excluded and selected,
        its objective, and its ``unfilled`` strata.

    Raises
    ------
    InfeasibleError
        If a pair of models has no usable triplet.
    InputError, UnknownNameError
        If the table or an argument is invalid.

    Notes
    -----
    The method follows Golan et al. (2023), section 4.8. Each triplet belongs to a stratum of model
    1 and a stratum of model 2, so that the selection is an assignment problem. With
    `max_word_share`, it is an integer programme for each pair of models; with `distinct_items`, an
    integer programme for all pairs of models at once. All problems are solved exactly. Triplets
    with a missing or infinite log-probability are excluded. For each pair of models, a natural
    sentence is used at most once.

    Examples
    --------
    >>> from contstim import datasets
    >>> chosen = select_triplets(datasets.readable_triplets(), per_pair=6, strata=2)
    >>> chosen.attrs["status"], len(chosen)
    ('optimal', 12)
    """
    check_word_share(max_word_share)
    n_strata = resolve_n_strata(per_pair, strata)
    names_1, names_2 = _check_models(triplets, objective)
    table = numeric_log_probs(triplets)
    has_limits = distinct_items or max_word_share < 1
    parts: list[_PairTriplets] = []
    keys = [names_1.to_numpy(), names_2.to_numpy()]
    for (name_1, name_2), positions in pd.Series(range(len(triplets))).groupby(keys, sort=False):
        models, rows = (str(name_1), str(name_2)), np.asarray(positions, dtype=np.int64)
        usable, is_best, costs, excluded = _find_usable(table.iloc[rows], models, objective, ties)
        if not has_limits:
            # Without limits, only the best triplet of each natural sentence can be selected.
            usable, costs, is_best = usable[is_best], costs[is_best], is_best[is_best]
        rows = rows[usable]
        scored = table.iloc[rows]

        selection = StratifiedSelection(
            costs,
            _find_strata(scored, models, is_best, reference, n_strata),
            n_strata,
            per_pair // n_strata,
        )
        limits = csr_array((0, len(usable))), np.zeros(0)
        if max_word_share < 1:
            limits = _limit_words(scored, is_best, 2 * per_pair, max_word_share)
        counts = {"considered": len(positions), **excluded}
        parts.append(_PairTriplets(models, rows, selection, limits, counts))

    if distinct_items:
        selected = _select_distinct(parts, triplets)
    elif has_limits:
        selected = [part.selection.solve_with_limits(*part.limits) for part in parts]
    else:
        selected = [part.selection.solve() for part in parts]
    sign = -TRIPLET_OBJECTIVES[objective].sign
    reports: list[dict[str, Any]] = [
        {
            "model_1": part.models[0],
            "model_2": part.models[1],
            **part.counts,
            "selected": len(indices),
            "objective": float((sign * part.selection.costs[indices]).sum()),
            "unfilled": part.selection.find_unfilled_strata(indices, part.models),
        }
        for part, indices in zip(parts, selected, strict=True)
    ]
    chosen = [part.rows[indices] for part, indices in zip(parts, selected, strict=True)]
    result = triplets.iloc[np.sort(np.concatenate(chosen))].copy()
    total = sum(report["objective"] for report in reports)
    result.attrs = {
        "objective": total,
        "strata": n_strata,
        "bound": total,
        "gap": 0.0,
        "solver": SOLVER if has_limits else ASSIGNMENT_SOLVER,
        "status": "optimal",
        "pairs": reports,
    }
    return result


@dataclass(frozen=True, eq=False)
class _PairTriplets:
    """Selection problem for one pair of models, with T triplets that may be selected.

    Attributes
    ----------
    models
        Names of the two models.
    rows : (T,) array
        Positions of the T triplets in the table of all triplets.
    selection
        Stratified selection among the T triplets.
    limits
        Matrix (n_limits, T) and upper limits (n_limits,) of additional constraints ``matrix @ x <=
        limits``, where x is 1 for selected triplets and 0 for other triplets (`_limit_words`).
    counts
        Number of triplets that were considered, and numbers of excluded triplets by reason.
    """

    models: tuple[str, str]
    rows: IntArray
    selection: StratifiedSelection
    limits: tuple[csr_array, FloatArray]
    counts: dict[str, int]


def _select_distinct(parts: Sequence[_PairTriplets], triplets: pd.DataFrame) -> list[IntArray]:
    """Select triplets for all pairs of models jointly, so that no two triplets share a sentence.

    A triplet is a natural sentence with two synthetic sentences, about which two models disagree.

    Parameters
    ----------
    parts
        Selection problem for each pair of models: its triplets, their costs and the limits on their
        number.
    triplets
        Table of all triplets.

    Returns
    -------
    list of arrays
        Sorted indices of the selected triplets of each selection problem.
    """
    # Concatenate the triplets of all problems. The strata of problem k are numbered from k n_strata
    # on, so that they remain distinct.
    n_strata = parts[0].selection.n_strata
    combined = StratifiedSelection(
        np.concatenate([part.selection.costs for part in parts]),
        np.concatenate([part.selection.strata + k * n_strata for k, part in enumerate(parts)]),
        n_strata * len(parts),
        parts[0].selection.per_stratum,
    )

    # Entry (s, t) of the matrix is 1 if triplet t contains sentence s. For sentences that occur in
    # several triplets, at most one of these triplets may be selected.
    sentences = triplets[list(_SENTENCES)].iloc[np.concatenate([part.rows for part in parts])]
    normalised = sentences.astype(str).map(normalise_sentence)
    sentence_indices = pd.factorize(normalised.to_numpy().ravel())[0]
    triplet_indices = np.repeat(np.arange(len(sentences)), len(_SENTENCES))
    occurrences = csr_array((np.ones(sentence_indices.size), (sentence_indices, triplet_indices)))
    shared = occurrences[np.bincount(sentence_indices) > 1]

    # Append these limits to the limits of the separate problems, which refer to disjoint triplets.
    matrices, upper_limits = zip(*(part.limits for part in parts), strict=True)
    separate: Any = block_diag(matrices, format="csr")
    matrix = csr_array(vstack([separate, shared], format="csr"))
    limits = np.concatenate([*upper_limits, np.ones(shared.shape[0])])
    selected = combined.solve_with_limits(matrix, limits)

    # Split the selected triplets by problem again.
    offsets = np.cumsum([0, *(len(part.rows) for part in parts)])
    return [
        selected[(selected >= start) & (selected < end)] - start for start, end in pairwise(offsets)
    ]


def _check_models(triplets: pd.DataFrame, objective: str) -> tuple[pd.Series, pd.Series]:
    """Check a table of triplets, and whether an objective is valid for the scores of its models.

    Parameters
    ----------
    triplets
        Table of triplets for pairs of models.
    objective
        Name of the objective, see `TRIPLET_OBJECTIVES`.

    Returns
    -------
    names_1, names_2 : Series of str
        Names of model 1 and of model 2 of each triplet.

    Raises
    ------
    InputError
        If a column or a name is missing, a pair of models is invalid, or the objective requires
        scores in nats and a model has others.
    """
    check_objective(objective, ())
    columns = ("model_1", "model_2", *_SENTENCES, *LOG_PROB_COLUMNS)
    require_columns(triplets, columns, "the triplets table")
    if triplets.empty:
        raise InfeasibleError("the triplets table has no row; synthesise triplets first")
    names = triplets[["model_1", "model_2"]]
    unnamed = np.flatnonzero((names.isna() | (names == "")).any(axis=1))
    if len(unnamed):
        raise InputError(
            f"row {unnamed[0] + 1} of the triplets table lacks a model's name; give it, or leave "
            "the row out"
        )
    names = names.astype(str)
    pairs = dict.fromkeys(zip(names["model_1"], names["model_2"], strict=True))
    for model_1, model_2 in pairs:
        if model_1 == model_2:
            raise InputError(f"model {model_1!r} is paired with itself in the triplets table")
        if (model_2, model_1) in pairs:
            raise InputError(
                f"the triplets table has {model_1} and {model_2} in both orders; swap models and "
                "synthetic sentences of one of them"
            )
    # A name is a model specification string itself, unless the table has a column of these strings.
    specs: dict[str, str] = {}
    for k in (1, 2):
        models = names[f"model_{k}"]
        model_specs = triplets.get(f"{SPEC}_{k}", models)
        model_specs = model_specs.where(model_specs.notna() & (model_specs != ""), models)
        specs |= zip(models, model_specs.astype(str), strict=True)
    check_objective(objective, specs)
    return names["model_1"], names["model_2"]


def _find_usable(
    table: pd.DataFrame, models: tuple[str, str], objective: str, ties: str
) -> tuple[IntArray, BoolArray, FloatArray, dict[str, int]]:
    """Find the triplets for a pair of models that can be selected, and compute their costs.

    Triplets with a missing or infinite log-probability are excluded. The T remaining triplets are
    sorted by natural sentence, then by cost, so that the result does not depend on the order of
    rows.

    Parameters
    ----------
    table
        Triplets for one pair of models.
    models
        Names of the two models, for error messages.
    objective
        Name of the objective.
    ties
        Rule for equal ranks, if the objective takes it.

    Returns
    -------
    usable : (T,) array
        Positions of the remaining triplets in `table`.
    is_best : (T,) array of bool
        Whether a triplet has the lowest cost of all triplets with the same natural sentence.
    costs : (T,) array
        Value of the objective for each triplet, negated if higher values are better.
    excluded : dict
        Number of triplets without finite log-probabilities (``not finite``), and number of
        triplets with ``is_best`` false (``repeated natural``).
    """
    is_finite = np.isfinite(table[list(LOG_PROB_COLUMNS)].to_numpy(dtype=np.float64)).all(axis=1)
    if not is_finite.any():
        raise InfeasibleError(
            f"model pair {models[0]} and {models[1]}: none of {len(table)} triplets has finite "
            "log-probabilities; synthesise some or leave the pair out"
        )
    scored, criterion = table[is_finite], TRIPLET_OBJECTIVES[objective]
    # Some objectives have an argument for the rank of tied triplets.
    options = {"ties": ties} if criterion.takes_ties else {}
    # The sum of costs is minimised, so negate values that are maximised.
    costs = -criterion.sign * criterion.value(scored, **options).to_numpy(dtype=np.float64)
    # Sort by natural sentence, then by cost; the texts break ties independently of the row order.
    keys = pd.DataFrame({name: scored[name].astype(str).to_numpy() for name in _SENTENCES})
    by = ["natural", "cost", *_SENTENCES[1:]]
    ordered = keys.assign(cost=costs).sort_values(by, kind="stable")
    # The first triplet with each natural sentence is its best.
    order, is_best = ordered.index.to_numpy(), ~ordered["natural"].duplicated().to_numpy()
    excluded = {"not finite": int((~is_finite).sum()), "repeated natural": int((~is_best).sum())}
    return np.flatnonzero(is_finite)[order], is_best, costs[order], excluded


def _find_strata(
    triplets: pd.DataFrame,
    models: tuple[str, str],
    is_best: BoolArray,
    reference: pd.DataFrame | None,
    n_strata: int,
) -> IntArray:
    """Return the stratum of each natural sentence under model 1 and model 2, shape (T, 2).

    The strata of a model are ranges of log-probability, numbered from 0. Their borders are the
    quantiles k / n_strata, k = 1, ..., n_strata - 1, over reference sentences.

    Parameters
    ----------
    triplets
        T triplets for one pair of models.
    models
        Names of model 1 and model 2.
    is_best : (T,) array of bool
        Whether a triplet is the first triplet with its natural sentence.
    reference
        Log-probabilities of the reference sentences, one column per model. By default, the natural
        sentences of the triplets are the reference sentences.
    n_strata
        Number of strata of each model.
    """
    strata_by_model = []
    for column, model in zip(("natural_lp_1", "natural_lp_2"), models, strict=True):
        log_probs = triplets[column].to_numpy(dtype=np.float64)
        # Count each natural sentence once, even if it has several triplets.
        if reference is None:
            reference_log_probs = log_probs[is_best]
        else:
            require_columns(reference, [model], "the reference table")
            reference_log_probs = reference[model].to_numpy(dtype=np.float64)
            if not np.isfinite(reference_log_probs).any():
                raise InputError(f"the reference table lacks a score for model {model!r}")
        # Quantiles 1/n, 2/n, ..., (n - 1)/n are the borders between n strata.
        levels = np.linspace(0, 1, n_strata + 1)[1:-1]
        is_finite = np.isfinite(reference_log_probs)
        borders = np.quantile(reference_log_probs[is_finite], levels)
        # The number of borders below a value is its stratum.
        strata_by_model.append(np.searchsorted(borders, log_probs, side="left"))
    return np.column_stack(strata_by_model).astype(np.int64)


def _limit_words(
    triplets: pd.DataFrame, is_best: BoolArray, n_sentences: int, share: float
) -> tuple[csr_array, FloatArray]:
    """Build constraints that limit how often each word and each natural sentence is selected.

    Let x_t be 1 if triplet t is selected and 0 otherwise, and let c_wt be the number of its
    synthetic sentences that contain word w. The constraints ``rows @ x <= limits`` are

    - sum_t c_wt x_t <= limit_w for each word w,
    - sum_t x_t <= 1 over the triplets with the same natural sentence.

    Parameters
    ----------
    triplets
        T triplets, sorted by natural sentence.
    is_best : (T,) array of bool
        Whether a triplet is the first triplet with its natural sentence.
    n_sentences
        Number of synthetic sentences to select.
    share
        Maximum fraction of the selected synthetic sentences that may contain the same word.

    Returns
    -------
    rows : sparse (n_limits, T) array
        Coefficients. Words and natural sentences that cannot exceed their limits are left out.
    limits : (n_limits,) array
        Upper limits.
    """
    word_counts: list[Counter[str]] = []
    # Count the synthetic sentences that contain each word, in each triplet and in total.
    total: Counter[str] = Counter()
    for pair in zip(triplets["synthetic_1"], triplets["synthetic_2"], strict=True):
        counts = Counter(word for text in pair for word in set(folded_words(str(text))))
        word_counts.append(counts)
        total.update(counts)
    # The limit for a word is at least its share in the natural sentences.
    natural = triplets["natural"][is_best]
    natural_counts = Counter(word for text in natural for word in set(folded_words(str(text))))
    base_limit = max(MIN_WORD_LIMIT, math.floor(share * n_sentences + 1e-9))
    limits: dict[str, int] = {}
    for word, n in sorted(total.items()):
        natural_limit = math.floor(n_sentences * natural_counts[word] / len(natural) + 1e-9)
        limit = max(base_limit, natural_limit)
        if n > limit:
            limits[word] = limit

    # Matrix of c_wt, the number of synthetic sentences of triplet t (column) with word w (row).
    c_wt = [[counts[word] for counts in word_counts] for word in limits]
    word_rows = csr_array(np.array(c_wt, dtype=np.float64).reshape(-1, len(triplets)))
    # Triplets with the same natural sentence are adjacent, the best first.
    natural_indices = np.cumsum(is_best) - 1
    n = len(natural_indices)
    sentence_rows = csr_array((np.ones(n), (natural_indices, np.arange(n))))
    sentence_rows = sentence_rows[np.bincount(natural_indices) > 1]
    upper = np.concatenate([[*limits.values()], np.ones(sentence_rows.shape[0])])
    return csr_array(vstack([word_rows, sentence_rows], format="csr")), upper
