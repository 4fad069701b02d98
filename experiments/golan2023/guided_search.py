"""Guided word search for expensive models (Golan et al. 2023, section 4.7), as a strategy.

``pip install experiments/golan2023`` adds it under the name ``guided``, for the option --strategy
and for study plans.
"""

from __future__ import annotations

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.models import ModelSpec
from contstim.models.base import SentenceModel
from contstim.models.hf.masked import MaskedModel
from contstim.models.registry import load_model
from contstim.settings import PositiveInt, settings
from contstim.synthesis.candidates import SCORE_TOLERANCE, Candidates, propose_in_order
from contstim.synthesis.coordinate_search import Search
from contstim.synthesis.strategy import Strategy

# Nats of predicted loss per nat by which a constraint is violated.
_PENALTY = 1e5


@settings
class GuidedSearch(Strategy):
    """Search words by a regression of exact on approximate scores.

    Positions are visited in random order. At each position:

    1. Left-to-right networks admit the candidates with log p(candidate | words before) of at least
       `threshold`. The threshold is lowered in steps of `step` until `minimum` candidates pass. All
       of them are scored exactly.
    2. Other networks are regressed: log p(sentence) = a + b log p(candidate | all other words)
       (Eq. 3, ordinary least squares). The line is fitted to the present word and to the candidates
       with the highest and the lowest approximate score, which are scored exactly.
    3. The candidate with the lowest predicted loss is scored exactly and accepted if it lowers the
       loss. Otherwise it joins the regression, and the next candidate is scored.
    4. The search leaves the position after `failures` candidates that did not lower the loss.

    If no model is regressed, the best candidate is taken. The search ends when as many positions in
    a row as the sentence has words did not yield an improvement.

    Attributes
    ----------
    failures
        Number of candidates without improvement after which a position is left.
    threshold, step, minimum
        Minimum log-probability of a word in nats, the nats by which it is lowered, and the number
        of candidates that have to pass.

    Notes
    -----
    The article applies the threshold to GPT-2 only and scores recurrent networks for every word. It
    scores a candidate under both models; here the second model is left out if the first one shows
    that a constraint is violated. The published code departs from the article in further points: it
    takes an improvement among the first candidates at once, and counts failures since the best
    failed candidate.
    """

    supports_edits = False

    failures: PositiveInt = 5
    threshold: float = -10.0
    step: float = 5.0
    minimum: PositiveInt = 10

    def run(self, search: Search) -> bool:
        """Search word by word; return False, because most candidates are never scored."""
        rng, n_positions, n_failed = search.spawn_rng(), len(search.positions), 0
        while n_failed < n_positions:
            for position in map(int, rng.permutation(search.positions)):
                n_steps = len(search.steps)
                self._search_position(search, position)
                n_failed = 0 if len(search.steps) > n_steps else n_failed + 1
                if n_failed == n_positions:
                    break
        return False

    def _search_position(self, search: Search, position: int) -> None:
        """Search for a better word at one position, and propose it."""
        candidates = search.candidates(position)
        indices, approximate_scores = candidates.find_promising(), dict[str, FloatArray]()
        for name, model in search.problem.models_by_name.items():
            table = candidates.replacements[name]
            if table.is_exact:
                continue
            if model.event.metric == "chain":
                words_before = model.score_words([str(search.sentence)])[0][:position]
                indices = self._filter_likely(table.upper_bounds - np.nansum(words_before), indices)
            else:
                approximate_scores[name] = _completion_log_probs(model, candidates, position)
        word_search = _GuidedWordSearch(candidates, approximate_scores)
        indices = word_search.score_other_models(indices)
        if not approximate_scores:
            propose_in_order(candidates, indices, candidates.losses(indices))
        elif len(indices):
            word_search.run(indices, self.failures)

    def _filter_likely(self, log_probs: FloatArray, indices: IntArray) -> IntArray:
        """Return the candidates whose log-probability reaches the threshold, lowered as needed."""
        if not len(indices):
            return indices
        ranked = np.sort(log_probs[indices])[::-1]
        needed = float(ranked[min(self.minimum, len(ranked)) - 1])
        n_steps = max(0, int(np.ceil((self.threshold - needed) / self.step)))
        return indices[log_probs[indices] >= self.threshold - n_steps * self.step]


