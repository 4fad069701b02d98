"""Sentences within a text: a causal model scores their own words alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_transformers import SENTENCES, refusal
from transformers import AutoModelForCausalLM, AutoTokenizer

from contstim.models.check import check_model
from contstim.models.hf.template import Template
from contstim.models.registry import load_model
from contstim.synthesis import synthesize
from contstim.text import WordList
from contstim.text.vocabulary import Vocabulary

Tiny = Callable[[str], Path]

TEXT = "A man saw the old woman. {sentence} The cat ran fast.\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, "utf-8")
    return path


def test_a_text_is_what_stands_on_either_side(file: Path) -> None:
    template = Template.read(str(file), "hf:x")
    assert template == Template("A man saw the old woman. ", " The cat ran fast.")
    assert template.around("So?") == "A man saw the old woman. So? The cat ran fast."


@pytest.mark.parametrize("name", ["gpt2", "llama", "no-bos"])
def test_words_are_scored_after_what_stands_before(tiny: Tiny, name: str, file: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny(name))
    network = AutoModelForCausalLM.from_pretrained(tiny(name)).eval()
    model = load_model(f"hf:{tiny(name)}?template={file}")
    before = "A man saw the old woman."
    for sentence, parts in zip(SENTENCES, model.parts(SENTENCES), strict=True):
        whole = tokenizer(f"{before} {sentence}", add_special_tokens=False)["input_ids"]
        head = tokenizer(before, add_special_tokens=False)["input_ids"]
        assert whole[: len(head)] == head
        start = [tokenizer.bos_token_id] if name == "llama" else []
        start = [tokenizer.eos_token_id] if name == "gpt2" else start
        with torch.no_grad():
            logits = network(torch.tensor([[*start, *whole]])).logits[0].double()
        logs = logits.log_softmax(dim=1)
        n = len(start) + len(head)
        expected = [float(logs[n + k - 1, t]) for k, t in enumerate(whole[len(head) :])]
        np.testing.assert_allclose(parts.log_probs, expected, atol=1e-4)
    check_model(model, SENTENCES, words=["dog", "saw", "us"])


def test_a_text_of_lines(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("A man saw us.\n{sentence}\n", "utf-8")
    (tmp_path / "prompt.txt").write_text("A man saw us.\n", "utf-8")
    within = load_model(f"hf:{tiny('gpt2')}?template={tmp_path / 'lines.txt'}")
    after = load_model(f"hf:{tiny('gpt2')}?prompt={tmp_path / 'prompt.txt'}")
    np.testing.assert_allclose(within.score(SENTENCES), after.score(SENTENCES), atol=1e-5)


def test_a_search_with_and_without_a_text(tiny: Tiny, file: Path) -> None:
    plain, within = (
        load_model(f"hf:{tiny('gpt2')}"),
        load_model(f"hf:{tiny('gpt2')}?template={file}"),
    )
    words = WordList.of(["dog", "cat", "old", "saw", "ran", "fast", "the"])
    found = synthesize(
        "the dog saw us", reject=plain, accept=within, vocabulary=Vocabulary(words, words)
    )
    assert found.loss <= 0
    assert within.score([found.sentence])[0] >= within.score(["the dog saw us"])[0] - 1e-6


def test_texts_that_cannot_be_used(tiny: Tiny, tmp_path: Path, file: Path) -> None:
    spec = f"hf:{tiny('gpt2')}"
    path = tmp_path / "none.txt"
    asked = f"{spec}?template={path}"
    assert refusal(asked).startswith(f"cannot read the text '{path}' that '{asked}' names (")
    path.write_text("Of this: {sentence} {sentence}", "utf-8")
    assert refusal(asked) == (
        f"the text '{path}' that '{asked}' names has 2 places for a sentence; write {{sentence}} "
        "where it stands, once"
    )
    asked = f"{spec}?prompt=natural&template={file}"
    assert refusal(asked) == (
        f"prompt='natural' in '{asked}' does not go with a template, which says what stands before "
        "and after the sentence; leave one of the two out"
    )
