"""Search for a better word at one position by constrained Bayesian optimisation."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np
import scipy  # which loads `special` at its first use

from contstim.arrays import FloatArray, IntArray
from contstim.synthesis.candidates import SCORE_TOLERANCE, Candidates
from contstim.synthesis.surrogate import Posterior, Surrogate, expected_improvement

# First batch size of all models but the most expensive one, and maximum batch size.
_BATCH_SIZE, _MAX_BATCH_SIZE = 32, 256
# Maximum number of scores by a less expensive model, relative to the most expensive model.
_MAX_BUDGET_RATIO = 128
# Default cost limit per sentence: the larger of this number of model inputs and the cost of this
# number of scores of the sentence.
_MAX_INPUTS, _MAX_SENTENCE_SCORES = 25_000, 48
# While a position has no improvement, the search leaves it when the expected improvement from the
# next score is less than this fraction of the mean improvement per score so far.
_MIN_RELATIVE_GAIN = 1 / 8
# Minimum batch size if the losses of all candidates are known, but not whether they are feasible.
_MIN_CONSTRAINT_BATCH_SIZE = 8
# Base-2 logarithm of the number of samples if the expected improvement has no closed form.
_LOG_N_SAMPLES = 5


@dataclass
class SearchState:
    """State that the word searches at all positions of a sentence share.

    Attributes
    ----------
    surrogates
        Mapping from model name to a regression that predicts scores of the model (`Surrogate`).
    score_cost
        Total cost of the exact scores so far. The unit is the cost of one score under the most
        expensive model.
    max_inputs
        Maximum number of model inputs for the sentence. None before the first position is searched.
    is_complete
        Whether no candidate was skipped because of its cost.
    """

    surrogates: dict[str, Surrogate] = field(default_factory=dict)
    score_cost: float = 0.0
    max_inputs: float | None = None
    is_complete: bool = True


class WordSearch:
    """Search for a better word at one position by constrained Bayesian optimisation (see `Edit`).

    The word at this position can be replaced by any of V candidate words. Each model assigns a
    score to the sentence with a candidate. The search looks for the candidate with the lowest loss
    that satisfies the constraints, while it computes few exact scores.

    Attributes
    ----------
    indices
        Indices, from 0 to V - 1, of the candidates that may improve the sentence according to the
        bounds of their scores, in random order.
    models
        Names of the models, from the least to the most expensive one to run.
    relative_costs
        Cost of one exact score under each model, divided by the cost under the most expensive one.
    posteriors
        Predictive distribution of the candidates' scores under each model.
    max_scores
        Maximum number of exact scores that the most expensive model computes in this round.
    is_last_round
        Whether `max_scores` has reached its final value, so that no further round is needed.
    refused
        Indices of candidates that were proposed but not accepted.
    best_index, best_loss
        Index and loss of the best candidate so far, which has the lowest known loss of all that
        satisfy the constraints. If no candidate has a lower loss than the best sentence so far,
        `best_index` is None, and `best_loss` is the loss of this sentence.
    """

    def __init__(
        self,
        candidates: Candidates,
        state: SearchState,
        *,
        budget: int,
        first: int,
        max_inputs: int | None,
    ) -> None:
        self.candidates, self.state = candidates, state
        self.max_scores: int = min(budget, first * 2**candidates.round_number)
        self.is_last_round = self.max_scores == budget
        if state.max_inputs is None:
            # Estimate the cost of scoring a sentence: the current one or, if its word is not among
            # the candidates, the least expensive one.
            score_costs = [candidates.score_costs(name) for name in candidates.replacements]
            current = candidates.current_index
            cost = sum(float(c.min() if current is None else c[current]) for c in score_costs)
            state.max_inputs = max_inputs or max(_MAX_INPUTS, _MAX_SENTENCE_SCORES * cost)
        self.max_inputs = state.max_inputs
        self.relative_costs = _compute_relative_costs(candidates)
        self.models = list(self.relative_costs)
        self.posteriors = dict[str, Posterior]()
        for name, replacements in candidates.replacements.items():
            surrogate = state.surrogates.setdefault(name, Surrogate())
            posterior = surrogate.posterior(replacements, candidates.current_scores[name])
            if not replacements.is_exact:
                # The surrogate already contains the scores of earlier rounds at this position.
                exact = candidates.exact_scores[name]
                scored = np.flatnonzero(~np.isnan(exact))
                posterior.learn(scored, exact[scored], keep=False)
            self.posteriors[name] = posterior
        indices = candidates.find_promising()
        if candidates.current_index is not None:
            indices = indices[indices != candidates.current_index]
        # A random order breaks ties between candidates with equal predictions.
        self.indices = indices[candidates.rng.permutation(len(indices))]
        self.refused: set[int] = set()
        self._update_best()

    def run(self) -> bool:
        """Score candidates and propose the best one, repeatedly, until a proposal is accepted.

        Returns whether the search ended because of the limit on scores in this round, so that it
        should continue in a later round.
        """
        while True:
            ended_early = self._score_candidates()
            if self.best_index is None:
                return ended_early  # No candidate is better than the word in the sentence.
            # Stop if the limit on model inputs does not allow the verification of a proposal.
            if self._verification_costs(self.best_index) > self._count_inputs_left():
                self.state.is_complete = False
                return False
            # A proposal is verified by scoring the whole sentence. Continue if it is refused.
            if self.candidates.propose(self.best_index):
                return False
            self.refused.add(self.best_index)
            self._update_best()

    def _score_candidates(self) -> bool:
        """Score candidate words until no further score is worth its cost.

        The models score each candidate in the order of their costs. In each iteration, either a
        cheap model scores a batch of candidates, or the most expensive model scores the candidates
        with the largest acquisition values. The acquisition value of a candidate is its expected
        improvement times the probability that it satisfies the constraints.

        Returns whether a limit on the number of scores was reached.
        """
        *cheap_models, most_expensive = self.models
        while True:
            indices = self._find_undecided()
            if not len(indices):
                return False

            # Each candidate waits for the first cheap model that has not scored it. Candidates that
            # every cheap model has scored are ready for the most expensive model.
            waiting: dict[str, IntArray] = {}
            is_ready = np.ones(len(indices), dtype=np.bool_)
            for name in cheap_models:
                is_scored = ~np.isnan(self.candidates.exact_scores[name][indices])
                if (is_ready & ~is_scored).any():
                    waiting[name] = indices[is_ready & ~is_scored]
                is_ready &= is_scored
            acquisition = self._predict_feasibility(indices) * self._predict_improvement(indices)
            acquisition = np.where(is_ready, acquisition, 0.0)
            max_acquisition, any_ready = float(acquisition.max()), bool(is_ready.any())
            # Let a cheap model score a batch of its candidates, if this is worth its cost.
            has_scored = False
            for name, unscored in waiting.items():
                batch = self._select_batch(name, unscored, max_acquisition, any_ready)
                if len(batch):
                    self._score(name, batch)
                    has_scored = True
                    break
            if has_scored:
                continue

            # No score under a cheap model is worth its cost: use the most expensive model, or stop.
            n_left = self._count_scores_left(most_expensive)
            none_possible = not any_ready and all(self._count_scores_left(n) <= 0 for n in waiting)
            if n_left <= 0 or none_possible:
                return not self.is_last_round
            if not any_ready or not self._is_worthwhile(max_acquisition):
                return False
            size = min(n_left, 1 + self._count_scored(most_expensive) // 8, _MAX_BATCH_SIZE)
            if self.candidates.has_exact_losses:
                # Networks score a few sentences at hardly more than the cost of one.
                size = min(n_left, max(size, _MIN_CONSTRAINT_BATCH_SIZE))
            order = np.argsort(-acquisition, kind="stable")
            self._score(most_expensive, indices[order[is_ready[order]][:size]])

    def _is_worthwhile(self, max_acquisition: float) -> bool:
        """Return whether another score by the most expensive model is worth its cost.

        The expected improvement `max_acquisition` must exceed the mean improvement per score so far
        (marginal value theorem) or, before the first improvement at a position, an eighth of it.
        """
        if self.best_index is None:
            return max_acquisition > self._min_improvement_per_score()
        total_improvement = -self.candidates.target_loss
        expected_total = max_acquisition * self.state.score_cost
        return total_improvement != 0 and expected_total > total_improvement

    def _select_batch(
        self, name: str, indices: IntArray, max_acquisition: float, any_ready: bool
    ) -> IntArray:
        """Select the batch of candidates that a cheap model should score next.

        The acquisition value of a candidate is its expected improvement times the probability that
        it satisfies the constraints. A new score can raise the maximum acquisition value, and the
        value of computing the score is the expected increase. The batch contains the candidates for
        which this value is highest. It is worth its cost if its total value exceeds the expected
        improvement that the most expensive model achieves at the same cost.

        Parameters
        ----------
        name
            Name of the cheap model.
        indices
            Candidates without a score under this model.
        max_acquisition
            Maximum acquisition value, in nats, of the candidates that every cheap model has scored.
        any_ready
            Whether there is at least one candidate that every cheap model has scored.

        Returns
        -------
        array
            Indices of the candidates, shape (k,). Empty if the batch is not worth its cost.
        """
        n_left = self._count_scores_left(name)
        if n_left <= 0:
            return indices[:0]
        # The acquisition value of a candidate is its expected improvement times its probability of
        # feasibility. The value of a new score is the expected increase in the maximum of these.
        feasibility = self._predict_feasibility(indices)
        if name in self.candidates.definition.reject:
            # The score determines the loss. The acquisition value becomes the new maximum if the
            # improvement exceeds the margin.
            margin = max_acquisition / feasibility
            values = feasibility * self._predict_improvement(indices, margin)
        else:
            # The score shows whether the candidate satisfies the constraint on this model. If it
            # does, the acquisition value increases to improvement times the other probabilities.
            margin = max_acquisition / self._predict_feasibility(indices, excluded=name)
            values = feasibility * np.maximum(self._predict_improvement(indices) - margin, 0.0)
        size = min(n_left, max(_BATCH_SIZE, self._count_scored(name) // 4), _MAX_BATCH_SIZE)
        # Choose the candidates with the highest values, if their total value is worth the cost.
        order = np.argsort(-values, kind="stable")[:size]
        min_value_per_cost = max_acquisition if any_ready else self._min_improvement_per_score()
        cost = self.relative_costs[name]
        is_worthwhile = values[order].sum() > min_value_per_cost * cost * len(order)
        return indices[order] if is_worthwhile else indices[:0]

    def _score(self, name: str, indices: IntArray) -> None:
        """Compute exact scores of candidates under one model, and improve its predictions.

        A regression predicts the unknown scores of the model (`Surrogate`). It learns the new
        scores. If the limit on model inputs is too low for all candidates, the last ones are left
        out, so that the remaining inputs suffice to decide on a candidate that was scored.

        Parameters
        ----------
        name
            Name of the model.
        indices
            Indices of the candidates to score.
        """
        score_costs = self.candidates.score_costs(name)[indices]
        # Find the number of candidates that can be scored within the limit on model inputs. After
        # the last score, enough inputs must be left to decide on the most expensive candidate.
        later_costs = np.maximum.accumulate(self._compute_decision_costs(indices) - score_costs)
        total_costs = np.cumsum(score_costs) + later_costs
        n_affordable = np.searchsorted(total_costs, self._count_inputs_left(), side="right")
        # `_find_undecided` returns affordable candidates only, so the first one is affordable even
        # if rounding errors suggest otherwise.
        indices = indices[: max(1, int(n_affordable))]
        self.state.score_cost += self.relative_costs[name] * len(indices)
        self.posteriors[name].learn(indices, self.candidates.scores(name, indices))
        self._update_best()

    def _count_scored(self, name: str) -> int:
        """Return the number of candidates at this position that a model has scored individually.

        Models that score all words at once score no candidate individually, so the number is 0.
        """
        if self.candidates.replacements[name].is_exact:
            return 0
        return int((~np.isnan(self.candidates.exact_scores[name])).sum())

    def _count_scores_left(self, name: str) -> int:
        """Return the number of candidates that a model may still score in this round.

        The maximum number of scores by a model is inversely proportional to its cost.
        """
        relative = self.relative_costs[name]
        ratio = int(min(1.0 / relative, _MAX_BUDGET_RATIO)) if relative else 1
        return self.max_scores * ratio - self._count_scored(name)

    def _compute_decision_costs(self, indices: IntArray) -> FloatArray:
        """Return the cost of deciding whether each candidate improves the sentence, shape (k,).

        The unit is one input to a model. For a decision, the models first compute the unknown
        scores of the candidate. Then all models score the whole sentence with this candidate or
        with the best candidate so far (verification). The more expensive verification is assumed.
        """
        costs = np.zeros(len(indices))
        # First, the models that have not scored the candidate yet compute its scores.
        for name in self.candidates.replacements:
            is_unknown = np.isnan(self.candidates.exact_scores[name][indices])
            costs += self.candidates.score_costs(name)[indices] * is_unknown
        # Then all models verify the better one of this candidate and the best candidate so far, by
        # scoring the whole sentence. It is not yet known which one, so assume the higher cost.
        best_cost = 0.0 if self.best_index is None else self._verification_costs(self.best_index)
        return costs + np.maximum(self._verification_costs(indices), best_cost)

    def _verification_costs(self, indices: IntArray | int) -> FloatArray:
        """Return the number of model inputs to score each sentence under all models, shape (k,)."""
        names = self.candidates.replacements
        return np.asarray(sum(self.candidates.score_costs(name)[indices] for name in names))

    def _count_inputs_left(self) -> float:
        return self.max_inputs - self.candidates.counter.n_inputs

    def _update_best(self) -> None:
        """Update `best_index` and `best_loss` after new scores or a refused proposal.

        The best candidate has the lowest loss of all candidates that satisfy the constraints, were
        not refused and improve on the best sentence so far. Candidates with an unknown score are
        not considered: the score is NaN, and comparisons with NaN are false.
        """
        candidates = self.candidates
        scores = {name: s[self.indices] for name, s in candidates.exact_scores.items()}
        losses = candidates.definition.loss(scores, candidates.natural_scores)
        # Scores can change slightly when the candidate is verified. Therefore, accept violations up
        # to the tolerance here; the verification is strict.
        is_eligible = losses < candidates.target_loss + SCORE_TOLERANCE
        for name, minimum in candidates.min_scores.items():
            is_eligible &= scores[name] >= minimum - SCORE_TOLERANCE
        is_eligible &= ~np.isin(self.indices, list(self.refused))
        # Without an eligible candidate, the loss of the sentence found so far remains the best.
        self.best_index: int | None = None
        self.best_loss = candidates.target_loss
        if is_eligible.any():
            best = int(np.where(is_eligible, losses, np.inf).argmin())
            self.best_index, self.best_loss = int(self.indices[best]), float(losses[best])

    def _find_undecided(self) -> IntArray:
        """Return the candidates that may still turn out to be the best, shape (k,).

        A candidate is undecided if at least one of its scores is unknown, and if it may satisfy all
        constraints and improve the sentence according to its known scores. Candidates for which the
        remaining scores would exceed the limit on model inputs are left out.
        """
        candidates = self.candidates
        scores = {name: s[self.indices] for name, s in candidates.exact_scores.items()}
        losses = candidates.definition.loss(scores, candidates.natural_scores)
        tolerance = SCORE_TOLERANCE if self.best_index is None else 0.0
        # Exclude candidates that are known to be no improvement or to violate a constraint. Unknown
        # scores and losses are NaN, for which these comparisons are false.
        is_excluded = losses >= self.best_loss + tolerance
        for name, minimum in candidates.min_scores.items():
            is_excluded |= scores[name] < minimum - SCORE_TOLERANCE
        # Candidates with all scores are decided.
        is_excluded |= ~np.any([np.isnan(values) for values in scores.values()], axis=0)
        undecided = self.indices[~is_excluded]
        is_affordable = self._compute_decision_costs(undecided) <= self._count_inputs_left()
        self.state.is_complete &= bool(is_affordable.all())
        return undecided[is_affordable]

    def _predict_feasibility(self, indices: IntArray, excluded: str | None = None) -> FloatArray:
        """Return the probability that each candidate satisfies all constraints, shape (k,).

        It is the product of P(score_m >= minimum_m) over the models m with a minimum score, except
        the model `excluded`. The factor of a known score is 1, because candidates that are known to
        violate a constraint were excluded before.
        """
        probability = np.ones(len(indices))
        for name, minimum in self.candidates.min_scores.items():
            if name == excluded:
                continue
            mean, deviation = self.posteriors[name].predict(indices)
            is_unknown = np.isnan(self.candidates.exact_scores[name][indices])
            # P(score >= minimum) for a normally distributed score
            p_feasible = scipy.special.ndtr((mean - minimum) / deviation)
            probability *= np.where(is_unknown, p_feasible, 1.0)
        return np.maximum(probability, 1e-300)  # Callers divide by the probability.

    def _predict_improvement(
        self, indices: IntArray, margin: FloatArray | float = 0.0
    ) -> FloatArray:
        """Return the expected improvement of each candidate over the lowest loss so far.

        The expected improvement is E max(0, best_loss - margin - loss), where the expectation is
        over the predictive distribution of the candidate's loss. The loss is the maximum, over the
        models that should find the sentence improbable, of a normally distributed variable. For one
        such model, the expectation has a closed form. For several, it is estimated by quasi-Monte
        Carlo sampling.

        Parameters
        ----------
        indices
            Indices of the candidates, shape (k,).
        margin
            Minimum improvement that counts, in units of the loss; a scalar or an array (k,).

        Returns
        -------
        array
            Expected improvements, shape (k,).
        """
        definition, natural = self.candidates.definition, self.candidates.natural_scores
        # Only losses below the target count. The scores that determine the loss are known (with a
        # deviation of 0) or normally distributed.
        target_loss = self.best_loss - margin
        means, deviations = {}, {}
        for name in definition.reject:
            mean, deviation = self.posteriors[name].predict(indices)
            scores = self.candidates.exact_scores[name][indices]
            is_unknown = np.isnan(scores)
            means[name] = np.where(is_unknown, mean, scores)
            deviations[name] = np.where(is_unknown, deviation, 0.0)

        if len(definition.reject) == 1:
            ((name, scale),) = definition.scale_by_model.items()
            mean_loss, loss_deviation = definition.loss(means, natural), deviations[name] / scale
            improvement = expected_improvement(target_loss, mean_loss, loss_deviation)
            known_improvement = np.maximum(target_loss - mean_loss, 0.0)
            return np.where(loss_deviation > 0, improvement, known_improvement)

        # Draw samples of the scores of each candidate, shape (k, number of samples).
        samples = {}
        for name, normal in zip(means, _standard_normal_samples(len(means)), strict=True):
            samples[name] = means[name][:, None] + deviations[name][:, None] * normal
        improvements = np.reshape(target_loss, (-1, 1)) - definition.loss(samples, natural)
        return np.asarray(np.maximum(improvements, 0.0).mean(axis=1))

    def _min_improvement_per_score(self) -> float:
        """Return the minimum expected improvement for which another score is computed, in nats.

        The minimum is an eighth of the mean improvement per score so far, over all positions of the
        sentence. It applies until the first improvement at a position.
        """
        if self.state.score_cost == 0:
            return 0.0
        # The loss of the natural sentence is 0, so -target_loss is the total improvement so far.
        return -self.candidates.target_loss / self.state.score_cost * _MIN_RELATIVE_GAIN


def _compute_relative_costs(candidates: Candidates) -> dict[str, float]:
    """Return the cost of scoring one candidate under each model, relative to the highest cost.

    The result is sorted by cost. Models with equal costs are in the reverse of their usual order.
    """
    costs = {name: float(candidates.score_costs(name).min()) for name in candidates.replacements}
    # The cost is the number of model inputs, times the multiply-adds per input if these are known
    # for all models whose scores have a cost.
    multiply_adds = {
        name: replacements.cost.multiply_adds
        for name, replacements in candidates.replacements.items()
        if not replacements.is_exact
    }
    if all(n is not None for n in multiply_adds.values()):
        for name, n_operations in multiply_adds.items():
            costs[name] *= n_operations or 1.0
    # Sort by cost, lowest first. Models with equal costs are in the reverse of their order in
    # `candidates.replacements`: the names are reversed first, and `sort` is stable.
    max_cost = max(costs.values())
    names = list(costs)[::-1]
    names.sort(key=costs.__getitem__)
    return {name: costs[name] / max_cost if max_cost else 0.0 for name in names}


@cache
def _standard_normal_samples(n_variables: int) -> FloatArray:
    """Return quasi-random samples of independent standard normal variables (Sobol sequence).

    The samples are always the same. Their shape is (number of variables, number of samples).
    """
    from scipy.stats.qmc import Sobol  # slow to load and rarely needed

    uniform = Sobol(n_variables, seed=0).random_base2(_LOG_N_SAMPLES)
    return np.asarray(scipy.special.ndtri(uniform).T)
