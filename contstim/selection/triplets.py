"""Selection of the most controversial triplets, the same number from each stratum."""

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
from contstim.errors import InfeasibleError, InputError
from contstim.progress import show_elapsed_time
from contstim.selection.highs import SOLVER
from contstim.selection.natural import ASSIGNMENT_SOLVER
from contstim.selection.strata import StratifiedSelection, resolve_n_strata
from contstim.selection.triplet_objectives import (
    LOG_PROB_COLUMNS,
    TRIPLET_OBJECTIVES,
    check_objective,
    numeric_log_probs,
)
from contstim.tables import SPEC, require_columns
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
    """Select triplets for each pair of models, the same number from each stratum of both models.

    A stratum is a quantile range of a model's log-probabilities of natural sentences. If strata
    have too few triplets, as many as possible are selected. Among the selections of this size, the
    selection with the best total objective is returned (`StratifiedSelection` states the formulas).

    Parameters
    ----------
    triplets
        Table with the columns of :data:`contstim.tables.TRIPLETS`; the log-probabilities of the
        synthetic sentences under the models that accept them may be missing.
    per_pair : int, default 10
        Number of triplets for each pair of models; a multiple of `strata`.
    objective : str, default "controversiality"
        Name of an objective in `TRIPLET_OBJECTIVES`: ``controversiality`` (total of Eq. 4,
        maximised) or ``worst-rank`` (total of :func:`worst_ranks`, minimised).
    strata : int, optional
        Number of strata per model; by default the largest divisor of `per_pair` up to ten. A value
        on the border of two strata belongs to the lower.
    reference : (S, M) DataFrame, optional
        Log-probabilities of a corpus in nats. Their quantiles define the strata. By default, the
        log-probabilities of the natural sentences of the triplets.
    ties : str, default "average"
        For ``worst-rank``, see :func:`worst_ranks`.
    max_word_share : float, default 1
        Maximum share of the selected synthetic sentences of a pair of models that may contain the
        same word; 1 for no limit. Two sentences, or the share of the word in the natural
        sentences, are always allowed.
    distinct_items : bool, default False
        Whether no two triplets, of any models, may share a sentence, so that each triplet is an
        separate item (see :func:`contstim.design.design_trials`).

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
    Source: Golan et al. (2023), section 4.8. The problem is an assignment problem, since each
    triplet joins a stratum of model 1 and a stratum of model 2. With `max_word_share` or
    `distinct_items` it is an integer programme, with `distinct_items` over all pairs of models at
    once. Both are solved exactly. Triplets with a missing or infinite log-probability are excluded.
    A natural sentence is used once per pair of models.

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
        usable, is_best, costs, excluded = _usable_triplets(
            table.iloc[rows], models, objective, ties
        )
        if not has_limits:
            # Without limits, only the best triplet of each natural sentence can be selected.
            usable, costs, is_best = usable[is_best], costs[is_best], is_best[is_best]
        rows = rows[usable]
        scored = table.iloc[rows]

        strata_by_model = []
        for column, model in zip(LOG_PROB_COLUMNS[:2], models, strict=True):
            log_probs = scored[column].to_numpy(dtype=np.float64)
            corpus = log_probs[is_best]
            if reference is not None:
                require_columns(reference, [model], "the reference table")
                corpus = reference[model].to_numpy(dtype=np.float64)
                if not np.isfinite(corpus).any():
                    raise InputError(f"the reference table has no score of model {model!r}")
            levels = np.linspace(0, 1, n_strata + 1)[1:-1]
            borders = np.quantile(corpus[np.isfinite(corpus)], levels)
            strata_by_model.append(np.searchsorted(borders, log_probs, side="left"))
        selection = StratifiedSelection(
            costs, np.column_stack(strata_by_model).astype(np.int64), n_strata, per_pair // n_strata
        )
        limits = csr_array((0, len(usable))), np.zeros(0)
        if max_word_share < 1:
            limits = _limit_words(scored, is_best, 2 * per_pair, max_word_share)
        counts = {"considered": len(positions), **excluded}
        parts.append(_PairTriplets(models, rows, selection, limits, counts))

    with show_elapsed_time("choosing triplets"):
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
            "unfilled": part.selection.unfilled_strata(indices, part.models),
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
    """Selection problem of one pair of models: T usable triplets and the constraints on them.

    Attributes
    ----------
    models
        Names of the two models.
    rows : (T,) array
        Positions of the usable triplets in the table of all triplets.
    selection
        Stratified selection of the usable triplets.
    limits
        Matrix and upper limits of the additional constraints ``matrix @ x <= limits``, see
        `_limit_words`.
    counts
        Number of triplets that were considered, and numbers of excluded triplets by reason.
    """

    models: tuple[str, str]
    rows: IntArray
    selection: StratifiedSelection
    limits: tuple[csr_array, FloatArray]
    counts: dict[str, int]


def _select_distinct(parts: Sequence[_PairTriplets], triplets: pd.DataFrame) -> list[IntArray]:
    """Select triplets of all pairs of models at once such that no two share a sentence.

    The problems of the pairs of models are combined into one problem, in which each pair of models
    has its own strata and each sentence may be selected once. The result contains, for each element
    of `parts`, the sorted indices of its selected triplets.
    """
    n_strata = parts[0].selection.n_strata
    combined = StratifiedSelection(
        np.concatenate([part.selection.costs for part in parts]),
        np.concatenate([part.selection.strata + k * n_strata for k, part in enumerate(parts)]),
        n_strata * len(parts),
        parts[0].selection.per_stratum,
    )
    # One constraint for each sentence of several triplets: at most one of them is selected.
    sentences = triplets[list(_SENTENCES)].iloc[np.concatenate([part.rows for part in parts])]
    normalised = sentences.astype(str).map(normalise_sentence)
    codes = pd.factorize(normalised.to_numpy().ravel())[0]
    columns = np.repeat(np.arange(len(sentences)), len(_SENTENCES))
    uses = csr_array((np.ones(codes.size), (codes, columns)))
    shared = uses[np.bincount(codes) > 1]
    word_rows: Any = block_diag([part.limits[0] for part in parts], format="csr")
    rows = csr_array(vstack([word_rows, shared], format="csr"))
    limits = np.concatenate([*(part.limits[1] for part in parts), np.ones(shared.shape[0])])
    selected = combined.solve_with_limits(rows, limits)
    offsets = np.cumsum([0, *(len(part.rows) for part in parts)])
    return [
        selected[(selected >= start) & (selected < end)] - start for start, end in pairwise(offsets)
    ]


def _check_models(triplets: pd.DataFrame, objective: str) -> tuple[pd.Series, pd.Series]:
    """Check a table of triplets and whether the objective suits the scores of its models.

    Two columns are returned: the names of model 1 and of model 2 of each triplet.
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
    # A name is itself a spec, unless the table has a column of specs.
    specs: dict[str, str] = {}
    for k in (1, 2):
        models = names[f"model_{k}"]
        model_specs = triplets.get(f"{SPEC}_{k}", models)
        model_specs = model_specs.where(model_specs.notna() & (model_specs != ""), models)
        specs |= zip(models, model_specs.astype(str), strict=True)
    check_objective(objective, specs)
    return names["model_1"], names["model_2"]


