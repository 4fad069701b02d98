"""The metrics of masked models: which masked inputs a score is read off, and with what weights.

Every metric (Salazar et al. 2020; Kauf & Ivanova 2023; Golan et al. 2023, section 4.3) is a
weighted sum of terms log p(token t | all tokens that a row leaves visible). A `MaskingPlan` lists
the distinct rows, the terms read off each and their weights. It depends only on how many scored
tokens each word has (the *layout*), never on the words, so plans are kept and shared by all
sentences of one layout.

Golan et al. (2023), section 4.3, average over word orders. The chance that a random order of W
words has revealed exactly the set R when it comes to word i is |R|! (W - 1 - |R|)! / W!, so

    mean over orders = sum_i sum_R |R|! (W - 1 - |R|)! / W! log P(w_i | R revealed),

exactly, from 2^W - 1 rows; the mean over the orders of a word's k tokens is the same formula
inside the word. (The paper samples 100 orders of eight words.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.plugins import Registry

if TYPE_CHECKING:
    from contstim.models.hf.options import MaskedOptions

#: Most rows of an exact plan; words of very many tokens are sampled beyond it.
MAX_EXACT_ROWS = 65_536
# Most tokens of a word all of whose token orders enter a sampled plan.
_EXACT_PIECES = 5


@dataclass(frozen=True, eq=False)
class MaskingPlan:
    """Rows to compute and terms to read off them, for sentences of T scored tokens.

    Attributes
    ----------
    masks
        Which scored tokens each row hides, shape (R, T).
    row, slot
        The row and the scored token of each term, shape (M,); rows ascend.
    weight
        Each term's weight in the score, shape (M,).
    pair, term, share
        For an estimate: term ``term[e]`` enters the sum of the pair of orders ``pair[e]`` with
        weight ``share[e]``, shape (E,). Empty where the plan is exact.
    n_pairs
        Number of independent pairs of orders, 0 where exact.
    """

    masks: BoolArray
    row: IntArray
    slot: IntArray
    weight: FloatArray
    pair: IntArray
    term: IntArray
    share: FloatArray
    n_pairs: int = 0

    def by_slot(self, values: FloatArray) -> FloatArray:
        """Add up the terms' `values` (M,) for each scored token: shape (T,), nats."""
        sums = np.bincount(self.slot, self.weight * values, minlength=self.masks.shape[1])
        return sums.astype(np.float64)

    def stderr(self, values: FloatArray) -> float:
        """Return the standard error of the score, from the spread over pairs of orders."""
        if not self.n_pairs:
            return 0.0
        sums = np.bincount(self.pair, self.share * values[self.term], minlength=self.n_pairs)
        return float(sums.std(ddof=1) / np.sqrt(self.n_pairs))


_NO_INTS = np.zeros(0, dtype=np.int64)


def exact_plan(
    masks: BoolArray, row: Sequence[int] | IntArray, slot: Sequence[int] | IntArray, weight: object
) -> MaskingPlan:
    """Return a plan without estimation: ``masks[row[m]]`` shows what term m is read off at."""
    rows = np.asarray(row, dtype=np.int64)
    weights = np.broadcast_to(np.asarray(weight, dtype=np.float64), rows.shape)
    slots = np.asarray(slot, dtype=np.int64)
    return MaskingPlan(masks, rows, slots, weights, _NO_INTS, _NO_INTS, np.zeros(0))


def shapley_weights(n: int) -> FloatArray:
    """Return r! (n - 1 - r)! / n! for r = 0 .. n - 1: shape (n,).

    The chance that a random order of n items has revealed one given set of r others when it
    comes to one given item.
    """
    return np.array([1.0 / (n * comb(n - 1, r)) for r in range(n)])


def _proper_subsets(tokens: IntArray) -> list[list[int]]:
    """List the non-empty proper subsets of a word's token positions."""
    return [list(s) for size in range(1, len(tokens)) for s in combinations(tokens.tolist(), size)]


