"""The strategy that goes on, where no single word improves, by replacing two words at once."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import scipy  # which loads `special` at its first use

from contstim.arrays import FloatArray, IntArray
from contstim.search.bounded import Bounded, Memory, likely
from contstim.search.candidates import SLACK, Candidates
from contstim.search.exhaustive import Exhaustive
from contstim.search.surrogate import expected_improvement
from contstim.search.sweeps import Search
from contstim.settings import Count, option, settings

# Expectations and deviations of scores by model, (V,) each.
_Likely = tuple[dict[str, FloatArray], dict[str, FloatArray]]

# Words of each position among which pairs are looked for, for each weighting of loss and room.
_FEW = 64
_WEIGHTS = (0.25, 0.5, 1.0, 2.0, 4.0)
# Nats by which what two words change together may differ from what they change alone.
_APART = 2.0


@settings
class Exchanges(Bounded):
    """Search as ``bounded``, then replace two words at once, and so on in turns.

    A pair of words is estimated by what each would change alone: for words that no model looks at
    together that is exact. The pairs that seem to improve most are looked at, one position's word
    for each. Where all scores are known at once, all words of the other position are then tried
    beside it; for other models the pair itself is scored.

    Attributes
    ----------
    tried
        Words of one position that are put there in turn, at each pair of positions; None: all.
        The result is then one that no replacement of two words improves, where all scores are known
        at once.
    guesses
        Pairs that are scored in a row without one that improves, of models whose scores are not
        known at once.
    """

    tried: Count | None = option(
        16, "words tried at the one position, for each pair of positions", metavar="N"
    )
    guesses: Count = 64

    def run(self, search: Search) -> bool:
        """Search word by word, and by two where that brings nothing, in turns."""
        memory = Memory()
        while True:
            search.sweep(lambda candidates: self.look(candidates, memory), sifted=True)
            places = [search.candidates(position) for position in search.positions]
            at_once = all(table.exact for table in places[0].tables.values())
            exchanged = self._exchange if at_once else _Guess(self, memory).exchange
            if not exchanged(search, places):
                return memory.complete

    def _exchange(self, search: Search, places: Sequence[Candidates]) -> bool:
        """Replace two words, all scores known at once; return whether that was done."""
        pairs = list(itertools.combinations(places, 2))
        n_steps = len(search.steps)
        for first, second in (pairs[i] for i in search.shuffled(len(pairs))):
            for word in self._promising(search, first, second):
                base = search.sentence.replace(first.position, first.words.words[word])
                Exhaustive().look(search.candidates(second.position, base=base))
                if len(search.steps) > n_steps:
                    return True
        return False

    def _promising(self, search: Search, first: Candidates, second: Candidates) -> IntArray:
        """Return the words of `first` that, with one of `second` each, seem to improve most."""
        if self.tried is None:
            return _beside(search, first, second)
        ones, _, together = _together(search, first, second, first.known, second.known)
        losses = first.objective.loss(together, first.natural)
        for name, minimum in first.minimum.items():
            losses = np.where(together[name] >= minimum - SLACK, losses, np.inf)
        least = losses.min(axis=1, initial=np.inf)
        order = np.argsort(least, kind="stable")[: self.tried]
        promising: IntArray = ones[order[least[order] < np.inf]]
        return promising


class _Guess:
    """Exchanges of two words where scores must be asked for: what they promise, and their scores.

    Attributes
    ----------
    options, memory
        The strategy, and what the word searches have learnt.
    """

    def __init__(self, options: Exchanges, memory: Memory) -> None:
        self.options, self.memory = options, memory

    def exchange(self, search: Search, places: Sequence[Candidates]) -> bool:
        """Replace two words; return whether that was done."""
        alone = [self._likely(candidates) for candidates in places]
        found: list[tuple[float, int, int, int, int]] = []
        for i, j in itertools.combinations(range(len(places)), 2):
            promise, ones, twos = self._promise(search, places[i], places[j], alone[i], alone[j])
            best = np.argsort(-promise, axis=None, kind="stable")[: self.options.guesses]
            for at in best[promise.ravel()[best] > 0]:
                one, two = divmod(int(at), len(twos))
                found.append((-promise[one, two], i, j, int(ones[one]), int(twos[two])))
        for _, i, j, one, two in sorted(found)[: self.options.guesses]:
            if self._verify(search, {places[i]: one, places[j]: two}):
                return True
        return False

    def _likely(self, candidates: Candidates) -> _Likely:
        """Return what each candidate's scores are likely to be, (V,)."""
        posteriors = {name: self.memory.posterior(candidates, name) for name in candidates.tables}
        return likely(candidates, posteriors, posteriors, np.arange(len(candidates.words)))

    def _promise(
        self, search: Search, first: Candidates, second: Candidates, one: _Likely, two: _Likely
    ) -> tuple[FloatArray, IntArray, IntArray]:
        """Return what some pairs promise, nats, and of which words they are."""
        ones, twos, means = _together(search, first, second, one[0], two[0])
        deviations = {
            name: np.sqrt(one[1][name][ones][:, None] ** 2 + two[1][name][twos] ** 2 + _APART**2)
            for name in means
        }
        feasible = np.ones((len(ones), len(twos)))
        for name, minimum in first.minimum.items():
            feasible *= scipy.special.ndtr((means[name] - minimum) / deviations[name])
        losses = first.objective.loss(means, first.natural)
        spread = np.max([deviations[name] for name in first.objective.models], axis=0)
        return feasible * expected_improvement(first.target, losses, spread), ones, twos

    def _verify(self, search: Search, words: Mapping[Candidates, int]) -> bool:
        """Score a sentence with two words replaced, by one model after the other; take it."""
        changed = search.sentence
        for c, i in words.items():
            changed = changed.replace(c.position, c.words.words[i])
        costs = {
            name: max(float(c.costs(name)[i]) for c, i in words.items()) for name in search.natural
        }
        cost = sum(costs.values())
        if not search.may(changed) or search.spent.cost + 2 * cost > (self.memory.inputs or np.inf):
            return False
        scores: dict[str, float] = {}
        for name in sorted(costs, key=costs.__getitem__):
            scores[name] = float(search.problem.by_name[name].score([str(changed)])[0])
            search.spent.n_scores[name] += costs[name] > 0
            search.spent.cost += costs[name]
            if scores[name] < search.minimum.get(name, -np.inf):
                return False
        if search.loss(scores) >= search.loss(search.now):
            return False
        search.spent.cost += cost
        return search.take(changed)


