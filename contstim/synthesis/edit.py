"""Word replacement: constrained expected improvement within a budget, or an exhaustive search.

Gardner et al. (2014): the next candidate to be scored is the one whose expected improvement times
its probability of feasibility is greatest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, partial
from typing import Literal

import numpy as np
import scipy  # which loads `special` at its first use

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.settings import Count, option, settings
from contstim.synthesis.candidates import SLACK, Candidates, batches, propose_in_order
from contstim.synthesis.coordinate_search import Search, Strategy
from contstim.synthesis.surrogate import Posterior, Surrogate, expected_improvement

# Batch size of the less expensive models, and how many times the budget they may score at most.
_BATCH, _LARGEST_RATIO = 32, 128
# Inputs of one sentence: so many, or so many scores of the natural sentence.
_INPUTS, _SCORES = 25_000, 48
# A position at which nothing was found is left when the next score promises less than this share of
# the improvement per score so far.
_MIN_PROMISE = 1 / 8
_LARGEST_BATCH = 256
# Candidates of known losses that are scored together.
_CHECKED = 8
# Sampled losses of a candidate, where their distribution has no closed form: two to this power.
_LOG_DRAWS = 5


@settings
class Edit(Strategy):
    """Replace words of the natural sentence, one at a time, as long as the loss decreases.

    With ``candidates="all"`` the best word at each position is taken, as in Golan et al. (2023):
    where losses are known at once, candidates are tried from the lowest loss upwards; otherwise
    every candidate that the bounds of the constrained models admit is scored.

    With a number, at most so many candidates are scored exactly at each position. The next one is
    that whose expected improvement times its probability of feasibility is greatest (Gardner et
    al. 2014, Eq. 6), both predicted by a `Surrogate` from the exact scores so far. A candidate is
    scored by the models in the order of their costs, and by the next one only while it may still
    improve the sentence. A position is left as soon as the next score promises less than scores
    have brought so far (the marginal value theorem, Charnov 1976), or less than an eighth of that
    while nothing was found, or after `first` scores. Positions left for the last reason are
    searched again once no other position brings an improvement, each time with twice the scores,
    up to the budget. Where all scores are known at once there is nothing to save, and the best
    word is taken.

    Attributes
    ----------
    candidates
        Maximum number of exact scores at one position by the most expensive model; each other
        model may score as many times more as its scores cost less, up to 128 times. ``all``: no
        limit.
    first
        The number of scores after which a position is left for the first time.
    inputs
        Maximum cost of the exact scores of one sentence, in inputs of the models
        (`ScoringCost.n_inputs`).
        By default 25,000, or the cost of 48 scores of the natural sentence by all models if that
        is more. No limit with ``all``.

    Examples
    --------
    >>> from contstim import synthesize
    >>> found = synthesize(
    ...     "The dog slept in the old house.",
    ...     reject="contstim:trigram",
    ...     accept="contstim:bigram",
    ...     strategy=Edit(candidates=8),
    ... )
    >>> round(found.loss, 1)
    -10.8
    """

    candidates: Count | Literal["all"] = option(
        64, "exact scores at one position by the most expensive model, or all", metavar="N"
    )
    first: Count = option(4, "scores after which a position is left for the first time", "N")
    inputs: Count | None = option(
        None, "maximum cost of the exact scores of one sentence, in inputs of the networks", "N"
    )

    @property
    def is_exhaustive(self) -> bool:
        """Whether no single replacement improves a result: without a budget."""
        return self.candidates == "all"

    def run(self, search: Search) -> bool:
        """Search by coordinates, learning from each position for the next."""
        state = SearchState()
        search.optimize(partial(self.search_word, state=state), sifted=True)
        return state.complete

    def search_word(self, candidates: Candidates, state: SearchState | None = None) -> bool:
        """Run the word search, with what `state` holds of earlier ones."""
        if self.candidates == "all" or all(t.is_exact for t in candidates.tables.values()):
            _propose_best(candidates)
            return False
        state = SearchState() if state is None else state
        return _WordSearch(candidates, self, self.candidates, state).run()


def _propose_best(candidates: Candidates) -> None:
    """Score every candidate that no bound rules out, and propose the best first."""
    index = candidates.promising()
    if candidates.losses_known:
        index = index[np.argsort(candidates.losses(index), kind="stable")]
        for batch in batches(index):
            for i in candidates.filter_feasible(batch):
                if candidates.propose(int(i)):
                    return
        return
    none = np.empty(0, dtype=np.int64)
    index = np.concatenate([none, *map(candidates.filter_feasible, batches(index))])
    losses = np.concatenate([np.empty(0), *map(candidates.losses, batches(index))])
    propose_in_order(candidates, index, losses)


@dataclass
class SearchState:
    """What the word searches of one sentence learn for those that follow.

    Attributes
    ----------
    surrogates
        By model, the errors of its estimates.
    n_scores
        Exact scores asked for; scores of less expensive models count as fractions of one.
    inputs
        Maximum inputs of the sentence, once known.
    complete
        Whether no candidate was left out because its scores were too expensive.
    """

    surrogates: dict[str, Surrogate] = field(default_factory=dict)
    n_scores: float = 0.0
    inputs: float | None = None
    complete: bool = True

    def posterior(self, candidates: Candidates, name: str) -> Posterior:
        """Return the distribution of a model's scores at a position."""
        table, exact = candidates.tables[name], candidates.known[name]
        surrogate = self.surrogates.setdefault(name, Surrogate())
        posterior = surrogate.posterior(table, candidates.now[name])
        if not table.is_exact:
            # Later positions learnt from these when they were asked for.
            seen = np.flatnonzero(~np.isnan(exact))
            posterior.learn(seen, exact[seen], keep=False)
        return posterior


