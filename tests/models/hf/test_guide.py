"""Proposals of next words by masked models."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from contstim import WordList, load_model
from contstim.models.hf.guide import MaskedGuide

FIRST, LATER = (
    WordList.from_words(["The", "A"]),
    WordList.from_words(["dog", "cat", "man", "saw", "ran"]),
)


def test_next_words_are_predicted_before_mask_tokens(
    tiny: Callable[[str], Path],
) -> None:
    model = load_model(f"hf:{tiny('bert')}?metric=pll")
    assert model.empty_prefix(FIRST, LATER) is None
    begun = model.guide_prefix(FIRST, LATER)
    assert isinstance(begun, MaskedGuide)
    one = begun.extend(np.array([0, 0]), np.array([0, 1]))
    assert one.next_words is LATER
    upper, exact = one.upper_bounds()
    assert upper.shape == (2, len(LATER))
    rows, index = np.divmod(np.arange(2 * len(LATER)), len(LATER))
    log_probs = one.log_probs(rows, index).reshape(upper.shape)
    np.testing.assert_allclose(log_probs[:, exact], upper[:, exact])
    assert (log_probs <= upper + 1e-6).all()
    np.testing.assert_allclose(np.exp(one._next_log_probs.numpy()).sum(axis=1), 1.0, rtol=1e-4)
    np.testing.assert_array_equal(one.end_log_probs("."), 0.0)
    # A beginning is read alike beside others and alone.
    alone = begun.extend(np.array([0]), np.array([1]))
    np.testing.assert_allclose(alone.upper_bounds()[0][0], upper[1], atol=1e-4)
    # Where every word is one piece, nothing is asked for.
    nothing = np.zeros(0, dtype=np.int64)
    assert one.log_probs(nothing, nothing).shape == (0,)


def test_only_metrics_of_low_cost_propose_words(
    tiny: Callable[[str], Path],
) -> None:
    metrics = ("pll", "pll-word-l2r", "pll-sentence-l2r", "permutation")
    models = [load_model(f"hf:{tiny('bert')}?metric={metric}") for metric in metrics]
    can_propose = [model.guide_prefix(FIRST, LATER) is not None for model in models]
    assert can_propose == [True, True, True, False]
