"""Compare rules that assign sampled sentences to natural sentences.

    python experiments/readable/rules.py FOLDER --pair contstim:bigram contstim:trigram

The folder contains the batches and scores of a pair, as written by `pools.py`. For several lower
bounds on the reading score, all sentences are assigned to the first 24 or to 24 of the first 72
bundled natural sentences, with at most one or two sentences that begin or end with the same words.
Prints the number of triplets and their mean decreases for each rule.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from forecasts import MAX_WORD_SHARE, read_pool

from contstim import pool
from contstim.synthesis.pool import Request, SentencePool, synthesize_from_pool
from contstim.synthesis.problem import MinScore, ProblemDefinition

#: Numbers of natural sentences, each with the maximum number of similar sentences.
RULES = ((24, 2), (72, 2), (72, 1))
BOUNDS = (-4.1, -3.7, -3.4, -3.1)


def main() -> None:
    """Print the table of one pair."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pair", nargs=2, required=True)
    args = parser.parse_args()
    natural, reader = pool()[:72], MinScore.readable().model
    sides, scores = read_pool(args.folder, [*args.pair, reader], natural)
    sampled = dict.fromkeys(s for side in sides for batch in side for s in batch)
    one, two = args.pair
    problems = [ProblemDefinition((r,), (a,)) for r, a in ((two, one), (one, two))]
    for bound in BOUNDS:
        readable = tuple(s for s in sampled if scores[reader][s] >= bound)
        cells = [f"{bound:g}"]
        for n_natural, cap in RULES:
            requests = [[Request(text, p) for p in problems] for text in natural[:n_natural]]
            candidates = SentencePool(readable, scores, {})
            results = synthesize_from_pool(
                candidates, requests, 1, "sample", 24, cap, MAX_WORD_SHARE
            )
            losses = [first.loss + second.loss for first, second in results if first.is_changed]
            cells.append(f"{len(losses)}, {-sum(losses) / max(1, len(losses)):.1f}")
        print(" | ".join(cells), flush=True)


if __name__ == "__main__":
    main()
