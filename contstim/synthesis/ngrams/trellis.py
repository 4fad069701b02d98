"""All sentences of some words at once, under models that look a bounded number of words back.

Several back-off models of words are joined to one table over the words that all of them know. What
follows in a sentence then depends on its last words alone, a *state*: the longest of the last
words that any model keeps as a context. For any weights c of the models,

    V_t(state) = min over what may stand at t, t + 1 ... of sum over models of c log p(rest | state)

follows from V_{t+1} by dynamic programming over positions (Bellman 1957; for a sentence and a
model this is Viterbi 1967). It takes a step for every n-gram of the tables and none for the others:
a word that no n-gram of a state has gets what it has in the state without its first word, but for
the back-off weights,

    V(state) = min(over its n-grams, back-off weights + V(state without its first word)).

The second part lets words back off that n-grams of the state have. Among states of one word these
are left out; among longer ones they are not, which may make V too low, never too high.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.models.ngram import NgramTable, find
from contstim.models.words import START
from contstim.text import WordList
from contstim.text.vocabulary import Vocabulary

_NATS = float(np.log(10.0))
# Arrays of values that are kept for other sentences; one takes some megabytes.
_KEPT = 160
# Words looked through for one that does not have an n-gram of its own.
_DEPTH = 16


class _Grams(NamedTuple):
    """The joined n-grams of one order, sorted by key.

    Attributes
    ----------
    keys
        ``context * A + word``, as `contstim.models.ngram.Level` has them.
    words
        Their last words.
    states
        The states that they begin in and that they lead to, two arrays.
    log_probs
        Nats, one column per model.
    suffixes, shorter
        The n-grams without their first words, one order down, and the states that those begin in.
    first
        Where the n-grams of each context that has some begin, and whose they are: two arrays.
    by_word, ends
        The n-grams sorted by last word, and where those of each word end.
    """

    keys: IntArray
    words: IntArray
    states: tuple[IntArray, IntArray]
    log_probs: FloatArray
    suffixes: IntArray
    shorter: IntArray
    first: tuple[IntArray, IntArray]
    by_word: IntArray
    ends: IntArray


class Steps(NamedTuple):
    """Ways on from some states, one a word: k of them.

    Attributes
    ----------
    origin
        Which of the states, (k,).
    words
        The words, (k,).
    states
        Where they lead, (k,).
    log_probs
        Nats, shape (k, M).
    """

    origin: IntArray
    words: IntArray
    states: IntArray
    log_probs: FloatArray


@dataclass(frozen=True, eq=False)
class Slot:
    """What may stand at one place of a sentence.

    Slots of one `name` are one to the trellis: sentences that go on with like slots share what
    it computes for them.

    Attributes
    ----------
    name
        Tells slots apart.
    words
        The words that may stand there, by symbol, ascending: one if the place is fixed.
    scored
        Which models score it, one a model; the end of a sentence is not scored by all.
    toll
        What each word costs besides, (A,), nats; None: nothing.
    """

    name: tuple[object, ...]
    words: IntArray
    scored: tuple[bool, ...]
    toll: FloatArray | None = None


def ranges(begin: IntArray, end: IntArray) -> tuple[IntArray, IntArray]:
    """Return all whole numbers of some ranges, one after the other, and the range of each."""
    lengths = end - begin
    which = np.repeat(np.arange(len(begin)), lengths)
    shift = begin - np.cumsum(lengths) + lengths
    return np.arange(len(which)) + shift[which], which


class Trellis:
    """Back-off models joined, and what sentences may yet bring under weights of the models.

    Parameters
    ----------
    tables
        The M models, which read words alike.

    Attributes
    ----------
    symbols
        The A words that all models have, with their numbers.
    n_states
        How many states there are. State 0 knows nothing, state 1 + a the word a alone.
    log_backoffs
        What it costs to leave a state for the one without its first word, (n_states, M), nats.
    shorter
        That state, (n_states,).
    """

    def __init__(self, tables: Sequence[NgramTable]) -> None:
        self._tables = list(tables)
        in_all = set(tables[0].ids).intersection(*(table.ids for table in tables[1:]))
        words = [word for word in tables[0].words if word in in_all]
        self.symbols = {word: number for number, word in enumerate(words)}
        self.size = len(words)
        self.order = max(table.order for table in tables)
        self._join([_restricted(table, words) for table in tables])
        self._best: dict[tuple[object, ...], tuple[float, IntArray, FloatArray]] = {}
        self._values: OrderedDict[tuple[object, ...], FloatArray] = OrderedDict()
        self._slots: dict[tuple[object, ...], Slot] = {}
        self._numbers: dict[int, IntArray] = {}
        self._folded: IntArray | None = None
        self._costs: OrderedDict[tuple[float, ...], list[FloatArray]] = OrderedDict()

    def _join(self, tables: Sequence[NgramTable]) -> None:
        """Join the n-grams, order by order, and number the states."""
        n_models = len(tables)
        # For each model where its words, then its n-grams of each order, are among the joint ones.
        symbols = [np.array([self.symbols[word] for word in t.words]) for t in tables]
        joint_ids = list(symbols)
        keys, contexts = [np.arange(self.size)], [np.zeros(self.size, dtype=np.int64)]
        log_probs, backoffs = [np.empty((self.size, n_models))], [np.empty((self.size, n_models))]
        for m, table in enumerate(tables):
            log_probs[0][joint_ids[m], m] = table.levels[0].log_probs
            backoffs[0][joint_ids[m], m] = table.levels[0].log_backoffs
        suffixes = [np.zeros(self.size, dtype=np.int64)]
        for n in range(1, self.order):
            levels = [t.levels[n] if n < t.order else None for t in tables]
            theirs = [
                np.empty(0, dtype=np.int64)
                if level is None
                else joint_ids[m][level.keys // self.size] * self.size
                + symbols[m][level.keys % self.size]
                for m, level in enumerate(levels)
            ]
            # Each model's are sorted already, which a stable sort merely merges.
            joint = np.sort(np.concatenate(theirs), kind="stable")
            joint = joint[np.diff(joint, prepend=-1) > 0]
            context, word = joint // self.size, joint % self.size
            suffix = word if n == 1 else find(keys[-1], suffixes[-1][context] * self.size + word)
            # Where a model has no such n-gram it backs off.
            log_prob = backoffs[-1][context] + log_probs[-1][suffix]
            backoff = np.zeros((len(joint), n_models))
            for m, level in enumerate(levels):
                joint_ids[m] = find(joint, theirs[m])
                if level is not None:
                    log_prob[joint_ids[m], m] = level.log_probs
                    backoff[joint_ids[m], m] = level.log_backoffs
            keys.append(joint)
            contexts.append(context)
            log_probs.append(log_prob)
            backoffs.append(backoff)
            suffixes.append(suffix)
        self._number(keys, contexts, log_probs, backoffs, suffixes)

    def _number(
        self,
        keys: list[IntArray],
        contexts: list[IntArray],
        log_probs: list[FloatArray],
        backoffs: list[FloatArray],
        suffixes: list[IntArray],
    ) -> None:
        """Count as states the n-grams that others begin with or that have back-off weights."""
        shorter, grams = [np.zeros(1, dtype=np.int64)], [np.zeros(1, dtype=np.int64)]
        weights = [np.zeros((1, backoffs[0].shape[1]))]
        self.levels: list[_Grams] = []
        # States of one order that are contexts, in the order of their n-grams.
        self._of_order: list[slice] = [slice(0, 1)]
        # Where the n-grams one order down lead.
        before = np.zeros(1, dtype=np.int64)
        first_state = 1
        for n in range(self.order):
            leads = below = before[suffixes[n]]
            if n + 1 < self.order:
                is_state = (backoffs[n] != 0).any(axis=1) | (n == 0)
                is_state[contexts[n + 1]] = True
                numbers = first_state + np.cumsum(is_state) - 1
                leads = np.where(is_state, numbers, below)
                shorter.append(below[is_state])
                weights.append(backoffs[n][is_state])
                grams.append(np.flatnonzero(is_state))
                last = first_state + int(is_state.sum())
                self._of_order.append(slice(first_state, last))
                first_state = last
            words = keys[n] % self.size
            origin = before[contexts[n]]
            starts = np.flatnonzero(np.diff(contexts[n], prepend=-1))
            # Sorting short integers is several times as fast.
            short = words.astype(np.min_scalar_type(self.size))
            by_word = np.argsort(short, kind="stable")
            ends = np.cumsum(np.bincount(words, minlength=self.size))
            self.levels.append(
                _Grams(
                    keys[n],
                    words,
                    (origin, leads),
                    log_probs[n] * _NATS,
                    suffixes[n],
                    self.levels[-1].states[0][suffixes[n]] if n else np.zeros_like(origin),
                    (starts, origin[starts]),
                    by_word,
                    ends,
                )
            )
            before = leads
        self.shorter = np.concatenate(shorter)
        self.log_backoffs = np.concatenate(weights) * _NATS
        # Which n-gram each state is.
        self._gram = np.concatenate(grams)
        self.n_states = len(self.shorter)
        self.start = 1 + self.symbols[START] if self.order > 1 else 0
        self._find_ranges()

    def _find_ranges(self) -> None:
        """Find where the n-grams of each state begin and end, among those of its order."""
        self._begin = np.zeros(self.n_states, dtype=np.int64)
        self._end = np.zeros(self.n_states, dtype=np.int64)
        self._order_of = np.zeros(self.n_states, dtype=np.int64)
        for n, (level, states) in enumerate(zip(self.levels, self._of_order, strict=True)):
            starts, origins = level.first
            self._begin[origins] = starts
            self._end[origins] = np.append(starts[1:], len(level.keys))
            self._order_of[states] = n

    def joins(self, tables: Sequence[NgramTable]) -> bool:
        """Return whether it is made of just these tables, in this order."""
        pairs = zip(self._tables, tables, strict=False)
        return len(self._tables) == len(tables) and all(own is given for own, given in pairs)

    def numbers(self, table: NgramTable) -> IntArray:
        """Return the symbol of each word of a model's table, -1 where it has none."""
        found = self._numbers.get(id(table))
        if found is None:
            found = np.array([self.symbols.get(word, -1) for word in table.words])
            self._numbers[id(table)] = found
        return found

    def folded(self, vocabulary: Vocabulary) -> IntArray:
        """Return one number for words that differ in case alone, -1 if repeatable, (A,)."""
        if self._folded is None:
            numbers, fold = dict.fromkeys(vocabulary.repeatable, -1), vocabulary.language.fold
            codes = [numbers.setdefault(fold(word), len(numbers)) for word in self.symbols]
            self._folded = np.array(codes)
        return self._folded

    def fixed(self, symbol: int, scored: tuple[bool, ...]) -> Slot:
        """Return the slot of a word that stays."""
        return Slot((symbol, scored), np.array([symbol]), scored)

    def slot(
        self, words: WordList, symbols: IntArray, symbol: int, must: bool, scored: tuple[bool, ...]
    ) -> Slot:
        """Return the slot of candidates and the natural sentence's word, like for like ones.

        Parameters
        ----------
        words, symbols
            The candidates, and their symbols (V,).
        symbol
            The symbol of the word that stands there.
        must
            Whether that word may not stay.
        scored
            As `Slot` has it.
        """
        listed = self._slots.get((words, scored))
        if listed is None:
            listed = self._slots[words, scored] = Slot((words, scored), np.unique(symbols), scored)
        others = listed.words[listed.words != symbol]
        if must:
            return Slot((words, scored, "not", symbol), others, scored)
        if len(others) < len(listed.words):
            return listed
        return Slot((words, scored, symbol), np.sort(np.append(others, symbol)), scored)

    def values(self, slots: Sequence[Slot], weights: FloatArray) -> list[FloatArray]:
        """Return V_1 to V_T of every state, T arrays (n_states,), nats.

        (V_0 is wanted of the sentence's start alone: see `best`.)

        Parameters
        ----------
        slots
            What may stand at each of the T places.
        weights
            c, one a model.
        """
        after = np.zeros(self.n_states)
        from_last = [after]
        for t in range(len(slots) - 1, 0, -1):
            key = (*(slot.name for slot in slots[t:]), *weights.tolist())
            values = self._values.get(key)
            if values is None:
                values = self._values[key] = self._before(slots[t], from_last[-1], weights)
                if len(self._values) > _KEPT:
                    self._values.popitem(last=False)
            else:
                self._values.move_to_end(key)
            from_last.append(values)
        return from_last[::-1]

    def _cost(self, weights: FloatArray) -> list[FloatArray]:
        """Return c log p of all n-grams, by order, and of all steps back."""
        key = tuple(weights.tolist())
        costs = self._costs.get(key)
        if costs is None:
            costs = [level.log_probs @ weights for level in self.levels]
            costs.append(self.log_backoffs @ weights)
            self._costs[key] = costs
            if len(self._costs) > 2:
                self._costs.popitem(last=False)
        return costs

    def _before(self, slot: Slot, after: FloatArray, weights: FloatArray) -> FloatArray:
        """Return V_t from V_{t+1}."""
        if len(slot.words) == 1 and slot.toll is None:
            return self._fixed(int(slot.words[0]), after, weights * slot.scored)
        costs = self._cost(weights * slot.scored)
        closed = np.full(self.size, np.inf)
        closed[slot.words] = 0.0 if slot.toll is None else slot.toll[slot.words]
        value = np.empty(self.n_states)
        # What each state may bring by words that have no n-gram of its own.
        unlisted = np.full(self.n_states, np.inf)
        sums = costs[0] + after[self.levels[0].states[1]] + closed
        value[0] = sums.min()
        for n, level in enumerate(self.levels[1:], start=1):
            of_order = self._of_order[n]
            lower, sums = sums, costs[n] + after[level.states[1]] + closed[level.words]
            starts, states = level.first
            listed = np.minimum.reduceat(sums, starts) if len(starts) else np.empty(0)
            if n == 1:
                below = self._first_unlisted(lower)
            else:
                below = value[self.shorter[of_order]]
                # What is longer goes on from what is unlisted here.
                last = n + 1 == self.order
                enough = listed - costs[-1][states] if last else np.full(len(states), np.inf)
                below[states - of_order.start] = self._below(n, lower, value, unlisted, enough)
            unlisted[of_order] = costs[-1][of_order] + below
            value[of_order] = unlisted[of_order]
            value[states] = np.minimum(value[states], listed)
        return value

    def _below(
        self,
        n: int,
        sums: FloatArray,
        value: FloatArray,
        unlisted: FloatArray,
        enough: FloatArray,
    ) -> FloatArray:
        """Return what states may bring a word shorter, by words that have no n-gram here.

        Parameters
        ----------
        n
            Order of the states, those that have n-grams.
        sums
            What each n-gram of the states without their first word brings; changed.
        value, unlisted
            What shorter states may bring, and what by words without an n-gram there.
        enough
            For each state, a value that need not be told from a greater one.
        """
        level, lower = self.levels[n], self.levels[n - 1]
        states = level.first[1]
        below = value[self.shorter[states]]
        # The n-gram that makes the value of each shorter state, where there is one.
        making = np.flatnonzero(sums == value[lower.states[0]])
        made_by = np.full(self.n_states, -1)
        made_by[lower.states[0][making]] = making
        # States that have an n-gram with the same word, which they may not back off to.
        grams = np.flatnonzero(level.suffixes == made_by[level.shorter])
        open_ = states.searchsorted(level.states[0][grams])
        open_ = open_[below[open_] < enough[open_]]
        sums[made_by[self.shorter[states[open_]]]] = np.inf
        for _ in range(_DEPTH):
            if not len(open_):
                break
            parents, parent = np.unique(self.shorter[states[open_]], return_inverse=True)
            grams, row = ranges(self._begin[parents], self._end[parents])
            here = sums[grams]
            least = np.minimum.reduceat(here, np.flatnonzero(np.diff(row, prepend=-1)))
            best = np.flatnonzero(here == least[row])
            best = grams[best[np.diff(row[best], prepend=-1) > 0]]
            below[open_] = np.minimum(unlisted[parents], least)[parent]
            keys = self._gram[states[open_]] * self.size + lower.words[best][parent]
            listed = (least < unlisted[parents])[parent] & (find(level.keys, keys) >= 0)
            open_ = open_[listed & (below[open_] < enough[open_])]
            sums[best] = np.inf
        return below

    def _first_unlisted(self, sums: FloatArray) -> FloatArray:
        """Return, for each state of one word, the least of `sums` (A,) over words it backs off to.

        Words of its own n-grams are left out, as far as the least `_DEPTH` words go.
        """
        depth = min(_DEPTH, len(sums))
        least = np.argpartition(sums, depth - 1)[:depth]
        least = least[np.argsort(sums[least], kind="stable")]
        level = self.levels[1]
        below = np.full(self.size, sums[least[0]])
        listed = np.ones(self.size, dtype=np.bool_)
        for word, following in zip(least[:-1].tolist(), least[1:].tolist(), strict=True):
            has = np.zeros(self.size, dtype=np.bool_)
            has[level.states[0][self._ending(1, word)] - 1] = True
            listed &= has
            if not listed.any():
                break
            below[listed] = sums[following]
        return below

    def _ending(self, n: int, word: int) -> IntArray:
        """Return the n-grams, of the order after `n`, that end in `word`."""
        level = self.levels[n]
        return level.by_word[(level.ends[word - 1] if word else 0) : level.ends[word]]

    def _fixed(self, word: int, after: FloatArray, weights: FloatArray) -> FloatArray:
        """Return V_t where `word` must stand."""
        value = np.empty(self.n_states)
        backoffs = self.log_backoffs @ weights
        for n, level in enumerate(self.levels):
            here = self._of_order[n]
            value[here] = backoffs[here] + value[self.shorter[here]] if n else np.inf
            grams = self._ending(n, word)
            sums = level.log_probs[grams] @ weights + after[level.states[1][grams]]
            value[level.states[0][grams]] = sums
        return value

    def steps(self, states: IntArray, slot: Slot, some: IntArray) -> Steps:
        """Return ways on from `states` (B,): the words of their n-grams, and the words `some`.

        Only words of the slot are among them, each once.
        """
        state = states
        backed_off = np.zeros((len(states), self.log_backoffs.shape[1]))
        which = np.arange(len(states))
        parts: list[tuple[IntArray, IntArray, IntArray, FloatArray]] = []
        while True:
            for n in range(1, self.order):
                of_order = which[self._order_of[state] == n]
                grams, row = ranges(self._begin[state[of_order]], self._end[state[of_order]])
                level = self.levels[n]
                parts.append(
                    (
                        of_order[row],
                        level.words[grams],
                        level.states[1][grams],
                        level.log_probs[grams] + backed_off[of_order[row]],
                    )
                )
            if not state.any():
                break
            backed_off = backed_off + self.log_backoffs[state]
            state = self.shorter[state]
        unigrams = self.levels[0]
        origin, word = np.repeat(which, len(some)), np.tile(some, len(states))
        parts.append(
            (
                origin,
                word,
                unigrams.states[1][word],
                unigrams.log_probs[word] + backed_off[origin],
            )
        )
        origin, word, leads, log_probs = (np.concatenate(part) for part in zip(*parts, strict=True))
        allowed = np.zeros(self.size, dtype=np.bool_)
        allowed[slot.words] = True
        inside = np.flatnonzero(allowed[word])
        # N-grams of longer contexts come first.
        _, once = np.unique(origin[inside] * self.size + word[inside], return_index=True)
        index = inside[once]
        return Steps(
            origin[index], word[index], leads[index], log_probs[index] * np.array(slot.scored)
        )

    def unigram_sums(self, after: FloatArray, weights: FloatArray) -> FloatArray:
        """Return c log p(word) + V_{t+1} of each word without any context, (A,)."""
        level = self.levels[0]
        return level.log_probs @ weights + after[level.states[1]]

    def best(
        self, slots: Sequence[Slot], weights: FloatArray
    ) -> tuple[float, IntArray, FloatArray]:
        """Return the least sum over models of c log p that any sentence may have, and whose it is.

        Parameters
        ----------
        slots
            What may stand at each of T places.
        weights
            c, one a model.

        Returns
        -------
        tuple
            The sum, nats; the words (T,) and their log-probabilities (M,).
        """
        key = (*(slot.name for slot in slots), *weights.tolist())
        found = self._best.get(key)
        if found is None:
            found = self._best[key] = self._follow(slots, weights)
        return found

    def _follow(
        self, slots: Sequence[Slot], weights: FloatArray
    ) -> tuple[float, IntArray, FloatArray]:
        state, words = np.array([self.start]), []
        log_probs = np.zeros(len(weights))
        least = np.inf
        for t, (slot, after) in enumerate(zip(slots, self.values(slots, weights), strict=True)):
            steps = self.steps(state, slot, slot.words)
            sums = steps.log_probs @ weights + after[steps.states]
            if slot.toll is not None:
                sums += slot.toll[steps.words]
            at = int(sums.argmin())
            least = float(sums[at]) if t == 0 else least
            words.append(int(steps.words[at]))
            log_probs = log_probs + steps.log_probs[at]
            state = steps.states[at : at + 1]
        return least, np.array(words, dtype=np.int64), log_probs


def _restricted(table: NgramTable, words: Sequence[str]) -> NgramTable:
    """Return the n-grams of `words` only, their ids in that order."""
    if len(words) == len(table.words):
        return table
    masks = [np.zeros(len(table.words), dtype=np.bool_)]
    masks[0][[table.ids[word] for word in words]] = True
    for lower, level in zip(masks, table.levels[1:], strict=False):
        masks.append(
            lower[level.keys // len(table.words)] & masks[0][level.keys % len(table.words)]
        )
    return table.select(masks)
