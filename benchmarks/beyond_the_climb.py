"""Losses of the strategies against a bound on what any sentence could reach, and their times.

Usage: python benchmarks/beyond_the_climb.py [--starts 30] [--from 0] [--model-1 SPEC]
       [--model-2 SPEC] [--vocabulary CSV] [--words N]
       [--strategies exhaustive beam]

Every strategy starts from the same eight-word sentences of the bundled pool, with the bundled words
or those of a file that ``contstim vocabulary`` writes, and the same seed, both ways round, one
thread. Times are of the processor, a search each; `first` is the first search of a strategy, which
joins the models' n-grams where it needs them, and `mean` is over all of them, the first included.
Parts of the bound are means over starts of loss / bound; `least` is the lowest of them.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from contstim import Problem, bundled_vocabulary, load_model, pool, synthesize
from contstim.synthesis import STRATEGIES
from contstim.synthesis.candidates import WordReplacement
from contstim.synthesis.ngrams.certificate import bound_of
from contstim.synthesis.sweeps import Search
from contstim.text import Sentence, WordList
from contstim.text.vocabulary import Vocabulary


def main() -> None:
    """Print a table in Markdown for each direction."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--starts", type=int, default=30)
    parser.add_argument("--from", type=int, default=0, dest="first", help="first of the starts")
    parser.add_argument("--vocabulary", help="a file of words in place of the bundled ones")
    parser.add_argument("--model-1", default="contstim:bigram")
    parser.add_argument("--model-2", default="contstim:trigram")
    parser.add_argument("--words", type=int, help="the vocabulary's first N words only")
    parser.add_argument(
        "--strategies",
        nargs="+",
        choices=STRATEGIES,
        default=["exhaustive", "beam"],
    )
    args = parser.parse_args()
    models = load_model(args.model_1), load_model(args.model_2)
    vocabulary = Vocabulary.read(args.vocabulary) if args.vocabulary else bundled_vocabulary()
    if args.words:
        vocabulary = Vocabulary(
            vocabulary.first,
            WordList(vocabulary.elsewhere.words[: args.words]),
            vocabulary.repeatable,
        )
    starts = [s for s in pool() if len(s.split()) == 8]
    starts = starts[args.first : args.first + args.starts]
    for reject, accept in (models, models[::-1]):
        problem = Problem.pair(reject, accept)
        # What belongs to the models alone is read before anything is timed.
        warm = WordReplacement(vocabulary, (reject, accept))
        synthesize(starts[0], problem=problem, proposal=warm, strategy="exhaustive")
        print(f"\n{reject.spec} rejects, {accept.spec} accepts; {len(starts)} starts\n")
        print("| | mean loss, nats | part of the bound | least | first, s | mean, s | climbs |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        lost: dict[str, list[float]] = {}
        spent: dict[str, list[float]] = {}
        for name in (*args.strategies, "bound"):
            proposal = WordReplacement(vocabulary, (reject, accept))
            for start in starts:
                began = time.process_time()
                if name == "bound":
                    loss = bound_of(Search(problem, proposal, Sentence.parse(start), seed=1))
                else:
                    found = synthesize(
                        start, problem=problem, proposal=proposal, strategy=name, seed=1
                    )
                    loss = found.loss
                spent.setdefault(name, []).append(time.process_time() - began)
                lost.setdefault(name, []).append(loss)
        for name, losses in lost.items():
            parts = np.array(losses) / np.array(lost["bound"])
            seconds = spent[name]
            climbs = np.mean(seconds) / np.mean(spent["exhaustive"])
            print(
                f"| {name} | {np.mean(losses):.2f} | {parts.mean():.1%} | {parts.min():.1%} | "
                f"{seconds[0]:.2f} | {np.mean(seconds):.3f} | {climbs:.1f} |"
            )


if __name__ == "__main__":
    main()