def _usable_triplets(
    table: pd.DataFrame, models: tuple[str, str], objective: str, ties: str
) -> tuple[IntArray, BoolArray, FloatArray, dict[str, int]]:
    """Find the triplets of a pair of models that can be selected, and compute their costs.

    Triplets with a missing or infinite log-probability are excluded. The others are sorted by
    natural sentence, then by cost, so that the result does not depend on the order of rows.

    Returns
    -------
    usable : (T,) array
        Positions of the usable triplets in `table`.
    is_best : (T,) array of bool
        Whether a triplet has the lowest cost of the triplets with its natural sentence.
    costs : (T,) array
        Value of the objective for each triplet, with the sign such that lower is better.
    excluded : dict
        Number of triplets without finite log-probabilities (``not finite``), and of those that are
        not the best with their natural sentence (``repeated natural``).
    """
    is_finite = np.isfinite(table[list(LOG_PROB_COLUMNS)].to_numpy(dtype=np.float64)).all(axis=1)
    if not is_finite.any():
        raise InfeasibleError(
            f"model pair {models[0]} and {models[1]}: none of {len(table)} triplets has finite "
            "log-probabilities; synthesise some or leave the pair out"
        )
    scored, criterion = table[is_finite], TRIPLET_OBJECTIVES[objective]
    options = {"ties": ties} if criterion.takes_ties else {}
    costs = -criterion.sign * criterion.value(scored, **options).to_numpy(dtype=np.float64)
    keys = pd.DataFrame({name: scored[name].astype(str).to_numpy() for name in _SENTENCES})
    by = ["natural", "cost", *_SENTENCES[1:]]
    ordered = keys.assign(cost=costs).sort_values(by, kind="stable")
    order, is_best = ordered.index.to_numpy(), ~ordered["natural"].duplicated().to_numpy()
    excluded = {"not finite": int((~is_finite).sum()), "repeated natural": int((~is_best).sum())}
    return np.flatnonzero(is_finite)[order], is_best, costs[order], excluded


