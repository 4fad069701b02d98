"""For networks: constrained expected improvement within a budget, one word at a time.

Gardner et al. (2014): of the candidates not scored yet that one comes next whose expected
improvement times its probability of feasibility is greatest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np
import scipy  # which loads `special` at its first use

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.settings import settings
from contstim.synthesis.candidates import SLACK, Candidates
from contstim.synthesis.options import BoundedOptions
from contstim.synthesis.surrogate import Posterior, Surrogate, expected_improvement
from contstim.synthesis.sweeps import Search, Strategy

# A less expensive model is asked for so many candidates at once, and may be asked for this many
# times the budget at most.
_BATCH, _LARGEST_RATIO = 32, 128
# Inputs of one sentence: so many, or so many scores of the natural sentence.
_INPUTS, _SCORES = 25_000, 48
# A position at which nothing was found is left when the next score promises less than this part of
# what scores have brought so far.
_LEAST = 1 / 8
_LARGEST_BATCH = 256
# Candidates of known losses that are asked about at once.
_CHECKED = 8
_NO_LIMIT = 2**40
# Sampled losses of a candidate, where their distribution has no closed form: two to this power.
_LOG_DRAWS = 5


@settings
class Bounded(BoundedOptions, Strategy):
    """Spend at most `budget` exact scores a position, where they promise the greatest improvement.

    Candidates whose upper bound breaks a constraint are never scored. Of the rest that one is
    taken next whose expected improvement times its probability of feasibility is greatest
    (Gardner et al. 2014, Eq. 6); what its score costs beside others is not weighed, for the words
    whose scores cost most are those of many tokens, on which models disagree most. Both follow
    from estimates that are corrected by the exact scores known so far (`Surrogate`). A candidate
    is scored by the models in the order of their costs, and by the next only if it is still in
    the running.

    A position is left with the best candidate found as soon as the next score promises less than
    scores have brought so far (the marginal value theorem, Charnov 1976). Where nothing is found,
    it is left when the next one promises less than an eighth of that, or after `first` scores.
    Positions left for the latter reason are looked at further once no other brings anything, each
    time with twice the scores, up to the budget.

    With ``budget=None`` a position is left only when no candidate is left that bounds or scores
    do not rule out; the result is then that of ``exhaustive``, as it is where all scores are known
    at once.

    Examples
    --------
    >>> from contstim import synthesize
    >>> found = synthesize(
    ...     "The dog slept in the old house.",
    ...     reject="contstim:trigram",
    ...     accept="contstim:bigram",
    ...     strategy=Bounded(budget=8),
    ... )
    >>> round(found.loss, 1)
    -10.8
    """

    @property
    def complete(self) -> bool:
        """Whether no single replacement improves a result: without a budget."""
        return self.budget is None

    def run(self, search: Search) -> bool:
        """Search by sweeps, learning from each position for the next."""
        memory = Memory()
        search.sweep(partial(self.look, memory=memory), sifted=True)
        return memory.complete

    def look(self, candidates: Candidates, memory: Memory | None = None) -> bool:
        """Run the word search, knowing what `memory` holds of earlier ones."""
        if all(table.exact for table in candidates.tables.values()):
            from contstim.synthesis.exhaustive import Exhaustive  # of no use to networks

            return Exhaustive().look(candidates)
        return _WordSearch(candidates, self, Memory() if memory is None else memory).run()


@dataclass
class Memory:
    """What the word searches of one sentence learn for those that follow.

    Attributes
    ----------
    surrogates
        By model, how far estimates are off.
    n_scores
        Exact scores asked for, those of less expensive models in parts of one.
    inputs
        Most inputs of the sentence, once known.
    complete
        Whether no candidate has been left out because its scores could not be paid.
    """

    surrogates: dict[str, Surrogate] = field(default_factory=dict)
    n_scores: float = 0.0
    inputs: float | None = None
    complete: bool = True

    def posterior(self, candidates: Candidates, name: str) -> Posterior:
        """Return what a model's scores at a position are likely to be."""
        table, exact = candidates.tables[name], candidates.known[name]
        surrogate = self.surrogates.setdefault(name, Surrogate())
        posterior = surrogate.posterior(table, candidates.now[name])
        if not table.exact:
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

    def __init__(self, candidates: Candidates, options: Bounded, memory: Memory) -> None:
        self.candidates, self.options, self.memory = candidates, options, memory
        self.patient = options.budget is None
        budget = _NO_LIMIT if options.budget is None else options.budget
        self.limit = budget if self.patient else min(budget, options.first * 2**candidates.round)
        self.last_round = self.limit == budget
        self.inputs = np.inf
        if not self.patient:
            if memory.inputs is None:
                memory.inputs = options.inputs or max(
                    _INPUTS, _SCORES * _cost_of_present(candidates)
                )
            self.inputs = memory.inputs
        cost = _cost_by_model(candidates)
        constrained_first = list(cost)[::-1]
        self.models = sorted(constrained_first, key=cost.__getitem__)
        most = cost[self.models[-1]]
        self.relative = {name: cost[name] / most if most else 0.0 for name in self.models}
        self.posteriors = {name: memory.posterior(candidates, name) for name in candidates.tables}
        index = candidates.open()
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
                self.memory.complete = False
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
        if name in self.candidates.objective.models:
            promise = feasibility * self._improvement(index, most / feasibility)
        else:
            beyond = most / self._feasibility(index, but=name)
            promise = feasibility * np.maximum(self._improvement(index) - beyond, 0.0)
        size = min(room, max(_BATCH, self._n_scored(name) // 4), _LARGEST_BATCH)
        order = np.argsort(-promise, kind="stable")[:size]
        least = most if ready else self._least()
        enough = promise[order].sum() > least * self.relative[name] * len(order)
        # Without a budget every candidate is looked at.
        return index[order] if enough or (self.patient and not ready) else index[:0]

    def _ask(self, name: str, index: IntArray) -> None:
        """Ask a model for as many scores of `index` as can be paid and any one of them kept."""
        cost = self.candidates.costs(name)[index]
        later = np.maximum.accumulate(self._cost(index) - cost)
        affordable = np.searchsorted(np.cumsum(cost) + later, self._left(), side="right")
        # Each can be paid alone, whatever rounding says.
        index = index[: max(1, int(affordable))]
        self.memory.n_scores += self.relative[name] * len(index)
        self.posteriors[name].learn(index, self.candidates.scores(name, index))
        self._find_best()

    def _n_scored(self, name: str) -> int:
        if self.candidates.tables[name].exact:
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
        return self.inputs - self.candidates.spent.cost

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
        self.memory.complete &= bool(payable.all())
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
        objective, natural = self.candidates.objective, self.candidates.natural
        target = self.target - beyond
        means, deviations = {}, {}
        for name in objective.models:
            mean, deviation = self.posteriors[name].predict(index)
            exact = self.candidates.known[name][index]
            means[name] = np.where(np.isnan(exact), mean, exact)
            deviations[name] = np.where(np.isnan(exact), deviation, 0.0)
        if objective.weights is None:
            draws = {
                name: means[name][:, None] + deviations[name][:, None] * normal
                for name, normal in zip(means, _normals(len(means)), strict=True)
            }
            losses = objective.loss(draws, natural)
            return np.asarray(np.maximum(np.reshape(target, (-1, 1)) - losses, 0.0).mean(axis=1))
        weights = objective.weights
        mean = np.sum([w * (means[name] - natural[name]) for name, w in weights.items()], axis=0)
        deviation = np.sqrt(
            np.sum([(w * deviations[name]) ** 2 for name, w in weights.items()], axis=0)
        )
        certain = np.maximum(target - mean, 0.0)
        return np.where(deviation > 0, expected_improvement(target, mean, deviation), certain)

    def _least(self) -> float:
        """Return the nats a score below which nothing more is asked for here."""
        if self.patient or self.memory.n_scores == 0:
            return 0.0
        return self._brought() / self.memory.n_scores * _LEAST

    def _enough(self, most: float) -> bool:
        """Return whether the next score promises too little, `most` nats, to go on."""
        if self.patient:
            return False
        if self.best is None:
            return most <= self._least()
        return self._brought() == 0 or most * self.memory.n_scores <= self._brought()

    def _brought(self) -> float:
        """Return by how many nats scores have lowered the loss so far."""
        objective, natural = self.candidates.objective, self.candidates.natural
        return objective.of_one(natural, natural) - self.candidates.target


def _cost_by_model(candidates: Candidates) -> dict[str, float]:
    """Return, by model, what a score of the candidate that costs least costs, to compare models.

    In multiply-additions where all models not known at once say how many an input takes, else in
    inputs.
    """
    tables = candidates.tables
    sizes = {n: table.hints.multiply_adds for n, table in tables.items() if not table.exact}
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
