"""Train the bundled GPT or BERT, tokenizer and network, and export it in half precision.

Usage: python models/transformer.py {gpt,bert} CORPUS_FOLDER BUILD_FOLDER [--steps N]

CORPUS_FOLDER holds ``sentences.txt.gz`` and ``heldout.txt.gz``, one sentence a line. The float32
checkpoint is kept in ``BUILD_FOLDER/NAME`` together with the state of the training, from which a
killed run continues; the half-precision folder is written to ``models/bundled/NAME``.

Each sentence stands alone, as it does when it is scored. A batch holds sentences of one length, so
nothing is padded. The BERT learns from masks of every density, since the metrics of masked models
hide from one token to all of them (Salazar et al. 2020; Golan et al. 2023).
"""

from __future__ import annotations

import argparse
import gzip
import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from torch import nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Tokenizer,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

WIDTH, LAYERS, HEADS, PIECES, POSITIONS = 256, 4, 4, 6000, 128
STEPS = {"gpt": 1800, "bert": 3000}
BATCH = 4096  # tokens
MATRIX_RATE, OTHER_RATE = 4e-3, 2e-3
WARM_UP, SAVE_EVERY, LOG_EVERY = 100, 300, 50
SPECIAL = {"gpt": ["<|endoftext|>"], "bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]}


def read_lines(path: Path) -> list[str]:
    """Return the sentences of a gzipped text file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [line.strip() for line in lines if line.strip()]


def train_tokenizer(name: str, sentences: list[str]) -> PreTrainedTokenizerFast:
    """Learn the pieces: byte-level BPE for the GPT, WordPiece with its case for the BERT."""
    if name == "gpt":
        # A space before the first word too, so that it shares its token with the word elsewhere.
        level = pre_tokenizers.ByteLevel(add_prefix_space=True)
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = level
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=PIECES,
            special_tokens=SPECIAL[name],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
    else:
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
        trainer = trainers.WordPieceTrainer(
            vocab_size=PIECES, special_tokens=SPECIAL[name], show_progress=False
        )
    tokenizer.train_from_iterator(sentences, trainer)
    if name == "gpt":
        end = SPECIAL[name][0]
        return GPT2Tokenizer(
            tokenizer_object=tokenizer,
            bos_token=end,
            eos_token=end,
            unk_token=end,
            add_prefix_space=True,
            model_max_length=POSITIONS,
        )
    cls, sep = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", sep), ("[CLS]", cls))
    return BertTokenizer(
        tokenizer_object=tokenizer, do_lower_case=False, model_max_length=POSITIONS
    )


def build(name: str, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """Make the network with random weights."""
    if name == "gpt":
        end = tokenizer.convert_tokens_to_ids(SPECIAL[name][0])
        return GPT2LMHeadModel(
            GPT2Config(
                vocab_size=len(tokenizer),
                n_positions=POSITIONS,
                n_embd=WIDTH,
                n_layer=LAYERS,
                n_head=HEADS,
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
                bos_token_id=end,
                eos_token_id=end,
            )
        )
    return BertForMaskedLM(
        BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            intermediate_size=4 * WIDTH,
            max_position_embeddings=POSITIONS,
            type_vocab_size=1,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def encode(name: str, tokenizer: PreTrainedTokenizerFast, sentences: list[str]) -> list[np.ndarray]:
    """Return each sentence's ids between its special tokens, those too long left out."""
    start, end = ("[CLS]", "[SEP]") if name == "bert" else SPECIAL["gpt"] * 2
    first, last = tokenizer.convert_tokens_to_ids([start, end])
    found = []
    for i in range(0, len(sentences), 20_000):
        for ids in tokenizer(sentences[i : i + 20_000], add_special_tokens=False)["input_ids"]:
            if len(ids) + 2 <= POSITIONS:
                found.append(np.array([first, *ids, last], dtype=np.int16))
    return found


def batches(
    encoded: list[np.ndarray], rng: np.random.Generator, tokens: int = BATCH
) -> Iterator[np.ndarray]:
    """Yield one pass over the sentences in random order, each batch (n, L) of one length."""
    by_length: dict[int, list[int]] = {}
    for i in rng.permutation(len(encoded)).tolist():
        by_length.setdefault(len(encoded[i]), []).append(i)
    chunks = [
        members[i : i + max(1, tokens // length)]
        for length, members in by_length.items()
        for i in range(0, len(members), max(1, tokens // length))
    ]
    for j in rng.permutation(len(chunks)).tolist():
        yield np.stack([encoded[i] for i in chunks[j]]).astype(np.int64)


def draw_masks(ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Choose what is hidden: a density for each sentence, from sparse to everything; (n, L)."""
    n, length = ids.shape
    dense = rng.random(n) < 0.2
    rate = np.where(dense, rng.uniform(0.5, 1.0, n), rng.uniform(0.08, 0.5, n))
    hidden = rng.random((n, length - 2)) < rate[:, None]
    hidden[np.arange(n), rng.integers(0, length - 2, n)] = True
    return np.pad(hidden, ((0, 0), (1, 1)))


def loss_of(
    name: str, model: PreTrainedModel, ids: np.ndarray, hidden: np.ndarray | None, mask: int
) -> torch.Tensor:
    """Return the mean negative log-probability of what is to be predicted."""
    if hidden is None:
        tensor = torch.from_numpy(ids)
        states = model.transformer(tensor[:, :-1]).last_hidden_state
        targets = tensor[:, 1:].reshape(-1)
        states = states.reshape(-1, states.shape[-1])
        logits = model.lm_head(states)
    else:
        where = torch.from_numpy(hidden)
        tensor = torch.from_numpy(ids)
        states = model.bert(tensor.masked_fill(where, mask)).last_hidden_state[where]
        targets = tensor[where]
        logits = model.cls(states)
    return nn.functional.cross_entropy(logits.float(), targets)


def optimizers(model: PreTrainedModel) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the layers, AdamW for all the rest."""
    matrices, others = [], []
    for name, weight in model.named_parameters():
        inner = weight.ndim == 2 and ("layer." in name or ".h." in name)
        (matrices if inner else others).append(weight)
    return [
        torch.optim.Muon(
            matrices, lr=MATRIX_RATE, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"
        ),
        torch.optim.AdamW(others, lr=OTHER_RATE, weight_decay=0.01, betas=(0.9, 0.98)),
    ]


def rate_at(step: int, steps: int) -> float:
    """Warm up, then fall linearly to zero."""
    return min((step + 1) / WARM_UP, (steps - step) / max(1, steps - WARM_UP))


@torch.no_grad()
def heldout_loss(
    name: str, model: PreTrainedModel, encoded: list[np.ndarray], mask: int
) -> tuple[float, float]:
    """Return the mean loss and the accuracy; the BERT's with every seventh token hidden."""
    rng = np.random.default_rng(1)
    total, hits, count = 0.0, 0.0, 0
    for ids in batches(encoded, rng):
        hidden = None
        if name == "bert":
            offsets = np.arange(len(ids))[:, None] + np.arange(ids.shape[1] - 2)[None, :]
            hidden = np.pad(offsets % 7 == 0, ((0, 0), (1, 1)))
            if not hidden.any():
                continue
            where = torch.from_numpy(hidden)
            states = model.bert(torch.from_numpy(ids).masked_fill(where, mask)).last_hidden_state
            logits, targets = model.cls(states[where]), torch.from_numpy(ids)[where]
        else:
            tensor = torch.from_numpy(ids)
            logits = model(tensor[:, :-1]).logits.flatten(0, 1)
            targets = tensor[:, 1:].flatten()
        total += float(nn.functional.cross_entropy(logits.float(), targets, reduction="sum"))
        hits += float((logits.argmax(-1) == targets).sum())
        count += len(targets)
    return total / count, hits / count


def train(
    name: str, model: PreTrainedModel, encoded: list[np.ndarray], mask: int, steps: int, out: Path
) -> int:
    """Train, saving the state now and then; return the number of tokens seen."""
    optimisers = optimizers(model)
    state_file = out.with_name(f"{name}-state.pt")
    done, tokens = 0, 0
    if state_file.exists():
        state = torch.load(state_file, weights_only=True)
        done, tokens = state["step"], state["tokens"]
        model.load_state_dict(state["model"])
        for optimiser, saved in zip(optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
    bases = [MATRIX_RATE, OTHER_RATE]
    started, smooth = time.monotonic(), math.nan
    epoch, step = 0, 0
    while step < steps:
        for ids in batches(encoded, np.random.default_rng([7, epoch])):
            if step >= steps:
                break
            if step >= done:
                for optimiser, base in zip(optimisers, bases, strict=True):
                    for group in optimiser.param_groups:
                        group["lr"] = base * rate_at(step, steps)
                hidden = None
                if name == "bert":
                    hidden = draw_masks(ids, np.random.default_rng([11, step]))
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = loss_of(name, model, ids, hidden, mask)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                for optimiser in optimisers:
                    optimiser.step()
                    optimiser.zero_grad(set_to_none=False)
                tokens += ids.size
                value = float(loss.detach())
                smooth = value if math.isnan(smooth) else 0.98 * smooth + 0.02 * value
                if (step + 1) % LOG_EVERY == 0:
                    pace = (time.monotonic() - started) / (step + 1 - done)
                    print(f"step {step + 1}: loss {smooth:.3f}, {pace:.2f} s a step", flush=True)
                if (step + 1) % SAVE_EVERY == 0:
                    state = {
                        "step": step + 1,
                        "tokens": tokens,
                        "model": model.state_dict(),
                        "optimisers": [o.state_dict() for o in optimisers],
                    }
                    torch.save(state, state_file.with_suffix(".tmp"))
                    state_file.with_suffix(".tmp").replace(state_file)
                    model.save_pretrained(out)
            step += 1
        epoch += 1
    return tokens


def main() -> None:
    """Train and export."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=("gpt", "bert"))
    parser.add_argument("corpus", type=Path)
    parser.add_argument("build", type=Path)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bundled", type=Path, default=Path(__file__).parent / "bundled")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    steps = args.steps or STEPS[args.name]
    out = args.build / args.name
    sentences = read_lines(args.corpus / "sentences.txt.gz")
    tokenizer = train_tokenizer(args.name, sentences)
    tokenizer.save_pretrained(out)
    model = build(args.name, tokenizer)
    encoded = encode(args.name, tokenizer, sentences)
    heldout = encode(args.name, tokenizer, read_lines(args.corpus / "heldout.txt.gz"))
    mask = tokenizer.mask_token_id if args.name == "bert" else -1
    passed = sum(map(len, encoded))
    weights = sum(w.numel() for w in model.parameters())
    print(f"{weights} weights, {len(encoded)} sentences, {passed} tokens a pass", flush=True)
    tokens = train(args.name, model, encoded, mask, steps, out)
    model.save_pretrained(out)
    target = args.bundled / args.name
    tokenizer.save_pretrained(target)
    model.half().save_pretrained(target)
    loss, accuracy = heldout_loss(args.name, model.float(), heldout, mask)
    size = sum(f.stat().st_size for f in target.iterdir()) / 1e6
    print(f"{tokens} tokens, {tokens / passed:.2f} passes; exported {size:.2f} MB")
    print(f"held-out loss {loss:.4f} nats a token, accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
