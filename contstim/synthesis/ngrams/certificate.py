"""How low a loss any sentence could reach: a bound for models that look a few words back.

Weak duality (Boyd & Vandenberghe 2004, section 5.2): for a loss that is the greatest of some
weighted sums of falls, its parts, and for constraints on scores, any weights mu >= 0 of the parts
that sum to one, lambda >= 0 of the constraints, kappa >= 0 of the changes and nu >= 0 of words give

    loss(s) >= min over s' of sum_k mu_k part_k(s') - sum_a lambda_a (score_a(s') - least_a)
                              + kappa (changes(s') - most) + sum_w nu_w (times_w(s') - 1)

for every sentence s that keeps the constraints, has no more changes than it may and no word twice
(times_w says how often w is there; words that may repeat have no nu). The right-hand
side is a minimum of weighted scores over all sentences, which `Trellis` finds; it is concave in the
weights, and is raised by cutting planes (Kelley 1960): every sentence that was such a minimum
bounds it from above. Words have a weight once a sentence whose sum is least repeats them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.models.ngram import BackOff
from contstim.models.words import END
from contstim.synthesis.candidates import WordReplacement
from contstim.synthesis.ngrams.trellis import Slot, Trellis
from contstim.synthesis.sweeps import Search
from contstim.text import WordList

# Largest weight beside the loss, and the grid of weights that sentences share: powers of two to
# multiples of 1 / _GRID.
_LARGEST, _GRID = 64.0, 4
# Weights beside the loss change by this factor at most from the best so far.
_STEP = 2.0
# Part of the bound that is left open, and nats that arithmetic may be off.
_OPEN, _ROUNDING = 0.002, 1e-4
_MOST_ROUNDS = 80
# Up to which a word's weight may rise from nothing, nats.
_FIRST_PRICE = 1.0


class Under(NamedTuple):
    """A bound by certain weights: the least sum of c log p over sentences, plus `offset`.

    Attributes
    ----------
    weights
        c, (M,).
    offset
        Nats.
    bound
        What no sentence's loss is below, under these weights.
    slots
        What may stand at each token, with what changes cost.
    at
        The weights of parts, constraints, changes and words, (W,).
    scores, words
        Of the sentence whose sum is least, (M,) and (T,).
    """

    weights: FloatArray
    offset: float
    bound: float
    slots: list[Slot]
    at: FloatArray
    scores: FloatArray
    words: IntArray


class Reach:
    """What the sentences may reach that are made of one natural sentence.

    Attributes
    ----------
    trellis
        The models.
    slots
        What may stand where, one a token.
    tokens
        By open position, the place of its token, and its candidates by symbol, (V,).
    texts
        By open position, its candidates.
    own
        The natural sentence by symbol.
    most
        How many words may change; None: all of them.
    natural, least
        The scores (M,) of the natural sentence, and the least that are accepted (M,), -inf where
        the model has no constraint.
    parts
        The weights (K, M) of the falls in each part of the loss.
    """

    def __init__(self, search: Search, trellis: Trellis, parts: FloatArray) -> None:
        names = _names(search)
        self.trellis, self.parts = trellis, parts
        self.natural = np.array([search.natural[name] for name in names])
        self.least = np.array([search.minimum.get(name, -np.inf) for name in names])
        most = search.problem.edits.most
        self.most = most if most is None or most < len(search.positions) else None
        self._constrained = np.flatnonzero(np.isfinite(self.least))
        self.slots: list[Slot] = []
        self.tokens: dict[int, tuple[int, IntArray]] = {}
        self.texts: dict[int, WordList] = {}
        self.own: list[int] = []
        self._fold = search.proposal.vocabulary.language.fold
        self._once = trellis.folded(search.proposal.vocabulary)
        self._priced: list[int] = []  # the words that have a weight, by their numbers in `_once`

    @classmethod
    def of(cls, search: Search) -> Reach | None:
        """Return what the sentences of a search may reach; None where that is not known.

        It is known where every model's scores are sums over n-grams, all models read words alike,
        and the loss is the greatest of weighted sums of falls.
        """
        models, names = search.problem.by_name, _names(search)
        parts = search.problem.objective.parts
        back_offs = [models[name].back_off() for name in names]
        tables = [table for table in back_offs if table is not None]
        if parts is None or len(tables) < len(back_offs):
            return None
        rows = np.array([[part.get(name, 0.0) for name in names] for part in parts])
        reach = cls(search, _trellis(search.proposal, tables), rows)
        return reach if reach._find_slots(search, tables) else None

    def _find_slots(self, search: Search, tables: Sequence[BackOff]) -> bool:
        """Find what may stand at each token; return whether the models read the words alike."""
        trellis, every = self.trellis, (True,) * len(tables)
        read = []
        for table in tables:
            ids = table.tokenizer.encode(str(search.start)).ids
            read.append(trellis.numbers(table.table)[ids].tolist())
        self.own = symbols_now = read[0]
        if any(tokens != symbols_now for tokens in read) or min(symbols_now) < 0:
            return False
        self.slots = [trellis.fixed(symbol, every) for symbol in symbols_now]
        for position in search.positions:
            words = search.words(position)
            open_tokens = [t.tokenizer.slot(search.start, position, words) for t in tables]
            index, symbols = (
                open_tokens[0].index,
                trellis.numbers(tables[0].table)[open_tokens[0].candidates],
            )
            for table, slot in zip(tables, open_tokens, strict=True):
                numbers = trellis.numbers(table.table)[slot.candidates]
                if (numbers < 0).any() or not np.array_equal(numbers, symbols):
                    return False
            must = position in search.problem.edits.changed
            self.slots[index] = trellis.slot(words, symbols, symbols_now[index], must, every)
            self.tokens[position] = (index, symbols)
            self.texts[position] = words
        if any(ends := tuple(table.scores_end for table in tables)):
            symbols_now.append(trellis.symbols[END])
            self.slots.append(trellis.fixed(symbols_now[-1], ends))
        return True

    def bound(self) -> float:
        """Return a loss that no sentence is below, nats from the natural sentence's: at most 0."""
        found = max(self._raised(repeats=False), key=lambda under: under.bound)
        rounding = _ROUNDING * (1 + float(np.abs(found.weights).sum()))
        return min(found.bound - rounding, 0.0)

    def under(self, n: int) -> list[Under]:
        """Return the `n` highest bounds, or fewer, by weights that other sentences share."""
        found = self._raised(shared=True)
        return sorted(found, key=lambda under: -under.bound)[:n]

    def stricter(self, under: Under, factor: float) -> Under:
        """Return the bound by weights of which those of the constraints are `factor` as large."""
        at = under.at.copy()
        at[len(self.parts) : len(self.parts) + len(self._constrained)] *= factor
        return self._under(at)

    def _under(self, at: FloatArray) -> Under:
        """Return the bound by weights of parts, constraints and changes (W,)."""
        n_parts, n_weights = len(self.parts), len(self.parts) + len(self._constrained)
        weights = at[:n_parts] @ self.parts
        weights[self._constrained] -= at[n_parts:n_weights]
        slots = self._slots(at[n_weights:])
        least, words, scores = self.trellis.best(slots, weights)
        offset = float(at @ self._cut(np.zeros(len(weights)), None))
        return Under(weights, offset, least + offset, slots, at, scores, words)

    def _raised(self, *, shared: bool = False, repeats: bool = True) -> list[Under]:
        """Return bounds by ever better weights.

        `shared`: by weights that other sentences share; `repeats`: leave aside that words may not.
        """
        n_parts, n_weights = len(self.parts), len(self.parts) + len(self._constrained)
        n_all = n_weights + (self.most is not None)
        at, self._priced = np.ones(n_all), []
        at[:n_parts] /= n_parts
        seen: list[tuple[FloatArray, Sequence[int] | IntArray]] = [(self.natural, self.own)]
        bounds: list[Under] = []
        tried: set[tuple[float, ...]] = set()
        while len(bounds) < _MOST_ROUNDS and tuple(at) not in tried:
            tried.add(tuple(at))
            bounds.append(self._under(at))
            seen.append((bounds[-1].scores, bounds[-1].words))
            best = max(bounds, key=lambda under: under.bound)
            nearly = max(_OPEN * abs(best.bound), _ROUNDING)
            if self._priced:
                self._price(bounds[-1].words)
            while True:
                besides = np.append(best.at, np.zeros(n_all + len(self._priced) - len(best.at)))
                furthest = np.full(len(besides), 1 / _LARGEST)
                furthest[n_all:] = _FIRST_PRICE
                cuts = np.array([self._cut(scores, words) for scores, words in seen])
                open_, at = _master(cuts, n_parts, besides[n_parts:], furthest[n_parts:])
                closed = open_ - best.bound <= nearly
                if not closed or repeats or not self._price(*(under.words for under in bounds)):
                    break
            if closed:
                break
            if shared:
                powers = np.log2(np.maximum(at[n_parts:], 1 / _LARGEST))
                at[n_parts:] = 2.0 ** (np.round(_GRID * powers) / _GRID)
        return bounds

    def _price(self, *sentences: IntArray) -> bool:
        """Give a weight to words that one of some sentences repeats; return whether any is new.

        Words that may repeat have none, and nor do those that the natural sentence repeats, or
        whose symbol is not theirs alone.
        """
        names, before = list(self.trellis.symbols), len(self._priced)
        for words in sentences:
            codes, counts = np.unique(self._once[words], return_counts=True)
            for code in codes[(counts > 1) & (codes >= 0)].tolist():
                texts = {
                    self._fold(self.texts[position].words[k])
                    for position, (_, symbols) in self.tokens.items()
                    for k in np.flatnonzero(self._once[symbols] == code)
                }
                name = self._fold(names[int(np.flatnonzero(self._once == code)[0])])
                natural = np.count_nonzero(self._once[self.own] == code)
                if code not in self._priced and texts == {name} and natural < 2:
                    self._priced.append(code)
        return len(self._priced) > before

    def _cut(self, scores: FloatArray, words: Sequence[int] | IntArray | None) -> FloatArray:
        """Return what a sentence gives for each weight: their products sum to its bound.

        Its falls (K,), what it has to spare by each constraint, less than 0, by how many words it
        is changed beyond the most, and how often each word that has a weight is there beyond once.
        `words` None: those of a sentence that has changed nothing and none of these.
        """
        cut = [self.parts @ (scores - self.natural), -(scores - self.least)[self._constrained]]
        places = [place for place, _ in self.tokens.values()]
        if self.most is not None:
            changed = 0 if words is None else sum(words[p] != self.own[p] for p in places)
            cut.append(np.array([changed - self.most]))
        if self._priced:
            stay = np.delete(self._once[self.own], places)
            here = stay[:0] if words is None else self._once[np.asarray(words)[places]]
            there = np.concatenate([stay, here])
            cut.append((there[:, None] == self._priced).sum(axis=0) - 1.0)
        return np.concatenate(cut)

    def _slots(self, besides: FloatArray) -> list[Slot]:
        """Return the slots where each change, if there is a most, and some words have a price."""
        slots = list(self.slots)
        if not len(besides):
            return slots
        change = float(besides[0]) if self.most is not None else 0.0
        prices = besides[int(self.most is not None) :].tolist()
        priced = np.zeros(self.trellis.size)
        for code, price in zip(self._priced, prices, strict=False):
            priced[self._once == code] = price
        for place, _ in self.tokens.values():
            slot, symbol = slots[place], self.own[place]
            tolls = priced + change
            tolls[symbol] -= change
            free = (symbol, change) if self.most is not None else ()
            name = (*slot.name, *free, *zip(self._priced, prices, strict=False))
            slots[place] = Slot(name, slot.words, slot.scored, tolls)
        return slots


