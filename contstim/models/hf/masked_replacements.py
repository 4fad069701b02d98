"""Scores of candidates for one position under a masked model, sharing what they share.

A term of a metric is log p(token | visible tokens). With word i open for candidates, terms fall
into three kinds:

- *common*: word i is hidden and the token is another word's; one value for all candidates;
- *own*: word i is hidden whole and the token is its own; one input gives every candidate's value;
- *seeing*: some token of word i is visible; computed for each candidate whose score is asked for.

Inputs depend on how many tokens the candidate has, so the first two are computed once for each
number of tokens, when a candidate of that many tokens is first scored. Bounds and estimates come
from fewer inputs: from all that hide whole words where the candidate has one token, else from two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from contstim.models.base import BoolArray, FloatArray, IntArray, Replacements
from contstim.models.hf.encoding import Encoded
from contstim.models.hf.limits import check_length
from contstim.models.hf.plans import Plan, plan_for
from contstim.text import Sentence, WordList

if TYPE_CHECKING:
    from contstim.models.hf.masked import MaskedModel

__all__ = ["masked_replacements"]


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


# Guess of a token's log-probability next to other tokens of its word, as a part of what it is with
# the whole word hidden. Estimates use it, scores do not.
_BESIDE = 0.5


@dataclass(frozen=True, eq=False)
class _Sketch:
    """What a few inputs with the word hidden say of candidates of n tokens, n the gaps.

    `common` and `own` (n, V) are the parts of the score, by their weights, that these inputs
    give; `alone` (n, V) each token's log-probability, the mean over the inputs.
    """

    common: float
    own: FloatArray
    alone: FloatArray


@dataclass(frozen=True, eq=False)
class _Shared:
    """What all candidates of `n` tokens share.

    `common` is the sum of common terms; `own` (n, V) the weighted log-probabilities of every
    token in every gap; `rows` and the fields after it are the seeing terms, rows renumbered.
    """

    scored: IntArray
    common: float
    own: FloatArray
    masks: BoolArray
    row: IntArray
    slot: IntArray
    weight: FloatArray


def _split(plan: Plan, own: IntArray) -> tuple[IntArray, IntArray]:
    """Return the terms from inputs that hide all `own` slots, and the others."""
    blind: BoolArray = np.all(plan.masks[:, own], axis=1)[plan.row]
    return np.flatnonzero(blind), np.flatnonzero(~blind)


def _subset(plan: Plan, terms: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows that `terms` use, and each term's place among them."""
    used, row = np.unique(plan.row[terms], return_inverse=True)
    return used, row.astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Gap:
    """The open word as a gap of n tokens: its slots, the plan, and inputs that hide it."""

    frame: _Frame
    plan: Plan
    slots: IntArray
    scored: IntArray
    ids: IntArray

    @classmethod
    def of(cls, model: MaskedModel, frame: _Frame, n: int, sentence: str) -> _Gap:
        layout = (*frame.layout[: frame.position], n, *frame.layout[frame.position + 1 :])
        start = sum(layout[: frame.position])
        ids = frame.fill(np.full(n, model.mask_id))
        check_length(sentence, len(ids), model.checkpoint.max_tokens, model.spec)
        plan = plan_for(layout, model.options)
        return cls(frame, plan, np.arange(start, start + n), frame.scored(n), ids)

    def is_own(self, terms: IntArray) -> BoolArray:
        """Say of which terms the token is one of the gap's."""
        slot = self.plan.slot[terms]
        return np.asarray((slot >= self.slots[0]) & (slot <= self.slots[-1]))


def _share(model: MaskedModel, gap: _Gap) -> _Shared:
    plan = gap.plan
    shared, seeing = _split(plan, gap.slots)
    common, own, _ = _shared_terms(model, gap, shared)
    used, row = _subset(plan, seeing)
    return _Shared(
        gap.scored, common, own, plan.masks[used], row, plan.slot[seeing], plan.weight[seeing]
    )


