"""Scoring n-best lists: causal transformers with and without sharing what hypotheses begin with.

Usage: python benchmarks/rescoring.py SPEC [--nbest FILE] [--utterances N]

Without FILE the lists are made from the bundled pool: 16 hypotheses a sentence, one to three words
replaced by others of the pool.
"""

from __future__ import annotations

import argparse
import time
from unittest.mock import patch

import numpy as np

from contstim import load_model, pool
from contstim.models.hf.causal import CausalModel
from contstim.models.hf.trie import plan_rows
from contstim.rescoring.nbest import read_nbest


def made(n: int, n_best: int = 16) -> list[list[str]]:
    rng = np.random.default_rng(0)
    sentences = pool()
    words = sorted({word for sentence in sentences for word in sentence.split()[1:-1]})
    lists = []
    for sentence in sentences[:n]:
        found = {sentence}
        while len(found) < n_best:
            own = sentence.split()
            for place in rng.choice(len(own), size=rng.integers(1, 4), replace=False):
                own[place] = str(rng.choice(words))
            found.add(" ".join(own))
        lists.append(sorted(found))
    return lists


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("spec", help="a causal transformer")
    parser.add_argument("--nbest", help="n-best lists, JSON lines")
    parser.add_argument("--utterances", type=int, default=20)
    args = parser.parse_args()
    if args.nbest:
        lists = [list(u.texts) for u in read_nbest(args.nbest).utterances[: args.utterances]]
    else:
        lists = made(args.utterances)
    model = load_model(args.spec)
    texts = [text for own in lists for text in own]
    ids = [encoded.ids for encoded in model.encode(texts)]
    tokens, nodes = sum(map(len, ids)), sum(len(row.ids) for row in plan_rows(ids))
    model.score(texts[:2] * 2)
    started = time.perf_counter()
    shared = model.score(texts)
    with_sharing = time.perf_counter() - started
    with patch.object(CausalModel, "shared_values", lambda *_: None):
        started = time.perf_counter()
        plain = model.score(texts)
        without = time.perf_counter() - started
    print(f"{model.spec}: {len(texts)} hypotheses of {len(lists)} utterances")
    print(f"tokens computed: {tokens} alone, {nodes} shared, ratio {tokens / nodes:.2f}")
    print(f"time: {without:.2f} s alone, {with_sharing:.2f} s shared, {without / with_sharing:.2f}")
    print(f"largest difference of scores: {np.abs(shared - plain).max():.1e} nats")


if __name__ == "__main__":
    main()