class _WordSearch:
    """One word search.

    Attributes
    ----------
    open
        The candidates that no bound rules out, in random order.
    posteriors
        By model, what its scores are likely to be.
    relative
        By model, what its scores cost in scores of the most expensive model; the models are in
        this order, the accepting one of a pair first where both cost the same.
    refused
        Candidates that were not taken when proposed.
    best, target
        The candidate of least loss known to keep the constraints and to improve, if there is one,
        and what another's loss must fall below: the best one's, or the present one.
    """

    def __init__(
        self, candidates: Candidates, options: Edit, budget: int, state: SearchState
    ) -> None:
        self.candidates, self.state = candidates, state
        self.limit: int = min(budget, options.first * 2**candidates.round)
        self.last_round = self.limit == budget
        if state.inputs is None:
            state.inputs = options.inputs or max(_INPUTS, _SCORES * _cost_of_present(candidates))
        self.inputs = state.inputs
        cost = _cost_by_model(candidates)
        constrained_first = list(cost)[::-1]
        self.models = sorted(constrained_first, key=cost.__getitem__)
        most = cost[self.models[-1]]
        self.relative = {name: cost[name] / most if most else 0.0 for name in self.models}
        self.posteriors = {name: state.posterior(candidates, name) for name in candidates.tables}
        index = candidates.promising()
        if candidates.present is not None:
            index = index[index != candidates.present]
        # Candidates that no model can tell apart are left to chance.
        self.open = index[candidates.rng.permutation(len(index))]
        self.refused: set[int] = set()
        self._find_best()

    def run(self) -> bool:
        """Score, and propose the best of the candidates scored, until one is taken."""
        while True:
            more = self._score()
            if self.best is None:
                return more
            if self._verification(self.best) > self._left():
                self.state.complete = False
                return False
            if self.candidates.propose(self.best):
                return False
            self.refused.add(self.best)
            self._find_best()

    def _score(self) -> bool:
        """Score until it is time to propose or to leave; say whether more would be scored later."""
        *others, expensive = self.models
        while True:
            running = self._running()
            if not len(running):
                return False
            seen = {name: ~np.isnan(self.candidates.known[name][running]) for name in others}
            ready = np.all([np.ones(len(running), dtype=np.bool_), *seen.values()], axis=0)
            promise = np.where(ready, self._feasibility(running) * self._improvement(running), 0.0)
            most = float(promise.max())
            waiting = self._waiting(running, seen)
            if self._score_next(waiting, most, bool(ready.any())):
                continue
            room = self.limit - self._n_scored(expensive)
            stuck = not ready.any() and all(self._room(name) <= 0 for name in waiting)
            if room <= 0 or stuck:
                return not self.last_round
            if not ready.any() or self._enough(most):
                return False
            size = min(room, 1 + self._n_scored(expensive) // 8, _LARGEST_BATCH)
            if self.candidates.losses_known:
                # Only whether constraints are kept is asked, in the order of what losses promise;
                # for a network some sentences together cost little more than one.
                size = min(room, max(size, _CHECKED))
            order = np.argsort(-promise, kind="stable")
            self._ask(expensive, running[order[ready[order]][:size]])

    def _waiting(
        self, running: IntArray, seen_by_model: dict[str, BoolArray]
    ) -> dict[str, IntArray]:
        """Return, by model, the candidates that it is to score next, but for the last."""
        waiting: dict[str, IntArray] = {}
        passed = np.ones(len(running), dtype=np.bool_)
        for name, seen in seen_by_model.items():
            if (passed & ~seen).any():
                waiting[name] = running[passed & ~seen]
            passed &= seen
        return waiting

    def _score_next(self, waiting: dict[str, IntArray], most: float, ready: bool) -> bool:
        """Score by a less expensive model what promises enough; say whether there was any."""
        for name, index in waiting.items():
            batch = self._batch(name, index, most, ready)
            if len(batch):
                self._ask(name, batch)
                return True
        return False

    def _batch(self, name: str, index: IntArray, most: float, ready: bool) -> IntArray:
        """Return which of `index` a model is to score before a more expensive one goes on.

        Those that may well promise more than `most`, the best promise among the candidates that
        are `ready` for the most expensive model, nats; none if all together do not promise what
        their scores cost.
        """
        room = self._room(name)
        if room <= 0:
            return index[:0]
        feasibility = self._feasibility(index)
        if name in self.candidates.contrast.reject:
            promise = feasibility * self._improvement(index, most / feasibility)
        else:
            beyond = most / self._feasibility(index, but=name)
            promise = feasibility * np.maximum(self._improvement(index) - beyond, 0.0)
        size = min(room, max(_BATCH, self._n_scored(name) // 4), _LARGEST_BATCH)
        order = np.argsort(-promise, kind="stable")[:size]
        least = most if ready else self._least()
        enough = promise[order].sum() > least * self.relative[name] * len(order)
        return index[order] if enough else index[:0]

    def _ask(self, name: str, index: IntArray) -> None:
        """Ask a model for as many scores of `index` as can be paid and any one of them kept."""
        cost = self.candidates.costs(name)[index]
        later = np.maximum.accumulate(self._cost(index) - cost)
        affordable = np.searchsorted(np.cumsum(cost) + later, self._left(), side="right")
        # Each can be paid alone, whatever rounding says.
        index = index[: max(1, int(affordable))]
        self.state.n_scores += self.relative[name] * len(index)
        self.posteriors[name].learn(index, self.candidates.scores(name, index))
        self._find_best()

    def _n_scored(self, name: str) -> int:
        if self.candidates.tables[name].is_exact:
            return 0
        return int((~np.isnan(self.candidates.known[name])).sum())

    def _room(self, name: str) -> int:
        """Return how many more candidates a less expensive model may be asked for."""
        relative = self.relative[name]
        ratio = int(min(1.0 / relative, _LARGEST_RATIO)) if relative else 1
        return self.limit * ratio - self._n_scored(name)

    def _cost(self, index: IntArray) -> FloatArray:
        """Return what it costs to know candidates, and to verify them or the best so far, (k,)."""
        verification = 0.0 if self.best is None else self._verification(self.best)
        scores = np.zeros(len(index))
        for name in self.candidates.tables:
            unknown = np.isnan(self.candidates.known[name][index])
            scores += self.candidates.costs(name)[index] * unknown
        return scores + np.maximum(self._verification(index), verification)

    def _verification(self, index: IntArray | int) -> FloatArray:
        """Return what it costs to score sentences again that are kept."""
        costs = [self.candidates.costs(name)[index] for name in self.candidates.tables]
        return np.asarray(sum(costs))

    def _left(self) -> float:
        return self.inputs - self.candidates.counter.cost

    def _find_best(self) -> None:
        exact = {name: values[self.open] for name, values in self.candidates.known.items()}
        losses = self.candidates.known_losses(exact)
        improving = losses < self.candidates.target + SLACK
        for name, minimum in self.candidates.minimum.items():
            improving &= exact[name] >= minimum - SLACK
        improving &= ~np.isin(self.open, list(self.refused))
        self.best: int | None = None
        self.target = self.candidates.target
        if improving.any():
            least = int(np.where(improving, losses, np.inf).argmin())
            self.best, self.target = int(self.open[least]), float(losses[least])

    def _running(self) -> IntArray:
        """Return the candidates not fully known that bounds and scores leave in the running."""
        exact = {name: values[self.open] for name, values in self.candidates.known.items()}
        cut = self.target + (SLACK if self.best is None else 0.0)
        out = self.candidates.known_losses(exact) >= cut
        for name, minimum in self.candidates.minimum.items():
            out |= exact[name] < minimum - SLACK
        out |= ~np.any([np.isnan(values) for values in exact.values()], axis=0)
        running = self.open[~out]
        payable = self._cost(running) <= self._left()
        self.state.complete &= bool(payable.all())
        return running[payable]

    def _feasibility(self, index: IntArray, but: str | None = None) -> FloatArray:
        """Return the probability that candidates keep the constraints, but one, (k,)."""
        probability = np.ones(len(index))
        for name, minimum in self.candidates.minimum.items():
            if name != but:
                mean, deviation = self.posteriors[name].predict(index)
                unknown = np.isnan(self.candidates.known[name][index])
                probability *= np.where(
                    unknown, scipy.special.ndtr((mean - minimum) / deviation), 1.0
                )
        return np.maximum(probability, 1e-300)

    def _improvement(self, index: IntArray, beyond: FloatArray | float = 0.0) -> FloatArray:
        """Return by how much candidates are expected to lower the best loss beyond some, (k,)."""
        contrast, natural = self.candidates.contrast, self.candidates.natural
        target = self.target - beyond
        means, deviations = {}, {}
        for name in contrast.reject:
            mean, deviation = self.posteriors[name].predict(index)
            exact = self.candidates.known[name][index]
            means[name] = np.where(np.isnan(exact), mean, exact)
            deviations[name] = np.where(np.isnan(exact), deviation, 0.0)
        if len(contrast.reject) > 1:
            draws = {
                name: means[name][:, None] + deviations[name][:, None] * normal
                for name, normal in zip(means, _normals(len(means)), strict=True)
            }
            losses = contrast.loss(draws, natural)
            return np.asarray(np.maximum(np.reshape(target, (-1, 1)) - losses, 0.0).mean(axis=1))
        mean = contrast.loss(means, natural)
        ((name, scale),) = contrast.scale_by_model.items()
        deviation = deviations[name] / scale
        certain = np.maximum(target - mean, 0.0)
        return np.where(deviation > 0, expected_improvement(target, mean, deviation), certain)

    def _least(self) -> float:
        """Return the nats a score below which nothing more is asked for here."""
        if self.state.n_scores == 0:
            return 0.0
        return self._brought() / self.state.n_scores * _MIN_PROMISE

    def _enough(self, most: float) -> bool:
        """Return whether the next score promises too little, `most` nats, to go on."""
        if self.best is None:
            return most <= self._least()
        return self._brought() == 0 or most * self.state.n_scores <= self._brought()

    def _brought(self) -> float:
        """Return by how many nats scores have lowered the loss so far."""
        # The loss of the natural sentence is 0.
        return 0.0 - self.candidates.target


def _cost_by_model(candidates: Candidates) -> dict[str, float]:
    """Return, by model, what a score of the candidate that costs least costs, to compare models.

    In multiply-additions where all models not known at once say how many an input takes, else in
    inputs.
    """
    tables = candidates.tables
    sizes = {n: table.cost.multiply_adds for n, table in tables.items() if not table.is_exact}
    stated = all(size is not None for size in sizes.values())
    return {
        name: float(candidates.costs(name).min()) * ((stated and sizes.get(name)) or 1.0)
        for name in tables
    }


def _cost_of_present(candidates: Candidates) -> float:
    """Return what scores of the sentence as it is would cost, or of one with a short word."""
    costs = [candidates.costs(name) for name in candidates.tables]
    present = candidates.present
    return float(sum(c.min() if present is None else c[present] for c in costs))


@cache
def _normals(n: int) -> FloatArray:
    """Return draws (n, 2^k) of n independent standard normal variables, always the same."""
    from scipy.stats.qmc import Sobol  # takes as long to load as a search; few need it

    return np.asarray(scipy.special.ndtri(Sobol(n, seed=0).random_base2(_LOG_DRAWS)).T)
