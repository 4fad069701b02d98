"""The strategy that writes one to three neighbouring words anew, with both sides in sight.

A language model writes the words of a span from the left, tilted towards what the problem wants;
the whole sentences are then scored by the problem's models, those that cost least first, and of
what is left the sentence is taken that the language model and the problem together like best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, compress

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.models.base import SentenceModel
from contstim.models.beginnings import COMMA, Beginnings
from contstim.settings import settings
from contstim.synthesis.bounded import Bounded
from contstim.synthesis.candidates import SLACK, known_to
from contstim.synthesis.options import InfillOptions
from contstim.synthesis.problem import Edits
from contstim.synthesis.sweeps import Search, loaded
from contstim.synthesis.writer import tilts
from contstim.text import Sentence

# By what log-probabilities are multiplied, the proposing model's and those of the problem's
# models; these in several shares, since how much of it is good differs from place to place.
_POWER, _TILT, _SHARES = 1.8, 4.5, (0.25, 0.5, 1.0)
# For each share: words that are looked at after a beginning, beginnings that are kept at each
# place, and whole fillings.
_MOST, _KEPT, _WHOLE = 200, 8, 256
# Sentences in which other changes are taken back, so that those of a span may be made.
_BASES = 4


@settings
class Infill(InfillOptions, Bounded):
    """Climb by writing one to `span` neighbouring words anew, both sides of them in sight.

    The model `by` says which words are probable: a masked one of the span given both sides, from
    the left, and a causal one given the left side, whole sentences being weighed by what it says
    of the right one. It is tilted by the problem's models as in `contstim.synthesis.writer`. Every
    sentence keeps its number of words. Where no span brings an improvement, words are replaced one
    at a time, as by ``bounded``, and spans are visited again, until neither improves or `visits`
    spans have been looked at. `inputs`, where they are given, are a limit on spans and single words
    together; else on single words alone.
    """

    @property
    def models(self) -> tuple[str, ...]:
        """The model that proposes."""
        return (self.by,)

    def run(self, search: Search) -> bool:
        """Visit spans in random order, then single words, until none brings an improvement."""
        of_problem = search.problem.by_name
        by = of_problem[self.by] if self.by in of_problem else loaded(self.by)
        filler = _Filler(search, by, self.fillings, None if self.budget is None else self.inputs)
        visits = self._visit(search, filler, 0)
        while True:
            n_steps = len(search.steps)
            finished = super().run(search)
            if len(search.steps) > n_steps:
                n_steps = len(search.steps)
                visits = self._visit(search, filler, visits)
            if len(search.steps) == n_steps:
                return finished and visits < self.visits and filler.complete

    def _visit(self, search: Search, filler: _Filler, visits: int) -> int:
        """Fill spans until none brings an improvement; return how many visits there were in all."""
        open_, settled = filler.spans(self.span), set[int]()
        while len(settled) < len(open_):
            for i in search.shuffled(len(open_)):
                if i in settled:
                    continue
                if visits == self.visits:
                    return visits
                visits += 1
                if filler.improved(open_[i]):
                    settled = set()
                else:
                    settled.add(i)
        return visits


@dataclass(frozen=True, eq=False)
class _Fillings:
    """R ways to fill the first words of a span.

    Attributes
    ----------
    rows
        The sentences that are filled so far.
    here
        What stands before the next word, under the proposing model if it is causal and the tilting
        ones; one beginning a row.
    likely, wanted
        What the proposing model says of the words, and the weighted sum of what the tilting ones
        say, (R,), nats.
    """

    rows: tuple[Sentence, ...]
    here: tuple[Beginnings, ...]
    likely: FloatArray
    wanted: FloatArray


class _Filler:
    """What fills spans of one search's sentence.

    Parameters
    ----------
    search
        The search.
    by
        The model that proposes.
    n
        Fillings of a span that are scored by models whose scores are not known at once.
    inputs
        Most that the scores of the sentence may cost, in inputs; None: not looked at.

    Attributes
    ----------
    complete
        Whether no filling has been left out because its scores could not be paid.
    """

    def __init__(
        self, search: Search, by: SentenceModel, n: int, inputs: int | None = None
    ) -> None:
        self.search, self.n, self.inputs, self.complete = search, n, inputs, True
        self.costs = dict.fromkeys(search.problem.names, 0.0) if inputs is None else search.costs()
        problem, of_problem = search.problem, search.problem.by_name
        self.by = of_problem.get(by.name, by)
        # What the proposing model computes costs most, as a rule.
        self.models = sorted(
            of_problem.items(), key=lambda item: (not item[1].at_once, item[0] == by.name)
        )
        self.tilts = {} if problem.objective.parts is None else tilts(problem)
        self.open = {p: search.words(p).words for p in search.positions}
        # What stands there may stand beside the words of a span.
        words = enumerate(search.start.words)
        by_position = {p: (*self.open.get(p, ()), word) for p, word in words}
        self.lists = known_to(search.proposal, self.by).lists(by_position)
        self.may = {p: np.isin(self.lists[p > 0].words, words) for p, words in self.open.items()}
        first = self.by.beginnings(*self.lists)
        self.causal = first is not None
        begun = {name: of_problem[name].beginnings(*self.lists) for name in self.tilts}
        self.shares = [self.tilts[name] for name, there in begun.items() if there is not None]
        here = (first, *begun.values())
        #: What stands before a place, by the words and marks there.
        self._before: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[Beginnings, ...]] = {
            ((), ()): tuple(there for there in here if there is not None)
        }

    def spans(self, longest: int) -> list[tuple[int, ...]]:
        """Return the spans of up to so many neighbouring words that may change."""
        lengths, positions = range(1, longest + 1), self.search.positions
        spans = (tuple(range(p, p + n)) for n in lengths for p in positions)
        most = self.search.problem.edits.most or longest
        return [s for s in spans if len(s) <= most and self.open.keys() >= {*s}]

    def improved(self, span: tuple[int, ...]) -> bool:
        """Write a span anew; return whether the sentence was improved."""
        return any(self._improved(base, span) for base in self._bases(span))

    def _bases(self, span: tuple[int, ...]) -> list[Sentence]:
        """Return the sentence; or, if that leaves no words to change, some with changes undone."""
        search, edits = self.search, self.search.problem.edits
        others = sorted(Edits.differences(search.start, search.sentence) - {*span})
        excess = 0 if edits.most is None else len(others) + len(span) - edits.most
        if excess <= 0:
            return [search.sentence]
        ways = list(combinations([p for p in others if p not in edits.changed], excess))
        bases = []
        for i in search.shuffled(len(ways))[:_BASES]:
            base = search.sentence
            for p in ways[i]:
                base = base.replace(p, search.start.words[p])
            bases.append(base)
        return bases

    def _improved(self, base: Sentence, span: tuple[int, ...]) -> bool:
        """Write a span of `base` anew and take the best of what improves the sentence as it is."""
        search = self.search
        fillings = self._filled(base, span)
        order = np.argsort(-(_POWER * fillings.likely + _TILT * fillings.wanted), kind="stable")
        permitted = [i for i in order.tolist() if search.may(fillings.rows[i])]
        rows, likely = [fillings.rows[i] for i in permitted], fillings.likely[permitted]
        scores: dict[str, FloatArray] = {}
        now = search.loss(search.now)
        for name, model in self.models:
            if not model.at_once and len(rows) > self.n:
                rows, likely = rows[: self.n], likely[: self.n]
                scores = {other: values[: self.n] for other, values in scores.items()}
            if not model.at_once and len(rows) > (n := self._payable(name)):
                self.complete = False
                rows, likely = rows[:n], likely[:n]
                scores = {other: values[:n] for other, values in scores.items()}
            if not rows:
                return False
            scores[name] = model.score([str(row) for row in rows])
            if not model.at_once:
                search.spent.n_scores[name] += len(rows)
                search.spent.cost += self.costs[name] * len(rows)
            left = scores[name] >= search.minimum.get(name, -np.inf) - SLACK
            objective = search.problem.objective
            if scores.keys() >= set(objective.models):
                needed = {other: scores[other] for other in objective.models}
                left &= objective.loss(needed, search.natural) < now + SLACK
            rows, likely = list(compress(rows, left)), likely[left]
            scores = {other: values[left] for other, values in scores.items()}
        if self.causal and rows:
            # What it says of the other side, too.
            texts = [str(row) for row in rows]
            likely = scores[self.by.name] if self.by.name in scores else self.by.score(texts)
        worth = _POWER * likely
        for name, c in self.tilts.items():
            worth = worth + _TILT * c * scores[name]
        return any(self._taken(rows[i]) for i in np.argsort(-worth, kind="stable"))

    def _payable(self, name: str) -> int:
        """Return how many scores of a model can be paid, and those of a sentence that is kept."""
        if self.inputs is None or not self.costs[name]:
            return self.n
        left = self.inputs - self.search.spent.cost - sum(self.costs.values())
        return max(0, int(left / self.costs[name]))

    def _taken(self, sentence: Sentence) -> bool:
        """Take a sentence, if scores that are computed again can be paid and say so."""
        cost = sum(self.costs.values())
        if self.inputs is not None and self.search.spent.cost + cost > self.inputs:
            self.complete = False
            return False
        self.search.spent.cost += cost
        return self.search.take(sentence)

    def _filled(self, base: Sentence, span: tuple[int, ...]) -> _Fillings:
        """Return ways to fill a span of `base`."""
        fillings = _Fillings((base,), self._here(base, span[0]), np.zeros(1), np.zeros(1))
        for position in span:
            last = position == span[-1]
            rows, words, likely, wanted = self._next(fillings, base, position, span)
            listed = self.lists[position > 0].words
            pairs = zip(rows.tolist(), words.tolist(), strict=True)
            filled = tuple(
                fillings.rows[row].replace(position, listed[word]) for row, word in pairs
            )
            here = () if last else _further(fillings.here, base, position, rows, words)
            fillings = _Fillings(filled, here, likely, wanted)
        return fillings

    def _next(
        self, fillings: _Fillings, base: Sentence, position: int, span: tuple[int, ...]
    ) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
        """Return the rows and words that go on best, and their sums of what models say."""
        words = self.lists[position > 0]
        # What stands in the span now may stand elsewhere in it; `Search.may` has the last say.
        around = reduce(lambda s, p: s.replace(p, ""), span, base)
        allowed = self.may[position] & self.search.proposal.allowed(around, position, words)
        if self.causal:
            likely = _guess(fillings.here[0])
        else:
            hidden = range(position + 1, span[-1] + 1)
            values = [self.by.completions(row, position, words, hidden) for row in fillings.rows]
            likely = np.stack(values)
        likely = np.where(allowed, likely, -np.inf)
        most = min(_MOST, int(allowed.sum()))
        top = np.argsort(-likely, axis=1, kind="stable")[:, :most]
        rows = np.repeat(np.arange(len(fillings.rows)), most)
        index = top.ravel()
        total, wanted = fillings.likely[rows] + likely[rows, index], fillings.wanted[rows]
        for c, there in zip(self.shares, fillings.here[self.causal :], strict=True):
            wanted = wanted + c * _guess(there)[rows, index]
        n = min(_WHOLE if position == span[-1] else _KEPT, len(index))
        worths = (_POWER * total + share * _TILT * wanted for share in _SHARES)
        best = np.unique([np.argsort(-worth, kind="stable")[:n] for worth in worths])
        return rows[best], index[best], total[best], wanted[best]

    def _here(self, base: Sentence, position: int) -> tuple[Beginnings, ...]:
        """Return what stands before a position, looked up once for like words."""
        before = base.words[:position], base.after[:position]
        if before not in self._before:
            here = self._here(base, position - 1)
            word = self.lists[position > 1].index.get(base.words[position - 1])
            # A word that is not known is passed over: these are proposals.
            if word is not None:
                here = _further(here, base, position - 1, np.zeros(1, int), np.array([word]))
            self._before[before] = here
        return self._before[before]


def _further(
    here: Sequence[Beginnings], base: Sentence, position: int, rows: IntArray, words: IntArray
) -> tuple[Beginnings, ...]:
    """Return beginnings that go on by words at a position, and by the comma that stands there."""
    there = tuple(beginnings.followed_by(rows, words) for beginnings in here)
    if not base.after[position].startswith(COMMA):
        return there
    where = np.ones(len(rows), dtype=np.bool_)
    return tuple(beginnings.with_commas(where) for beginnings in there)


def _guess(here: Beginnings) -> FloatArray:
    """Return about what a model says of the next word, (R, V): of several pieces by the first."""
    values, exact = here.upper()
    return np.where(exact, values, values - here.crowd())
