"""Measure the time of a local search, and check its local optimum by brute force.

Usage: python benchmarks/synthesis.py [--sentences 50] [--checked 5]

The search rejects by the bigram and accepts by the trigram model. It starts from bundled sentences,
with the bundled vocabulary of 20,000 words, in one thread. The check scores every replacement of a
single word of a result under both models, and counts the replacements that satisfy the constraint
and lower the rejecting model's log-probability. The last line compares the time of the search's
replacement scores with the time to score the same candidates as whole sentences.
"""

from __future__ import annotations

import argparse
import statistics
import time

from contstim import Problem, SynthesisResult, bundled_vocabulary, load_model, pool, synthesize
from contstim.synthesis.check import find_improvements
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.text import Sentence


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=50)
    parser.add_argument("--checked", type=int, default=5)
    args = parser.parse_args()
    reject, accept = load_model("contstim:bigram"), load_model("contstim:trigram")
    proposal = SharedVocabulary(bundled_vocabulary(), (reject, accept))
    starts = [s for s in pool() if len(s.split()) == 8][: args.sentences]
    seconds, results = [], []

    def climb(start: str) -> SynthesisResult:
        return synthesize(
            start,
            reject=reject,
            accept=accept,
            shared_vocabulary=proposal,
            strategy="edit?candidates=all",
            seed=1,
        )

    climb(starts[0])
    for start in starts:
        began = time.perf_counter()
        results.append(climb(start))
        seconds.append(time.perf_counter() - began)
    print("| sentences | median s | slowest s | words replaced, mean | fall, median nats |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    print(
        f"| {len(results)} | {statistics.median(seconds):.3f} | {max(seconds):.3f} | "
        f"{statistics.mean(len(r.steps) for r in results):.1f} | "
        f"{statistics.median(r.loss for r in results):.1f} |"
    )
    problem = Problem((reject,), (accept,))
    checked = [find_improvements(r, problem, proposal) for r in results[: args.checked]]
    print(
        f"\n{sum(len(better) for better, _ in checked)} improvements among "
        f"{sum(n for _, n in checked)} single replacements of {len(checked)} results"
    )
    sentence = Sentence.parse(starts[0])
    words = proposal.words_at(sentence, 3)
    began = time.perf_counter()
    for _ in range(10):
        reject.score_replacements(sentence, 3, words)
        accept.score_replacements(sentence, 3, words)
    at_once = (time.perf_counter() - began) / 10
    texts = [str(sentence.replace(3, word)) for word in words]
    began = time.perf_counter()
    reject.score(texts)
    accept.score(texts)
    one_by_one = time.perf_counter() - began
    print(
        f"\nreplacement scores of {len(words)} words at one position under both models: "
        f"{1000 * at_once:.2f} ms at once, {1000 * one_by_one:.0f} ms as sentences "
        f"({one_by_one / at_once:.0f} x)"
    )


if __name__ == "__main__":
    main()
