"""How low a loss any sentence could reach: a bound for models that look a few words back.

Weak duality (Boyd & Vandenberghe 2004, section 5.2): for a loss that is the greatest of some
weighted sums of falls, its parts, and for constraints on scores, any weights mu >= 0 of the parts
that sum to one, lambda >= 0 of the constraints and kappa >= 0 of the changes give

    loss(s) >= min over s' of sum_k mu_k part_k(s') - sum_a lambda_a (score_a(s') - least_a)
                              + kappa (changes(s') - most)

for every sentence s that keeps the constraints and has no more changes than it may. The right-hand
side is a minimum of weighted scores over all sentences, which `Trellis` finds; it is concave in the
weights, and is raised by cutting planes (Kelley 1960): every sentence that was such a minimum
bounds it from above. That no word may stand twice is left aside, so that a bound may be lower than
need be.
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
from contstim.search.candidates import WordReplacement
from contstim.search.ngrams.trellis import Slot, Trellis
from contstim.search.sweeps import Search

# Largest weight beside the loss, and the grid of weights that sentences share: powers of two to
# multiples of 1 / _GRID.
_LARGEST, _GRID = 64.0, 4
# Weights beside the loss change by this factor at most from the best so far.
_STEP = 2.0
# Part of the bound that is left open, and nats that arithmetic may be off.
_OPEN, _ROUNDING = 0.002, 1e-4
_MOST_ROUNDS = 80


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
    at, cut
        The weights of parts, constraints and changes (W,), and what the sentence whose sum is
        least gives for each.
    """

    weights: FloatArray
    offset: float
    bound: float
    slots: list[Slot]
    at: FloatArray
    cut: FloatArray


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
        self.own: list[int] = []

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
        if any(ends := tuple(table.scores_end for table in tables)):
            symbols_now.append(trellis.symbols[END])
            self.slots.append(trellis.fixed(symbols_now[-1], ends))
        return True

    def bound(self) -> float:
        """Return a loss that no sentence is below, nats from the natural sentence's: at most 0."""
        found = max(self._raised(), key=lambda under: under.bound)
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
        offset = float(at @ self._cut(np.zeros(len(weights)), self.own))
        return Under(weights, offset, least + offset, slots, at, self._cut(scores, words))

    def _raised(self, *, shared: bool = False) -> list[Under]:
        """Return bounds by ever better weights."""
        n_parts, n_weights = len(self.parts), len(self.parts) + len(self._constrained)
        at = np.ones(n_weights + (self.most is not None))
        at[:n_parts] /= n_parts
        cuts = [self._cut(self.natural, self.own)]
        bounds: list[Under] = []
        tried: set[tuple[float, ...]] = set()
        while len(bounds) < _MOST_ROUNDS and tuple(at) not in tried:
            tried.add(tuple(at))
            bounds.append(self._under(at))
            cuts.append(bounds[-1].cut)
            best = max(bounds, key=lambda under: under.bound)
            open_, at = _master(np.array(cuts), n_parts, best.at[n_parts:])
            if open_ - best.bound <= max(_OPEN * abs(best.bound), _ROUNDING):
                break
            if shared:
                powers = np.log2(np.maximum(at[n_parts:], 1 / _LARGEST))
                at[n_parts:] = 2.0 ** (np.round(_GRID * powers) / _GRID)
        return bounds

    def _cut(self, scores: FloatArray, words: Sequence[int] | IntArray) -> FloatArray:
        """Return what a sentence gives for each weight: their products sum to its bound.

        Its falls (K,), what it has to spare by each constraint, less than 0, and by how many words
        it is changed beyond the most.
        """
        room = (scores - self.least)[self._constrained]
        cut = [self.parts @ (scores - self.natural), -room]
        if self.most is not None:
            places = [place for place, _ in self.tokens.values()]
            changed = sum(words[place] != self.own[place] for place in places)
            cut.append(np.array([changed - self.most]))
        return np.concatenate(cut)

    def _slots(self, toll: FloatArray) -> list[Slot]:
        """Return the slots where each change costs `toll`, one number or none."""
        slots = list(self.slots)
        if len(toll):
            for place, _ in self.tokens.values():
                slot, symbol = slots[place], self.own[place]
                tolls = np.full(self.trellis.size, float(toll[0]))
                tolls[symbol] = 0.0
                name = (*slot.name, symbol, float(toll[0]))
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


def _master(cuts: FloatArray, n_parts: int, best: FloatArray) -> tuple[float, FloatArray]:
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
    """
    n_weights = cuts.shape[1]
    lowest = np.where(best < _STEP / _LARGEST, 0.0, best / _STEP)
    highest = np.clip(best * _STEP, 1 / _LARGEST, _LARGEST)
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