def regression_line(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Fit y = a + b x by ordinary least squares and return a and b; b is 0 if x is constant."""
    centred = x - x.mean()
    sum_of_squares = float(centred @ centred)
    slope = float(centred @ y) / sum_of_squares if sum_of_squares > 0 else 0.0
    return float(y.mean() - slope * x.mean()), slope


def _completion_log_probs(
    model: SentenceModel, candidates: Candidates, position: int
) -> FloatArray:
    """Return log p(candidate | all other words) in nats, shape (V,).

    For models that are not masked language models, the estimates of the scores are returned.
    """
    if not isinstance(model, MaskedModel):
        return candidates.replacements[model.spec].estimates
    spec = ModelSpec.parse(model.spec)
    options = {**dict(spec.options), "metric": "pll-whole-word"}
    # The model with another metric shares the network. Only the masked word of this metric is
    # computed for all candidates, and it is the whole upper bound.
    completion = load_model(ModelSpec(spec.family, spec.location, tuple(sorted(options.items()))))
    table = completion.score_replacements(candidates.sentence, position, candidates.words)
    return table.upper_bounds


class _GuidedWordSearch:
    """Search of the word at one position, guided by approximate scores.

    Parameters
    ----------
    candidates
        The V candidates.
    approximate_scores
        Approximate scores of the regressed models, shape (V,), by name.
    """

    def __init__(self, candidates: Candidates, approximate_scores: dict[str, FloatArray]) -> None:
        self.candidates = candidates
        self.approximate_scores = approximate_scores

    def score_other_models(self, indices: IntArray) -> IntArray:
        """Score candidates under the models that are not regressed; return the promising ones."""
        # Models with constraints come first, because they exclude candidates.
        names = sorted(
            self.candidates.replacements, key=lambda n: n not in self.candidates.min_scores
        )
        for name in names:
            if name not in self.approximate_scores:
                self.candidates.scores(name, indices)
                indices = indices[self._may_improve(indices)]
        return indices

    def run(self, indices: IntArray, max_failures: int) -> None:
        """Score and propose the candidates with the lowest predicted losses, one at a time."""
        for name, approximate in self.approximate_scores.items():
            extremes = indices[[approximate[indices].argmax(), approximate[indices].argmin()]]
            self.candidates.scores(name, np.unique(extremes))
        n_failed = 0
        remaining = indices[indices != self.candidates.current_index]
        while n_failed < max_failures:
            remaining = remaining[self._may_improve(remaining)]
            if not len(remaining):
                return
            losses = self._predicted_losses(remaining)
            best = self.candidates.rng.choice(remaining[losses == losses.min()])
            remaining = remaining[remaining != best]
            for name in self.approximate_scores:
                if self._may_improve(np.array([best]))[0]:
                    self.candidates.scores(name, np.array([best]))
            if self._may_improve(np.array([best]))[0] and self.candidates.propose(int(best)):
                return
            n_failed += 1

    def _may_improve(self, indices: IntArray) -> FloatArray:
        """Return which candidates may satisfy the constraints and lower the loss."""
        exact, candidates = self.candidates.exact_scores, self.candidates
        losses = candidates.definition.loss(
            {name: exact[name][indices] for name in candidates.definition.reject},
            candidates.natural_scores,
        )
        may_improve = ~(losses >= candidates.target_loss + SCORE_TOLERANCE)
        for name, minimum in candidates.min_scores.items():
            may_improve &= ~(exact[name][indices] < minimum - SCORE_TOLERANCE)
        return may_improve

    def _predicted_losses(self, indices: IntArray) -> FloatArray:
        """Return the losses of candidates from exact scores where known, else from Eq. 3."""
        candidates, scores = self.candidates, dict[str, FloatArray]()
        for name, exact in candidates.exact_scores.items():
            scores[name] = exact[indices]
            if name not in self.approximate_scores:
                continue
            x = self.approximate_scores[name]
            y = exact.copy()
            if candidates.current_index is not None:
                y[candidates.current_index] = candidates.current_scores[name]
            is_known = ~np.isnan(y)
            intercept, slope = regression_line(x[is_known], y[is_known])
            predicted = intercept + slope * x[indices]
            scores[name] = np.where(np.isnan(scores[name]), predicted, scores[name])
        losses = candidates.definition.loss(scores, candidates.natural_scores)
        for name, minimum in candidates.min_scores.items():
            losses = losses + _PENALTY * np.maximum(minimum - scores[name], 0.0)
        return losses