def permutation(
    layout: tuple[int, ...], word_indices: IntArray, options: MaskedOptions
) -> MaskingPlan:
    """Lay out the mean over word orders, exactly or, for long sentences, over sampled orders."""
    n_words = len(layout)
    if n_words <= options.exact:
        partial = sum(2**k - 2 for k in layout) * 2 ** (n_words - 1)
        if 2**n_words - 1 + partial <= MAX_EXACT_ROWS:
            return _permutation(layout, word_indices)
    return _sampled(layout, word_indices, options)


def _permutation(layout: tuple[int, ...], word_indices: IntArray) -> MaskingPlan:
    """Lay out every non-empty set of hidden words once, and words partly shown within each."""
    n_words = len(layout)
    hidden = (np.arange(1, 2**n_words)[:, None] >> np.arange(n_words)) & 1 == 1
    n_revealed = n_words - hidden.sum(axis=1)
    outer = shapley_weights(n_words)[n_revealed]
    sizes = np.asarray(layout)[word_indices]
    blocks = [hidden[:, word_indices]]
    rows, slots = np.nonzero(blocks[0])
    row_parts, slot_parts, weight_parts = [rows], [slots], [outer[rows] / sizes[slots]]
    n_rows = len(hidden)
    for word in range(n_words):
        tokens = np.flatnonzero(word_indices == word)
        inner = shapley_weights(len(tokens))
        hides = np.flatnonzero(hidden[:, word])
        for shown in _proper_subsets(tokens):
            block = blocks[0][hides].copy()
            block[:, shown] = False
            left = np.setdiff1d(tokens, shown)
            blocks.append(block)
            row_parts.append(np.repeat(np.arange(n_rows, n_rows + len(hides)), len(left)))
            slot_parts.append(np.tile(left, len(hides)))
            weight_parts.append(np.repeat(outer[hides] * inner[len(shown)], len(left)))
            n_rows += len(hides)
    return exact_plan(
        np.concatenate(blocks),
        np.concatenate(row_parts),
        np.concatenate(slot_parts),
        np.concatenate(weight_parts),
    )


def _sampled(
    layout: tuple[int, ...], word_indices: IntArray, options: MaskedOptions
) -> MaskingPlan:
    """Lay out sampled word orders, each with its reverse; equal rows are laid out once.

    The seed and the number of words fix the orders, so sentences of one length are scored over
    the same orders. All token orders of a word enter exactly, or, for a word of more than
    `_EXACT_PIECES` tokens, one random order for each word order.
    """
    n_words, n_pairs = len(layout), options.orders // 2
    rng = np.random.default_rng([options.seed, n_words])
    tokens = [np.flatnonzero(word_indices == word).tolist() for word in range(n_words)]
    rows: dict[frozenset[int], int] = {}
    terms: dict[tuple[int, int], int] = {}
    pair_of: list[int] = []
    term_of: list[int] = []
    shares: list[float] = []

    def add(pair: int, hidden: frozenset[int], slot: int, share: float) -> None:
        row = rows.setdefault(hidden, len(rows))
        pair_of.append(pair)
        term_of.append(terms.setdefault((row, slot), len(terms)))
        # Half, for a pair is the mean of its two orders.
        shares.append(share / 2)

    for pair in range(n_pairs):
        order = rng.permutation(n_words)
        inner = [rng.permutation(k) if k > _EXACT_PIECES else None for k in layout]
        for backwards in (False, True):
            hidden = frozenset(range(len(word_indices)))
            for word in order[::-1] if backwards else order:
                within = inner[word]
                if within is not None and backwards:
                    within = within[::-1]
                for shown, slots, weight in _within_word(tokens[word], within):
                    rest = hidden.difference(shown)
                    for slot in slots:
                        add(pair, rest, slot, weight)
                hidden = hidden.difference(tokens[word])
    masks = np.zeros((len(rows), len(word_indices)), dtype=np.bool_)
    for hidden, row in rows.items():
        masks[row, list(hidden)] = True
    row_of, slot_of, place = _by_row(terms)
    term, share = place[np.array(term_of)], np.array(shares)
    return MaskingPlan(
        masks,
        row_of,
        slot_of,
        np.bincount(term, share, minlength=len(row_of)) / n_pairs,
        np.array(pair_of, dtype=np.int64),
        term,
        share,
        n_pairs,
    )


