"""Scores of candidates for one position under a masked model, sharing what they share.

A term of a metric is log p(token | visible tokens). With word i open for candidates, terms fall
into three kinds:

- *common*: word i is hidden and the token is another word's; one value for all candidates;
- *own*: word i is hidden whole and the token is its own; one input gives every candidate's value;
- *seeing*: some token of word i is visible; computed for each candidate whose score is asked for.

Inputs depend on how many tokens the candidate has, so the first two are computed once for each
number of tokens. Where that is dearer than the stated price, the bounds leave out the terms of the
least weight, which is to take them as 0, their largest value; exact scores compute them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
import torch

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.models.base import Hints, Replacements
from contstim.models.hf.encoding import Encoded
from contstim.models.hf.limits import check_length
from contstim.models.hf.metrics import plan_for
from contstim.models.hf.options import MaskedOptions
from contstim.models.hf.plans import Plan, masked_rows
from contstim.text.sentence import Sentence, WordList

if TYPE_CHECKING:
    from contstim.models.hf.masked import MaskedModel

__all__ = ["MASKED_COST", "masked_replacements"]

#: The bounds of all candidates cost at most as much as this many inputs of the present sentence.
#: With twice as many, bounds are two or three nats lower and estimates no better.
MASKED_COST = 70


# Guess of a token's log-probability beside visible tokens of its own word, as a part of what it is
# with the whole word hidden. Estimates use it, scores do not.
_BESIDE = 0.7


@dataclass(frozen=True, eq=False)
class _Frame:
    """The sentence around the open word: what stands left and right of it, and its words."""

    left: IntArray
    right: IntArray
    scored_left: IntArray
    scored_right: IntArray
    layout: tuple[int, ...]
    position: int

    @classmethod
    def of(cls, encoded: Encoded, position: int) -> _Frame:
        own = encoded.scored[encoded.word_of == position]
        after = encoded.scored[encoded.word_of > position] - own[-1] - 1
        return cls(
            encoded.ids[: own[0]],
            encoded.ids[own[-1] + 1 :],
            encoded.scored[encoded.word_of < position],
            after,
            encoded.layout,
            position,
        )

    def fill(self, tokens: IntArray) -> IntArray:
        """Return the ids of the sentence with `tokens` in the gap."""
        return np.concatenate([self.left, tokens, self.right])

    def scored(self, n: int) -> IntArray:
        """Return the places of the scored tokens when the gap holds `n` tokens."""
        start = len(self.left)
        return np.concatenate(
            [self.scored_left, np.arange(start, start + n), self.scored_right + start + n]
        )


@dataclass(eq=False)
class _Gap:
    """The sentence with a gap of `n` tokens, and what all candidates of `n` tokens share.

    Attributes
    ----------
    frame, n
        The sentence and the number of tokens.
    plan
        The plan of the sentence with such a word.
    blind, seeing
        Its terms from inputs that hide the gap whole, and the others.
    slots
        The gap's scored tokens, shape (n,).
    common
        Sum of the common terms computed so far.
    own
        Weighted log-probabilities of every token in every gap, as far as computed, (n, V).
    done
        Which rows of the plan have been computed, shape (R,).
    """

    model: MaskedModel
    frame: _Frame
    n: int
    plan: Plan
    blind: IntArray
    seeing: IntArray
    slots: IntArray
    common: float
    own: torch.Tensor
    done: BoolArray

    @classmethod
    def of(cls, model: MaskedModel, frame: _Frame, n: int, sentence: str) -> _Gap:
        """Lay out a gap of `n` tokens; `sentence` is one with such a word, for messages."""
        layout = (*frame.layout[: frame.position], n, *frame.layout[frame.position + 1 :])
        plan, slots, blind, seeing = _laid_out(layout, frame.position, model.options)
        check_length(sentence, len(frame.fill(slots)), model.checkpoint.max_tokens, model.spec)
        network = model.network
        own = torch.zeros(n, network.n_logits, dtype=torch.float64, device=network.device)
        done = np.zeros(len(plan.masks), dtype=np.bool_)
        return cls(model, frame, n, plan, blind, seeing, slots, 0.0, own, done)

    @property
    def cost(self) -> int:
        """How many inputs see the candidate; under permutation more than twice as many a token."""
        rows = self.plan.row[self.seeing]
        # Terms are in the order of their rows.
        return int(np.count_nonzero(np.diff(rows))) + 1

    @property
    def length(self) -> int:
        """Number of tokens of an input."""
        return len(self.frame.left) + self.n + len(self.frame.right)

    def worth(self) -> tuple[IntArray, FloatArray]:
        """Return the rows that hide the gap, and the weight of all terms read off each."""
        rows = np.unique(self.plan.row[self.blind])
        weights = np.bincount(
            self.plan.row[self.blind], self.plan.weight[self.blind], minlength=len(self.done)
        )
        return rows, weights[rows].astype(np.float64)

    def compute(self, rows: IntArray) -> None:
        """Compute the common and own terms of those of `rows` that are not done."""
        wanted = np.zeros(len(self.done), dtype=np.bool_)
        wanted[rows] = True
        wanted &= ~self.done
        terms = self.blind[wanted[self.plan.row[self.blind]]]
        if len(terms) == 0:
            return
        self.done |= wanted
        network, model = self.model.network, self.model
        ids, scored = self.frame.fill(np.full(self.n, model.mask_id)), self.frame.scored(self.n)
        used, row = _subset(self.plan, terms)
        inputs = masked_rows(ids, scored, self.plan.masks[used], model.mask_id)
        slot, weight = self.plan.slot[terms], self.plan.weight[terms]
        positions = scored[slot]
        for read, logits in network.batches(inputs, row, positions, model.budget):
            here = slot[read]
            share = torch.from_numpy(weight[read]).to(network.device)
            other = np.flatnonzero((here < self.slots[0]) | (here > self.slots[-1]))
            if len(other):
                at = torch.from_numpy(other).to(network.device)
                targets = torch.from_numpy(ids[positions[read][other]]).to(network.device)
                values = model.normaliser.log_probs(logits[at], targets).to(torch.float64)
                self.common += float((share[at] * values).sum())
            for j, one in enumerate(self.slots):
                mine = np.flatnonzero(here == one)
                if len(mine):
                    at = torch.from_numpy(mine).to(network.device)
                    self.own[j] += model.normaliser.mean(logits[at], share[at])

    def complete(self) -> None:
        """Compute all common and own terms."""
        self.compute(np.unique(self.plan.row[self.blind]))

    def own_terms(self, tokens: IntArray) -> FloatArray:
        """Return the own terms, as far as computed, of candidates (k, n): shape (k,), nats."""
        table = self.own.cpu().numpy()
        return np.asarray(table[np.arange(self.n), tokens].sum(axis=1))

    def own_scale(self) -> float | None:
        """Return by what factor the own terms not yet computed would lengthen the others.

        That includes terms that see other tokens of the word, by a guess. None where no own term
        is computed, as where every input shows some token of the word.
        """
        plan = self.plan
        mine = self.blind[np.isin(plan.slot[self.blind], self.slots)]
        known = float(plan.weight[mine][self.done[plan.row[mine]]].sum())
        if known == 0.0:
            return None
        beside = self.seeing[np.isin(plan.slot[self.seeing], self.slots)]
        return float(plan.weight[mine].sum() + _BESIDE * plan.weight[beside].sum()) / known

    def completion(self, tokens: IntArray) -> FloatArray:
        """Return the sum over tokens of log p(token | all other words) of candidates (k, n)."""
        model = self.model
        ids = self.frame.fill(np.full(self.n, model.mask_id))
        table = np.empty((self.n, model.network.n_logits))
        places, rows = self.frame.scored(self.n)[self.slots], np.zeros(self.n, dtype=np.int64)
        for read, logits in model.network.batches(ids[None], rows, places, model.budget):
            one = torch.ones(1, device=logits.device)
            for k, row in zip(range(read.start, read.stop), logits, strict=True):
                table[k] = model.normaliser.mean(row[None], one).cpu().numpy()
        return np.asarray(table[np.arange(self.n), tokens].sum(axis=1))

    def others(self, terms: IntArray) -> list[tuple[bytes, int]]:
        """Name terms of other words by what they see of these words, and by their place there."""
        away = np.delete(np.arange(self.plan.masks.shape[1]), self.slots)
        rows = np.unique(self.plan.row[terms])
        masks = np.packbits(self.plan.masks[np.ix_(rows, away)], axis=1)
        seen = {row: mask.tobytes() for row, mask in zip(rows.tolist(), masks, strict=True)}
        place = np.where(self.plan.slot > self.slots[-1], self.plan.slot - self.n, self.plan.slot)
        pairs = zip(self.plan.row[terms].tolist(), place[terms].tolist(), strict=True)
        return [(seen[row], at) for row, at in pairs]

    def missing(self) -> IntArray:
        """Return the common terms that are not computed yet."""
        away = ~np.isin(self.plan.slot[self.blind], self.slots)
        return self.blind[away & ~self.done[self.plan.row[self.blind]]]


@lru_cache(maxsize=128)
def _laid_out(
    layout: tuple[int, ...], position: int, options: MaskedOptions
) -> tuple[Plan, IntArray, IntArray, IntArray]:
    """Return the plan of a layout, the slots of the word at `position`, and its terms.

    Those from inputs that hide all of these slots, and the others.
    """
    plan = plan_for(layout, options)
    start = sum(layout[:position])
    own = np.arange(start, start + layout[position])
    blind: BoolArray = np.all(plan.masks[:, own], axis=1)[plan.row]
    return plan, own, np.flatnonzero(blind), np.flatnonzero(~blind)


def _subset(plan: Plan, terms: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows that `terms` use, and each term's place among them."""
    used, row = np.unique(plan.row[terms], return_inverse=True)
    return used, row.astype(np.int64)