def _sketch(model: MaskedModel, gap: _Gap) -> _Sketch:
    """Compute terms of the rows that hide the gap: all with one token, else the two extremes."""
    blind, _ = _split(gap.plan, gap.slots)
    rows = np.unique(gap.plan.row[blind[gap.is_own(blind)]])
    if len(gap.slots) > 1 and len(rows) > 2:
        n_hidden = gap.plan.masks[rows].sum(axis=1)
        rows = rows[[int(n_hidden.argmin()), int(n_hidden.argmax())]]
    return _Sketch(*_shared_terms(model, gap, blind[np.isin(gap.plan.row[blind], rows)]))


def _completion(model: MaskedModel, gap: _Gap) -> FloatArray:
    """Return log p(token | all other words) of every token in every gap, (n, V)."""
    distributions = np.empty((len(gap.slots), model.network.n_logits))
    places = gap.scored[gap.slots]
    rows = np.zeros(len(places), dtype=np.int64)
    for read, logits in model.network.batches(gap.ids[None], rows, places, model.budget):
        distributions[read] = model.normaliser.distribution(logits).to(torch.float64).cpu().numpy()
    return distributions


def _shared_terms(
    model: MaskedModel, gap: _Gap, terms: IntArray
) -> tuple[float, FloatArray, FloatArray]:
    """Compute common and own terms in one pass over inputs that hide the open word.

    Returns
    -------
    tuple
        The weighted sum of common terms; of own terms for every token, (n, V); and the plain
        mean of own terms (n, V).
    """
    from contstim.models.hf.masked import masked_rows

    network, plan, slots = model.network, gap.plan, gap.slots
    own = torch.zeros(len(slots), network.n_logits, dtype=torch.float64, device=network.device)
    total = torch.zeros_like(own)
    count = np.zeros(len(slots))
    common = 0.0
    if len(terms) == 0:
        return common, own.cpu().numpy(), total.cpu().numpy()
    used, row = _subset(plan, terms)
    rows = masked_rows(gap.ids, gap.scored, plan.masks[used], model.mask_id)
    slot, weight = plan.slot[terms], plan.weight[terms]
    positions = gap.scored[slot]
    for read, logits in network.batches(rows, row, positions, model.budget):
        here = slot[read]
        share = torch.from_numpy(weight[read]).to(network.device)
        other = np.flatnonzero((here < slots[0]) | (here > slots[-1]))
        if len(other):
            at = torch.from_numpy(other).to(network.device)
            wanted = torch.from_numpy(gap.ids[positions[read][other]]).to(network.device)
            values = model.normaliser.log_probs(logits[at], wanted).to(torch.float64)
            common += float((share[at] * values).sum())
        for j, one in enumerate(slots):
            mine = np.flatnonzero(here == one)
            if len(mine):
                at = torch.from_numpy(mine).to(network.device)
                table = model.normaliser.distribution(logits[at]).to(torch.float64)
                own[j] += share[at] @ table
                total[j] += table.sum(dim=0)
                count[j] += len(mine)
    alone = total.cpu().numpy() / np.maximum(count, 1.0)[:, None]
    return common, own.cpu().numpy(), alone


