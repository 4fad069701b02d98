"""Compare the scores of causal architectures with transformers, for random weights.

Usage: python benchmarks/causal_architectures.py [NAME ...]

Each network is tiny. If the architecture has attention windows or chunks, they have 16 tokens. The
table contains the largest difference in nats between contstim and one forward pass of transformers
per sentence, for

- sentences that are scored alone, and in a batch of many lengths;
- sentences with a common prefix, shorter and longer than the window;
- candidates that replace words at early and late positions.

The last two columns are the length of the longest sentences, up to the next power of two, that were
computed together in one row, and of the longest candidates that were computed as continuations of
their prefix. 0 means that each sentence was computed separately.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers

from contstim import load_model
from contstim.errors import ModelFileError
from contstim.models.hf.pretrained import silence_transformers
from contstim.text import Sentence, WordList

WINDOW = 16
WORDS = [f"w{n}" for n in range(100)]
SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "head_dim": 16,
    "max_position_embeddings": 256,
}
# The same sizes under the names of GPT and XLM.
GPT = {"n_embd": 32, "n_layer": 4, "n_head": 2, "n_positions": 256}
LAYERS = ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]
SLIDING: dict[str, Any] = {**SMALL, "sliding_window": WINDOW}
ALTERNATING: dict[str, Any] = {**SLIDING, "layer_types": LAYERS}
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2}

QWEN = {"use_sliding_window": True, "max_window_layers": 0}

#: Arguments of each architecture's configuration.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "gpt2": GPT,
    "gpt_neo": {
        "hidden_size": 32,
        "num_layers": 4,
        "num_heads": 2,
        "attention_types": [[["global", "local"], 2]],
        "window_size": WINDOW,
        "max_position_embeddings": 64,
    },
    "gpt_neox": SMALL,
    "gptj": {**GPT, "rotary_dim": 8},
    "gpt_bigcode": GPT,
    "openai-gpt": GPT,
    "codegen": {**GPT, "n_head": 4, "rotary_dim": 4},
    "opt": {**SMALL, "ffn_dim": 48, "word_embed_proj_dim": 32},
    "bloom": {"hidden_size": 32, "n_layer": 4, "n_head": 2},
    "mpt": {"d_model": 32, "n_layers": 4, "n_heads": 2, "max_seq_len": 256},
    "xglm": {**SMALL, "d_model": 32, "num_layers": 4, "attention_heads": 2, "ffn_dim": 48},
    "biogpt": SMALL,
    "ctrl": {**GPT, "dff": 48},
    "falcon": {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2},
    "persimmon": SMALL,
    "phi": SMALL,
    "phi3": SLIDING,
    "stablelm": SMALL,
    "starcoder2": SLIDING,
    "llama": SMALL,
    "llama4_text": {
        **SMALL,
        **EXPERTS,
        "attention_chunk_size": WINDOW,
        "intermediate_size_mlp": 48,
        "layer_types": ["chunked_attention"] * 3 + ["full_attention"],
    },
    "mistral": SLIDING,
    "ministral": ALTERNATING,
    "mixtral": {**SLIDING, **EXPERTS},
    "qwen2_moe": {**ALTERNATING, **EXPERTS, **QWEN, "moe_intermediate_size": 48},
    "qwen3": {**ALTERNATING, **QWEN},
    "gemma": SMALL,
    "gemma2": ALTERNATING,
    "gemma3_text": ALTERNATING,
    "vaultgemma": ALTERNATING,
    "cohere": SMALL,
    "cohere2": ALTERNATING,
    "olmo": SMALL,
    "olmo2": SMALL,
    "olmo3": ALTERNATING,
    "exaone4": ALTERNATING,
    "cwm": ALTERNATING,
    "gpt_oss": {**ALTERNATING, **EXPERTS},
    "modernbert-decoder": {**SMALL, "local_attention": 2 * WINDOW, "layer_types": LAYERS},
    "granite": SMALL,
    "granitemoe": {**SMALL, **EXPERTS},
    "smollm3": SMALL,
    "helium": SMALL,
    "glm": SMALL,
    "nemotron": SMALL,
    "arcee": SMALL,
    "apertus": SMALL,
    "diffllama": SMALL,
    "seed_oss": SMALL,
    "bert": {**SMALL, "is_decoder": True},
    "roberta": {**SMALL, "is_decoder": True},
    "mamba": {"hidden_size": 32, "state_size": 4, "num_hidden_layers": 4},
    "mamba2": {
        "hidden_size": 32,
        "state_size": 4,
        "num_hidden_layers": 4,
        "num_heads": 4,
        "head_dim": 16,
        "n_groups": 1,
        "chunk_size": WINDOW,
    },
    "falcon_mamba": {"hidden_size": 32, "state_size": 4, "num_hidden_layers": 4},
    "rwkv": {"hidden_size": 32, "num_hidden_layers": 4, "attention_hidden_size": 32},
    "recurrent_gemma": {
        **SMALL,
        "attention_window_size": WINDOW,
        "lru_width": 32,
        "block_types": ["recurrent", "attention"],
    },
    "lfm2": {**SMALL, "layer_types": ["conv", "full_attention"] * 2},
    "falcon_h1": {
        **SMALL,
        "mamba_d_ssm": 32,
        "mamba_n_heads": 4,
        "mamba_d_head": 8,
        "mamba_d_state": 4,
        "mamba_chunk_size": WINDOW,
    },
    "jamba": {**SMALL, "num_experts": 2, "attn_layer_period": 2, "attn_layer_offset": 1},
    "xlstm": {
        "hidden_size": 128,
        "num_blocks": 2,
        "num_heads": 2,
        "chunk_size": WINDOW,
    },
}


def save(name: str, folder: Path, more: dict[str, Any]) -> None:
    """Write a network with large random weights and a tokenizer of whole words."""
    specials = ["<pad>", "<s>", "</s>", "<unk>"]
    vocab = {token: i for i, token in enumerate([*specials, *WORDS])}
    core = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token="<unk>"))
    core.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
    ).save_pretrained(folder)
    config = transformers.CONFIG_MAPPING[name](
        vocab_size=len(vocab), pad_token_id=0, bos_token_id=1, eos_token_id=2, **more
    )
    torch.manual_seed(0)
    network = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim > 1:
                parameter.add_(0.25 * torch.randn(parameter.shape))
    network.save_pretrained(folder)


def plain(folder: Path, sentences: list[str]) -> np.ndarray[Any, Any]:
    """Score sentences by transformers alone: one sentence at a time, without mask or cache."""
    network = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    scores = []
    for sentence in sentences:
        ids = torch.tensor([[1, *tokenizer(sentence, add_special_tokens=False)["input_ids"]]])
        with torch.inference_mode():
            logits = network(input_ids=ids).logits[0].double()
        log_probs = logits.log_softmax(dim=1)[:-1]
        scores.append(float(log_probs.gather(1, ids[0, 1:, None]).sum()))
    return np.array(scores)


def differences(folder: Path, seed: int = 0) -> tuple[list[float], int, int]:
    """Return the largest differences, and the lengths up to which rows and prefixes were shared."""
    rng = np.random.default_rng(seed)

    def made(n: int) -> list[str]:
        return list(rng.choice(WORDS, n))

    model = load_model(f"hf:{folder}")
    mixed = [" ".join(made(n)) for n in rng.integers(2, 50, 20)]
    start, long_start = made(6), made(30)
    short = [" ".join([*start, *made(3)]) for _ in range(20)]
    beyond = [" ".join([*long_start, *made(n)]) for n in rng.integers(1, 15, 20)]
    alone = np.concatenate([model.score([sentence]) for sentence in mixed])
    found = [
        np.abs(alone - plain(folder, mixed)).max(),
        np.abs(model.score(mixed) - plain(folder, mixed)).max(),
        np.abs(model.score(short) - plain(folder, short)).max(),
        np.abs(model.score(beyond) - plain(folder, beyond)).max(),
    ]
    worst, candidates = 0.0, WordList.from_words(made(30))
    for position in (3, 15, 16, 17, 30, 33):
        sentence = Sentence.parse(" ".join(long_start + made(5)))
        replacements = model.score_replacements(sentence, position, candidates)
        expected = plain(folder, [str(sentence.replace(position, w)) for w in candidates.words])
        given = replacements.score(np.arange(len(candidates)))
        over = (expected - replacements.upper_bounds).max()
        worst = max(worst, float(np.abs(given - expected).max()), float(over))
    held = [key for key, result in model.network.checks.items() if result]
    rows = max((key[2] for key in held if key[0] == "trees"), default=0)
    on = max((key[1] for key in held if key[0] == "extend"), default=0)
    return [*map(float, found), worst], rows, on


def main() -> None:
    heads = ["architecture", "window", "alone", "batched", "alike, short", "alike, long"]
    print("|", " | ".join([*heads, "candidates", "rows", "on"]), "|")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in sys.argv[1:] or ARCHITECTURES:
        with silence_transformers(), tempfile.TemporaryDirectory() as folder:
            save(name, Path(folder), ARCHITECTURES[name])
            try:
                found, rows, on = differences(Path(folder))
            except ModelFileError as error:
                print(f"| {name} | refused: {str(error).replace(folder, name)} |", flush=True)
                continue
        cells = " | ".join(f"{value:.0e}" for value in found)
        windowed = any(
            w in key for key in ARCHITECTURES[name] for w in ("window", "chunk", "local_a")
        )
        window = WINDOW if windowed else ""
        print(f"| {name} | {window} | {cells} | {rows} | {on} |", flush=True)


if __name__ == "__main__":
    main()
