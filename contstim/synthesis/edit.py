"""Word replacement by coordinate search, exhaustive or by constrained Bayesian optimisation."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, partial
from typing import Literal

import numpy as np
import scipy  # which loads `special` at its first use

from contstim.arrays import FloatArray, IntArray
from contstim.settings import PositiveInt, settings
from contstim.synthesis.candidates import (
    SCORE_TOLERANCE,
    Candidates,
    propose_in_order,
    split_into_batches,
)
from contstim.synthesis.coordinate_search import Search
from contstim.synthesis.strategy import Strategy
from contstim.synthesis.surrogate import Posterior, Surrogate, expected_improvement

# Batch size of the less expensive models, and the maximum ratio of their budget to the budget of
# the most expensive model.
_BATCH_SIZE, _MAX_BUDGET_RATIO = 32, 128
_MAX_BATCH_SIZE = 256
# Default cost limit per sentence: model inputs, or scores of the sentence if these cost more.
_MAX_INPUTS, _MAX_SENTENCE_SCORES = 25_000, 48
# The search leaves a position without an improvement when the expected improvement from the next
# score is less than this fraction of the mean improvement per score so far.
_MIN_RELATIVE_GAIN = 1 / 8
# Minimum batch size if only the constraints of candidates are unknown.
_MIN_CONSTRAINT_BATCH_SIZE = 8
# Base-2 logarithm of the number of sampled losses if the expected improvement has no closed form.
_LOG_N_SAMPLES = 5


@settings
class Edit(Strategy):
    """Replace words of the natural sentence, one at a time, until the loss stops decreasing.

    The search is a coordinate search (Golan et al. 2023). With ``candidates="all"``, each position
    gets its best word: candidates with known losses are tried in the order of their losses;
    otherwise every candidate within the bounds of the constrained models is scored.

    With a number, each position is searched by constrained Bayesian optimisation:

    1. A `Surrogate` of each model predicts the scores that are unknown.
    2. The next candidate to score is the one with the largest expected improvement times its
       probability of feasibility (Gardner et al. 2014, Eq. 6). The models score it in the order of
       their costs, as long as it may still be an improvement.
    3. The search leaves the position when the expected improvement from the next score is less
       than the mean improvement per score so far (marginal value theorem, Charnov 1976), or after
       `first` scores. Before the first improvement at a position, an eighth of this mean is enough.
    4. When no other position yields an improvement, the positions left after `first` scores are
       searched again, each time with twice as many scores, up to the maximum.

    If the scores of all models are known at once, the best word is always taken.

    Attributes
    ----------
    candidates
        Maximum number of exact scores per position by the most expensive model, or ``all``. Other
        models may compute more scores in proportion to their lower costs, up to 128 times as many.
    first
        Number of scores after which a position is left for the first time.
    inputs
        Maximum cost of the exact scores of one sentence, in model inputs
        (`ScoringCost.n_inputs`). Default: 25,000, or the cost of 48 scores of the natural sentence
        under all models if this is more. Ignored with ``all``.

    Examples
    --------
    >>> from contstim import synthesize
    >>> result = synthesize(
    ...     "The dog slept in the old house.",
    ...     reject="contstim:trigram",
    ...     accept="contstim:bigram",
    ...     strategy=Edit(candidates=8),
    ... )
    >>> round(result.loss, 1)
    -10.8
    """

    candidates: PositiveInt | Literal["all"] = 64
    first: PositiveInt = 4
    inputs: PositiveInt | None = None

    @property
    def is_exhaustive(self) -> bool:
        """Whether a result is a local optimum, because all candidates are considered."""
        return self.candidates == "all"

    def run(self, search: Search) -> bool:
        """Run the coordinate search; return False if candidates were skipped for their costs."""
        # The surrogates learn from the scores at all positions.
        state = SearchState()
        search.optimize(partial(self.search_word, state=state), prefilter=True)
        return state.is_complete

    def search_word(self, candidates: Candidates, state: SearchState | None = None) -> bool:
        """Search for a better word at one position, and propose it.

        `state` is shared with the searches at other positions. Returns whether the search reached
        its limit of scores and should continue in a later round.
        """
        is_exact = all(table.is_exact for table in candidates.replacements.values())
        if self.candidates != "all" and not is_exact:
            state = SearchState() if state is None else state
            return _WordSearch(candidates, self, self.candidates, state).run()

        # Otherwise score every candidate that no bound excludes, and propose the best one first.
        indices = candidates.promising()
        if candidates.has_exact_losses:
            indices = indices[np.argsort(candidates.losses(indices), kind="stable")]
            for batch in split_into_batches(indices):
                if any(candidates.propose(int(i)) for i in candidates.filter_feasible(batch)):
                    break
        else:
            feasible = [candidates.filter_feasible(batch) for batch in split_into_batches(indices)]
            indices = np.concatenate([np.empty(0, dtype=np.int64), *feasible])
            losses = [candidates.losses(batch) for batch in split_into_batches(indices)]
            propose_in_order(candidates, indices, np.concatenate([np.empty(0), *losses]))
        return False


@dataclass
class SearchState:
    """State that the word searches of one sentence share.

    Attributes
    ----------
    surrogates
        Surrogate of the scores of each model, by model.
    n_scores
        Number of exact scores so far, weighted by the relative costs of the models.
    max_inputs
        Maximum cost of the sentence in model inputs; None before the first word search.
    is_complete
        Whether no candidate was skipped because of its cost.
    """

    surrogates: dict[str, Surrogate] = field(default_factory=dict)
    n_scores: float = 0.0
    max_inputs: float | None = None
    is_complete: bool = True


class _WordSearch:
    """Constrained Bayesian optimisation of the word at one position (`Edit`).

    Attributes
    ----------
    indices
        Candidates that no bound excludes, in random order.
    models
        Names of the models in the order of their costs.
    relative_costs
        Cost of a score relative to the most expensive model, by model.
    posteriors
        Posterior distribution of the scores, by model.
    max_scores
        Maximum number of scores by the most expensive model in this round.
    refused
        Candidates that were proposed but not accepted.
    best_index, best_loss
        Feasible candidate with the lowest known loss, and this loss. If no candidate has a lower
        loss than the current sentence: None, and the loss of the current sentence.
    """

    def __init__(
        self, candidates: Candidates, options: Edit, budget: int, state: SearchState
    ) -> None:
        self.candidates, self.state = candidates, state
        self.max_scores: int = min(budget, options.first * 2**candidates.round_number)
        self.is_last_round = self.max_scores == budget
        if state.max_inputs is None:
            # Cost of scoring the current sentence, or one with the cheapest candidate.
            score_costs = [candidates.score_costs(name) for name in candidates.replacements]
            current = candidates.current_index
            cost = sum(float(c.min() if current is None else c[current]) for c in score_costs)
            state.max_inputs = options.inputs or max(_MAX_INPUTS, _MAX_SENTENCE_SCORES * cost)
        self.max_inputs = state.max_inputs
        # Costs are in multiply-adds if these are known for all models without exact scores.
        tables = candidates.replacements
        sizes = {n: t.cost.multiply_adds for n, t in tables.items() if not t.is_exact}
        are_known = all(size is not None for size in sizes.values())
        costs = {
            n: float(candidates.score_costs(n).min()) * ((are_known and sizes.get(n)) or 1.0)
            for n in tables
        }
        # Sort the models by cost. Accepting models come before rejecting models of equal cost.
        constrained_first = list(costs)[::-1]
        self.models = sorted(constrained_first, key=costs.__getitem__)
        max_cost = costs[self.models[-1]]
        self.relative_costs = {
            name: costs[name] / max_cost if max_cost else 0.0 for name in self.models
        }
        self.posteriors = dict[str, Posterior]()
        for name, replacements in candidates.replacements.items():
            surrogate = state.surrogates.setdefault(name, Surrogate())
            posterior = surrogate.posterior(replacements, candidates.current_scores[name])
            if not replacements.is_exact:
                # Exact scores computed here in an earlier round are already part of the surrogate.
                exact = candidates.exact_scores[name]
                scored = np.flatnonzero(~np.isnan(exact))
                posterior.learn(scored, exact[scored], keep=False)
            self.posteriors[name] = posterior
        indices = candidates.promising()
        if candidates.current_index is not None:
            indices = indices[indices != candidates.current_index]
        # A random order breaks ties between candidates with equal predictions.
        self.indices = indices[candidates.rng.permutation(len(indices))]
        self.refused: set[int] = set()
        self._update_best()

    def run(self) -> bool:
        """Alternate between scoring candidates and proposing the best one, until one is accepted.

        Returns True if a limit on the number of scores ended the search, so that it should continue
        in a later round.
        """
        while True:
            ended_early = self._score_candidates()
            if self.best_index is None:
                return ended_early
            if self._verification_costs(self.best_index) > self._remaining_inputs():
                self.state.is_complete = False
                return False
            if self.candidates.propose(self.best_index):
                return False
            self.refused.add(self.best_index)
            self._update_best()

    def _score_candidates(self) -> bool:
        """Score candidates until no further score is worth its cost.

        Each candidate is scored by the models in the order of their costs. In each iteration,
        either a cheaper model scores a batch, or the most expensive model scores the candidates
        with the largest acquisition values: expected improvement times probability of feasibility.

        Returns True if a limit on the number of scores was reached.
        """
        *cheaper, most_expensive = self.models
        while True:
            indices = self._undecided()
            if not len(indices):
                return False

            # Each candidate waits for the first cheaper model that has not scored it. Candidates
            # that all cheaper models have scored are ready for the most expensive model.
            waiting: dict[str, IntArray] = {}
            is_ready = np.ones(len(indices), dtype=np.bool_)
            for name in cheaper:
                is_scored = ~np.isnan(self.candidates.exact_scores[name][indices])
                if (is_ready & ~is_scored).any():
                    waiting[name] = indices[is_ready & ~is_scored]
                is_ready &= is_scored

            # Let a cheaper model score a batch if its value per cost is large enough.
            acquisition = self._feasibility(indices) * self._improvement(indices)
            acquisition = np.where(is_ready, acquisition, 0.0)
            max_acquisition, any_ready = float(acquisition.max()), bool(is_ready.any())
            for name, waiting_indices in waiting.items():
                batch = self._select_batch(name, waiting_indices, max_acquisition, any_ready)
                if len(batch):
                    self._score(name, batch)
                    break
            else:
                # Otherwise use the most expensive model, or leave the position.
                n_left = self._n_scores_left(most_expensive)
                is_stuck = not any_ready and all(self._n_scores_left(n) <= 0 for n in waiting)
                if n_left <= 0 or is_stuck:
                    return not self.is_last_round
                is_poor = max_acquisition <= self._min_improvement_per_score()
                if self.best_index is not None:
                    # Compare with the mean improvement per score (marginal value theorem).
                    total_improvement = -self.candidates.target_loss
                    expected = max_acquisition * self.state.n_scores
                    is_poor = total_improvement == 0 or expected <= total_improvement
                if not any_ready or is_poor:
                    return False
                size = min(n_left, 1 + self._n_scored(most_expensive) // 8, _MAX_BATCH_SIZE)
                if self.candidates.has_exact_losses:
                    # Networks score a few sentences at hardly more than the cost of one.
                    size = min(n_left, max(size, _MIN_CONSTRAINT_BATCH_SIZE))
                order = np.argsort(-acquisition, kind="stable")
                self._score(most_expensive, indices[order[is_ready[order]][:size]])

    def _select_batch(
        self, name: str, indices: IntArray, max_acquisition: float, any_ready: bool
    ) -> IntArray:
        """Return the candidates that a cheaper model should score next.

        The value of scoring a candidate is the expected increase of the maximum acquisition value.
        The batch contains the candidates with the highest values. It is worth its cost if its total
        value exceeds the expected improvement that the most expensive model achieves at this cost.

        Parameters
        ----------
        name
            Name of the cheaper model.
        indices
            Candidates that wait for a score by this model.
        max_acquisition
            Maximum acquisition value, in nats, of the candidates that are ready for the most
            expensive model. A score by the most expensive model has cost 1.
        any_ready
            Whether any candidate is ready for the most expensive model.

        Returns
        -------
        array
            Indices of the candidates, shape (k,). Empty if the batch is not worth its cost.
        """
        n_left = self._n_scores_left(name)
        if n_left <= 0:
            return indices[:0]
        feasibility = self._feasibility(indices)
        if name in self.candidates.contrast.reject:
            margin = max_acquisition / feasibility
            values = feasibility * self._improvement(indices, margin)
        else:
            # A score by a constrained model shows whether the candidate satisfies its constraint.
            margin = max_acquisition / self._feasibility(indices, excluded=name)
            values = feasibility * np.maximum(self._improvement(indices) - margin, 0.0)
        size = min(n_left, max(_BATCH_SIZE, self._n_scored(name) // 4), _MAX_BATCH_SIZE)
        order = np.argsort(-values, kind="stable")[:size]
        min_value_per_cost = max_acquisition if any_ready else self._min_improvement_per_score()
        cost = self.relative_costs[name]
        is_worthwhile = values[order].sum() > min_value_per_cost * cost * len(order)
        return indices[order] if is_worthwhile else indices[:0]

    def _score(self, name: str, indices: IntArray) -> None:
        """Compute exact scores of candidates under one model, and update the surrogate.

        Only as many candidates are scored as the cost limit of the sentence allows, including
        the later costs of their scores by the other models and of their verification.
        """
        costs = self.candidates.score_costs(name)[indices]
        later_costs = np.maximum.accumulate(self._completion_costs(indices) - costs)
        n_affordable = np.searchsorted(
            np.cumsum(costs) + later_costs, self._remaining_inputs(), side="right"
        )
        # One candidate is always affordable (`_undecided`), despite rounding errors.
        indices = indices[: max(1, int(n_affordable))]
        self.state.n_scores += self.relative_costs[name] * len(indices)
        self.posteriors[name].learn(indices, self.candidates.scores(name, indices))
        self._update_best()

    def _n_scored(self, name: str) -> int:
        """Return the number of candidates at this position that a model has scored.

        The number is 0 for models that score all words at once, because their scores cost nothing.
        """
        if self.candidates.replacements[name].is_exact:
            return 0
        return int((~np.isnan(self.candidates.exact_scores[name])).sum())

    def _n_scores_left(self, name: str) -> int:
        """Return the number of candidates that a model may still score in this round.

        Models of lower cost may compute more scores, in inverse proportion to their costs.
        """
        relative = self.relative_costs[name]
        ratio = int(min(1.0 / relative, _MAX_BUDGET_RATIO)) if relative else 1
        return self.max_scores * ratio - self._n_scored(name)

    def _completion_costs(self, indices: IntArray) -> FloatArray:
        """Return the cost of finishing the search with each candidate, shape (k,).

        It includes all missing scores of the candidate, and the verification of the candidate or
        of the best candidate so far, whichever costs more.
        """
        best = self.best_index
        min_verification = 0.0 if best is None else self._verification_costs(best)
        costs = np.zeros(len(indices))
        for name in self.candidates.replacements:
            is_unknown = np.isnan(self.candidates.exact_scores[name][indices])
            costs += self.candidates.score_costs(name)[indices] * is_unknown
        return costs + np.maximum(self._verification_costs(indices), min_verification)

    def _verification_costs(self, indices: IntArray | int) -> FloatArray:
        """Return the cost of verifying each candidate: all models score the whole sentence."""
        names = self.candidates.replacements
        return np.asarray(sum(self.candidates.score_costs(name)[indices] for name in names))

    def _remaining_inputs(self) -> float:
        return self.max_inputs - self.candidates.counter.cost

    def _update_best(self) -> None:
        """Update `best_index` and `best_loss` after new scores or a refused proposal.

        Only candidates with exact scores by all rejecting and constrained models are considered. A
        missing score is NaN, and comparisons with NaN are false.
        """
        exact = {n: values[self.indices] for n, values in self.candidates.exact_scores.items()}
        losses = self.candidates.contrast.loss(exact, self.candidates.natural_scores)
        is_better = losses < self.candidates.target_loss + SCORE_TOLERANCE
        for name, minimum in self.candidates.min_scores.items():
            is_better &= exact[name] >= minimum - SCORE_TOLERANCE
        is_better &= ~np.isin(self.indices, list(self.refused))
        self.best_index: int | None = None
        self.best_loss = self.candidates.target_loss
        if is_better.any():
            best = int(np.where(is_better, losses, np.inf).argmin())
            self.best_index, self.best_loss = int(self.indices[best]), float(losses[best])

    def _undecided(self) -> IntArray:
        """Return the candidates that may still turn out to be the best.

        They lack the score of at least one model, their known scores exclude neither feasibility
        nor an improvement, and the cost limit suffices for their missing scores.
        """
        exact = {n: values[self.indices] for n, values in self.candidates.exact_scores.items()}
        tolerance = SCORE_TOLERANCE if self.best_index is None else 0.0
        is_excluded = (
            self.candidates.contrast.loss(exact, self.candidates.natural_scores)
            >= self.best_loss + tolerance
        )
        for name, minimum in self.candidates.min_scores.items():
            is_excluded |= exact[name] < minimum - SCORE_TOLERANCE
        is_excluded |= ~np.any([np.isnan(values) for values in exact.values()], axis=0)
        undecided = self.indices[~is_excluded]
        is_affordable = self._completion_costs(undecided) <= self._remaining_inputs()
        self.state.is_complete &= bool(is_affordable.all())
        return undecided[is_affordable]

    def _feasibility(self, indices: IntArray, excluded: str | None = None) -> FloatArray:
        """Return the probability that each candidate satisfies all constraints, shape (k,).

        The probability is a product over the constrained models, without the model `excluded`. The
        factor of a known score is 1, because candidates that violate a constraint are excluded
        before.
        """
        probability = np.ones(len(indices))
        for name, minimum in self.candidates.min_scores.items():
            if name == excluded:
                continue
            mean, deviation = self.posteriors[name].predict(indices)
            is_unknown = np.isnan(self.candidates.exact_scores[name][indices])
            p_feasible = scipy.special.ndtr((mean - minimum) / deviation)
            probability *= np.where(is_unknown, p_feasible, 1.0)
        return np.maximum(probability, 1e-300)

    def _improvement(self, indices: IntArray, margin: FloatArray | float = 0.0) -> FloatArray:
        """Return the expected improvement of each candidate, E max(0, best - margin - loss).

        The array has shape (k,). The expectation has a closed form for one rejecting model. For
        several rejecting models, it is estimated by quasi-Monte Carlo sampling, because the loss is
        a maximum over these models.
        """
        contrast, natural = self.candidates.contrast, self.candidates.natural_scores
        target = self.best_loss - margin
        means, deviations = {}, {}
        # Known scores are exact: their posterior standard deviation is 0.
        for name in contrast.reject:
            mean, deviation = self.posteriors[name].predict(indices)
            exact = self.candidates.exact_scores[name][indices]
            means[name] = np.where(np.isnan(exact), mean, exact)
            deviations[name] = np.where(np.isnan(exact), deviation, 0.0)
        if len(contrast.reject) > 1:
            samples = {
                name: means[name][:, None] + deviations[name][:, None] * normal
                for name, normal in zip(means, _standard_normal_samples(len(means)), strict=True)
            }
            improvements = np.reshape(target, (-1, 1)) - contrast.loss(samples, natural)
            return np.asarray(np.maximum(improvements, 0.0).mean(axis=1))
        mean = contrast.loss(means, natural)
        ((name, scale),) = contrast.scale_by_model.items()
        deviation = deviations[name] / scale
        certain = np.maximum(target - mean, 0.0)
        return np.where(deviation > 0, expected_improvement(target, mean, deviation), certain)

    def _min_improvement_per_score(self) -> float:
        """Return the minimum expected improvement of the next score, in nats.

        Before the first improvement at a position, it is an eighth of the mean improvement per
        score so far.
        """
        if self.state.n_scores == 0:
            return 0.0
        # The loss of the natural sentence is 0, so -target_loss is the total improvement so far.
        return -self.candidates.target_loss / self.state.n_scores * _MIN_RELATIVE_GAIN


@cache
def _standard_normal_samples(n_variables: int) -> FloatArray:
    """Return fixed Sobol samples (n_variables, 2^k) of independent standard normal variables."""
    from scipy.stats.qmc import Sobol  # slow to load and rarely needed

    uniform = Sobol(n_variables, seed=0).random_base2(_LOG_N_SAMPLES)
    return np.asarray(scipy.special.ndtri(uniform).T)
