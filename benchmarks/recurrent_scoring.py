"""Compare the speed of scoring with an LSTM with PyTorch's own layer, sentence by sentence.

Usage: python benchmarks/recurrent_scoring.py SPEC --data SENTENCES.txt[.gz] [--threads 2]

Both sides score the same sentences with the same network in one run, so the ratio can be compared
between machines. The other side uses ``torch.nn.LSTM`` and ``log_softmax`` over the whole
vocabulary, one sentence at a time.
"""

from __future__ import annotations

import argparse
import gzip
import time
from pathlib import Path

import numpy as np
import torch

from contstim.models import ModelSpec
from contstim.models.recurrent import load_network
from contstim.models.recurrent.model import RecurrentModel


def plain_lstm(network):
    """Copy the weights of a network to a ``torch.nn.LSTM``."""
    config = network.config
    layer = torch.nn.LSTM(config.embedding, config.hidden)

    def reorder(tensor):
        i, f, o, g = tensor.chunk(4)
        return torch.cat([i, f, g, o])

    with torch.no_grad():
        layer.weight_ih_l0.copy_(reorder(network.weights["input"]))
        layer.weight_hh_l0.copy_(reorder(network.weights["recurrent"]))
        layer.bias_ih_l0.copy_(reorder(network.weights["bias"]))
        layer.bias_hh_l0.zero_()
    return layer


def main() -> None:
    """Time both and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("spec", help="lstm:PATH?options, a tied network")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    opener = gzip.open if args.data.suffix == ".gz" else open
    with opener(args.data, "rt", encoding="utf-8") as lines:
        sentences = [line.strip() for line, _ in zip(lines, range(args.sentences), strict=False)]
    spec = ModelSpec.parse(args.spec)
    network, _, digest = load_network(Path(spec.location))
    model = RecurrentModel(network, spec, digest)
    model.score(sentences[:50])
    clock, cpu = time.perf_counter(), time.process_time()
    scores = model.score(sentences)
    seconds, cpu = time.perf_counter() - clock, time.process_time() - cpu
    tokens = sum(len(part.tokens) for part in model.score_tokens(sentences))
    layer, few = plain_lstm(network), len(sentences) // 5
    weights, vocabulary = network.weights, network.vocabulary
    clock = time.perf_counter()
    plain = []
    with torch.no_grad():
        for sentence in sentences[:few]:
            # The tokenizer is contstim's on both sides.
            ids = model._tokenizer.encode(sentence).ids
            inputs = torch.from_numpy(np.concatenate([[vocabulary.start], ids]))
            hidden, _ = layer(weights["embedding"][inputs][:, None])
            query = hidden[:, 0] @ weights["projection"].t()
            logits = query @ network.output_weights.t() + weights["output_bias"]
            target = torch.from_numpy(np.append(ids, vocabulary.end))
            chosen = torch.log_softmax(logits, 1).gather(1, target[:, None])
            plain.append(float(chosen.double().sum()))
    plain_seconds = time.perf_counter() - clock
    ours, theirs = len(sentences) / seconds, few / plain_seconds
    print(f"largest difference: {np.abs(scores[:few] - plain).max():.1e} nats")
    print(
        f"contstim {ours:.0f} sentences/s ({tokens / len(sentences):.1f} tokens each; "
        f"{len(sentences) / cpu:.0f} a second of processor time), one by one {theirs:.0f}, "
        f"ratio {ours / theirs:.2f}"
    )


if __name__ == "__main__":
    main()
