"""Scores of candidates for one position under a masked model, sharing what they share.

A term of a metric is log p(token | visible tokens). With word i open for candidates, terms fall
into three kinds:

- *common*: word i is hidden and the token is another word's; one value for all candidates;
- *own*: word i is hidden whole and the token is its own; one input gives every candidate's value;
- *seeing*: some token of word i is visible; computed for each candidate whose score is asked for.

Inputs depend on how many tokens the candidate has, so the first two are computed once for each
number of tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
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


def _share(model: MaskedModel, frame: _Frame, n: int, sentence: str) -> _Shared:
    layout = (*frame.layout[: frame.position], n, *frame.layout[frame.position + 1 :])
    plan = plan_for(layout, model.options)
    start = sum(layout[: frame.position])
    slots = np.arange(start, start + n)
    shared, seeing = _split(plan, slots)
    scored = frame.scored(n)
    ids = frame.fill(np.full(n, model.mask_id))
    check_length(sentence, len(ids), model.checkpoint.max_tokens, model.spec)
    common, own = _shared_terms(model, plan, shared, ids, scored, slots)
    used, row = _subset(plan, seeing)
    return _Shared(
        scored, common, own, plan.masks[used], row, plan.slot[seeing], plan.weight[seeing]
    )


def _shared_terms(
    model: MaskedModel,
    plan: Plan,
    terms: IntArray,
    ids: IntArray,
    scored: IntArray,
    slots: IntArray,
) -> tuple[float, FloatArray]:
    """Compute common and own terms in one pass over the inputs that hide the open word."""
    from contstim.models.hf.masked import masked_rows

    network = model.network
    own = torch.zeros(len(slots), network.n_logits, dtype=torch.float64, device=network.device)
    common = 0.0
    if len(terms) == 0:
        return common, own.cpu().numpy()
    used, row = _subset(plan, terms)
    rows = masked_rows(ids, scored, plan.masks[used], model.mask_id)
    slot, weight = plan.slot[terms], plan.weight[terms]
    positions = scored[slot]
    for read, logits in network.batches(rows, row, positions, model.budget):
        here = slot[read]
        share = torch.from_numpy(weight[read]).to(network.device)
        other = np.flatnonzero((here < slots[0]) | (here > slots[-1]))
        if len(other):
            at = torch.from_numpy(other).to(network.device)
            wanted = torch.from_numpy(ids[positions[read][other]]).to(network.device)
            values = model.normaliser.log_probs(logits[at], wanted).to(torch.float64)
            common += float((share[at] * values).sum())
        for j, one in enumerate(slots):
            mine = np.flatnonzero(here == one)
            if len(mine):
                at = torch.from_numpy(mine).to(network.device)
                table = model.normaliser.distribution(logits[at]).to(torch.float64)
                own[j] += share[at] @ table
    return common, own.cpu().numpy()


@dataclass(eq=False)
class _Scorer:
    """Exact scores of chosen candidates."""

    model: MaskedModel
    frame: _Frame
    sentence: Sentence
    words: WordList
    tokens: list[tuple[int, ...]]
    upper: FloatArray
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
                scores[places] = self._seeing(n, [encoded[p] for p in places])
                scores[places] += self.upper[index[places]]
        return scores

    def _seeing(self, n: int, encoded: list[Encoded]) -> FloatArray:
        """Sum the terms that see the candidate, for candidates of `n` tokens."""
        from contstim.models.hf.masked import masked_rows

        shared, model = self.shared[n], self.model
        sums = np.zeros(len(encoded), dtype=np.float64)
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
            sums[start : start + len(block)] = values.reshape(len(block), -1) @ shared.weight
        return sums


def masked_replacements(
    model: MaskedModel, sentence: Sentence, position: int, words: WordList
) -> Replacements:
    """Score `sentence` with the word at `position` replaced by each of `words`."""
    encoded, values = model.base(str(sentence))
    frame = _Frame.of(encoded, position)
    tokens = model.tokenizer.candidates(sentence, position, words).tokens
    plan = model.plan(encoded)
    slots = np.flatnonzero(encoded.word_of == position)
    _, seeing = _split(plan, slots)
    others = seeing[(plan.slot[seeing] < slots[0]) | (plan.slot[seeing] > slots[-1])]
    seen = float(plan.weight[others] @ values[others])
    upper = np.zeros(len(words), dtype=np.float64)
    scorer = _Scorer(model, frame, sentence, words, tokens, upper)
    by_length: dict[int, list[int]] = {}
    for i, candidate in enumerate(tokens):
        by_length.setdefault(len(candidate), []).append(i)
    for n, members in by_length.items():
        example = str(sentence.replace(position, words.words[members[0]]))
        shared = _share(model, frame, n, example)
        scorer.shared[n] = shared
        ids = np.array([tokens[i] for i in members], dtype=np.int64)
        upper[members] = shared.common + shared.own[np.arange(n), ids].sum(axis=1)
    return Replacements(upper.copy(), upper + seen, exact=False, score=partial(scorer))
