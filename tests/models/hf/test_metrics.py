"""Masking plans on tables of random conditional probabilities."""

from __future__ import annotations

import itertools
import zlib
from typing import Any

import numpy as np
import pytest

from contstim.models.hf.metrics import (
    MAX_EXACT_ROWS,
    MaskingPlan,
    create_masking_plan,
    shapley_weights,
)
from contstim.models.hf.options import MaskedOptions


def _options(**changes: Any) -> MaskedOptions:
    values: dict[str, Any] = {
        "metric": "permutation",
        "restricted": False,
        "exact": 10,
        "orders": 100,
        "seed": 0,
    }
    return MaskedOptions(**{**values, **changes})


def _value(hidden: np.ndarray, slot: int) -> float:
    """Return a made-up log p(token at `slot`) that depends on all that is hidden."""
    code = zlib.crc32(np.packbits(hidden).tobytes() + bytes([slot, len(hidden)]))
    return -10 * np.random.default_rng(code).random()


def _values(plan: MaskingPlan) -> np.ndarray:
    return np.array(
        [
            _value(plan.masks[r], s)
            for r, s in zip(plan.copy_indices, plan.token_indices, strict=True)
        ]
    )


def _over_all_orders(word_lengths: tuple[int, ...]) -> np.ndarray:
    """Average each token's value over all word orders and all token orders of each word."""
    starts = np.cumsum([0, *word_lengths])
    words = [range(a, b) for a, b in itertools.pairwise(starts)]
    total = np.zeros(starts[-1])
    orders = list(itertools.permutations(range(len(word_lengths))))
    for order in orders:
        hidden = np.ones(starts[-1], dtype=bool)
        for word in order:
            inner = list(itertools.permutations(words[word]))
            for tokens in inner:
                now = hidden.copy()
                for slot in tokens:
                    total[slot] += _value(now, slot) / len(inner)
                    now[slot] = False
            hidden[list(words[word])] = False
    return total / len(orders)


@pytest.mark.parametrize(
    "word_lengths", [(1,), (1, 1, 1, 1, 1), (2, 1, 3), (4, 1, 2, 1), (1, 2, 1, 1, 2)]
)
def test_exact_plan_equals_the_mean_over_all_orders(word_lengths: tuple[int, ...]) -> None:
    plan = create_masking_plan(word_lengths, _options())
    np.testing.assert_allclose(
        plan.sum_by_token(_values(plan)), _over_all_orders(word_lengths), atol=1e-9
    )
    assert plan.stderr(_values(plan)) == 0


def test_exact_plan_of_eight_words_has_255_rows() -> None:
    plan = create_masking_plan((1,) * 8, _options())
    assert plan.masks.shape == (255, 8)
    assert len({m.tobytes() for m in plan.masks}) == 255
    # Each word's terms over the contexts it is predicted in have weights that sum to 1.
    np.testing.assert_allclose(plan.sum_by_token(np.ones(len(plan.copy_indices))), np.ones(8))


def test_shapley_weights_are_probabilities() -> None:
    # Of three items: seen first 1/3, second after a given one 1/6, last 1/3.
    np.testing.assert_allclose(shapley_weights(3), [1 / 3, 1 / 6, 1 / 3])


def test_estimates_are_unbiased_with_correct_standard_error() -> None:
    word_lengths = (1, 2, 1, 1, 3, 1)
    exact = create_masking_plan(word_lengths, _options())
    truth = exact.sum_by_token(_values(exact)).sum()
    off, errors = [], []
    for seed in range(1000):
        plan = create_masking_plan.__wrapped__(
            word_lengths, _options(exact=1, seed=seed, orders=40)
        )
        values = _values_cached(plan)
        off.append(plan.sum_by_token(values).sum() - truth)
        errors.append(plan.stderr(values))
    deviations = np.abs(off) / errors
    assert (deviations <= 4).mean() >= 0.99
    # The mean of 1,000 estimates lies within 4 of its own standard errors of the truth.
    assert abs(np.mean(off)) <= 4 * np.std(off) / np.sqrt(1000)
    # What is promised as the standard error is the spread of the estimates.
    assert np.mean(errors) == pytest.approx(np.std(off), rel=0.1)