def _within_word(
    tokens: list[int], order: IntArray | None
) -> Iterator[tuple[Sequence[int], Collection[int], float]]:
    """Yield which of a word's tokens are shown, which are then read off, and with what weight.

    In one `order` of the tokens, or in all of them.
    """
    if order is None:
        weights = shapley_weights(len(tokens))
        for shown in [[], *_proper_subsets(np.asarray(tokens))]:
            yield shown, set(tokens).difference(shown), float(weights[len(shown)])
    else:
        for n, j in enumerate(order):
            yield [tokens[k] for k in order[:n]], [tokens[j]], 1.0


def _by_row(terms: Iterable[tuple[int, int]]) -> tuple[IntArray, IntArray, IntArray]:
    """Return the rows, ascending, and slots of terms, and the place there of each given term."""
    keys = np.array(list(terms), dtype=np.int64)
    ascending = np.argsort(keys[:, 0], kind="stable")
    return keys[ascending, 0], keys[ascending, 1], np.argsort(ascending)


def apply_masks(ids: IntArray, scored: IntArray, masks: BoolArray, mask_id: int) -> IntArray:
    """Return `ids` (L,) once for each row of `masks` (R, T), with its scored tokens hidden."""
    rows = np.tile(ids, (len(masks), 1))
    rows[:, scored] = np.where(masks, mask_id, rows[:, scored])
    return rows


#: From the number of scored tokens of each word, (W,), the word of each token, (T,), and the
#: options of the model to the plan.
Metric = Callable[[tuple[int, ...], IntArray, "MaskedOptions"], MaskingPlan]


def _a_row_a_token(masks: BoolArray) -> MaskingPlan:
    """Read each token off the row of its own, of `masks` (T, T)."""
    tokens = np.arange(len(masks))
    return exact_plan(masks, tokens, tokens, 1.0)


def _pll(layout: tuple[int, ...], word_indices: IntArray, options: MaskedOptions) -> MaskingPlan:
    """Hide each token alone (Salazar et al. 2020)."""
    return _a_row_a_token(np.eye(len(word_indices), dtype=np.bool_))


def _word_l2r(
    layout: tuple[int, ...], word_indices: IntArray, options: MaskedOptions
) -> MaskingPlan:
    """Hide each token and the later ones of its word (Kauf & Ivanova 2023)."""
    return _a_row_a_token(np.triu(word_indices[:, None] == word_indices[None, :]))


def _whole_word(
    layout: tuple[int, ...], word_indices: IntArray, options: MaskedOptions
) -> MaskingPlan:
    """Hide all tokens of a word (Kauf & Ivanova 2023)."""
    words = np.arange(len(layout))
    return exact_plan(
        word_indices[None, :] == words[:, None], word_indices, np.arange(len(word_indices)), 1.0
    )


def _sentence_l2r(
    layout: tuple[int, ...], word_indices: IntArray, options: MaskedOptions
) -> MaskingPlan:
    """Hide each token and all later ones (Kauf & Ivanova 2023)."""
    return _a_row_a_token(np.triu(np.ones((len(word_indices), len(word_indices)), dtype=np.bool_)))


#: Metrics by name.
METRICS = Registry[Metric](
    "metric",
    "contstim.metrics",
    {
        "pll": _pll,
        "pll-word-l2r": _word_l2r,
        "pll-whole-word": _whole_word,
        "pll-sentence-l2r": _sentence_l2r,
        "permutation": permutation,
    },
)


@lru_cache(maxsize=128)
def masking_plan(layout: tuple[int, ...], options: MaskedOptions) -> MaskingPlan:
    """Return the plan of ``options.metric`` for words of ``layout[i]`` scored tokens each."""
    word_indices = np.repeat(np.arange(len(layout)), layout)
    return METRICS[options.metric](layout, word_indices, options)
