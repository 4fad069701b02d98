"""Scores of prefixes and next words, which sum to the scores of sentences.

Tests `contstim.models.prefixes`, `contstim.models.hf.prefixes` and
`contstim.models.ngram.prefixes`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from toy_corpus import WORDS, write_random

from contstim import load_model
from contstim.errors import InputError
from contstim.models.hf import prefixes as of_transformers
from contstim.models.prefixes import Prefixes, ScoredPrefixes, empty_prefix_after
from contstim.text import WordList, format_prompt

FIRST = WordList(("The", "He", "Whenever"))
LATER = WordList(("ship", "misunderstood", "left", "dawn", "at", "unhappily", "blacksmith"))
# Of each sentence the words, and behind which of them a comma stands.
SENTENCES = (
    (("The", "ship", "misunderstood", "dawn"), ()),
    (("Whenever", "unhappily", "left", "at"), (1,)),
    (("He", "blacksmith", "unhappily", "misunderstood"), (0, 2)),
    (("The", "blacksmith", "at", "ship"), ()),
)
TEXTS = [
    " ".join(word + "," * (i in commas) for i, word in enumerate(words)) + "."
    for words, commas in SENTENCES
]
SPECS = (
    "contstim:bigram",
    "contstim:trigram",
    "contstim:trigram?end=none",
    "contstim:rnn",
    "contstim:lstm",
    "contstim:gpt",
    "contstim:gpt?end=scored",
    "contstim:gpt?prompt=natural",
    "contstim:gpt?punctuation=context",
    "contstim:gpt?words=corrected",
    "contstim:gpt?words=corrected&prompt=natural",
    "contstim:gpt?words=corrected&end=scored",
)


def _sum_prefix_scores(begun: Prefixes, mark: str = ".") -> np.ndarray:
    """Write the sentences together, and add up what is said of their words, commas and ends."""
    here, total, rows = begun, np.zeros(len(SENTENCES)), np.zeros(len(SENTENCES), dtype=np.int64)
    for position in range(4):
        index = np.array([here.next_words.index[words[position]] for words, _ in SENTENCES])
        log_probs, (upper, exact) = here.log_probs(rows, index), here.upper_bounds()
        assert (log_probs <= upper[rows, index] + 1e-4).all()
        assert np.allclose(log_probs[exact[index]], upper[rows, index][exact[index]], atol=1e-4)
        total += log_probs
        read, further = here.score_and_extend(rows, index)
        assert read == pytest.approx(log_probs, abs=1e-4)
        # Every other word is read in the one way, and every other in the other.
        here = further if position % 2 else here.extend(rows, index)
        rows = np.arange(len(SENTENCES))
        marked = np.array([position in commas for _, commas in SENTENCES])
        total += np.where(marked, here.comma_log_probs(), 0.0)
        here = here.add_commas(marked)
    return total + here.end_log_probs(mark)


@pytest.mark.parametrize("spec", SPECS)
def test_prefix_scores_sum_to_the_sentence_score(spec: str) -> None:
    model = load_model(spec)
    begun = model.empty_prefix(FIRST, LATER)
    assert begun is not None
    assert _sum_prefix_scores(begun) == pytest.approx(model.score(TEXTS), abs=2e-4)


@pytest.mark.parametrize("order", [1, 2, 5])
def test_prefixes_shorter_than_the_order_are_distinguished(tmp_path: Path, order: int) -> None:
    path = write_random(tmp_path / "m.arpa", order, seed=7)
    model = load_model(f"ngram:{path}?punctuation=drop&end=none")
    words = WordList(tuple(WORDS))
    here = model.empty_prefix(words, words)
    assert here is not None
    texts = [""]
    for _ in range(3):
        n = len(words)
        rows, index = np.repeat(np.arange(len(texts)), n), np.tile(np.arange(n), len(texts))
        texts = [f"{texts[row]} {words.words[i]}" for row, i in zip(rows, index, strict=True)]
        expected = [of_words[-1] for of_words in model.score_words(texts)]
        assert here.log_probs(rows, index) == pytest.approx(expected, abs=1e-5)
        here = here.extend(rows, index)


def test_first_token_bounds_words_of_several_tokens() -> None:
    model = load_model("contstim:gpt")
    begun = model.empty_prefix(FIRST, LATER)
    assert begun is not None
    _, exact = begun.extend(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)).upper_bounds()
    assert set(exact.tolist()) == {False, True}


def test_prefix_batches_have_no_padding() -> None:
    model = load_model("contstim:gpt")
    begun = model.empty_prefix(FIRST, LATER)
    assert begun is not None
    here = begun.extend(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
    n_tokens: list[int] = []
    handle = model.network.model.register_forward_hook(
        lambda module, args, kwargs, output: n_tokens.append(kwargs["input_ids"].numel()),
        with_kwargs=True,
    )
    here.score_and_extend(np.zeros(len(LATER), dtype=np.int64), np.arange(len(LATER)))
    handle.remove()
    assert sum(n_tokens) == sum(
        len(ids) for ids in model.tokenizer.tokenize([f" {w}" for w in LATER])
    )


def test_prefixes_without_tree_cache_are_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model("contstim:gpt")
    monkeypatch.setattr(of_transformers, "supports_tree_cache", lambda *arguments: False)
    begun = model.empty_prefix(FIRST, LATER)
    assert begun is not None
    assert _sum_prefix_scores(begun) == pytest.approx(model.score(TEXTS), abs=2e-4)


def test_scored_prefixes_without_n_gram_lists() -> None:
    lists = (FIRST, LATER)
    bare, whole = load_model("contstim:trigram?end=none"), load_model("contstim:trigram")
    begun = ScoredPrefixes(bare, whole, lists)
    assert not begun.upper_bounds()[1].any()
    rows, index = np.array([0, 0]), np.array([1, 2])
    two = begun.extend(rows, index)
    known = whole.empty_prefix(*lists)
    assert known is not None
    assert begun.log_probs(rows, index) == pytest.approx(known.log_probs(rows, index))
    both = np.array([0, 1])
    other = known.extend(rows, index)
    assert two.log_probs(both, both) == pytest.approx(other.log_probs(both, both))
    assert two.end_log_probs(".") == pytest.approx(other.end_log_probs("."))


@pytest.mark.parametrize("spec", ["contstim:bert", "contstim:gpt?prefix=none"])
def test_models_without_chain_rule_have_no_prefixes(spec: str) -> None:
    assert load_model(spec).empty_prefix(FIRST, LATER) is None


def test_with_context_equals_the_option_prompt(tmp_path: Path) -> None:
    lines = ["The cat sat on the mat.", "He went home."]
    file = tmp_path / "prompt.txt"
    file.write_text("\n".join(lines) + "\n", "utf-8")
    after = load_model("contstim:gpt").with_context(format_prompt(lines))
    assert after.score(TEXTS) == pytest.approx(
        load_model(f"contstim:gpt?prompt={file}").score(TEXTS), abs=1e-4
    )
    with pytest.raises(InputError, match="cannot write sentences because it reads no context"):
        empty_prefix_after(load_model("contstim:trigram"), "The cat sat.\n", (FIRST, LATER))
