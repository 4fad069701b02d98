"""Scores against plain transformers code, for many scripts and tokenizers.

Tests `contstim.models.hf.encoding`.
"""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from tiny_transformers import TEXT, save_network

from contstim.arrays import FloatArray
from contstim.models.registry import load_model

SCRIPTS = [
    "El niño comió mañana.",
    "猫が 走る。",
    "привет мир",
    "שלום עולם",
    "مرحبا بالعالم",
    "😀 dog",
]
# White space of several kinds, combining marks, ligatures, and what the tokenizers never saw.
SENTENCES = [
    "The dog saw a cat.",
    "dog",
    "  The  old\tman ran   fast.",
    "El niño comió ma\u0303nana.",
    "猫が 走る。",
    "שלום dog عولم",
    "A 😀 dog saw 😀😀.",
    "ﬁne \u0301dog\u00a0ran\u3000fast",
    "zyzzyva™ don't don't",
]
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 80,
}


def _unigram() -> Any:
    """Return a tokenizer of XLM-RoBERTa: pieces of the unigram model, normalised by NFKC."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=200, special_tokens=specials, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator([*TEXT, *SCRIPTS * 5], trainer)
    pieces = json.loads(tokenizer.to_str())["model"]["vocab"]
    return transformers.XLMRobertaTokenizer(vocab=[*map(tuple, pieces), ("<mask>", 0.0)])


def _byte_fallback() -> Any:
    """Return a tokenizer of Llama that writes unknown characters in bytes."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    specials = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=350, special_tokens=specials, show_progress=False
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    merges = [tuple(merge) for merge in model["merges"]]
    return transformers.LlamaTokenizer(vocab=model["vocab"], merges=merges, add_bos_token=True)


def _words(text: str, spans: list[tuple[int, int]], values: list[float]) -> FloatArray:
    """Add up what each white-space-separated word's tokens have, by where they begin."""
    sums = np.zeros(len(text.split()))
    for (start, end), value in zip(spans, values, strict=True):
        begin = next((i for i in range(start, end) if not text[i].isspace()), end)
        sums[len(text[: begin + 1].split()) - 1] += value
    return sums


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("xlm-roberta", {"pad_token_id": 1}),
        # What DeBERTa calls its output embeddings is square where its head is not the old one.
        ("deberta-v2", {"legacy": False}),
        ("deberta-v2", {"legacy": True}),
    ],
)
@torch.no_grad()
def test_sentencepiece_unigram_under_a_masked_model(
    kind: str, more: dict[str, Any], tmp_path: Path
) -> None:
    tokenizer = _unigram()
    tokenizer.save_pretrained(tmp_path)
    n = max(tokenizer.get_vocab().values()) + 1
    config = transformers.CONFIG_MAPPING[kind](vocab_size=n, **more, **SMALL)
    save_network(transformers.AutoModelForMaskedLM.from_config(config), tmp_path)
    network = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    sums = []
    model = load_model(f"hf:{tmp_path}?metric=pll&unknown=unk")
    for sentence in SENTENCES:
        text = unicodedata.normalize("NFC", " ".join(sentence.split()))
        found = tokenizer(text, return_offsets_mapping=True)
        ids, spans = found["input_ids"], found["offset_mapping"]
        values = []
        for place in range(1, len(ids) - 1):
            row = [*ids[:place], tokenizer.mask_token_id, *ids[place + 1 :]]
            logits = network(input_ids=torch.tensor([row])).logits[0, place]
            values.append(float(logits.double().log_softmax(0)[ids[place]]))
        expected = _words(text, spans[1:-1], values)
        np.testing.assert_allclose(model.score_words([sentence])[0], expected, atol=1e-4)
        sums.append(sum(values))
    np.testing.assert_allclose(model.score(SENTENCES), sums, atol=1e-4)


@pytest.mark.parametrize("bos", [True, False])
@torch.no_grad()
def test_bytes_of_unknown_characters_under_a_causal_model(bos: bool, tmp_path: Path) -> None:
    tokenizer = _byte_fallback()
    tokenizer.save_pretrained(tmp_path)
    n = max(tokenizer.get_vocab().values()) + 1
    config = transformers.LlamaConfig(vocab_size=n, num_key_value_heads=1, **SMALL)
    save_network(transformers.LlamaForCausalLM(config), tmp_path)
    network = transformers.LlamaForCausalLM.from_pretrained(tmp_path).eval()
    sentences = SENTENCES if bos else [s for s in SENTENCES if len(s.split()) > 1]
    model = load_model(f"hf:{tmp_path}" + ("" if bos else "?prefix=none"))
    sums = []
    for sentence in sentences:
        text = unicodedata.normalize("NFC", " ".join(sentence.split()))
        found = tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
        ids = [*([tokenizer.bos_token_id] if bos else []), *found["input_ids"]]
        log_probs = network(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(1)
        values = log_probs[:-1].gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()
        expected = _words(text, found["offset_mapping"], values if bos else [0.0, *values])
        if not bos:
            expected[0] = np.nan
        np.testing.assert_allclose(model.score_words([sentence])[0], expected, atol=1e-4)
        sums.append(np.nansum(expected))
    np.testing.assert_allclose(model.score(sentences), sums, atol=1e-4)
