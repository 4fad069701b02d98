"""The published word search: Golan et al. (2023), section 4.7, as the article describes it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.search.candidates import SLACK, Candidates, propose_in_order
from contstim.search.options import PaperOptions
from contstim.search.sweeps import Strategy, loaded
from contstim.settings import settings
from contstim.text import Sentence, WordList

# Nats of predicted loss for each nat by which a constraint is missed.
_PENALTY = 1e5


@settings
class Paper(PaperOptions, Strategy):
    """The regression-guided word search of Golan et al. (2023), section 4.7.

    *Left-to-right models* whose scores are not known at once score only candidates that are
    likely enough after the words before them: log p(candidate | words before) at least
    `threshold`, lowered in steps of `step` until `at_least` candidates pass. All that pass are
    scored exactly.

    *Models that complete sentences* predict: the exact score is regressed (Eq. 3, ordinary least
    squares) on the completion log-probability of the candidate with all other words visible. The
    line is fitted again at each position, first to three points: the candidates with the highest
    and the lowest completion probability, scored for this, and the word that stands there. The
    candidate with the least predicted loss is scored exactly and taken if it lowers the loss; if
    not, it joins the regression and the next is tried, until `failures` did not lower the loss.

    Where no model is of the second kind, the best of the scored candidates is taken.

    Departures from the article. It sets the threshold for GPT-2 alone and scores its recurrent
    models for every word; here every left-to-right model not known at once has the threshold,
    with the bound of `Replacements.upper` for the probability of a word of several tokens. A word
    of several tokens has as its completion log-probability the sum over its tokens, each with the
    whole word hidden. A candidate known to break a constraint, or not to lower the loss, is not
    scored further, which saves scores. The word that stands there is a point of the regression
    only if it is in the vocabulary. A model that neither scores from left to right nor completes
    sentences is regressed on its `Replacements.estimate`.

    Examples
    --------
    >>> from contstim import synthesize
    >>> found = synthesize(
    ...     "The dog slept in the old house.",
    ...     reject="contstim:trigram",
    ...     accept="contstim:bigram",
    ...     strategy=Paper(),
    ... )
    >>> round(found.loss, 1)
    -10.8
    """

    def look(self, candidates: Candidates) -> bool:
        """Run the word search."""
        mask = candidates.allowed.copy()
        likely = {
            name: found
            for name, table in candidates.tables.items()
            if not table.exact and (found := _likelihood_of(candidates, name)) is not None
        }
        if self.candidates == "causal":
            for values in likely.values():
                mask &= self._passing(values, candidates.allowed)
        else:
            named = None
            if self.candidates in candidates.tables:
                named = _likelihood_of(candidates, self.candidates)
            if named is None:
                named = likelihood_by_name(
                    self.candidates, candidates.sentence, candidates.position, candidates.words
                )
            mask &= self._passing(named, candidates.allowed)
        regressed = [n for n, t in candidates.tables.items() if not t.exact and n not in likely]
        _Regression(candidates, np.flatnonzero(mask), regressed, self.failures).search()
        return False

    def _passing(self, likely: FloatArray, allowed: BoolArray) -> BoolArray:
        """Return which candidates reach the threshold, lowered as far as needed."""
        ranked = np.sort(likely[allowed & np.isfinite(likely)])
        if not len(ranked):
            return allowed
        needed = float(ranked[-min(self.at_least, len(ranked))])
        steps = max(0, int(np.ceil((self.threshold - needed) / self.step)))
        return np.asarray(likely >= self.threshold - steps * self.step)


def regression_line(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Fit y = a + b x by least squares (Eq. 3); b is 0 where all x are alike.

    Returns
    -------
    tuple
        a and b.
    """
    centred = x - x.mean()
    square = float(centred @ centred)
    slope = float(centred @ y) / square if square > 0 else 0.0
    return float(y.mean() - slope * x.mean()), slope