def _compute_within_price(gaps: dict[int, _Gap], n_words: dict[int, int], n: int) -> None:
    """Compute the inputs that lower the bounds of most candidates most, at their stated price.

    An input is worth the weight of the terms read off it, for each candidate of its number of
    tokens, of whom there are `n_words`. For every number of tokens at least one input is computed.
    `n` is that of the present word, whose sentence is the unit of the price.
    """
    rows, worth, price, of = [], [], [], []
    for k, gap in gaps.items():
        own, weights = gap.worth()
        value = weights * n_words[k] / gap.length
        if len(value):
            value[np.argmax(value)] = np.inf
        rows.append(own)
        worth.append(value)
        price.append(np.full(len(own), float(gap.length)))
        of.append(np.full(len(own), k))
    order = np.argsort(-np.concatenate(worth), kind="stable")
    some = next(iter(gaps.values()))
    budget = MASKED_COST * (some.length - some.n + n)
    total = np.cumsum(np.concatenate(price)[order])
    first = int(np.isinf(np.concatenate(worth)).sum())
    chosen = order[: max(first, int(np.searchsorted(total, budget, side="right")))]
    numbers, lengths = np.concatenate(rows)[chosen], np.concatenate(of)[chosen]
    for k, gap in gaps.items():
        gap.compute(numbers[lengths == k])


