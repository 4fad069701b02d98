"""The default strategy for models of n-grams: whole sentences from the left, then a climb.

A beam search (Lowerre 1976). Models that look a few words back give every beginning a bound on the
loss of all sentences that begin so, by the weights under which the bound of all sentences is
highest (`Reach`); the beginnings of least bound are kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.settings import settings, values_of
from contstim.synthesis.candidates import Candidates
from contstim.synthesis.exhaustive import Exhaustive
from contstim.synthesis.ngrams.certificate import Reach, Under
from contstim.synthesis.options import BeamOptions, BoundedOptions
from contstim.synthesis.sweeps import Search, Strategy
from contstim.text import Sentence

# Sets of weights under which beginnings are bounded, and words tried at each place besides those
# of n-grams, for each set.
_SETS, _WORDS = 3, 32
# Stands for words that are not written with.
_CLOSED = -2
# Where no sentence keeps the constraints, they are given so many times the weight, in turn.
_STRICTER = (1.0, 2**0.5, 2.0, 2**1.5, 4.0)
# Beginnings looked through for each that is kept, since some repeat a word.
_LOOKED_THROUGH = 6


@settings
class Beam(BeamOptions, Strategy):
    """Write sentences from the left, keep the `width` beginnings that promise most, then climb.

    Models of n-grams, which look a few words back, give every beginning a bound on the loss of the
    sentences that begin so, by the weights under which the bound of all sentences is highest; the
    beginnings of least bound are kept. The best sentence of all that keeps the constraints is
    taken, and its words are then replaced one at a time, each by the best one, until none improves.
    Another attempt writes with a random half of the words.

    Other models have no such bounds: with them it is ``bounded`` alone.
    """

    @property
    def complete(self) -> bool:
        """Whether no single replacement improves a result: without a budget."""
        return self.budget is None

    def run(self, search: Search) -> bool:
        """Take the best sentence of the beam, then search by sweeps."""
        if not search.problem.at_once:
            from contstim.synthesis.bounded import Bounded  # of no use to n-grams

            return Bounded(**values_of(self, BoundedOptions)).run(search)
        # One word that may change is best found by trying all.
        if search.problem.edits.most != 1:
            for sentence in written(search, self.width):
                if search.take(sentence):
                    break
        return Exhaustive().run(search)

    def look(self, candidates: Candidates) -> bool:
        """Take the best word, as a climb does."""
        return Exhaustive().look(candidates)


@dataclass(frozen=True)
class _Beginnings:
    """The beginnings of sentences kept so far.

    Attributes
    ----------
    states, log_probs
        Where they are, (B,), and what they have, (B, M), nats.
    words
        Their symbols, (B, t).
    changes
        How many words differ from the natural sentence's, (B,).
    """

    states: IntArray
    log_probs: FloatArray
    words: IntArray
    changes: IntArray


def written(search: Search, width: int) -> list[Sentence]:
    """Write sentences from the left; return those that may be taken, the best first.

    Parameters
    ----------
    search
        At the natural sentence.
    width
        Beginnings kept at each place.

    Returns
    -------
    list of Sentence
        At most `width`; none where the models have no bound on beginnings.
    """
    reach = Reach.of(search)
    if reach is None:
        return []
    beginnings = _Beginnings(
        np.array([reach.trellis.start]),
        np.zeros((1, len(reach.natural))),
        np.empty((1, 0), dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )
    once = reach.trellis.folded(search.proposal.vocabulary)
    # Words that the natural sentence repeats are left to the search.
    distinct, counts = np.unique(once[reach.own], return_counts=True)
    once = np.where(np.isin(once, distinct[counts > 1]), -1, once)
    if search.attempt:
        # Another attempt writes with another half of the words.
        once[search.shuffled(len(once))[::2]] = _CLOSED
        once[reach.own] = np.where(once[reach.own] == _CLOSED, -1, once[reach.own])
    sets, none = reach.under(_SETS), beginnings
    for factor in _STRICTER:
        stricter = sets if factor == 1.0 else [reach.stricter(under, factor) for under in sets]
        beginnings = none
        for place in range(len(reach.slots)):
            beginnings = _longer(reach, stricter, beginnings, place, once, width)
        room = (beginnings.log_probs - reach.least >= -1e-6).all(axis=1)
        losses = np.max((beginnings.log_probs - reach.natural) @ reach.parts.T, axis=1)
        order = np.argsort(losses, kind="stable")
        sentences = [_sentence(search, reach, beginnings.words[i]) for i in order[room[order]]]
        if sentences:
            break
    return sentences


def _longer(
    reach: Reach,
    sets: list[Under],
    shorter: _Beginnings,
    place: int,
    once: IntArray,
    width: int,
) -> _Beginnings:
    """Return the most promising beginnings that are one word longer."""
    trellis, slot = reach.trellis, reach.slots[place]
    after = [trellis.values(under.slots, under.weights)[place] for under in sets]
    some = [
        _least(slot.words, trellis.unigram_sums(values, under.weights)[slot.words], _WORDS)
        for values, under in zip(after, sets, strict=True)
    ]
    steps = trellis.steps(shorter.states, slot, np.unique(np.concatenate(some)))
    log_probs = shorter.log_probs[steps.origin] + steps.log_probs
    bounds = np.full(len(steps.words), -np.inf)
    for values, under in zip(after, sets, strict=True):
        here = log_probs @ under.weights + values[steps.states] + under.offset
        np.maximum(bounds, here, out=bounds)
    open_ = once[steps.words] != _CLOSED
    changed = shorter.changes[steps.origin] + (steps.words != reach.own[place])
    if reach.most is None:
        groups = [np.flatnonzero(open_)]
    else:
        groups = [np.flatnonzero(open_ & (changed == n)) for n in range(reach.most + 1)]
    chosen = []
    for group in groups:
        few = _least(group, bounds[group], _LOOKED_THROUGH * width)
        few = few[np.argsort(bounds[few], kind="stable")]
        again = _repeats(once, shorter.words[steps.origin[few]], steps.words[few])
        chosen.append(few[~again][:width])
    index = np.concatenate(chosen)
    index = index[np.argsort(bounds[index], kind="stable")]
    return _Beginnings(
        steps.states[index],
        log_probs[index],
        np.column_stack([shorter.words[steps.origin[index]], steps.words[index]]),
        changed[index],
    )


def _least(items: IntArray, values: FloatArray, n: int) -> IntArray:
    """Return the `n` of some items that have the least values, in any order."""
    if len(items) <= n:
        return items
    return items[np.argpartition(values, n - 1)[:n]]


def _repeats(once: IntArray, words: IntArray, new: IntArray) -> BoolArray:
    """Return which of B beginnings, (B, t), have a word (B,) already that may stand once."""
    mine = once[new]
    again: BoolArray = (once[words] == mine[:, None]).any(axis=1)
    return again & (mine >= 0)


def _sentence(search: Search, reach: Reach, symbols: IntArray) -> Sentence:
    """Return the sentence of some symbols."""
    sentence = search.start
    for position, (place, candidates) in reach.tokens.items():
        if symbols[place] != reach.own[place]:
            word = search.words(position).words[int(np.argmax(candidates == symbols[place]))]
            sentence = sentence.replace(position, word)
    return sentence