class _Regression:
    """One word search among the candidates `index`, the scores of some models being `regressed`."""

    def __init__(
        self, candidates: Candidates, index: IntArray, regressed: list[str], failures: int
    ) -> None:
        self.candidates = candidates
        self.index = index
        self.regressed = regressed
        self.failures = failures
        # Exact scores by which a line is fitted and losses are predicted; and what predicts them.
        self.values = {name: np.full(len(candidates.allowed), np.nan) for name in candidates.tables}
        self.completion: dict[str, FloatArray] = {}

    def search(self) -> None:
        """Score, predict, and propose what lowers the loss."""
        candidates = self.candidates
        # Constrained models first: what they refuse need not be scored by the others.
        for name in list(candidates.tables)[::-1]:
            if name not in self.regressed:
                self._score(name, self._admissible())
        if not self.regressed:
            left = self._admissible()
            return propose_in_order(candidates, left, self._losses(left))
        if not len(self.index):
            return None
        for name in self.regressed:
            self._extremes(name)
        tried = np.zeros(len(candidates.allowed), dtype=np.bool_)
        if candidates.present is not None:
            tried[candidates.present] = True
        failed = 0
        while failed < self.failures:
            left = self._admissible()
            left = left[~tried[left]]
            if not len(left):
                break
            loss = self._predicted(left)
            ties = left[loss == loss.min()]
            chosen = ties[int(candidates.rng.integers(len(ties)))][None]
            tried[chosen] = True
            for name in self.regressed:
                self._score(name, chosen[np.isnan(self.values[name][chosen])])
            if np.isin(chosen, self._admissible()).all() and candidates.propose(int(chosen[0])):
                break
            failed += 1
        return None

    def _admissible(self) -> IntArray:
        """Return the candidates not known to break a constraint or not to lower the loss."""
        refused = self._losses(self.index) >= self.candidates.target + SLACK
        for name, minimum in self.candidates.minimum.items():
            refused |= self.values[name][self.index] < minimum - SLACK
        return self.index[~refused]

    def _losses(self, index: IntArray) -> FloatArray:
        scores = {name: values[index] for name, values in self.values.items()}
        return self.candidates.known_losses(scores)

    def _score(self, name: str, index: IntArray) -> None:
        self.values[name][index] = self.candidates.scores(name, index)

    def _extremes(self, name: str) -> None:
        """Score the most and the least probable completion, the first points of the regression."""
        candidates, table = self.candidates, self.candidates.tables[name]
        completion = table.hints.completion
        x = table.estimate if completion is None else completion()
        ends = self.index[[int(x[self.index].argmax()), int(x[self.index].argmin())]]
        self._score(name, np.unique(ends))
        if candidates.present is not None:
            self.values[name][candidates.present] = candidates.now[name]
        self.completion[name] = x

    def _predicted(self, index: IntArray) -> FloatArray:
        """Return the predicted loss of `index`: exact where scored, else from the regression."""
        values = {name: exact[index] for name, exact in self.values.items()}
        for name, x in self.completion.items():
            seen = np.flatnonzero(~np.isnan(self.values[name]))
            a, b = regression_line(x[seen], self.values[name][seen])
            values[name] = np.where(np.isnan(values[name]), a + b * x[index], values[name])
        minima = self.candidates.minimum.items()
        missed = sum(np.maximum(minimum - values[name], 0.0) for name, minimum in minima)
        return np.asarray(self.candidates.known_losses(values) + _PENALTY * missed)


def _likelihood_of(candidates: Candidates, name: str) -> FloatArray | None:
    """Return what `likelihood` does for a model of the problem."""
    upper = candidates.tables[name].upper
    return likelihood(candidates.models[name], candidates.sentence, candidates.position, upper)


def likelihood(
    model: SentenceModel, sentence: Sentence, position: int, upper: FloatArray
) -> FloatArray | None:
    """Return bounds on log p(candidate | words before), nats, from the bounds of the sentences.

    Parameters
    ----------
    model
        The model.
    sentence, position
        The place.
    upper
        ``model.replacements(sentence, position, words).upper``, shape (V,).

    Returns
    -------
    array or None
        Shape (V,); None if the model does not add up log-probabilities from left to right.
    """
    event = model.event
    if event.metric != "chain" or event.reduction != "sum":
        return None
    # The first word is missing, NaN, where nothing stands before it.
    before = np.nansum(model.score_words([str(sentence)])[0][:position])
    return upper - before


def likelihood_by_name(spec: str, sentence: Sentence, position: int, words: WordList) -> FloatArray:
    """Return the same under the model `spec`; minus infinity for words that it does not know.

    Raises
    ------
    InputError
        If that model does not score from left to right, or gives no bounds from the words before
        alone, as n-gram models do.
    """
    model = loaded(spec)
    known_words, places = _known(spec, words, sentence.before[position], sentence.after[position])
    table = model.replacements(sentence, position, known_words)
    if table.exact and position + 1 < len(sentence):
        raise InputError(
            f"candidates={spec!r} gives whole sentences at once, and no probability of a word "
            "alone; name a causal or recurrent network"
        )
    values = likelihood(model, sentence, position, table.upper)
    if values is None:
        raise InputError(
            f"candidates={spec!r} does not add up log-probabilities from left to right; name a "
            "causal or recurrent network, without a reduction"
        )
    likely = np.full(len(words), -np.inf)
    likely[places] = values
    return likely


@lru_cache(maxsize=16)
def _known(spec: str, words: WordList, before: str, after: str) -> tuple[WordList, IntArray]:
    """Return the words that the model knows, and where in `words` they stand."""
    is_known = loaded(spec).knows([before + word + after for word in words])
    if not is_known.any():
        raise InputError(
            f"none of the {len(words)} candidate words is known to candidates={spec!r}; name a "
            "model that shares the vocabulary"
        )
    places = np.flatnonzero(is_known)
    return WordList(tuple(words.words[i] for i in places)), places