def _limit_words(
    triplets: pd.DataFrame, is_best: BoolArray, n_sentences: int, share: float
) -> tuple[csr_array, FloatArray]:
    """Build the constraints that limit how often a word and a natural sentence are selected.

    Let x_t be 1 if triplet t is selected, and c_wt the number of its synthetic sentences that
    contain word w. The constraints ``rows @ x <= limits`` are

    - sum_t c_wt x_t <= limit_w for each word w: few selected sentences share a word;
    - sum_t x_t <= 1 over the triplets with the same natural sentence.

    Parameters
    ----------
    triplets
        T triplets, sorted by natural sentence.
    is_best : (T,) array of bool
        Whether a triplet is the first of its natural sentence.
    n_sentences
        Number of synthetic sentences to select.
    share
        Maximum share of them that may contain the same word.

    Returns
    -------
    rows : sparse (n_limits, T) array
        Coefficients; words and sentences that cannot exceed their limits are omitted.
    limits : (n_limits,) array
        Upper limits.
    """
    word_counts: list[Counter[str]] = []
    total: Counter[str] = Counter()
    for pair in zip(triplets["synthetic_1"], triplets["synthetic_2"], strict=True):
        counts = Counter(word for text in pair for word in set(folded_words(str(text))))
        word_counts.append(counts)
        total.update(counts)
    natural = triplets["natural"][is_best]
    natural_counts = Counter(word for text in natural for word in set(folded_words(str(text))))
    base_limit = max(MIN_WORD_LIMIT, math.floor(share * n_sentences + 1e-9))
    limits: dict[str, int] = {}
    for word, n in sorted(total.items()):
        natural_limit = math.floor(n_sentences * natural_counts[word] / len(natural) + 1e-9)
        limit = max(base_limit, natural_limit)
        if n > limit:
            limits[word] = limit

    index = {word: k for k, word in enumerate(limits)}
    # Sparse matrix of the coefficients c_wt, from (word, triplet, count) entries.
    entries = [
        (index[word], t, n)
        for t, counts in enumerate(word_counts)
        for word, n in counts.items()
        if word in index
    ]
    rows, columns, values = np.array(entries, dtype=np.int64).reshape(-1, 3).T
    shape = (len(limits), len(triplets))
    word_rows = csr_array((values.astype(np.float64), (rows, columns)), shape)
    sentence = np.cumsum(is_best) - 1
    sentence_rows = csr_array((np.ones(len(sentence)), (sentence, np.arange(len(sentence)))))
    sentence_rows = sentence_rows[np.bincount(sentence) > 1]
    upper = np.array([*limits.values(), *[1] * sentence_rows.shape[0]], dtype=np.float64)
    return csr_array(vstack([word_rows, sentence_rows], format="csr")), upper
