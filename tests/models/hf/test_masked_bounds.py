"""Upper bounds of candidates under masked models: validity and budget.

Tests `contstim.models.hf.masked_candidates`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tiny_transformers import tokens_computed

from contstim.models.hf import masked_candidates
from contstim.models.hf.masked_candidates import MAX_BOUND_INPUTS
from contstim.models.registry import load_model
from contstim.text import Sentence, WordList

Tiny = Callable[[str], Path]

# Eight words of one token each.
SENTENCE = Sentence.parse("the old dog saw a cat fast slowly")
# One to seven tokens.
WORDS = WordList.from_words(
    ["dog", "man", "dogs", "un", "unhappy", "slow", "zebra", "happily", "cats"]
)


@pytest.mark.parametrize("metric", ["pll", "pll-word-l2r", "pll-sentence-l2r", "permutation"])
def test_bounds_within_a_small_budget_are_valid(
    tiny: Tiny, metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_model(f"hf:{tiny('bert')}?metric={metric}&exact=5&orders=4")
    sentence = Sentence.parse("the old dog saw us")
    whole = model.score_replacements(sentence, 2, WORDS)
    scores = model.score([str(sentence.replace(2, word)) for word in WORDS])
    np.testing.assert_allclose(whole.score(np.arange(len(WORDS))), scores, atol=1e-4)
    monkeypatch.setattr(masked_candidates, "MAX_BOUND_INPUTS", 12)
    bounded = model.score_replacements(sentence, 2, WORDS)
    for table in (whole, bounded):
        assert (scores <= table.upper_bounds + 1e-4).all()
    assert (whole.upper_bounds <= bounded.upper_bounds + 1e-4).all()
    # What the bounds left out is computed for exact scores, in any order of asking.
    assert bounded.score(np.array([4]))[0] == pytest.approx(scores[4], abs=1e-4)
    np.testing.assert_allclose(bounded.score(np.arange(len(WORDS))), scores, atol=1e-4)
    if metric == "permutation":
        assert (whole.upper_bounds < bounded.upper_bounds - 0.1).any()
        # Estimates fill in what was left out.
        assert (
            np.abs(bounded.estimates - scores).max() < np.abs(bounded.upper_bounds - scores).max()
        )


def test_bounds_stay_within_their_budget(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(f"hf:{tiny('bert')}?metric=permutation")
    lengths = {len(t) for t in model.tokenizer.candidates(SENTENCE, 2, WORDS).tokens}
    assert len(lengths) >= 4
    model.encode_and_score(str(SENTENCE))
    tokens = tokens_computed(model, monkeypatch)
    model.score_replacements(SENTENCE, 2, WORDS)
    length = len(model.encode([str(SENTENCE)])[0].ids)
    assert 0.9 * MAX_BOUND_INPUTS * length < sum(tokens) <= MAX_BOUND_INPUTS * length
    # Where the price allows all inputs, words of one length have those that hide the word, 2 to
    # the 7th.
    tokens.clear()
    monkeypatch.setattr(masked_candidates, "MAX_BOUND_INPUTS", 140)
    model.score_replacements(SENTENCE, 2, WordList.from_words(["dog", "man", "cat"]))
    assert sum(tokens) == 128 * length