@dataclass(eq=False)
class _Scorer:
    """Exact scores of chosen candidates."""

    model: MaskedModel
    frame: _Frame
    sentence: Sentence
    words: WordList
    tokens: list[tuple[int, ...]]
    gaps: dict[int, _Gap]
    shared: dict[int, _Shared] = field(default_factory=dict)

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
                scores[places] = self._scores(n, [encoded[p] for p in places])
        return scores

    def _scores(self, n: int, encoded: list[Encoded]) -> FloatArray:
        """Sum all terms, computing those that see the candidate, for candidates of `n` tokens."""
        from contstim.models.hf.masked import masked_rows

        if n not in self.shared:
            self.shared[n] = _share(self.model, self.gaps[n])
        shared, model = self.shared[n], self.model
        start = len(self.frame.left)
        ids = np.array([e.ids[start : start + n] for e in encoded])
        sums = shared.common + np.asarray(shared.own[np.arange(n), ids].sum(axis=1))
        if len(shared.row) == 0:
            return sums
        n_rows = len(shared.masks)
        budget = model.budget or model.network.token_budget
        step = max(1, 4 * budget // (n_rows * len(encoded[0].ids)))
        positions = shared.scored[shared.slot]
        for start in range(0, len(encoded), step):
            block = encoded[start : start + step]
            rows = [masked_rows(e.ids, shared.scored, shared.masks, model.mask_id) for e in block]
            at = [shared.row + k * n_rows for k in range(len(block))]
            values = model.network.log_probs(
                np.concatenate(rows),
                np.concatenate(at),
                np.tile(positions, len(block)),
                np.concatenate([e.ids[positions] for e in block]),
                model.normaliser,
                model.budget,
            )
            sums[start : start + len(block)] += values.reshape(len(block), -1) @ shared.weight
        return sums


def masked_replacements(
    model: MaskedModel, sentence: Sentence, position: int, words: WordList
) -> Replacements:
    """Score `sentence` with the word at `position` replaced by each of `words`."""
    encoded, values = model.base(str(sentence))
    frame = _Frame.of(encoded, position)
    tokens = model.tokenizer.candidate_tokens(sentence, position, words)
    plan = model.plan(encoded)
    slots = np.flatnonzero(encoded.word_of == position)
    of_others = np.flatnonzero((plan.slot < slots[0]) | (plan.slot > slots[-1]))
    others = float(plan.weight[of_others] @ values[of_others])
    price = len(_subset(plan, _split(plan, slots)[1])[0])
    by_length: dict[int, list[int]] = {}
    for i, candidate in enumerate(tokens):
        by_length.setdefault(len(candidate), []).append(i)
    upper, estimate = np.zeros(len(words)), np.zeros(len(words))
    gaps: dict[int, _Gap] = {}
    ids = {n: np.array([tokens[i] for i in members]) for n, members in by_length.items()}
    for n, members in by_length.items():
        example = str(sentence.replace(position, words.words[members[0]]))
        gaps[n] = _Gap.of(model, frame, n, example)
        sketch = _sketch(model, gaps[n])
        each = np.arange(n), ids[n]
        upper[members] = sketch.common + sketch.own[each].sum(axis=1)
        estimate[members] = others + _own_estimate(model, gaps[n], sketch)[each].sum(axis=1)
    scorer = _Scorer(model, frame, sentence, words, tokens, gaps)

    def completion() -> FloatArray:
        values = np.empty(len(words))
        for n, members in by_length.items():
            values[members] = _completion(model, gaps[n])[np.arange(n), ids[n]].sum(axis=1)
        return values

    return Replacements(
        upper, estimate, exact=False, score=scorer, price=float(price), completion=completion
    )


def _own_estimate(model: MaskedModel, gap: _Gap, sketch: _Sketch) -> FloatArray:
    """Guess the own terms of every token in every gap, (n, V): exact with one token."""
    blind, seeing = _split(gap.plan, gap.slots)
    blind, seeing = blind[gap.is_own(blind)], seeing[gap.is_own(seeing)]
    if not len(seeing):
        return sketch.own
    n_slots = gap.plan.masks.shape[1]
    hidden = np.bincount(gap.plan.slot[blind], gap.plan.weight[blind], n_slots)[gap.slots]
    beside = np.bincount(gap.plan.slot[seeing], gap.plan.weight[seeing], n_slots)[gap.slots]
    alone = sketch.alone if len(blind) else _completion(model, gap)
    return np.asarray((hidden + _BESIDE * beside)[:, None] * alone)
