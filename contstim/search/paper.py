"""The published word search: Golan et al. (2023), section 4.7, as the article describes it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.search.board import (
    ROLES,
    SLACK,
    Ask,
    Board,
    Pick,
    Role,
    Turn,
    pick_in_order,
)

__all__ = ["Paper", "regression_line"]

# Nats of predicted loss for each nat by which the accepting model's constraint is missed.
_PENALTY = 1e5


@dataclass(frozen=True)
class Paper:
    """The regression-guided word search of Golan et al. (2023), section 4.7.

    *Left-to-right models* whose scores are not known at once score only candidates that are
    likely enough after the words before them: log p(candidate | words before) at least
    `threshold`, lowered in steps of `step` until `at_least` candidates pass. All that pass are
    scored exactly.

    *Models that complete sentences* predict: the exact score is regressed (Eq. 3, ordinary least
    squares) on the completion log-probability of the candidate with all other words visible. The
    line is fitted anew at each position, first to three points: the candidates with the highest
    and the lowest completion probability, scored for this, and the word that stands there. The
    candidate with the least predicted loss is scored exactly and taken if it lowers the loss; if
    not, it joins the regression and the next is tried, until `failures` did not lower the loss.

    Where no model is of the second kind, the best of the scored candidates is taken.

    Departures from the article. It sets the threshold for GPT-2 alone and scores its recurrent
    models for every word; here every left-to-right model not known at once has the threshold,
    with the bound of `Replacements.upper` for the probability of a word of several tokens. A word
    of several tokens has as its completion log-probability the sum over its tokens, each with the
    whole word hidden. A candidate known to break the constraint, or not to lower the loss, is not
    scored further, which saves scores. The word that stands there is a point of the regression
    only if it is in the vocabulary. A model that neither scores from left to right nor completes
    sentences is regressed on its `Replacements.estimate`.

    Attributes
    ----------
    threshold, step
        Least log-probability of a candidate given the words before it, and by how much it is
        lowered, nats. The published values.
    at_least
        Fewest candidates that must pass.
    failures
        Exact evaluations without a lower loss that end the search.
    candidates
        The model that sets the threshold: ``causal``, each left-to-right model of the pair; or
        the spec of any left-to-right model.
    """

    threshold: float = -10.0
    step: float = 5.0
    at_least: int = 10
    failures: int = 5
    candidates: str = "causal"

    def __call__(self, board: Board) -> Turn:
        """Run the word search on one position's `board`."""
        mask = board.allowed.copy()
        causal: dict[Role, FloatArray] = {}
        for role in ROLES:
            likely = None if board.table(role).exact else board.conditional(role)
            if likely is not None:
                causal[role] = likely
        if self.candidates == "causal":
            for likely in causal.values():
                mask &= self._passing(likely, board.allowed)
        else:
            named = board.conditional(self.candidates)
            assert named is not None
            mask &= self._passing(named, board.allowed)
        search = _Regression(board, np.flatnonzero(mask), self.failures)
        regressed = [r for r in ROLES if not board.table(r).exact and r not in causal]
        return (yield from search.play(regressed))

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
    """One word search among the candidates `index`."""

    def __init__(self, board: Board, index: IntArray, failures: int) -> None:
        self.board = board
        self.index = index
        self.failures = failures
        self.values: dict[Role, FloatArray] = {}
        self.completion: dict[Role, FloatArray] = {}

    def play(self, regressed: list[Role]) -> Turn:
        """Score, predict, and take what lowers the loss."""
        board, index = self.board, self.index
        for role in ROLES:
            self.values[role] = np.full(len(board.allowed), np.nan)
        # The accepting model first: what it refuses need not be scored by the other.
        for role in sorted(set(ROLES).difference(regressed)):
            yield from self._score(role, self._admissible())
        if not regressed:
            left = self._admissible()
            return (yield from pick_in_order(board, left, self.values["reject"][left]))
        if not len(index):
            return False
        for role in regressed:
            yield from self._extremes(role)
        failed = 0
        tried = np.zeros(len(board.allowed), dtype=np.bool_)
        if board.present is not None:
            tried[board.present] = True
        while failed < self.failures:
            left = self._admissible()
            left = left[~tried[left]]
            if not len(left):
                break
            loss = self._predicted(left)
            ties = left[loss == loss.min()]
            chosen = ties[int(board.rng.integers(len(ties)))][None]
            tried[chosen] = True
            for role in regressed:
                if np.isnan(self.values[role][chosen[0]]):
                    yield from self._score(role, chosen)
            kept = self.values["accept"][chosen[0]] >= board.minimum - SLACK
            lower = self.values["reject"][chosen[0]] < board.below + SLACK
            if kept and lower and (yield Pick(int(chosen[0]))):
                break
            failed += 1
        return False

    def _admissible(self) -> IntArray:
        """Return the candidates not known to break the constraint or not to lower the loss."""
        refused = self.values["accept"][self.index] < self.board.minimum - SLACK
        refused |= self.values["reject"][self.index] >= self.board.below + SLACK
        return self.index[~refused]

    def _score(self, role: Role, index: IntArray) -> Generator[Ask | Pick, FloatArray | bool, None]:
        if len(index):
            self.values[role][index] = yield from self.board.scores(role, index)

    def _extremes(self, role: Role) -> Generator[Ask | Pick, FloatArray | bool, None]:
        """Score the most and the least probable completion, the first points of the regression."""
        table, board = self.board.table(role), self.board
        completion = table.hints.completion
        x = table.estimate if completion is None else completion()
        ends = self.index[[int(x[self.index].argmax()), int(x[self.index].argmin())]]
        yield from self._score(role, np.unique(ends))
        if board.present is not None:
            now = board.below if role == "reject" else board.accepted
            self.values[role][board.present] = now
        self.completion[role] = x

    def _predicted(self, index: IntArray) -> FloatArray:
        """Return the predicted loss of `index`: exact where scored, else from the regression."""
        values = {}
        for role in ROLES:
            exact = self.values[role]
            values[role] = exact[index]
            if role in self.completion:
                x = self.completion[role]
                seen = np.flatnonzero(~np.isnan(exact))
                a, b = regression_line(x[seen], exact[seen])
                values[role] = np.where(np.isnan(exact[index]), a + b * x[index], exact[index])
        missed = np.maximum(self.board.minimum - values["accept"], 0.0)
        return np.asarray(values["reject"] - self.board.below + _PENALTY * missed)
