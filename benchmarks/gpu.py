"""Measure how well large networks use a GPU: share of the peak, memory, and time of a search.

Usage: python benchmarks/gpu.py [--device cuda:0] [--sentences 2000] [--dry-run]

A masked network of the size of BERT-large and a causal network with 7 billion parameters, both with
random weights in bfloat16, score sentences. The number of operations is two per weight and token,
and two per weight of the head and scored position; attention between tokens is not counted, so the
share of the peak is slightly too low. The peak is measured as the speed of a product of two square
matrices in the same precision. Memory is the maximum beyond the weights. With --dry-run the
networks are tiny, so that the script runs on any processor.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, LlamaConfig, LlamaForCausalLM

from contstim import load_model, pool, synthesize
from contstim.models import ModelSpec
from contstim.models.base import SentenceModel
from contstim.models.hf.causal import CausalModel
from contstim.models.hf.checkpoint import Checkpoint
from contstim.models.hf.masked import MaskedModel
from contstim.models.hf.network import Network

BUNDLED = Path(__file__).parents[1] / "models" / "bundled"


@dataclass(frozen=True)
class Size:
    """The size of a network."""

    layers: int
    width: int
    heads: int
    inner: int
    vocabulary: int


BERT_LARGE, SEVEN_BILLION = Size(24, 1024, 16, 4096, 30_522), Size(32, 4096, 32, 11_008, 32_000)
TINY = Size(2, 32, 2, 64, 30_522)


def masked_network(size: Size) -> Any:
    """Return a masked network with random weights."""
    config = BertConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=size.inner,
    )
    return BertForMaskedLM(config)


def causal_network(size: Size) -> Any:
    """Return a causal network with random weights."""
    config = LlamaConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=size.inner,
    )
    return LlamaForCausalLM(config)


def network_on(device: torch.device, made: Any, size: Size) -> Network:
    """Create a network on a device, in bfloat16."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with device:
            model = made(size)
    finally:
        torch.set_default_dtype(usual)
    return Network(model.eval().requires_grad_(False), device)


def masked_model(network: Network, metric: str) -> MaskedModel:
    """Return a sentence model of a masked network, with the tokenizer of ``contstim:bert``."""
    tokenizer = AutoTokenizer.from_pretrained(BUNDLED / "bert")
    checkpoint = Checkpoint("masked", network, tokenizer, 512, tokenizer.mask_token_id)
    return MaskedModel(ModelSpec.parse(f"hf:random-masked?metric={metric}"), checkpoint)


def causal_model(network: Network) -> CausalModel:
    """Return a sentence model of a causal network, with the tokenizer of ``contstim:gpt``."""
    tokenizer = AutoTokenizer.from_pretrained(BUNDLED / "gpt")
    spec = ModelSpec.parse("hf:random-causal")
    return CausalModel(spec, Checkpoint("causal", network, tokenizer, 2048))


@dataclass
class Counted:
    """Number of tokens and of scored positions in each forward pass of a network."""

    tokens: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)

    def operations(self, network: Network) -> float:
        """Return the number of operations of all forward passes."""
        inside, head = network.n_weights
        return 2.0 * (inside * sum(self.tokens) + head * sum(self.places))


@contextmanager
def counting(network: Network) -> Iterator[Counted]:
    """Count the tokens and positions that a network computes inside a ``with`` block."""
    counted, compute = Counted(), network.logits

    def count(ids: torch.Tensor, rows: torch.Tensor, *more: Any, **named: Any) -> torch.Tensor:
        counted.tokens.append(ids.numel())
        counted.places.append(len(rows))
        return compute(ids, rows, *more, **named)

    network.logits = count  # type: ignore[method-assign] # taken back below
    try:
        yield counted
    finally:
        del network.logits  # the method again


def seconds_of(device: torch.device, work: Any) -> float:
    """Return the time of a call in seconds, until the device has finished."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    wait()
    began = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - began


def peak(device: torch.device, n: int) -> float:
    """Return the number of operations per second of a product of two square matrices."""
    one = torch.randn(n, n, dtype=torch.bfloat16, device=device)
    seconds = min(seconds_of(device, lambda: one @ one) for _ in range(10))
    return float(2.0 * n**3 / seconds)


def memory_of(device: torch.device, work: Any) -> float:
    """Return the maximum memory that a call adds on a GPU, in MiB; NaN on a CPU."""
    if device.type != "cuda":
        work()
        return float("nan")
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    work()
    return float(torch.cuda.max_memory_allocated(device) - before) / 2**20


def score_row(
    name: str, model: Any, sentences: Sequence[str], device: torch.device, most: float
) -> str:
    """Measure speed and memory of scoring sentences, and return a row of the table."""
    network: Network = model.network
    model.score(sentences[:8])
    with counting(network) as counted:
        seconds = seconds_of(device, lambda: model.score(sentences))
    rate = counted.operations(network) / seconds
    fill = sum(counted.tokens) / len(counted.tokens) / model.batch_tokens
    few, many = (
        memory_of(device, lambda n=n: model.score(sentences[:n]))
        for n in (len(sentences) // 4, len(sentences))
    )
    return (
        f"| {name} | {len(sentences) / seconds:,.1f} | {rate / 1e12:,.3g} | {rate / most:.0%} | "
        f"{len(counted.tokens):,} | {fill:.0%} | {few:,.0f} | {many:,.0f} |"
    )


def search_seconds(
    reject: SentenceModel, accept: SentenceModel, sentence: str
) -> tuple[float, int]:
    """Return the time of a guided search and the number of exact scores that it needed."""
    began = time.perf_counter()
    result = synthesize(sentence, reject=reject, accept=accept, strategy="edit?candidates=8")
    return time.perf_counter() - began, sum(result.n_scores)


def main() -> None:
    """Print tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--dry-run", action="store_true", help="tiny networks, on the processor")
    args = parser.parse_args()
    device = torch.device("cpu" if args.dry_run else args.device)
    torch.manual_seed(0)
    sizes = (TINY, TINY) if args.dry_run else (BERT_LARGE, SEVEN_BILLION)
    n = 4 if args.dry_run else args.sentences
    n_words = 5 if args.dry_run else 8
    equally_long = [s for s in pool() if len(s.split()) == n_words]
    # Different ones, so that nothing is computed once for two.
    numbered = (f"{s} {k}" for k in itertools.count() for s in equally_long)
    sentences = list(itertools.islice(numbered, n))
    most = peak(device, 256 if args.dry_run else 8192)
    print(f"{n} sentences; peak measured: {most / 1e12:,.3g} TFLOP/s in bfloat16\n")
    print(
        "| | sentences/s | TFLOP/s | of the peak | passes | how full | MiB, a quarter of the "
        "sentences | MiB, all |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    masked = network_on(device, masked_network, sizes[0])
    for metric in ("pll", "permutation"):
        some = sentences if metric == "pll" else sentences[: max(2, n // 10)]
        print(score_row(f"masked, {metric}", masked_model(masked, metric), some, device, most))
    causal = network_on(device, causal_network, sizes[1])
    print(score_row("causal, log-probability", causal_model(causal), sentences, device, most))
    sentence = equally_long[0]
    seconds, scores = search_seconds(
        masked_model(masked, "pll"), load_model("contstim:trigram?unknown=unk"), sentence
    )
    print(f"\na guided search, masked network rejects: {seconds:.1f} s, {scores} exact scores")


if __name__ == "__main__":
    main()