_KNOWN: dict[tuple[bytes, int], float] = {}


def _values_cached(plan: MaskingPlan) -> np.ndarray:
    values = []
    for r, s in zip(plan.copy_indices.tolist(), plan.token_indices.tolist(), strict=True):
        key = (plan.masks[r].tobytes(), s)
        if key not in _KNOWN:
            _KNOWN[key] = _value(plan.masks[r], s)
        values.append(_KNOWN[key])
    return np.array(values)


def test_standard_error_decreases_with_the_root_of_orders() -> None:
    word_lengths = (1,) * 8
    means = []
    for orders in (20, 80, 320):
        errors = []
        for seed in range(40):
            plan = create_masking_plan.__wrapped__(
                word_lengths, _options(exact=1, seed=seed, orders=orders)
            )
            errors.append(plan.stderr(_values_cached(plan)))
        means.append(np.mean(errors))
    assert means[0] / means[1] == pytest.approx(2, rel=0.12)
    assert means[1] / means[2] == pytest.approx(2, rel=0.12)


def test_sampled_plan_has_no_duplicate_rows() -> None:
    plan = create_masking_plan((1,) * 12, _options(orders=100))
    assert plan.n_pairs == 50
    assert len({m.tobytes() for m in plan.masks}) == len(plan.masks) < 12 * 100
    np.testing.assert_allclose(plan.sum_by_token(np.ones(len(plan.copy_indices))), np.ones(12))


def test_sampled_token_orders_of_long_words_are_unbiased() -> None:
    # A word of seven tokens: one order of them for each word order.
    word_lengths = (1, 7)
    truth = _over_all_orders(word_lengths).sum()
    off = []
    for seed in range(200):
        plan = create_masking_plan.__wrapped__(
            word_lengths, _options(exact=1, seed=seed, orders=20)
        )
        off.append(plan.sum_by_token(_values_cached(plan)).sum() - truth)
    assert abs(np.mean(off)) <= 4 * np.std(off) / np.sqrt(200)


def test_plans_with_too_many_rows_are_sampled() -> None:
    plan = create_masking_plan((1,) * 8 + (12,), _options(orders=4))
    assert MAX_EXACT_ROWS < 2**8 * (2**12 - 2)
    assert plan.n_pairs == 2


def test_sampled_orders_are_paired_with_their_reverse() -> None:
    plan = create_masking_plan((1,) * 12, _options())
    revealed = 12 - plan.masks.sum(axis=1)[plan.copy_indices]
    # How much is revealed before a word, and in the reverse order: 11 words together, always.
    for word in range(12):
        values = np.where(plan.token_indices == word, -revealed.astype(float), 0.0)
        assert plan.sum_by_token(values)[word] == pytest.approx(-11 / 2)
        assert plan.stderr(values) == pytest.approx(0, abs=1e-12)


def test_number_of_inputs_grows_with_tokens_of_a_word() -> None:
    # The inputs that show some token of the first word, by the number of its tokens: 127 for one;
    # with k, 2^7 (2^k - 1) - 1, for all sets of its tokens but none, and of other words but all.
    own, elsewhere = [], []
    for k in (1, 2, 3):
        masks = create_masking_plan((k, *[1] * 7), _options()).masks
        own.append(int((~masks[:, :k].all(axis=1)).sum()))
        elsewhere.append(int((~masks[:, -1]).sum()))
    assert own == [127, 383, 895] == [2**7 * (2**k - 1) - 1 for k in (1, 2, 3)]
    assert elsewhere == [(n + own[0]) // 2 for n in own]
