"""Forward passes: no padding, limited batches, logits at read positions only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_transformers import CAUSAL, MASKED, SENTENCES
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM, AutoTokenizer

from contstim.models.hf.network import Network
from contstim.models.registry import load_model
from contstim.text import Sentence, WordList

Tiny = Callable[[str], Path]


@pytest.mark.parametrize("name", [*MASKED, *CAUSAL])
def test_logits_are_computed_at_read_positions_only(tiny: Tiny, name: str) -> None:
    model = load_model(f"hf:{tiny(name)}?batch_tokens=48")
    network = model.network
    assert network._selector is not None
    inputs: list[int] = []
    seen: list[int] = []

    def body(module: Any, args: Any, more: Any) -> None:
        ids = more["input_ids"]
        # No padding: every token of every row is attended to.
        assert bool(more["attention_mask"].all())
        assert ids.numel() <= 48
        inputs.append(ids.numel())

    def head(module: Any, args: Any) -> None:
        seen.append(args[0].numel() // args[0].shape[-1])

    handles = [
        network.model.register_forward_pre_hook(body, with_kwargs=True),
        network.model.get_output_embeddings().register_forward_pre_hook(head),
    ]
    parts = model.score_tokens(SENTENCES[:3])
    for handle in handles:
        handle.remove()
    assert sum(seen) == sum(len(p.tokens) for p in parts)
    assert len(inputs) > 1


def test_first_forward_pass_has_an_attention_mask(tiny: Tiny) -> None:
    network: Any = AutoModelForCausalLM.from_pretrained(tiny("gpt2"))
    given: list[dict[str, Any]] = []
    network.register_forward_pre_hook(lambda *args: given.append(args[2]), with_kwargs=True)
    Network(network.eval(), torch.device("cpu"))
    assert given
    assert all("attention_mask" in arguments for arguments in given)


def test_scores_without_selector_are_equal(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(f"hf:{tiny('bert')}?metric=permutation")
    expected = model.score(SENTENCES[:3])
    narrow = model.network._selector
    monkeypatch.setattr(model.network, "_selector", None)
    assert narrow is not None
    np.testing.assert_allclose(model.score(SENTENCES[:3]), expected, atol=1e-5)


def test_padding_side_of_a_causal_tokenizer_is_irrelevant(tiny: Tiny, tmp_path: Path) -> None:
    scores = []
    for side in ("left", "right"):
        folder = tmp_path / side
        AutoModelForCausalLM.from_pretrained(tiny("gpt2")).save_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(tiny("gpt2"), padding_side=side)
        tokenizer.pad_token = tokenizer.eos_token
        tokenizer.save_pretrained(folder)
        scores.append(load_model(f"hf:{folder}?end=scored").score(SENTENCES))
    np.testing.assert_array_equal(scores[0], scores[1])
    plain = load_model(f"hf:{tiny('gpt2')}?end=scored")
    np.testing.assert_array_equal(scores[0], plain.score(SENTENCES))


def test_scoring_does_not_modify_the_network(tiny: Tiny) -> None:
    model = load_model(f"hf:{tiny('gpt2')}")
    model.score(SENTENCES)
    ids = torch.tensor([[1, 2, 3, 4]])
    with torch.no_grad():
        assert model.network.model(input_ids=ids).logits.shape[:2] == (1, 4)
    assert not model.network.model.training


@pytest.mark.parametrize(("name", "every"), [("gpt2", True), ("llama", True), ("bert", False)])
def test_cost_counts_multiply_additions_of_an_input(tiny: Tiny, name: str, every: bool) -> None:
    model = load_model(f"hf:{tiny(name)}")
    sentence = Sentence.parse("The old dog saw a cat.")
    cost = model.score_replacements(sentence, 3, WordList.from_words(["saw", "ate", "bit"])).cost
    base = model.encode_and_score(str(sentence))[0]
    ids = torch.from_numpy(base.ids)[None]
    # A causal model reads the next token at every place, a masked one a token at a time.
    places = torch.arange(ids.shape[1]) if every else torch.tensor([3])
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        model.network.logits(ids, torch.zeros_like(places), places)
    # Each is counted as two operations; those of attention itself pass no weights. Of a masked
    # model's last layer, one of two here, a part is computed at the places read alone.
    operations = counter.get_total_flops() / 2
    assert cost.multiply_adds is not None
    assert 0.7 * operations < cost.multiply_adds < (1.1 if every else 1.6) * operations
