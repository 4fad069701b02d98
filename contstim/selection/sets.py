"""Selection of sentence pairs that discriminate between all models of a set at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from contstim.arrays import IntArray
from contstim.errors import InfeasibleError, InputError, require_integer
from contstim.plugins import Registry
from contstim.response_model import ResponseModel
from contstim.selection.constraint_rows import SelectionConstraint
from contstim.selection.constraints import compute_pairing_blocks, merge_equal
from contstim.selection.pair_constraints import propose_feasible
from contstim.selection.scores import RankedScores, find_eligible, rank_scores
from contstim.selection.set_candidates import (
    propose_even_pairs,
    propose_extreme_pairs,
    propose_targeted_pairs,
    tries_all_splits,
)
from contstim.selection.set_criteria import LogBayesFactor, Separation, SetCriterion
from contstim.selection.set_programme import GREEDY, NO_PAIR, SetProgramme

#: Criteria of `select_set` by name.
SET_CRITERIA = Registry[type[SetCriterion]](
    "criterion",
    "contstim.set_criteria",
    {"separation": Separation, "log-bf": LogBayesFactor},
    SetCriterion,
)

# Number of sentences up to which all their pairs are candidates.
_ALL_PAIRS_UP_TO = 150

# Number of candidates from `propose_even_pairs` in the integer programme, per pair to select.
_EVEN_PER_PAIR = 5
# Fraction of the upper bound above which a greedy selection is accepted.
_NEAR_BOUND = 0.98

# Rounds in which candidates are added for expected log Bayes factors.
_N_PRICING_ROUNDS = 6


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
    max_occurrences: int = 1,
    time_limit: float = 60.0,
    seed: int = 0,
) -> pd.DataFrame:
    """Select sentence pairs that discriminate between all models of a set.

    A sentence pair *separates* two models if one model prefers sentence 1 and the other prefers
    sentence 2. One sentence pair can separate many pairs of models, so fewer trials are needed than
    with different sentence pairs for each pair of models. By default, the number of selected
    sentence pairs that separate two models is counted for each pair of models, and the smallest of
    these numbers is maximised. `SetProgramme` states the integer programme.

    Parameters
    ----------
    log_probs : (S, M) DataFrame
        Log-probabilities in nats, one row per sentence (unique labels), one column per model.
    n : int, default 360
        Number of sentence pairs.
    criterion : str, default "separation"
        Name of the criterion in `SET_CRITERIA`: ``separation``, the number of sentence pairs that
        separate two models, or ``log-bf``, the sum of the expected log Bayes factors of one answer
        to each sentence pair.
    rank_margin : float, default 0
        Two models are separated only if each of them ranks the two sentences further apart than
        this difference in fractional rank. Only for ``separation``.
    response_model : ResponseModel, optional
        Model of the probability of each answer; by default `ResponseModel()`. Only for ``log-bf``.
    eligible : Series of bool, optional
        Whether each sentence may be selected, with the labels of the sentences as index; by default
        all. Ranks are computed over all sentences, whether or not they may be selected.
    pairs : DataFrame, optional
        Sentence pairs that may be selected in addition, e.g. from `triplet_pairs`. The columns
        ``sentence_1`` and ``sentence_2`` contain labels of `log_probs`, eligible or not.
    constraints
        Constraints on the selected sentences. A constraint that compares the two sentences of a
        pair (e.g. `Balance`) is applied once for each model, to the sentences that the model
        prefers and to the other sentences.
    max_occurrences : int, default 1
        Maximum number of selected pairs that contain the same sentence.
    time_limit : float, default 60
        Time limit of the integer programme in seconds. If it is reached, the best of several
        selections is returned, which depends on the speed of the machine (`SetProgramme.solve`).
    seed : int, default 0
        Random seed for the proposal of candidates.

    Returns
    -------
    DataFrame
        One row per pair: ``sentence_1, sentence_2`` (labels), ``prefer_1`` and ``prefer_2`` (models
        that rank this sentence higher, separated by spaces), ``separated`` (number of pairs of
        models), ``least_difference`` (smallest difference of fractional ranks over the models) and,
        for ``log-bf``, ``log_bayes_factor`` (mean over pairs of models, nats). In ``.attrs``:
        ``objective``, ``bound`` (upper bound on every selection), ``gap``, ``mean`` (mean number of
        pairs of models that a sentence pair separates), ``separations`` (sums for each pair of
        models), ``criterion``, ``solver``, ``status`` (``optimal`` if the bound is reached, else
        ``feasible``), ``ranked`` and ``candidates`` (number of sentences), ``considered`` (number
        of candidate pairs) and ``excluded`` (number of sentences by reason).

    Raises
    ------
    InfeasibleError
        If there are too few sentences or the constraints cannot be satisfied.
    InputError
        If the scores or arguments are invalid.

    Notes
    -----
    **Bound.** If k of M models prefer sentence 1 and the others sentence 2, the sentence pair
    separates k (M - k) of the M (M - 1) / 2 pairs of models, at most floor(M / 2) ceil(M / 2). The
    smallest number of separations is at most the mean over pairs of models, and therefore at most
    floor(n floor(M / 2) ceil(M / 2) / (M (M - 1) / 2)), which is 55.6 % of n for nine models. If
    all pairs of sentences are candidates, HiGHS may prove a smaller bound. For ``log-bf``, see
    `LogBayesFactor.bound`.

    **Candidates.** All pairs of up to 150 sentences are candidates. Of more sentences,
    `propose_extreme_pairs` proposes candidates for each split of the models. For ``log-bf``,
    `propose_targeted_pairs` adds pairs for the models that are hardest to distinguish, according to
    the dual prices of the linear relaxation, in six rounds.
    For more than 10 models, `propose_even_pairs` adds pairs that split the models evenly; without
    constraints, a greedy selection among these is returned if it reaches 98 % of the bound.

    Examples
    --------
    >>> from contstim import datasets
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt", "contstim:rnn"]]
    >>> pairs = select_set(scores[:60], n=10, time_limit=5)
    >>> pairs.loc[0, "sentence_1"]
    'I have had a headache ever since breakfast.'
    """
    require_integer("n", n, 1)
    require_integer("seed", seed, 0)
    require_integer("max_occurrences", max_occurrences, 1)
    if not time_limit > 0:
        raise InputError(f"time_limit is {time_limit}; give seconds above 0")
    criterion_class = SET_CRITERIA[criterion]
    if not 0 <= rank_margin < 1:
        raise InputError(f"rank_margin is {rank_margin}; rank differences lie from 0 to below 1")
    if rank_margin and not criterion_class.uses_rank_margin:
        raise InputError(
            f"rank_margin is {rank_margin}, but the criterion {criterion!r} has none; leave it out"
        )
    if response_model is not None and not criterion_class.uses_response_model:
        raise InputError(
            f"response_model has no effect with the criterion {criterion!r}; choose 'log-bf' or "
            "leave it out"
        )

    ranked = rank_scores(log_probs)
    eligible_rows, excluded = find_eligible(ranked, eligible)
    n_eligible = len(eligible_rows)
    given_pairs = _find_pair_rows(pairs, ranked)
    if pairs is not None:
        excluded["pair with a missing or infinite score"] = len(pairs) - len(given_pairs)
    elif max_occurrences * n_eligible < 2 * n:
        raise InfeasibleError(
            f"{n} {'pair needs' if n == 1 else 'pairs need'} {math.ceil(2 * n / max_occurrences)} "
            f"different sentences, {n_eligible} available; reduce n (--n) or add sentences"
        )
    rows = np.union1d(eligible_rows, given_pairs)
    if len(rows) < 2:
        raise InfeasibleError(NO_PAIR)
    # Standard deviations are computed over the eligible sentences, if there are at least two.
    standardised_rows = eligible_rows if n_eligible > 1 else rows
    measure = criterion_class(log_probs, ranked, standardised_rows, rank_margin, response_model)
    rules = merge_equal(constraints)
    search = _SetSearch(measure, eligible_rows, given_pairs, rules, n, max_occurrences, time_limit)
    programme, chosen, bound, solver = search.run(measure.bound(rows, n, max_occurrences), seed)

    # Describe the chosen pairs.
    chosen_pairs = programme.pairs[chosen]
    preferences, separated = ranked.preferences(chosen_pairs), measure.is_separated(chosen_pairs)
    contributions = programme.contributions[chosen]
    models = np.array(ranked.models, dtype=object)
    table = pd.DataFrame(
        {
            "sentence_1": ranked.labels[chosen_pairs[:, 0]],
            "sentence_2": ranked.labels[chosen_pairs[:, 1]],
            "prefer_1": [" ".join(models[row > 0]) for row in preferences],
            "prefer_2": [" ".join(models[row < 0]) for row in preferences],
            "separated": separated.sum(axis=1),
            "least_difference": programme.smallest_differences[chosen],
        }
    )
    separations = pd.DataFrame(list(combinations(ranked.models, 2)), columns=["model_1", "model_2"])
    separations["separated"] = separated.sum(axis=0)
    if measure.column is not None:
        table[measure.column] = contributions.mean(axis=1)
        separations[measure.column] = contributions.sum(axis=0)

    objective = programme.compute_objective(chosen)
    if bound < objective <= bound * (1 + 1e-6):  # rounding errors
        bound = objective
    if measure.is_count:
        objective, bound = int(objective), int(bound)
    table.attrs = {
        "objective": objective,
        "bound": bound,
        "gap": bound - objective,
        "mean": float(table["separated"].mean()),
        "separations": separations.to_dict("records"),
        "criterion": criterion,
        "solver": solver,
        "status": "optimal" if objective >= bound * (1 - 1e-9) else "feasible",
        "ranked": len(ranked.labels),
        "candidates": len(rows),
        "considered": len(programme.pairs),
        "excluded": excluded,
    }
    return table


@dataclass(frozen=True, eq=False)
class _SetSearch:
    """Search for n sentence pairs that discriminate between the models of a set.

    The search first proposes candidate pairs, because there are usually too many possible pairs,
    and then solves the integer programme that selects n candidates.

    Attributes
    ----------
    criterion
        Criterion of the selection.
    sentences
        Indices of the sentences from which candidate pairs are formed.
    given_pairs : (n_pairs, 2) array
        Indices of the sentences of additional candidate pairs that the user provides.
    constraints
        Constraints on the selected sentences, as returned by `merge_equal`.
    n
        Number of pairs to select.
    max_occurrences
        Maximum number of selected pairs that contain the same sentence.
    time_limit
        Time limit of the integer programme in seconds.
    """

    criterion: SetCriterion
    sentences: IntArray
    given_pairs: IntArray
    constraints: Sequence[SelectionConstraint]
    n: int
    max_occurrences: int
    time_limit: float

    def run(self, bound: float, seed: int) -> tuple[SetProgramme, IntArray, float, str]:
        """Propose candidate pairs, and select n of them.

        Parameters
        ----------
        bound
            Upper bound on the objective of every selection.
        seed
            Random seed of the proposed candidates.

        Returns
        -------
        programme : SetProgramme
            Integer programme, with the candidate pairs.
        chosen : (n,) array
            Indices of the selected candidates.
        bound : float
            Upper bound on the objective. It is smaller than the argument if all pairs are
            candidates and the solver proved a smaller bound.
        solver : str
            Name of the method that found the selection.
        """
        ranks = self.criterion.ranked.fractions
        candidates = [self.given_pairs]
        greedy: tuple[SetProgramme, IntArray] | None = None
        greedy_objective = 0.0
        has_all_pairs = len(self.sentences) <= _ALL_PAIRS_UP_TO
        if has_all_pairs:
            all_pairs = np.column_stack(np.triu_indices(len(self.sentences), 1))
            candidates.append(self.sentences[all_pairs])
        elif self.criterion.is_count and not tries_all_splits(ranks.shape[1]):
            # For many models, propose pairs that split them evenly. Try a greedy selection first,
            # and accept it if it is close to the bound.
            blocks = self._split_into_blocks()
            even_pairs = [
                rows[propose_even_pairs(ranks[rows], n_block, self.criterion.rank_margin)]
                for rows, n_block in blocks
            ]
            if not self.constraints:
                programme = self._build([self.given_pairs, *even_pairs])
                chosen = programme.select_greedily(bound)
                if chosen is not None:
                    greedy = programme, chosen
                    greedy_objective = programme.compute_objective(chosen)
            for block_pairs, (_, n_block) in zip(even_pairs, blocks, strict=True):
                candidates.append(block_pairs[: _EVEN_PER_PAIR * n_block])
        if greedy is not None and greedy_objective >= _NEAR_BOUND * bound:
            return *greedy, bound, GREEDY

        # Propose pairs for each split of the models, and pairs that satisfy the constraints.
        rng, ranked = np.random.default_rng(seed), self.criterion.ranked
        if not has_all_pairs:
            for rows, n_block in self._split_into_blocks():
                candidates.append(rows[propose_extreme_pairs(ranks[rows], n_block, rng)])
        if self.constraints:
            rows = np.union1d(self.sentences, self.given_pairs)
            feasible = propose_feasible(
                ranked, rows, self.constraints, self.n, self.max_occurrences, rng
            )
            if not has_all_pairs:
                candidates.append(feasible[np.isin(feasible, self.sentences).all(axis=1)])
        programme = self._build(candidates)
        # Add candidates for the pairs of models that limit the objective of the linear relaxation.
        if isinstance(self.criterion, LogBayesFactor) and not has_all_pairs:
            for _ in range(_N_PRICING_ROUNDS):
                weights = programme.compute_dual_prices()
                targeted = [
                    propose_targeted_pairs(self.criterion, rows, n_block, weights)
                    for rows, n_block in self._split_into_blocks()
                ]
                programme = self._build([programme.pairs, *targeted])
        chosen, proven_bound, solver = programme.solve(bound, self.time_limit)
        if has_all_pairs:
            bound = min(bound, proven_bound)
        if greedy is not None and programme.compute_objective(chosen) <= greedy_objective:
            return *greedy, bound, GREEDY
        return programme, chosen, bound, solver

    def _build(self, candidates: Sequence[IntArray]) -> SetProgramme:
        """Create the integer programme that selects from some candidate pairs."""
        pairs = np.concatenate(candidates)
        return SetProgramme(self.criterion, pairs, self.constraints, self.n, self.max_occurrences)

    def _split_into_blocks(self) -> list[tuple[IntArray, int]]:
        """Split the sentences into blocks; only sentences of the same block may be paired.

        If constraints require that a feature is equal for both sentences of a pair, each block
        contains the sentences with one value of the feature. Otherwise there is one block.

        Returns
        -------
        list of tuple
            For each block, the rows of its sentences and the number of pairs to propose, which is
            proportional to the number of sentences.
        """
        labels = self.criterion.ranked.labels
        block_by_sentence = compute_pairing_blocks(self.constraints, labels)[self.sentences]
        blocks = []
        for block in np.unique(block_by_sentence):
            rows = self.sentences[block_by_sentence == block]
            # Leave out blocks of a single sentence, which cannot form a pair.
            if len(rows) > 1:
                blocks.append((rows, math.ceil(self.n * len(rows) / len(self.sentences))))
        return blocks


def triplet_pairs(triplets: pd.DataFrame) -> pd.DataFrame:
    """Return the sentences of all pairs within a triplet, as candidates for `select_set`.

    Parameters
    ----------
    triplets
        Table with the columns ``natural``, ``synthetic_1`` and ``synthetic_2``.

    Returns
    -------
    DataFrame
        Table with the columns ``sentence_1`` and ``sentence_2``. Each triplet gives three pairs:
        the natural sentence with each synthetic sentence, and both synthetic sentences. Duplicates
        and pairs of equal sentences are left out.

    Examples
    --------
    >>> from contstim import datasets
    >>> pairs = triplet_pairs(datasets.readable_triplets())
    >>> len(datasets.readable_triplets()), len(pairs)
    (35, 105)
    """
    parts = [
        # Natural with synthetic 1, natural with synthetic 2, and synthetic 1 with synthetic 2.
        triplets[[first, second]].set_axis(["sentence_1", "sentence_2"], axis=1)
        for first, second in combinations(("natural", "synthetic_1", "synthetic_2"), 2)
    ]
    pairs = pd.concat(parts, ignore_index=True)
    unequal = pairs[pairs["sentence_1"] != pairs["sentence_2"]]
    return unequal.drop_duplicates(ignore_index=True)


def _find_pair_rows(pairs: pd.DataFrame | None, ranked: RankedScores) -> IntArray:
    """Convert a table of sentence pairs to pairs of indices.

    A pair is left out unless every model has a finite score for both sentences.

    Parameters
    ----------
    pairs
        Table with the columns ``sentence_1`` and ``sentence_2``; None for no pairs.
    ranked
        Sentences with their ranks under each model.

    Returns
    -------
    (n_pairs, 2) array
        Indices of both sentences in `ranked`.
    """
    if pairs is None:
        return np.empty((0, 2), dtype=np.int64)
    # Index of each sentence; -1 for a sentence without a score.
    row_by_label = pd.Series(np.arange(len(ranked.labels)), index=ranked.labels)
    columns = []
    for column in ("sentence_1", "sentence_2"):
        if column not in pairs:
            raise InputError(f"pairs has no column {column!r}; give sentence_1 and sentence_2")
        columns.append(row_by_label.reindex(pairs[column]).fillna(-1).to_numpy(dtype=np.int64))
    rows = np.column_stack(columns)
    # Keep pairs of ranked sentences with finite scores.
    rows = rows[(rows >= 0).all(axis=1)]
    return np.asarray(rows[ranked.is_finite[rows].all(axis=1)])