@dataclass(eq=False)
class _Scorer:
    """Exact scores of chosen candidates."""

    model: MaskedModel
    frame: _Frame
    sentence: Sentence
    words: WordList
    tokens: list[tuple[int, ...]]
    gaps: dict[int, _Gap]

    def __call__(self, index: IntArray) -> FloatArray:
        """Return the scores of candidates `index`, shape (k,), nats."""
        index = np.asarray(index, dtype=np.int64)
        texts = [
            str(self.sentence.replace(self.frame.position, self.words.words[i])) for i in index
        ]
        encoded = self.model.encode(texts) if texts else []
        scores = np.empty(len(index), dtype=np.float64)
        groups: dict[int, list[int]] = {}
        for place, i in enumerate(index):
            tokens = np.array(self.tokens[i], dtype=np.int64)
            if np.array_equal(encoded[place].ids, self.frame.fill(tokens)):
                groups.setdefault(len(tokens), []).append(place)
            else:
                # Some tokenizers cut a word differently beside other words.
                groups.setdefault(0, []).append(place)
        for n, places in groups.items():
            if n == 0:
                scores[places] = self.model.score([texts[p] for p in places])
            else:
                gap = self.gaps[n]
                gap.complete()
                own = np.array([self.tokens[i] for i in index[places]], dtype=np.int64)
                scores[places] = self._seeing(gap, [encoded[p] for p in places])
                scores[places] += gap.common + gap.own_terms(own)
        return scores

    def _seeing(self, gap: _Gap, encoded: list[Encoded]) -> FloatArray:
        """Sum the terms that see the candidate, for candidates of one number of tokens."""
        model, plan = self.model, gap.plan
        sums = np.zeros(len(encoded), dtype=np.float64)
        if len(gap.seeing) == 0:
            return sums
        used, row = _subset(plan, gap.seeing)
        masks, weight = plan.masks[used], plan.weight[gap.seeing]
        scored = gap.frame.scored(gap.n)
        n_rows = len(masks)
        budget = model.budget or model.network.token_budget
        step = max(1, 4 * budget // (n_rows * len(encoded[0].ids)))
        positions = scored[plan.slot[gap.seeing]]
        for start in range(0, len(encoded), step):
            block = encoded[start : start + step]
            rows = [masked_rows(e.ids, scored, masks, model.mask_id) for e in block]
            at = [row + k * n_rows for k in range(len(block))]
            values = model.network.log_probs(
                np.concatenate(rows),
                np.concatenate(at),
                np.tile(positions, len(block)),
                np.concatenate([e.ids[positions] for e in block]),
                model.normaliser,
                model.budget,
            )
            sums[start : start + len(block)] = values.reshape(len(block), -1) @ weight
        return sums


def masked_replacements(
    model: MaskedModel, sentence: Sentence, position: int, words: WordList
) -> Replacements:
    """Score `sentence` with the word at `position` replaced by each of `words`."""
    encoded, values = model.base(str(sentence))
    frame = _Frame.of(encoded, position)
    candidates = model.tokenizer.candidates(sentence, position, words)
    by_length = candidates.by_length
    gaps = {
        n: _Gap.of(model, frame, n, str(sentence.replace(position, words.words[members[0]])))
        for n, (members, _) in by_length.items()
    }
    n_own = frame.layout[position]
    _compute_within_price(gaps, {n: len(members) for n, (members, _) in by_length.items()}, n_own)
    # What other words' terms are in the present sentence is what the estimates take them for.
    present = gaps.get(n_own) or _Gap.of(model, frame, n_own, str(sentence))
    away = ~np.isin(present.plan.slot, present.slots)
    seeing = present.seeing[away[present.seeing]]
    seen = float(present.plan.weight[seeing] @ values[seeing])
    common = present.blind[away[present.blind]]
    known = dict(zip(present.others(common), values[common].tolist(), strict=True))
    upper = np.zeros(len(words), dtype=np.float64)
    estimate = np.zeros(len(words), dtype=np.float64)
    cost = np.ones(len(words), dtype=np.float64)
    for n, (members, ids) in by_length.items():
        gap = gaps[n]
        cost[members] = gap.cost
        own = gap.own_terms(ids)
        upper[members] = gap.common + own
        scale = gap.own_scale()
        likely = _BESIDE * gap.completion(ids) if scale is None else own * scale
        missing = gap.missing()
        guesses = [known.get(name, 0.0) for name in gap.others(missing)]
        guessed = float(gap.plan.weight[missing] @ np.array(guesses, dtype=np.float64))
        estimate[members] = gap.common + guessed + likely + seen
    scorer = _Scorer(model, frame, sentence, words, candidates.tokens, gaps)

    def completion() -> FloatArray:
        values = np.empty(len(words), dtype=np.float64)
        for n, (members, ids) in by_length.items():
            values[members] = gaps[n].completion(ids)
        return values

    return Replacements(
        upper,
        estimate,
        exact=False,
        score=partial(scorer),
        hints=Hints(
            cost=cost,
            multiply_adds=float(
                present.length * model.network.weights[0] + model.network.weights[1]
            ),
            completion=completion,
            n_tokens=candidates.n_tokens,
        ),
    )
