"""Measure how many sentences per second each bundled model scores.

Usage: python benchmarks/scoring.py [--text FILE] [--sentences 10000] [--threads 2]

FILE has one sentence per line; by default the bundled sentences are repeated. Unknown words are
scored as ``unk``. The ratio compares one call for all sentences with one call per sentence, in the
same run.
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np

from contstim import load_model, pool, read_sentences
from contstim.models.registry import bundled_models


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text")
    parser.add_argument("--sentences", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    import torch

    torch.set_num_threads(args.threads)
    source = read_sentences(args.text) if args.text else pool()
    sentences = list(itertools.islice(itertools.cycle(source), args.sentences))
    words = np.mean([len(s.split()) for s in sentences])
    print(f"{len(sentences)} sentences of {words:.1f} words, {args.threads} threads\n")
    print("| model | sentences/s | against one call a sentence | largest difference, nats |")
    print("| --- | ---: | ---: | ---: |")
    for name in (entry.name for entry in bundled_models().values() if not entry.converter):
        model = load_model(f"contstim:{name}?unknown=unk")
        model.score(sentences[:100])
        began = time.perf_counter()
        together = model.score_with_counts(sentences).score
        batch = time.perf_counter() - began
        few = sentences[:200]
        began = time.perf_counter()
        single = np.array([model.score([s])[0] for s in few])
        alone = (time.perf_counter() - began) / len(few)
        difference = np.abs(single - together[: len(few)]).max()
        rate = len(sentences) / batch
        print(f"| contstim:{name} | {rate:,.0f} | {rate * alone:.1f} x | {difference:.1e} |")


if __name__ == "__main__":
    main()
