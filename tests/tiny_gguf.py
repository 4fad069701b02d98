"""A tiny Llama model in a GGUF file, with random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from tiny_transformers import save_tokenizer


def write_gguf(path: Path, folder: Path, kind: str = "Q4_1", *, begins: bool = False) -> None:
    """Write a Llama of two layers, by default with matrices in 4 bits as those of SmolLM2 are.

    Its tokenizer is put into `folder`; `begins` says that texts begin with its BOS token.
    """
    import gguf

    tokenizer: Any = save_tokenizer("gpt2", folder)
    vocab = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    settings = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    pairs = [" ".join(pair) for pair in settings["model"]["merges"]]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(40)
    writer.add_embedding_length(32)
    writer.add_block_count(2)
    writer.add_feed_forward_length(64)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_rope_dimension_count(16)
    writer.add_vocab_size(len(vocab))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(vocab)
    writer.add_token_types([3 if token.startswith("<|") else 1 for token in vocab])
    writer.add_token_merges(pairs)
    writer.add_bos_token_id(vocab.index("~"))
    writer.add_eos_token_id(vocab.index("}"))
    writer.add_unk_token_id(0)
    writer.add_tokenizer_pre("gpt-2")
    writer.add_add_bos_token(begins)
    rng = np.random.default_rng(2)
    shapes = {"token_embd": (len(vocab), 32), "output_norm": (32,)}
    for layer in range(2):
        block = f"blk.{layer}"
        shapes |= {f"{block}.attn_{name}": (32, 32) for name in ("q", "output")}
        shapes |= {f"{block}.attn_{name}": (16, 32) for name in ("k", "v")}
        shapes |= {f"{block}.ffn_{name}": (64, 32) for name in ("gate", "up")}
        shapes |= {f"{block}.{name}_norm": (32,) for name in ("attn", "ffn")}
        shapes[f"{block}.ffn_down"] = (32, 64)
    matrices = gguf.GGMLQuantizationType[kind]
    for name, shape in shapes.items():
        if len(shape) == 1:
            writer.add_tensor(f"{name}.weight", rng.uniform(0.5, 1.5, shape).astype("f4"))
            continue
        values = rng.normal(0, 0.4, shape).astype("f4")
        writer.add_tensor(
            f"{name}.weight", gguf.quants.quantize(values, matrices), raw_dtype=matrices
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
