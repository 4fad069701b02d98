"""Unigram probabilities of tokens against counts by hand, and SLOR."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tiny_transformers import MASKED
from transformers import AutoTokenizer

from contstim.errors import InputError
from contstim.models import ModelSpec
from contstim.models.check import check_model
from contstim.models.hf.unigram import TokenUnigram, read_word_counts
from contstim.models.reductions import ReducedModel
from contstim.models.registry import load_model
from contstim.text import Sentence, WordList

Tiny = Callable[[str], Path]

TEXT = ["The dog saw us.", "The old dog barked, slowly.", "dogs saw the cats."]
SENTENCES = ["The dog barked.", "the old cats saw us slowly.", "dogs ran"]


@pytest.fixture
def counts(tmp_path: Path) -> Path:
    """Write the word counts of `TEXT`."""
    words = Counter(word for line in TEXT for word in line.split())
    first = Counter(line.split()[0] for line in TEXT)
    path = tmp_path / "counts.tsv"
    rows = [f"{word}\t{n}\t{first[word]}" for word, n in words.items()]
    path.write_text("\n".join(["word\tn\tn_first", *rows]), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bert", ""),
        ("roberta", ""),
        ("roberta", "first=spaced"),
        ("electra", "metric=pll"),
        ("gpt2", ""),
        ("gpt2", "end=scored"),
        ("llama", ""),
        ("no-bos", ""),
    ],
)
def test_tokens_are_counted_in_sentence_context(
    tiny: Tiny, name: str, options: str, counts: Path
) -> None:
    model = load_model(f"hf:{tiny(name)}?{options}")
    unigram = TokenUnigram(model, counts)
    tokenizer = AutoTokenizer.from_pretrained(tiny(name))
    lead = " " if "spaced" in options else ""

    def ids(text: str) -> list[int]:
        found: list[int] = tokenizer(lead + text, add_special_tokens=False)["input_ids"]
        return found + ([tokenizer.eos_token_id] if "end" in options else [])

    # The text itself, tokenised whole: these tokenizers cut at white space.
    found = Counter(token for line in TEXT for token in ids(line))
    n, size = found.total(), max(tokenizer.get_vocab().values()) + 1
    assert np.exp(unigram.log_probs).sum() == pytest.approx(1)
    for text, parts in zip(SENTENCES, unigram.score_tokens(SENTENCES), strict=True):
        expected = np.log([(found[token] + 1) / (n + size) for token in ids(text)])
        # Without a prefix the first word is not scored.
        np.testing.assert_allclose(parts.log_probs, expected[-len(parts.log_probs) :])
        if name != "no-bos":
            assert len(parts.log_probs) == len(expected)
    slor = ReducedModel(model, "slor", ModelSpec("x", "y"), unigram)
    totals = model.score_with_counts(SENTENCES)
    log_p = [p.log_probs.sum() for p in unigram.score_tokens(SENTENCES)]
    np.testing.assert_allclose(
        slor.score(SENTENCES), (totals.score - log_p) / totals.n_tokens, atol=1e-4
    )


@pytest.mark.parametrize("name", ["bert", "gpt2", "no-bos"])
@pytest.mark.parametrize("position", [0, 3, 5])
def test_unigram_replacements_equal_sentence_scores(
    tiny: Tiny, name: str, position: int, counts: Path
) -> None:
    options = "?end=scored" if name == "gpt2" else ""
    unigram = TokenUnigram(load_model(f"hf:{tiny(name)}{options}"), counts)
    sentence = Sentence.parse("the old dog saw a cat.")
    words = WordList.from_words(["dog", "unhappy", "cats", "slow"])
    table = unigram.score_replacements(sentence, position, words)
    texts = [str(sentence.replace(position, word)) for word in words]
    assert table.is_exact
    np.testing.assert_allclose(table.estimates, unigram.score(texts), atol=1e-9)


@pytest.mark.parametrize("name", ["gpt2", *list(MASKED)[:1]])
def test_slor_uses_the_token_unigram_by_default(tiny: Tiny, name: str) -> None:
    model = load_model(f"hf:{tiny(name)}?reduction=slor")
    assert "slor over contstim:unigram?units=tokens" in str(model.event)
    check_model(model, SENTENCES, words=["dog", "cats", "saw"])
    assert load_model(model.spec).score(SENTENCES) == pytest.approx(model.score(SENTENCES))
    # Frequent words stand for less than rare ones.
    frequent, rare = model.unigram.score_words(["the dog", "the zebra"])
    assert frequent[1] > rare[1]


def test_damaged_word_counts_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "counts.tsv"
    path.write_text("word\tn\tn_first\ndog\t3\n", encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_word_counts(path)
    assert str(error.value) == (
        f"{path}, line 2: 'dog\\t3' is not a word and two counts, separated by tabs"
    )
