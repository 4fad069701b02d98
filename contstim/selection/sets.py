"""Sentence pairs that set all models of a set against each other at once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field

from contstim.arrays import IntArray
from contstim.errors import InfeasibleError, InputError, require_whole
from contstim.plugins import Registry
from contstim.progress import waiting
from contstim.response_model import ResponseModel
from contstim.selection.constraints import SelectionConstraint, merge_equal, pairing_codes
from contstim.selection.scores import RankedScores, eligible_rows, rank_scores
from contstim.selection.set_candidates import (
    even_split_pairs,
    extreme_pairs,
    priced_pairs,
    tries_all_splits,
)
from contstim.selection.set_criteria import LogBayesFactor, Separation, SetCriterion
from contstim.selection.set_programme import NO_PAIR, SetProgramme, feasible_pairs
from contstim.settings import Count, one_of, option, settings

#: What a selection for a set makes as large as possible for the two models where it is least.
SET_CRITERIA = Registry[type[SetCriterion]](
    "criterion",
    "contstim.set_criteria",
    {"separation": Separation, "log-bf": LogBayesFactor},
    SetCriterion,
)


@settings
class SetSelection:
    """What commands and study plans ask of `select_set`."""

    n: Count = option(360, "number of pairs", "N")
    criterion: Annotated[str, one_of(SET_CRITERIA)] = option(
        "separation",
        "what is made large for the two models where it is least: how many pairs separate them, or "
        "the expected log Bayes factor of people's answers",
    )
    rank_margin: Annotated[float, Field(ge=0, lt=1)] = option(
        0.0,
        "two models are separated only where fractional ranks differ by more than this under both",
        "RANK",
    )
    uses: Count = option(1, "in how many pairs a sentence may be", "N")
    time_limit: Annotated[float, Field(gt=0)] = option(60.0, "for the integer programme", "SECONDS")
    response_model: ResponseModel | None = None


# Up to so many sentences all their pairs are candidates.
_ALL_PAIRS_UP_TO = 150

# Even splits of many models among the candidates of the integer programme, for each pair that is
# to be chosen; it is left out where pairs chosen one at a time reach this part of the bound.
_EVEN, _NEAR = 5, 0.98


# Rounds in which candidates for expected log Bayes factors are added.
_ROUNDS = 6


def select_set(
    log_probs: pd.DataFrame,
    n: int = 360,
    *,
    criterion: str = "separation",
    rank_margin: float = 0.0,
    response_model: ResponseModel | None = None,
    eligible: pd.Series | None = None,
    pairs: pd.DataFrame | None = None,
    constraints: Sequence[SelectionConstraint] = (),
    uses: int = 1,
    time_limit: float = 60.0,
    seed: int = 0,
) -> pd.DataFrame:
    """Select sentence pairs that tell every two models of a set apart as well as possible.

    A pair of sentences *separates* two models that order it oppositely. One pair can separate many
    model pairs, so far fewer trials are needed than with pairs chosen for each two models.

    Parameters
    ----------
    log_probs
        Log-probabilities, shape (S, M): a row per sentence (unique labels), a column per model.
    n
        Number of sentence pairs.
    criterion
        What is made large for the two models for which it is least: ``separation``, how many
        sentence pairs separate them; ``log-bf``, the sum over sentence pairs of the expected log
        Bayes factor of one answer between them, see `response_model`; or another of `SET_CRITERIA`.
    rank_margin
        Two models are separated only if the fractional ranks of the two sentences differ by more
        than this under both.
    response_model
        For ``log-bf``: how participants answer if a model is right; by default `ResponseModel()`.
    eligible
        True for each sentence that may be put together with another, by label. Ranks are taken
        over all sentences.
    pairs
        Further candidates, as `triplet_pairs` makes them: ``sentence_1, sentence_2``, labels of
        `log_probs`, eligible or not.
    constraints
        What the selection must keep. Sentence 1 is the one that the first model (by name) prefers;
        a constraint between the two sides (`Balance`) holds between what a model prefers and what
        it does not, for every model.
    uses
        In how many of the pairs a sentence may be.
    time_limit
        Seconds for the integer programme. Where they end before it does, the best is taken of what
        it found, of its relaxation rounded and, without constraints, of pairs chosen one at a time;
        that depends on how fast the machine is.
    seed
        Settles which splits are tried one by one where there are more than 10 models.

    Returns
    -------
    pandas.DataFrame
        One row per pair: ``sentence_1, sentence_2`` (labels), ``prefer_1`` and ``prefer_2`` (the
        models that rank that sentence higher, joined by spaces), ``separated`` (number of model
        pairs), ``least_difference`` (of fractional ranks, over the models) and, for ``log-bf``,
        ``log_bayes_factor`` (the mean over model pairs, nats). In ``.attrs``: ``objective``
        (the criterion, for the two models for which it is least), ``bound`` (no selection reaches
        more), ``gap``, ``mean`` (model pairs that a sentence pair separates), ``separations`` (for
        each model pair ``separated`` and for ``log-bf`` ``log_bayes_factor``, summed over sentence
        pairs), ``criterion``, ``solver``, ``status`` (``optimal`` where the bound is reached, else
        ``feasible``), ``ranked``, ``candidates`` (sentences), ``considered`` (their pairs) and
        ``excluded``.

    Raises
    ------
    InfeasibleError
        If there are too few sentences, or naming the constraints that cannot be met and by how
        much.
    InputError
        If scores or arguments cannot be used.

    Notes
    -----
    A sentence pair that k of M models order one way separates k (M - k) of the M (M - 1) / 2 model
    pairs, at most floor(M / 2) ceil(M / 2). The least number of separations is at most their mean,
    which gives the bound ``n floor(M / 2) ceil(M / 2) / (M (M - 1) / 2)``, rounded down,
    whatever the sentences are: 55.6 % of the pairs for nine models. It is the optimum of the linear
    programme over all splits of the models. Where all pairs of sentences are candidates, the
    integer programme proves a bound for these sentences, which can be lower. For the bound on
    expected log Bayes factors see `LogBayesFactor.bound`.

    Not all S (S - 1) / 2 pairs are listed where sentences are many. For each split, sentences at
    both ends of the projection (mean rank of one side minus that of the other) are paired, and
    those pairs are candidates whose smallest rank difference in the split's direction is largest.
    For ``log-bf`` the linear relaxation over these gives each model pair a price, and pairs that
    are highest in value at these prices are added, in several rounds. HiGHS then chooses among the
    candidates; among equal separations it prefers large rank differences.

    Of more than 10 models not all splits can be tried one by one. Sentences are then compared that
    follow each other in the order of mean ranks, at up to ten million pairs of places; those pairs
    are candidates on which half of the models prefer either sentence, whatever half, and whose
    smallest rank difference is largest. Without constraints they are chosen one at a time
    (`SetProgramme.greedy_set`), and HiGHS is asked only where that
    stays more than 2 % below the bound.

    Examples
    --------
    >>> from contstim import datasets
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt", "contstim:rnn"]]
    >>> pairs = select_set(scores[:60], n=10, time_limit=5)
    >>> pairs.loc[0, "sentence_1"]
    'I have had a headache ever since breakfast.'
    """
    _refuse(n, seed, uses, criterion, rank_margin, response_model, time_limit)
    ranked = rank_scores(log_probs)
    keep, excluded = eligible_rows(ranked, eligible)
    given = _given(pairs, ranked)
    if pairs is not None:
        excluded["pair with a missing or infinite score"] = len(pairs) - len(given)
    elif uses * len(keep) < 2 * n:
        raise InfeasibleError(
            f"{n} pairs want {-(-2 * n // uses)} different sentences, {len(keep)} possible; ask "
            "for fewer pairs or add sentences"
        )
    rows = np.union1d(keep, given)
    if len(rows) < 2:
        raise InfeasibleError(NO_PAIR)
    kind, of = SET_CRITERIA[criterion], keep if len(keep) > 1 else rows
    measure = kind(log_probs, ranked, of, rank_margin, response_model)
    choice = _Selection(measure, keep, given, merge_equal(constraints), n, uses, time_limit)
    problem, chosen, bound, solver = choice.made(measure.bound(rows, n, uses), seed)
    table, separations = _result_table(measure, problem, chosen)
    objective = problem.least_sum(chosen)
    bound = objective if bound < objective <= bound * (1 + 1e-6) else bound  # but for rounding
    if measure.is_count:
        objective, bound = int(objective), int(bound)
    table.attrs = {
        "objective": objective,
        "bound": bound,
        "gap": bound - objective,
        "mean": float(table["separated"].mean()),
        "separations": separations,
        "criterion": criterion,
        "solver": solver,
        "status": "optimal" if objective >= bound * (1 - 1e-9) else "feasible",
        "ranked": len(ranked.labels),
        "candidates": len(rows),
        "considered": len(problem.pairs),
        "excluded": excluded,
    }
    return table


def _refuse(
    n: int,
    seed: int,
    uses: int,
    criterion: str,
    rank_margin: float,
    response_model: ResponseModel | None,
    time_limit: float,
) -> None:
    """Refuse arguments of `select_set` that cannot be used, or do not go together."""
    for name, value, fewest in (("n", n, 1), ("seed", seed, 0), ("uses", uses, 1)):
        require_whole(name, value, fewest)
    if not time_limit > 0:
        raise InputError(f"time_limit is {time_limit}; give seconds above 0")
    kind = SET_CRITERIA[criterion]
    if not 0 <= rank_margin < 1:
        raise InputError(f"rank_margin is {rank_margin}; rank differences lie from 0 to below 1")
    if rank_margin and not kind.uses_rank_margin:
        raise InputError(
            f"rank_margin is {rank_margin}, but the criterion {criterion!r} has none; leave it out"
        )
    if response_model is not None and not kind.uses_response_model:
        raise InputError(f"how participants answer is of no use for {criterion!r}; choose 'log-bf'")


@dataclass(frozen=True, eq=False)
class _Selection:
    """The choice of `n` pairs: what they are measured by, and what they may be.

    `keep` are the rows that may be put together, `given` the pairs that are candidates besides; the
    rest is as for `select_set`.
    """

    measure: SetCriterion
    keep: IntArray
    given: IntArray
    constraints: Sequence[SelectionConstraint]
    n: int
    uses: int
    time_limit: float

    def made(self, bound: float, seed: int) -> tuple[SetProgramme, IntArray, float, str]:
        """Return the candidates, those chosen, a bound at most `bound`, and what chose."""
        ranks, rank_margin = self.measure.ranked.fractions, self.measure.rank_margin
        candidates = [self.given]
        greedy_set: tuple[SetProgramme, IntArray] | None = None
        complete = len(self.keep) <= _ALL_PAIRS_UP_TO
        if complete:
            candidates += [self.keep[np.column_stack(np.triu_indices(len(self.keep), 1))]]
        elif self.measure.is_count and not tries_all_splits(ranks.shape[1]):
            tied = self._tied()
            even = [own[even_split_pairs(ranks[own], share, rank_margin)] for own, share in tied]
            if not self.constraints:
                # One pair at a time among all the even ones, if sentences suffice for that.
                problem = self._among([self.given, *even])
                with waiting("choosing pairs"):
                    chosen_singly = problem.greedy_set(bound)
                greedy_set = None if chosen_singly is None else (problem, chosen_singly)
            candidates += [
                best[: _EVEN * share] for best, (_, share) in zip(even, tied, strict=True)
            ]
        reached = 0.0 if greedy_set is None else greedy_set[0].least_sum(greedy_set[1])
        if greedy_set is not None and reached >= _NEAR * bound:
            return *greedy_set, bound, "one pair at a time"
        wider = self._wider(candidates, complete, np.random.default_rng(seed))
        with waiting("choosing pairs", self.time_limit):
            chosen, proven, how = wider.choose(bound, self.time_limit)
        if complete:
            bound = min(bound, proven)
        if greedy_set is not None and wider.least_sum(chosen) <= reached:
            return *greedy_set, bound, "one pair at a time"
        return wider, chosen, bound, how

    def _among(self, pairs: Sequence[IntArray]) -> SetProgramme:
        return SetProgramme(
            self.measure, np.concatenate(pairs), self.constraints, self.n, self.uses
        )

    def _wider(
        self, pairs: list[IntArray], complete: bool, rng: np.random.Generator
    ) -> SetProgramme:
        """Return the candidates of the integer programme: those found, and promising ones."""
        ranked, keep, n = self.measure.ranked, self.keep, self.n
        if not complete:
            promising = (
                own[extreme_pairs(ranked.fractions[own], share, rng)] for own, share in self._tied()
            )
            pairs = [*pairs, *promising]
        if self.constraints:
            rows = np.union1d(keep, self.given)
            keeping = feasible_pairs(ranked, rows, self.constraints, n, self.uses, rng)
            pairs = pairs if complete else [*pairs, keeping[np.isin(keeping, keep).all(axis=1)]]
        wider = self._among(pairs)
        if isinstance(self.measure, LogBayesFactor) and not complete:
            with waiting("looking for pairs"):
                for _ in range(_ROUNDS):
                    dual_prices = wider.dual_prices()
                    more = (priced_pairs(self.measure, *tied, dual_prices) for tied in self._tied())
                    wider = self._among([wider.pairs, *more])
        return wider

    def _tied(self) -> list[tuple[IntArray, int]]:
        """Return the rows of which every two may be a pair, with their share of the pairs."""
        ties = pairing_codes(self.constraints, self.measure.ranked.labels)[self.keep]
        every = [self.keep[ties == tie] for tie in np.unique(ties)]
        return [(own, -(-self.n * len(own) // len(self.keep))) for own in every if len(own) > 1]


def triplet_pairs(triplets: pd.DataFrame) -> pd.DataFrame:
    """Return the sentence pairs of triplets: natural and either synthetic one, and both of these.

    Parameters
    ----------
    triplets
        With the columns ``natural``, ``synthetic_1`` and ``synthetic_2``.

    Returns
    -------
    pandas.DataFrame
        ``sentence_1, sentence_2``: three rows a triplet, each pair once, without those of equal
        sentences.

    Examples
    --------
    >>> from contstim import datasets
    >>> pairs = triplet_pairs(datasets.written_triplets())
    >>> len(datasets.written_triplets()), len(pairs)
    (35, 105)
    """
    parts = [
        triplets[[one, two]].set_axis(["sentence_1", "sentence_2"], axis=1)
        for one, two in combinations(("natural", "synthetic_1", "synthetic_2"), 2)
    ]
    pairs = pd.concat(parts, ignore_index=True)
    unequal = pairs[pairs["sentence_1"] != pairs["sentence_2"]]
    return unequal.drop_duplicates(ignore_index=True)


def _given(pairs: pd.DataFrame | None, ranked: RankedScores) -> IntArray:
    """Return the rows of the pairs given, shape (number, 2), without those of no finite score."""
    if pairs is None:
        return np.empty((0, 2), dtype=np.int64)
    place = pd.Series(np.arange(len(ranked.labels)), index=ranked.labels)
    columns = []
    for column in ("sentence_1", "sentence_2"):
        if column not in pairs:
            raise InputError(f"pairs has no column {column!r}; give sentence_1 and sentence_2")
        columns.append(place.reindex(pairs[column]).fillna(-1).to_numpy(dtype=np.int64))
    rows = np.column_stack(columns)
    rows = rows[(rows >= 0).all(axis=1)]
    return np.asarray(rows[ranked.finite[rows].all(axis=1)])


def _result_table(
    measure: SetCriterion, problem: SetProgramme, chosen: IntArray
) -> tuple[pd.DataFrame, list[dict[Hashable, Any]]]:
    """Return the chosen pairs, and how far every two models are told apart by them."""
    ranked, pairs, contributions = (
        measure.ranked,
        problem.pairs[chosen],
        problem.contributions[chosen],
    )
    signs, separated = ranked.signs(pairs), measure.separated(pairs)
    table = pd.DataFrame(
        {"sentence_1": ranked.labels[pairs[:, 0]], "sentence_2": ranked.labels[pairs[:, 1]]}
    )
    models = np.array(ranked.models, dtype=object)
    for column, prefers in (("prefer_1", signs > 0), ("prefer_2", signs < 0)):
        table[column] = [" ".join(models[row]) for row in prefers]
    table["separated"] = separated.sum(axis=1)
    table["least_difference"] = problem.least[chosen]
    of_two = pd.DataFrame(list(combinations(ranked.models, 2)), columns=["model_1", "model_2"])
    of_two["separated"] = separated.sum(axis=0)
    if measure.column is not None:
        table[measure.column] = contributions.mean(axis=1)
        of_two[measure.column] = contributions.sum(axis=0)
    return table, of_two.to_dict("records")
