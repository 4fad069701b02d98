"""Assignment of sampled sentences to natural sentences.

A language model samples a pool of sentences. Each *request* is a natural sentence to which one
sentence of the pool will be assigned, as its synthetic sentence. The two requests of a triplet have
the same natural sentence. A sentence can be assigned to at most one request, and must satisfy the
constraints of this request. The first aim is to complete as many triplets as requested, the second
aim is a low total loss. The number of similar sentences that are assigned is limited.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import scipy  # which loads `optimize` at its first use

from contstim.arrays import BoolArray, FloatArray
from contstim.synthesis.problem import ProblemDefinition
from contstim.synthesis.results import SynthesisResult
from contstim.text.diversity import MIN_WORD_LIMIT, edge_phrases, infrequent_words
from contstim.text.language import Language
from contstim.text.languages import ENGLISH

#: Maximum number of assigned sentences with the same first, or the same last, words.
DIVERSITY_CAP = 1

# Value of a complete triplet, in nats. It exceeds the total decrease in loss that other assignments
# can achieve instead, so that the number of triplets has priority.
_TRIPLET_VALUE = 1000.0
# Number of the best sentences for a request, and of other sentences, that are considered.
_N_CONSIDERED = 50
# Relative gap to the optimum at which the solver stops.
_MAX_GAP = 1e-4


@dataclass(frozen=True)
class Request:
    """Natural sentence that needs a synthetic sentence, with the requirements for the latter.

    A triplet needs two requests with the same natural sentence, one for each synthetic sentence.

    Attributes
    ----------
    natural
        Text of the natural sentence.
    problem
        Models (by name), loss and constraints of the synthetic sentence.
    minimum_drop
        Minimum decrease in loss: in nats or, with several rejecting models, in standard deviations.
    """

    natural: str
    problem: ProblemDefinition
    minimum_drop: float = 0.0


@dataclass(frozen=True, eq=False)
class SentencePool:
    """Pool of P sampled sentences with their scores.

    Attributes
    ----------
    sentences
        Sampled sentences.
    scores
        Mapping from model name to a mapping from sentence to score in nats, for sampled and for
        natural sentences.
    batch_tolerance
        Mapping from model name to the maximum numerical difference, in nats, between scores of the
        same sentence in different batches.
    language
        Language of the sentences.
    """

    sentences: tuple[str, ...]
    scores: Mapping[str, Mapping[str, float]]
    batch_tolerance: Mapping[str, float]
    language: Language = ENGLISH

    def get_scores(self, model: str) -> FloatArray:
        """Return the scores of the sampled sentences under one model, (P,); NaN if missing."""
        scores = self.scores[model]
        return np.array([scores.get(s, np.nan) for s in self.sentences], dtype=np.float64)

    def check_constraints(self, request: Request) -> dict[str, BoolArray]:
        """Return which sentences of the pool satisfy each constraint of a request.

        Parameters
        ----------
        request
            Natural sentence, and constraints on the sentence that is assigned to it.

        Returns
        -------
        dict
            Mapping from the text of a constraint, for example ``contstim:gpt>=natural``, to a mask
            of the sentences that satisfy it, shape (P,).
        """
        masks: dict[str, BoolArray] = {}
        for constraint in request.problem.constraints:
            name = constraint.model
            minimum = constraint.minimum(self.scores[name][request.natural])
            # Exceed the bound by the numerical error, so that it is still satisfied if the sentence
            # is scored again in another batch.
            minimum += self.batch_tolerance.get(name, 0.0)
            masks[str(constraint)] = self.get_scores(name) >= minimum
        return masks

    def losses(self, request: Request) -> FloatArray:
        """Return the loss that results from assigning each sentence of the pool to a request.

        Parameters
        ----------
        request
            Natural sentence, and synthesis problem with the loss and the constraints.

        Returns
        -------
        array
            Loss of each sentence, shape (P,). NaN for sentences that violate a constraint, or do
            not decrease the loss by a positive amount of at least `minimum_drop`.
        """
        scores = {name: self.get_scores(name) for name in request.problem.reject}
        natural_scores = {name: self.scores[name][request.natural] for name in scores}
        losses = request.problem.loss(scores, natural_scores)
        is_improved = (losses < 0) & (losses <= -request.minimum_drop)
        is_feasible = np.all([*self.check_constraints(request).values(), is_improved], axis=0)
        return np.where(is_feasible, losses, np.nan)

    def list_losses(self, requests: Sequence[Request]) -> FloatArray:
        """Return the losses of all P sentences for each of R requests, shape (R, P)."""
        losses = np.array([self.losses(request) for request in requests], dtype=np.float64)
        return losses.reshape(len(requests), len(self.sentences))

    def is_usable(self, requests: Sequence[Request]) -> BoolArray:
        """Return whether each of P sentences can be assigned to each of R requests, (R, P)."""
        return np.asarray(~np.isnan(self.list_losses(requests)))


def assign_sentences(
    pool: SentencePool,
    triplets: Sequence[Sequence[Request]],
    max_natural: int | None = None,
    diversity_cap: int = DIVERSITY_CAP,
    max_word_share: float = 1.0,
) -> list[list[str] | None]:
    """Choose natural sentences and assign sampled sentences to them, as synthetic sentences.

    The assignment is the solution of an integer programme with two kinds of binary variables:
    x[r, i] is 1 if sampled sentence i is assigned to request r, and z[n] is 1 if triplet n is
    chosen. With the decrease in loss gain[r, i] and a large constant M, the programme is

        maximise    M sum_n z[n] + sum_{r, i} gain[r, i] x[r, i]
        subject to  sum_i x[r, i] = z[n]                for each request r of triplet n,
                    sum_r x[r, i] <= 1                  for each sampled sentence i,
                    sum_{(r, i) in g} x[r, i] <= cap_g  for each group g of similar sentences,
                    sum_n z[n] <= max_natural           for each combination of problems, over the
                                                        first triplet of each natural sentence,
                    z[n] <= z[m]                        for the first triplet m and any other
                                                        triplet n of a natural sentence.

    If more than 100 sentences are valid for a request, 100 are considered: the 50 with the largest
    decreases in loss, and 50 at equal distances among the others.

    Parameters
    ----------
    pool
        Sampled sentences with their scores.
    triplets
        Requests of each triplet: two with the same natural sentence and different problems. A list
        with one request stands for a single synthetic sentence. If a triplet occurs several times,
        its natural sentence can receive several triplets.
    max_natural
        Maximum number of natural sentences chosen for each combination of problems. None: all.
    diversity_cap
        Maximum number of assigned sentences that begin, or that end, with the same three words.
    max_word_share
        Maximum fraction of the sentences requested for the same models that may contain the same
        word. The limit is never below two sentences, nor below the fraction of natural sentences
        that contain the word. Frequent words (`contstim.text.diversity.FREQUENT_ZIPF`) are not
        limited. 1: no limit.

    Returns
    -------
    list
        For each triplet, the list of the sentences assigned to its requests; None if it is not
        chosen.
    """
    requests = list(chain(*triplets))
    # The indices of the triplets with the same problems and natural sentence.
    by_problems = defaultdict[tuple[ProblemDefinition, ...], dict[str, list[int]]](dict)
    for n, triplet in enumerate(triplets):
        problems = tuple(request.problem for request in triplet)
        by_problems[problems].setdefault(triplet[0].natural, []).append(n)
    # Number of sentences that are requested for the same models.
    n_requested = Counter[frozenset[str]]()
    for problems, by_natural in by_problems.items():
        n_triplets = sum(map(len, list(by_natural.values())[:max_natural]))
        for problem in problems:
            n_requested[frozenset(problem.names)] += n_triplets

    # A gain is the decrease in loss if a sentence is assigned to a request, (requests, sentences).
    # It is NaN if the sentence violates a constraint. There is one variable x[r, i] for each pair
    # of a request and a considered sentence.
    gains, pairs = -pool.list_losses(requests), list[tuple[int, int]]()
    for r, request_gains in enumerate(gains):
        best_first = np.argsort(-request_gains, kind="stable")  # NaN is last
        ranks = np.arange(np.count_nonzero(~np.isnan(request_gains)))
        if len(ranks) > 2 * _N_CONSIDERED:
            spaced_ranks = np.linspace(_N_CONSIDERED, len(ranks) - 1, _N_CONSIDERED).astype(
                np.int64
            )
            ranks = np.concatenate([ranks[:_N_CONSIDERED], spaced_ranks])
        pairs += [(r, i) for i in best_first[ranks].tolist()]
    n_x = len(pairs)
    if n_x == 0:
        return [None] * len(triplets)

    # Each group of variables has a cap on their sum: triplets with the same problems, variables of
    # the same sentence, and variables of similar sentences.
    by_request: list[list[int]] = [[] for _ in requests]
    by_sentence: list[list[int]] = [[] for _ in pool.sentences]
    for x, (r, i) in enumerate(pairs):
        by_request[r].append(x)
        by_sentence[i].append(x)
    groups = _group_similar_sentences(
        pool, requests, pairs, n_requested, diversity_cap, max_word_share
    )
    groups += [(1, variables) for variables in by_sentence]
    for by_natural in by_problems.values():
        first_triplets = [n_x + indices[0] for indices in by_natural.values()]
        groups.append((max_natural or len(triplets), first_triplets))

    # Solve the integer programme over all x and z.
    n_variables = n_x + len(triplets)
    triplet_indices = [n for n, triplet in enumerate(triplets) for _ in triplet]  # (requests,)
    z_by_request = [[n_x + n] for n in triplet_indices]
    chosen_sums = _sum_matrix(by_request, n_variables) - _sum_matrix(z_by_request, n_variables)
    limited_sums = _sum_matrix([variables for _, variables in groups], n_variables)
    values = np.full(n_variables, _TRIPLET_VALUE)
    values[:n_x] = [gains[r, i] for r, i in pairs]
    constraints = [
        scipy.optimize.LinearConstraint(chosen_sums, 0, 0),
        scipy.optimize.LinearConstraint(limited_sums, ub=[cap for cap, _ in groups]),
    ]
    # Further triplets of a natural sentence, each with the first one.
    later = [
        (n_x + n, n_x + indices[0])
        for by_natural in by_problems.values()
        for indices in by_natural.values()
        for n in indices[1:]
    ]
    if later:
        later_sums = _sum_matrix([[z] for z, _ in later], n_variables)
        first_sums = _sum_matrix([[z] for _, z in later], n_variables)
        constraints.append(scipy.optimize.LinearConstraint(later_sums - first_sums, ub=0))
    result = scipy.optimize.milp(
        -values,  # `milp` minimises
        constraints=constraints,
        bounds=scipy.optimize.Bounds(0, 1),
        integrality=np.ones(n_variables, dtype=np.int64),
        options={"mip_rel_gap": _MAX_GAP},
    )
    assigned: list[list[str]] = [[] for _ in triplets]
    # The variables are sorted by triplet and, within a triplet, by request.
    for x in np.flatnonzero(np.asarray(result.x)[:n_x] > 0.5).tolist():
        r, i = pairs[x]
        assigned[triplet_indices[r]].append(pool.sentences[i])
    return [sentences or None for sentences in assigned]


def _group_similar_sentences(
    pool: SentencePool,
    requests: Sequence[Request],
    pairs: Sequence[tuple[int, int]],
    n_requested: Mapping[frozenset[str], int],
    diversity_cap: int,
    max_word_share: float,
) -> list[tuple[int, list[int]]]:
    """Find the limits on similar sentences that an assignment must satisfy.

    Parameters
    ----------
    pool
        Sampled sentences.
    requests
        Natural sentences that need synthetic sentences.
    pairs
        Index of a request and index of a sentence that can be assigned to it, for each variable of
        the integer programme.
    n_requested
        Mapping from the names of models to the number of sentences requested for these models.
    diversity_cap, max_word_share
        Limits, as in `assign_sentences`.

    Returns
    -------
    list
        For each group of similar sentences: the maximum number of assigned sentences, and the
        indices of the variables that assign a sentence of the group.
    """
    models = [frozenset(request.problem.names) for request in requests]
    # Fraction of the natural sentences with each word, among the requests for the same models.
    n_requests = Counter(models)
    natural_shares = defaultdict[tuple[frozenset[str], str], float](float)
    for names, request in zip(models, requests, strict=True):
        for word in infrequent_words(request.natural, pool.language):
            natural_shares[names, word] += 1 / n_requests[names]
    phrases = [edge_phrases(sentence) for sentence in pool.sentences]
    words = [infrequent_words(sentence, pool.language) for sentence in pool.sentences]
    # A variable assigns sentence i to request r. A group is identified by the first or last words
    # of its sentences, or by the models of the requests and a word. `caps` contains the maximum
    # number of assigned sentences of each group, and `variables_by_group` its variables.
    variables_by_group, caps = defaultdict[object, list[int]](list), dict[object, int]()
    for variable, (r, i) in enumerate(pairs):
        for phrase in phrases[i]:
            caps[phrase] = diversity_cap
            variables_by_group[phrase].append(variable)
        for word in words[i] if max_word_share < 1 else ():
            group = models[r], word
            share = max(max_word_share, natural_shares[group])
            caps[group] = max(MIN_WORD_LIMIT, math.floor(share * n_requested[models[r]] + 1e-9))
            variables_by_group[group].append(variable)
    return [(caps[group], variables) for group, variables in variables_by_group.items()]


def _sum_matrix(groups: Sequence[Sequence[int]], n_variables: int) -> Any:
    """Return the sparse matrix of the sums over groups of variables, (groups, variables)."""
    ends = np.cumsum([0, *map(len, groups)])
    variables = np.array(list(chain(*groups)), dtype=np.int64)
    parts = (np.ones(len(variables)), variables, ends)
    return scipy.sparse.csr_array(parts, shape=(len(groups), n_variables))


def find_fulfillable_requests(is_usable: BoolArray) -> BoolArray:
    """Find as many requests as possible that can each be assigned a different sentence.

    The result is a maximum matching of the bipartite graph of requests and sentences.

    Parameters
    ----------
    is_usable
        Whether each sentence may be assigned to each request, shape (requests, sentences).

    Returns
    -------
    array
        Whether each request is assigned a sentence in this matching, shape (requests,).
    """
    matches = scipy.sparse.csgraph.maximum_bipartite_matching(
        scipy.sparse.csr_array(is_usable), perm_type="column"
    )
    return np.asarray(matches >= 0)


def synthesize_from_pool(
    pool: SentencePool,
    triplets: Sequence[Sequence[Request]],
    seed: int,
    strategy: str = "sample",
    max_natural: int | None = None,
    diversity_cap: int = DIVERSITY_CAP,
    max_word_share: float = 1.0,
) -> list[list[SynthesisResult]]:
    """Assign sentences of a pool to natural sentences as their synthetic sentences.

    The results of an incomplete triplet contain the natural sentence in place of the synthetic
    sentences, and the loss 0.

    Parameters
    ----------
    pool
        Sampled sentences with their scores.
    triplets
        Requests of each triplet, or one request for each single synthetic sentence.
    seed, strategy
        Random seed of the run and name of the strategy, for the description of the results.
    max_natural, diversity_cap, max_word_share
        Limits of the assignment, as in `assign_sentences`.

    Returns
    -------
    list
        One list of results for each triplet, with one result for each of its requests.
    """
    assigned = assign_sentences(pool, triplets, max_natural, diversity_cap, max_word_share)
    results: list[list[SynthesisResult]] = []
    for triplet, sentences in zip(triplets, assigned, strict=True):
        results.append([])
        # Without assigned sentences, the results contain the natural sentence.
        synthetic_sentences = sentences or [request.natural for request in triplet]
        for request, synthetic in zip(triplet, synthetic_sentences, strict=True):
            natural, problem = request.natural, request.problem
            natural_scores = {name: pool.scores[name][natural] for name in problem.names}
            scores = {name: pool.scores[name][synthetic] for name in problem.names}
            results[-1].append(
                SynthesisResult(
                    natural=natural,
                    sentence=synthetic,
                    models=problem.names,
                    natural_scores=tuple(natural_scores.values()),
                    scores=tuple(scores.values()),
                    loss=problem.sentence_loss(scores, natural_scores),
                    strategy=strategy,
                    seed=seed,
                    # These sentences were not found by separate searches with replacement steps.
                    steps=(),
                    n_scores=(0,) * len(problem.names),
                    attempt=0,
                    accepting=problem.accept,
                )
            )
    return results