def check_bounded(models: Iterable[SentenceModel], sentences: Iterable[str] = ()) -> None:
    """Refuse the models of a problem if they have no certificate for some natural sentence.

    Sentences that a model cannot read at all are passed over: to score them is refused.

    Raises
    ------
    InputError
        Naming the first model whose scores are no sums over n-grams, or the first sentence that
        two models read in different ways.
    """
    tables = dict[str, BackOff]()
    for model in models:
        table = model.back_off()
        if table is None:
            raise InputError(
                f"{model.name!r} has no certificate: its scores are no sums over a file's n-grams; "
                "leave the certificate out"
            )
        tables[model.name] = table
    (first, first_table), *others = tables.items()
    for sentence, (name, other) in itertools.product(sentences, others):
        try:
            read, read_by_other = (
                [of.table.words[number] for number in of.tokenizer.encode(sentence).ids]
                for of in (first_table, other)
            )
        except InputError:
            continue
        if read != read_by_other:
            raise InputError(
                f"{first!r} and {name!r} read {sentence!r} in different ways, so that there is no "
                "certificate; leave it out"
            )


def bound_of(search: Search) -> float:
    """Return a loss that no sentence of a search can be below, nats from the natural sentence's.

    Raises
    ------
    InputError
        If none is known, saying why.
    """
    reach = Reach.of(search)
    if reach is not None:
        return reach.bound()
    check_bounded(search.problem.models)
    if search.problem.objective.parts is None:
        raise InputError(
            f"{search.problem.objective} has no certificate: it does not state its parts; leave "
            "the certificate out"
        )
    names = " and ".join(map(repr, search.problem.names))
    raise InputError(
        f"{names} read words in different ways, so that there is no certificate; leave it out"
    )