def _beside(search: Search, here: Candidates, there: Candidates) -> IntArray:
    """Return the words that may stand at one position when that at another is replaced as well."""
    without = search.sentence.replace(there.position, "")
    return np.flatnonzero(search.proposal.allowed(without, here.position, here.words))


def _together(
    search: Search,
    first: Candidates,
    second: Candidates,
    one: Mapping[str, FloatArray],
    two: Mapping[str, FloatArray],
) -> tuple[IntArray, IntArray, dict[str, FloatArray]]:
    """Return words of two positions, (k,) and (l,), and by model what pairs score, (k, l).

    `one` and `two` are the scores of each word alone, (V,): pairs change what both change.
    """
    ones, twos = _few(search, first, second, one), _few(search, second, first, two)
    scores = {
        name: one[name][ones][:, None] + two[name][twos] - now for name, now in first.now.items()
    }
    return ones, twos, scores


def _few(
    search: Search, here: Candidates, there: Candidates, scores: Mapping[str, FloatArray]
) -> IntArray:
    """Return words of `here` that may be half of a good pair: low in loss, with room, or between.

    Parameters
    ----------
    search, here, there
        The pair of positions.
    scores
        By model, the scores of the words of `here`, known or likely, (V,).
    """
    index = _beside(search, here, there)
    losses = here.objective.loss({m: v[index] for m, v in scores.items()}, here.natural)
    room = [scores[name][index] - minimum for name, minimum in here.minimum.items()]
    values = [losses, *(-r for r in room)]
    if room:
        values += [losses - weight * np.minimum.reduce(room) for weight in _WEIGHTS]
    chosen = [np.argpartition(v, min(_FEW, len(v)) - 1)[:_FEW] for v in values]
    few: IntArray = index[np.unique(np.concatenate(chosen))]
    return few
