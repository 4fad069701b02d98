"""Choosing among synthesised triplets: the most controversial, spread evenly over strata."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
import pandas as pd
import scipy  # which loads `optimize` at its first use
from pydantic import Field
from scipy.sparse import block_diag, csr_array, vstack

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InfeasibleError, InputError
from contstim.progress import waiting
from contstim.selection.highs import SOLVER, minimise
from contstim.selection.natural import MAX_PER_PAIR
from contstim.selection.triplet_objectives import (
    LOG_PROB_COLUMNS,
    TRIPLET_OBJECTIVES,
    check_objective,
    numeric_log_probs,
    triplet_specs,
)
from contstim.settings import Count, one_of, option, settings
from contstim.tables import require_columns
from contstim.text.diversity import MIN_WORD_LIMIT, check_word_share, folded_words
from contstim.text.normalise import normalise_sentence

_TEXTS = ("natural", "synthetic_1", "synthetic_2")
_MOST_STRATA = 10  # unless more are asked for


def resolve_n_strata(per_pair: int, strata: int | None, name: str = "per_pair") -> int:
    """Return how many strata share so many triplets equally: if None, ten, or the most below.

    Raises
    ------
    InputError
        If the number of triplets, called `name`, is no multiple of the strata asked for.
    """
    if not 1 <= per_pair <= MAX_PER_PAIR:
        raise InputError(f"{name} is {per_pair}; give 1 to {MAX_PER_PAIR}")
    if strata is None:
        return next(n for n in range(_MOST_STRATA, 0, -1) if per_pair % n == 0)
    if strata < 1 or per_pair % strata:
        raise InputError(
            f"{name} is {per_pair}, not a multiple of {strata} strata; change one of them, or "
            "leave strata out and as many are made as share the triplets equally"
        )
    return strata


@settings
class TripletSelection:
    """What commands and study plans ask of `select_triplets`."""

    per_pair: Annotated[int, Field(ge=1, le=MAX_PER_PAIR)] = option(10, "", "N")
    objective: Annotated[str, one_of(TRIPLET_OBJECTIVES)] = option(
        "controversiality",
        "what the total is of (default: controversiality, the sum of both falls in nats)",
    )
    strata: Count | None = option(
        None,
        "ranges of each model's log-probabilities, from each of which equally many triplets are "
        "chosen (default: ten, or the most below ten that share --per-pair equally)",
        "N",
    )
    max_word_share: Annotated[float, Field(ge=1e-6, le=1)] = option(
        1.0,
        "in what share of the chosen synthetic sentences of a pair a word may be, at most, unless "
        "natural sentences have it more often (default: 1, no limit)",
        "SHARE",
    )
    distinct_items: bool = option(
        False,
        "choose no two triplets that share a sentence, whatever their models, so that each is an "
        "item of its own",
    )


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
    """Select triplets of each model pair, equally many from each stratum of both models.

    Parameters
    ----------
    triplets
        A table with the columns of :data:`contstim.tables.TRIPLETS` (the log-probabilities of the
        synthetic sentences under the models that accept them are not needed).
    per_pair
        Triplets wanted for each model pair, a multiple of `strata` if these are given.
    objective
        ``controversiality`` (the total of Eq. 4, made large), ``worst-rank`` (the total of
        :func:`worst_ranks`, made small), or another of `TRIPLET_OBJECTIVES`.
    strata
        Number of quantile strata of each model's log-probabilities of natural sentences; 10 gives
        deciles. None: ten, or the most below ten of which `per_pair` is a multiple. A value on the
        border belongs to the lower stratum.
    reference
        Log-probabilities of a corpus, shape (S, M), whose quantiles define the strata; by default
        those of the pair's own triplets do.
    ties
        For ``worst-rank``, see :func:`worst_ranks`.
    max_word_share
        In what share of a pair's ``2 * per_pair`` synthetic sentences a word may be, at most: in
        two where that is more, and in as large a share as of the natural sentences of all its
        triplets. 1: no limit.
    distinct_items
        Whether no two of the chosen triplets, of whatever model pairs, may share a sentence, so
        that each is an item of its own (see :func:`contstim.design.design_trials`).

    Returns
    -------
    pandas.DataFrame
        The chosen rows, in their order, all columns kept. In ``.attrs``: ``objective`` (the total
        over all pairs), ``strata`` (how many), ``bound``, ``gap``, ``solver``, ``status``, and
        ``pairs``: for each model pair how many triplets were considered, left out and selected, its
        objective, and its ``unfilled`` strata.

    Raises
    ------
    InfeasibleError
        If a model pair has no usable triplet.
    InputError, UnknownNameError
        If table or arguments cannot be used.

    Notes
    -----
    Source: Golan et al. (2023), Section 4.8. A triplet is an edge between a stratum of model 1 and
    one of model 2, so the choice is an assignment problem and is solved exactly. Where strata are
    too thin, as many triplets as possible are selected first, and of those selections the one
    with the best objective is taken. Triplets with a missing or infinite log-probability are left
    out. A natural sentence is used once in a model pair, in its best triplet, or with
    `max_word_share` below 1 in that which leaves the best choice. When the strata are
    those of the triplets themselves, without ties and with equally many triplets in each, all
    strata can always be filled (König's theorem). Departure: with `max_word_share` below 1
    the choice is an integer programme, solved to the optimum as well; so it is with
    `distinct_items`, where all model pairs are chosen together: as many triplets as possible in
    all, and of those the best.

    Examples
    --------
    >>> from contstim import datasets
    >>> chosen = select_triplets(datasets.written_triplets(), per_pair=6, strata=2)
    >>> chosen.attrs["status"], len(chosen)
    ('optimal', 12)
    """
    check_word_share(max_word_share)
    strata = resolve_n_strata(per_pair, strata)
    first, second = _models_of(triplets, objective)
    numbered = numeric_log_probs(triplets)
    limited = distinct_items or max_word_share < 1
    parts: list[_Part] = []
    keys = [first.to_numpy(), second.to_numpy()]
    for key, rows in pd.Series(range(len(triplets))).groupby(keys, sort=False):
        pair, places = (str(key[0]), str(key[1])), np.asarray(rows, dtype=np.int64)
        usable, best, costs, left_out = _usable(numbered.iloc[places], pair, objective, ties)
        if not limited:
            usable, costs, best = usable[best], costs[best], best[best]
        places = places[usable]
        scored = numbered.iloc[places]
        cells = _cells(scored, best, pair, strata, reference)
        limits = csr_array((0, len(usable))), np.zeros(0)
        if max_word_share < 1:
            limits = _limits(scored, best, 2 * per_pair, max_word_share)
        grid = _Grid(costs, cells, strata, per_pair // strata)
        parts.append(_Part(pair, places, grid, limits, {"considered": len(rows), **left_out}))
    with waiting("choosing triplets"):
        if distinct_items:
            picks = _apart(parts, triplets)
        else:
            picks = [
                part.grid.solve_within(*part.limits) if limited else part.grid.solve()
                for part in parts
            ]
    chosen = [part.places[picked] for part, picked in zip(parts, picks, strict=True)]
    reports: list[dict[str, Any]] = [
        {
            "model_1": part.pair[0],
            "model_2": part.pair[1],
            **part.counts,
            "selected": len(picked),
            "objective": float(
                (-TRIPLET_OBJECTIVES[objective].sign * part.grid.costs[picked]).sum()
            ),
            "unfilled": part.grid.unfilled(picked, part.pair),
        }
        for part, picked in zip(parts, picks, strict=True)
    ]
    result = triplets.iloc[np.sort(np.concatenate(chosen))].copy()
    total = sum(report["objective"] for report in reports)
    result.attrs = {
        "objective": total,
        "strata": strata,
        "bound": total,
        "gap": 0.0,
        "solver": SOLVER if limited else "scipy linear_sum_assignment",
        "status": "optimal",
        "pairs": reports,
    }
    return result


@dataclass(frozen=True, eq=False)
class _Part:
    """The triplets of a model pair that can be chosen, T of them.

    `places` (T,) are their rows in the table, `limits` what `_limits` returns, `counts` how many
    there were and why some were left out.
    """

    pair: tuple[str, str]
    places: IntArray
    grid: _Grid
    limits: tuple[csr_array, FloatArray]
    counts: dict[str, int]


def _apart(parts: Sequence[_Part], triplets: pd.DataFrame) -> list[IntArray]:
    """Return which triplets of each model pair are chosen if no two share a sentence.

    All pairs are one grid, in which each has strata of its own.
    """
    strata, each = parts[0].grid.strata, parts[0].grid.each
    whole = _Grid(
        np.concatenate([part.grid.costs for part in parts]),
        np.concatenate([part.grid.cells + k * strata for k, part in enumerate(parts)]),
        strata * len(parts),
        each,
    )
    texts = triplets[list(_TEXTS)].iloc[np.concatenate([part.places for part in parts])]
    plain = texts.astype(str).map(normalise_sentence)
    codes = pd.factorize(plain.to_numpy().ravel())[0]
    n = len(texts)
    uses = csr_array((np.ones(codes.size), (codes, np.repeat(np.arange(n), len(_TEXTS)))))
    shared = uses[np.bincount(codes) > 1]
    words: Any = block_diag([part.limits[0] for part in parts], format="csr")
    limited = csr_array(vstack([words, shared], format="csr"))
    limits = np.concatenate([*(part.limits[1] for part in parts), np.ones(shared.shape[0])])
    picked = whole.solve_within(limited, limits)
    ends = np.cumsum([0, *(len(part.places) for part in parts)])
    return [picked[(picked >= low) & (picked < high)] - low for low, high in pairwise(ends)]


def _models_of(triplets: pd.DataFrame, objective: str) -> tuple[pd.Series, pd.Series]:
    """Return the names of the two models of each triplet; refuse a table that cannot be used."""
    check_objective(objective, ())
    require_columns(
        triplets, ("model_1", "model_2", *_TEXTS, *LOG_PROB_COLUMNS), "the triplets table"
    )
    if triplets.empty:
        raise InfeasibleError("the triplets table has no row; synthesise triplets first")
    names = triplets[["model_1", "model_2"]]
    unnamed = np.flatnonzero((names.isna() | (names == "")).any(axis=1))
    if len(unnamed):
        raise InputError(
            f"row {unnamed[0] + 1} of the triplets table lacks a model's name; give it, or leave "
            "the row out"
        )
    first, second = (triplets[name].astype(str) for name in ("model_1", "model_2"))
    pairs = dict.fromkeys(zip(first, second, strict=True))
    for model_1, model_2 in pairs:
        if model_1 == model_2:
            raise InputError(f"model {model_1!r} is paired with itself in the triplets table")
        if (model_2, model_1) in pairs:
            raise InputError(
                f"the triplets table has {model_1} and {model_2} both ways round; turn one of them"
            )
    check_objective(objective, triplet_specs(triplets))
    return first, second


def _usable(
    table: pd.DataFrame, pair: tuple[str, str], objective: str, ties: str
) -> tuple[IntArray, BoolArray, FloatArray, dict[str, int]]:
    """Return what of a pair's triplets can be chosen, in an order that rows have no part in.

    Returns
    -------
    array
        The rows that can be chosen, (T,).
    array
        Which of these is the best of its natural sentence, (T,).
    array
        Their costs, (T,).
    dict
        How many cannot be chosen.
    """
    finite = np.isfinite(table[list(LOG_PROB_COLUMNS)].to_numpy(dtype=np.float64)).all(axis=1)
    scored, chosen_by = table[finite], TRIPLET_OBJECTIVES[objective]
    rule = {"ties": ties} if chosen_by.ties else {}
    costs = -chosen_by.sign * chosen_by.value(scored, **rule).to_numpy(dtype=np.float64)
    if not len(scored):
        raise InfeasibleError(
            f"model pair {pair[0]} and {pair[1]}: none of {len(table)} triplets has finite "
            "log-probabilities; synthesise some or leave the pair out"
        )
    keys = pd.DataFrame({name: scored[name].astype(str).to_numpy() for name in _TEXTS})
    ordered = keys.assign(cost=costs).sort_values(["natural", "cost", *_TEXTS[1:]], kind="stable")
    order, best = ordered.index.to_numpy(), ~ordered["natural"].duplicated().to_numpy()
    left_out = {"not finite": int((~finite).sum()), "repeated natural": int((~best).sum())}
    return np.flatnonzero(finite)[order], best, costs[order], left_out


def _limits(
    triplets: pd.DataFrame, best: BoolArray, n_sentences: int, share: float
) -> tuple[csr_array, FloatArray]:
    """Return what is limited, words and natural sentences, (rows, T), and the limits.

    Of a word it is in how many of a triplet's sentences it is. Words and natural sentences that
    cannot come too often are left out.

    Parameters
    ----------
    triplets
        T triplets, those of a natural sentence together.
    best
        Which of them is the best of its natural sentence, (T,).
    n_sentences
        How many synthetic sentences are wanted.
    share
        In what share of them a word may be.
    """
    both = zip(triplets["synthetic_1"], triplets["synthetic_2"], strict=True)
    counts = [Counter(w for text in texts for w in {*folded_words(str(text))}) for texts in both]
    natural = triplets["natural"][best]
    usual = Counter(w for text in natural for w in {*folded_words(str(text))})
    most = max(MIN_WORD_LIMIT, math.floor(share * n_sentences + 1e-9))
    total = Counter[str]()
    for of_triplet in counts:
        total.update(of_triplet)
    limits = {
        word: limit
        for word, n in sorted(total.items())
        if n > (limit := max(most, math.floor(n_sentences * usual[word] / len(natural) + 1e-9)))
    }
    number = {word: k for k, word in enumerate(limits)}
    memberships = [
        (number[w], t, n)
        for t, of_triplet in enumerate(counts)
        for w, n in of_triplet.items()
        if w in number
    ]
    rows, columns, values = np.array(memberships, dtype=np.int64).reshape(-1, 3).T
    matrix = csr_array((values.astype(np.float64), (rows, columns)), (len(limits), len(triplets)))
    of = np.cumsum(best) - 1
    once = csr_array((np.ones(len(of)), (of, np.arange(len(of)))))[np.bincount(of) > 1]
    upper = np.array([*limits.values(), *[1] * once.shape[0]], dtype=np.float64)
    return csr_array(vstack([matrix, once], format="csr")), upper


def _cells(
    scored: pd.DataFrame,
    best: BoolArray,
    pair: tuple[str, str],
    strata: int,
    reference: pd.DataFrame | None,
) -> IntArray:
    """Return the strata of the natural sentences under both models, shape (T, 2).

    Without a reference each natural sentence counts once for them, where `best` (T,) is true.
    """
    cells = []
    for column, model in zip(LOG_PROB_COLUMNS[:2], pair, strict=True):
        values = scored[column].to_numpy(dtype=np.float64)
        of = values[best]
        if reference is not None:
            require_columns(reference, [model], "the reference table")
            of = reference[model].to_numpy(dtype=np.float64)
            if not np.isfinite(of).any():
                raise InputError(f"the reference table has no score of model {model!r}")
        edges = np.quantile(of[np.isfinite(of)], np.linspace(0, 1, strata + 1)[1:-1])
        cells.append(np.searchsorted(edges, values, side="left").astype(np.int64))
    return np.column_stack(cells)


@dataclass(frozen=True, eq=False)
class _Grid:
    """Choose rows of least total cost, at most `each` from each stratum of either model.

    `costs` has shape (T,), `cells` shape (T, 2).
    """

    costs: FloatArray
    cells: IntArray
    strata: int
    each: int

    def solve(self) -> IntArray:
        """Return the chosen rows.

        Each row is a node on both sides, so that it is used once: a place of its first stratum
        takes it on the right only if, on the left, it takes a place of its second. Two empty places
        may take each other at a cost no saving can outweigh, which makes the number chosen
        maximal. Of the rows in one cell, only the `each` that cost least can matter.
        """
        order = np.lexsort((np.arange(len(self.costs)), self.costs))
        cell = pd.Series(self.cells[order, 0] * self.strata + self.cells[order, 1])
        rows = np.sort(order[cell.groupby(cell).cumcount().to_numpy() < self.each])
        n, places = len(rows), self.strata * self.each
        place_stratum = np.repeat(np.arange(self.strata), self.each)
        costs = self.costs[rows]
        prohibitive = 1.0 + 2.0 * float(np.abs(costs).sum())
        table = np.full((places + n, places + n), np.inf)
        table[:places, :places] = prohibitive
        fits_1 = place_stratum[:, None] == self.cells[rows, 0][None, :]
        table[:places, places:] = np.where(fits_1, costs[None, :], np.inf)
        fits_2 = self.cells[rows, 1][:, None] == place_stratum[None, :]
        table[places:, :places] = np.where(fits_2, 0.0, np.inf)
        np.fill_diagonal(table[places:, places:], 0.0)
        _, columns = scipy.optimize.linear_sum_assignment(table)
        columns_of_places = columns[:places]
        return np.asarray(rows[np.sort(columns_of_places[columns_of_places >= places] - places)])

    def solve_within(self, limited: csr_array, limits: FloatArray) -> IntArray:
        """Return the chosen rows where ``limited @ chosen <= limits`` has to hold as well.

        First as many as possible are chosen, then, of that many, those that cost least.
        """
        n = len(self.costs)
        places = np.concatenate([self.cells[:, 0], self.strata + self.cells[:, 1]])
        of_stratum = csr_array(
            (np.ones(2 * n), (places, np.tile(np.arange(n), 2))), (2 * self.strata, n)
        )
        rows: Any = vstack([of_stratum, limited, csr_array(np.ones((1, n)))], format="csr")
        upper = np.concatenate([np.full(2 * self.strata, float(self.each)), limits, [np.inf]])
        chosen = np.zeros(n)
        for costs in (-np.ones(n), self.costs):
            lower = np.append(np.zeros(len(upper) - 1), chosen.sum())
            answer = minimise(costs, rows, lower, upper)
            if answer.x is None or answer.status != "optimal":
                raise InfeasibleError(f"HiGHS found no choice of triplets: {answer.status}")
            chosen = answer.x
        return np.flatnonzero(chosen)

    def unfilled(self, picked: IntArray, models: tuple[str, str]) -> list[dict[str, object]]:
        """List the strata with fewer chosen than wanted."""
        short: list[dict[str, object]] = []
        for side, model in enumerate(models):
            inside = self.cells[:, side]
            selected, available = (
                np.bincount(own, minlength=self.strata).tolist() for own in (inside[picked], inside)
            )
            for stratum, (n, most) in enumerate(zip(selected, available, strict=True)):
                if n < self.each:
                    place = {"model": model, "stratum": stratum, "wanted": self.each}
                    short.append({**place, "selected": n, "available": most})
        return short
