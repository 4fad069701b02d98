"""Tiny transformer checkpoints with random weights and real tokenizer classes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers
from transformers.utils import logging

from contstim.errors import SpecError
from contstim.models.registry import load_model

# Enough text for BPE to learn common words whole and leave the others in pieces.
WORDS = ["the", "The", "dog", "dogs", "saw", "a", "A", "cat", "ran", "fast", "don", "bark"]
WORDS += ["barks", "barked", "slowly", "old", "man", "woman", ".", ",", "!", "?"]
TEXT = [
    "the dog saw a cat.",
    "The cat ran fast.",
    "A man saw the old woman.",
    "the dogs bark slowly!",
    "don't bark, old dog.",
] * 20

SENTENCES = [
    "The dog saw a cat.",
    "the cats don't bark!",
    "Dogs ran, slowly.",
    "The unhappy man's old dog barked at us.",
]


def _wordpiece() -> Any:
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(c) for c in range(97, 123)] + list("TADS'.,!?-")
    pieces = ["##" + c for c in letters] + ["##s", "##ed", "##hap", "##py", "un", "don", "us"]
    vocab = list(dict.fromkeys([*specials, *WORDS, *letters, *pieces]))
    return transformers.BertTokenizer(
        vocab={v: i for i, v in enumerate(vocab)}, do_lower_case=False
    )


def _byte_level(specials: list[str]) -> dict[str, Any]:
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(
        TEXT,
        vocab_size=300 + len(specials),
        min_frequency=2,
        special_tokens=specials,
        show_progress=False,
    )
    model = json.loads(tokenizer.to_str())["model"]
    return {"vocab": model["vocab"], "merges": [tuple(m) for m in model["merges"]]}


def _roberta() -> Any:
    return transformers.RobertaTokenizer(**_byte_level(["<s>", "<pad>", "</s>", "<unk>", "<mask>"]))


def _modernbert() -> Any:
    """Return a tokenizer of bytes that came to its mask late, as ModernBERT's.

    Beside tokens of the text its vocabulary holds control tokens without a role, runs of spaces
    and places kept free, all added later.
    """
    core = tokenizers.ByteLevelBPETokenizer()
    core.train_from_iterator(TEXT, vocab_size=300, min_frequency=2, show_progress=False)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=core._tokenizer,
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        mask_token="[MASK]",
    )
    controls = [tokenizers.AddedToken(f"<|{word}|>", special=True) for word in ("end", "fill")]
    tokenizer.add_tokens([*controls, *(" " * n for n in range(9, 1, -1)), "[unused0]", "|||IP|||"])
    ends = [("[CLS]", tokenizer.cls_token_id), ("[SEP]", tokenizer.sep_token_id)]
    tokenizer.backend_tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ends
    )
    return tokenizer


def _gpt2() -> Any:
    return transformers.GPT2Tokenizer(**_byte_level(["<|endoftext|>"]))


def _without_bos() -> Any:
    return transformers.Qwen2Tokenizer(**_byte_level(["<|endoftext|>"]))


def _llama() -> Any:
    specials = ["<unk>", "<s>", "</s>"]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=80,
        special_tokens=specials,
        initial_alphabet=[chr(c) for c in range(97, 123)] + list("TADS'.,!?▁"),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return transformers.LlamaTokenizer(
        vocab=model["vocab"], merges=[tuple(m) for m in model["merges"]], add_bos_token=True
    )


def _xlm(folder: Path) -> Any:
    specials = ["<s>", "</s>", "<pad>", "<unk>", *(f"<special{i}>" for i in range(10))]
    letters = [chr(c) for c in range(97, 123)] + list("'.,!?-")
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.BPE(unk_token="<unk>", end_of_word_suffix="</w>")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=150,
        special_tokens=specials,
        end_of_word_suffix="</w>",
        initial_alphabet=letters,
        show_progress=False,
    )
    tokenizer.train_from_iterator([t.lower() for t in TEXT], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    # Training numbers the letters that end words as it happens to meet them.
    ends = [letter + "</w>" for letter in letters]
    tokens = dict.fromkeys([*specials, *sorted({*model["vocab"], *ends})])
    vocab = {token: i for i, token in enumerate(tokens)}
    (folder / "vocab.json").write_text(json.dumps(vocab))
    (folder / "merges.txt").write_text("".join(" ".join(m) + "\n" for m in model["merges"]))
    return transformers.XLMTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))


_SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
}


def _bert(n: int) -> Any:
    config = transformers.BertConfig(vocab_size=n, max_position_embeddings=40, **_SMALL)
    return transformers.BertForMaskedLM(config)


def _electra(n: int) -> Any:
    config = transformers.ElectraConfig(
        vocab_size=n, max_position_embeddings=40, embedding_size=16, **_SMALL
    )
    return transformers.ElectraForMaskedLM(config)


def _roberta_net(n: int) -> Any:
    config = transformers.RobertaConfig(
        vocab_size=n, max_position_embeddings=42, pad_token_id=1, **_SMALL
    )
    return transformers.RobertaForMaskedLM(config)


def _xlm_net(n: int) -> Any:
    config = transformers.XLMConfig(
        vocab_size=n,
        emb_dim=32,
        n_layers=2,
        n_heads=2,
        max_position_embeddings=40,
        mask_index=4,
        mask_token_id=4,
    )
    return transformers.XLMWithLMHeadModel(config)


def _modernbert_net(n: int) -> Any:
    # More logits than tokens, as real ones have.
    config = transformers.ModernBertConfig(
        vocab_size=n + 5,
        max_position_embeddings=40,
        local_attention=8,
        pad_token_id=0,
        bos_token_id=0,
        eos_token_id=0,
        cls_token_id=0,
        sep_token_id=0,
        **_SMALL,
    )
    return transformers.ModernBertForMaskedLM(config)


def _gpt2_net(n: int) -> Any:
    config = transformers.GPT2Config(
        vocab_size=n, n_embd=32, n_layer=2, n_head=2, n_positions=40, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config)


def _llama_net(n: int) -> Any:
    config = transformers.LlamaConfig(
        vocab_size=n, max_position_embeddings=40, num_key_value_heads=1, **_SMALL
    )
    return transformers.LlamaForCausalLM(config)


def _mamba_net(n: int) -> Any:
    config = transformers.MambaConfig(
        vocab_size=n, hidden_size=32, state_size=4, num_hidden_layers=2, pad_token_id=0
    )
    return transformers.MambaForCausalLM(config)


# The names of the tiny checkpoints: tokenizer and network of each.
MASKED: dict[str, tuple[Callable[..., Any], Callable[[int], Any]]] = {
    "bert": (_wordpiece, _bert),
    "roberta": (_roberta, _roberta_net),
    "electra": (_wordpiece, _electra),
    "modernbert": (_modernbert, _modernbert_net),
    "xlm": (_xlm, _xlm_net),
}
CAUSAL: dict[str, tuple[Callable[..., Any], Callable[[int], Any]]] = {
    "gpt2": (_gpt2, _gpt2_net),
    "llama": (_llama, _llama_net),
    "no-bos": (_without_bos, _llama_net),
    "mamba": (_gpt2, _mamba_net),
}


def save_tokenizer(name: str, folder: Path) -> Any:
    """Make the tokenizer of a tiny checkpoint, put it into `folder` and return it."""
    make = {**MASKED, **CAUSAL}[name][0]
    tokenizer = make(folder) if name == "xlm" else make()
    tokenizer.save_pretrained(folder)
    return tokenizer


def save_network(model: Any, folder: Path, seed: int = 1) -> None:
    """Give a network random weights large enough to matter and save it into `folder`."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1 or name.endswith("bias"):
                parameter.add_(0.25 * torch.randn(parameter.shape, generator=generator))
    model.save_pretrained(folder)


def save_checkpoint(name: str, folder: Path, seed: int = 1) -> Path:
    """Make a tiny checkpoint in `folder`, the same for the same seed, and return the folder."""
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = save_tokenizer(name, folder)
    n = max(tokenizer.get_vocab().values()) + 1
    with torch.random.fork_rng():
        torch.manual_seed(seed)  # of the weights that transformers begins with
        network = {**MASKED, **CAUSAL}[name][1](n)
    save_network(network, folder, seed)
    return folder


def tokens_computed(model: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that receives the number of tokens of each batch that `model` computes."""
    tokens: list[int] = []
    real = model.network.logits

    def spy(ids: torch.Tensor, *args: object, **more: object) -> torch.Tensor:
        tokens.append(ids.numel())
        logits: torch.Tensor = real(ids, *args, **more)
        return logits

    monkeypatch.setattr(model.network, "logits", spy)
    return tokens


def refusal(spec: str) -> str:
    """Return the message with which a spec is refused."""
    with pytest.raises(SpecError) as error:
        load_model(spec)
    return str(error.value)