def _master(
    cuts: FloatArray, n_parts: int, best: FloatArray, furthest: FloatArray
) -> tuple[float, FloatArray]:
    """Return the highest bound that cuts leave open near weights, and the weights that give it.

    Far from all cuts a bound promises much and keeps little, so that steps are limited (Marsten,
    Hogan & Blankenship 1975). What is highest near the best weights is highest of all, since the
    bound is concave in the weights.

    Parameters
    ----------
    cuts
        Shape (n, W).
    n_parts
        How many of the weights are those of the parts.
    best
        The weights beside those of the parts under which the bound is highest so far.
    furthest
        Up to which these may rise from nothing.
    """
    n_weights = cuts.shape[1]
    lowest = np.where(best < _STEP / _LARGEST, 0.0, best / _STEP)
    highest = np.clip(best * _STEP, furthest, _LARGEST)
    if n_weights == n_parts == 1:
        return float(cuts.min()), np.ones(1)
    if n_weights == 2 and n_parts == 1:
        # Lines over one weight: their lower envelope is highest at an end or where two cross.
        slopes, heights = cuts[:, 1], cuts[:, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            crossed = np.subtract.outer(heights, heights) / np.subtract.outer(slopes, slopes).T
        inside = crossed[(crossed > lowest) & (crossed < highest)]
        at = np.concatenate([lowest, highest, inside])
        values = (heights + np.outer(at, slopes)).min(axis=1)
        chosen = int(values.argmax())
        return float(values[chosen]), np.array([1.0, at[chosen]])
    from scipy.optimize import linprog  # takes as long to load as a search; few need it

    rows = np.hstack([np.ones((len(cuts), 1)), -cuts])
    sums = np.zeros((1, n_weights + 1))
    sums[0, 1 : 1 + n_parts] = 1.0
    solved = linprog(
        np.array([-1.0, *[0.0] * n_weights]),
        A_ub=rows,
        b_ub=np.zeros(len(rows)),
        A_eq=sums,
        b_eq=[1.0],
        bounds=[(None, None), *[(0.0, 1.0)] * n_parts, *zip(lowest, highest, strict=True)],
    )
    solution = np.asarray(solved.x)
    return float(solution[0]), solution[1:]


def _names(search: Search) -> list[str]:
    """Return the models in one order whatever their sides, so that these share a trellis."""
    return sorted(search.natural)


# The trellises of each whole proposal, one for each set of models.
_TRELLISES: WeakKeyDictionary[WordReplacement, list[Trellis]] = WeakKeyDictionary()


def _trellis(proposal: WordReplacement, tables: Sequence[BackOff]) -> Trellis:
    """Return the trellis of some models, the same for all sentences of one proposal.

    It is of all the models' words, so that proposals which leave out some of one's share it.
    """
    trellises = _TRELLISES.setdefault(proposal.whole, [])
    ngrams = [back_off.table for back_off in tables]
    for trellis in trellises:
        if trellis.joins(ngrams):
            return trellis
    trellises.append(Trellis(ngrams))
    return trellises[-1]
