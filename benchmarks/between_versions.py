"""What the same calls cost in two checkouts, one beside the other: has a change made them slower?

Usage: python benchmarks/between_versions.py BEFORE [--after FOLDER] [--rounds 3] [--only WORD ...]
           [--choices CSV]

BEFORE and FOLDER (by default this checkout) are folders that hold ``contstim/`` and ``models/``.
Each call runs in a process of its own, on one thread, in both checkouts in turn. What counts is the
processor time of the call, start of Python and loading of models left out (but for the calls of the
command line, of which the whole process counts), so that other work on the machine matters little.
The ratio is that of the medians: above 1 the second checkout is faster. The work is the same in
both: strategies are named, and what a checkout does besides by default is switched off. CSV is a
file of choices as Golan et al. (2023) published them.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HEAD = """
import itertools, time
import numpy as np, pandas as pd
import contstim
def load(*names):
    return [contstim.load_model(name) for name in names]
def timed(call, again=1):
    call()  # what is made once
    start = time.process_time()
    for _ in range(again):
        call()
    print((time.process_time() - start) / again)
"""
SCORE = """
(model,) = load({spec!r})
texts = contstim.pool()[:{n}]
timed(lambda: model.score(texts), {again})
"""
WRITE = """
reject, accept = load({reject!r}, {accept!r})
texts = contstim.pool()[:{n}]
def write():
    for text in texts:
        contstim.synthesize(text, reject=reject, accept=accept, strategy={strategy!r})
timed(write)
"""
RANKS = """
rng = np.random.default_rng(0)
common = rng.normal(-50, 8, (20000, 1))
scores = pd.DataFrame(common + rng.normal(0, 4, (20000, 9)), columns=list("abcdefghi"))
"""
#: What is measured, by name; the names of the sections of RESULTS.md come first.
CALLS = {
    "scoring: 512 sentences, contstim:trigram": SCORE.format(
        spec="contstim:trigram", n=512, again=5
    ),
    "recurrent_scoring: 128 sentences, contstim:lstm": SCORE.format(
        spec="contstim:lstm", n=128, again=3
    ),
    "scoring: 64 sentences, contstim:gpt": SCORE.format(spec="contstim:gpt", n=64, again=3),
    "bench_transformers: 32 sentences, contstim:bert, pll": SCORE.format(
        spec="contstim:bert?metric=pll", n=32, again=2
    ),
    "bench_transformers: 2 sentences, contstim:bert, exact permutation": SCORE.format(
        spec="contstim:bert?metric=permutation", n=2, again=2
    ),
    "synthesis: 4 sentences, bigram against trigram, all candidates": WRITE.format(
        reject="contstim:bigram", accept="contstim:trigram", strategy="edit?candidates=all", n=4
    ),
    "network: 1 sentence, trigram against gpt, 5 candidates, by the command line": [
        *("synthesize", "--reject", "contstim:trigram", "--accept", "contstim:gpt"),
        *("--strategy", "edit?candidates=5", "--vocabulary", "WORDS", "--limit", "1"),
    ],
    "selection: 10 natural pairs for every two of 9 models, of 20,000 sentences": RANKS
    + "timed(lambda: contstim.select_natural_pairs(scores, 10), 3)\n",
    "evaluation: 40 people, 200 trials, 4 models, 1,000 resamples": """
from contstim.evaluation import EvaluationOptions
from contstim.design import simulate_choices, Simulation
published = {"inference": "signed-rank"} if hasattr(EvaluationOptions, "inference") else {}
rng = np.random.default_rng(0)
texts = [f"sentence {k}" for k in range(400)]
scores = pd.DataFrame(rng.normal(-50, 8, (400, 4)), columns=list("abcd"))
scores.insert(0, "sentence", texts)
design = pd.DataFrame({"group": "g", "trial": range(200), "condition": "natural",
                       "sentence_1": texts[:200], "sentence_2": texts[200:],
                       "model_1": ["a", "c"] * 100, "model_2": ["b", "d"] * 100})
choices = simulate_choices(design, scores, Simulation((("a", 1.0),)), 40, seed=0)
timed(lambda: contstim.evaluate(choices, scores, **published))
""",
    "ngram: a trigram model of the pool, by the command line": [
        *("models", "train", "ngram", "POOL", "--order", "3", "--fallback", "0.5,1,1.5"),
        *("--out", "OUT/mine.arpa"),
    ],
    "ngram: a trigram model of 1,920,000 words, by the command line": [
        *("models", "train", "ngram", "TEXT", "--order", "3", "--fallback", "0.5,1,1.5"),
        *("--out", "OUT/mine.arpa"),
    ],
    "runs: a study of 8 triplets of n-gram models, by the command line": ["run", "PLAN"],
    "command line: --help": ["--help"],
    "command line: one sentence, bigram against trigram": [
        *("synthesize", "--reject", "contstim:bigram", "--accept", "contstim:trigram"),
        *("--strategy", "edit?candidates=all", "The ship left at dawn."),
    ],
}
PUBLISHED = "evaluation: the published choices, 1,000 resamples"
PLAN = """
models = ["contstim:unigram", "contstim:bigram", "contstim:trigram"]
[study]
name = "x"
out = "OUT"
[sentences]
limit = 40
[synthesis]
strategy = "edit?candidates=all"
per_pair = 8
"""
#: Where a checkout has a limit on words, which writes sentences again; without it, for equal work.
UNLIMITED = ("contstim/text/diversity.py", "max_word_share = 1.0\n", ["--max-word-share", "1"])


def text_of(words: list[str]) -> str:
    """Return 160,000 lines of 12 words, each drawn at random from `words`."""
    draw = random.Random(0)
    return "\n".join(" ".join(draw.choices(words, k=12)) for _ in range(160_000))


def seconds(tree: Path, call: str | list[str], choices: str | None) -> float:
    """Return the processor time that a call takes in a checkout."""
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(call, str):
            command = [sys.executable, "-c", HEAD + call]
        else:
            plan = Path(folder, "study.toml")
            unlimited = (tree / UNLIMITED[0]).exists()
            plan.write_text(PLAN.replace("OUT", folder) + UNLIMITED[1] * unlimited, "utf-8")
            names = {"PLAN": str(plan), "CHOICES": choices or ""}
            pool = Path(folder, "pool.txt")
            pool.write_bytes((tree / "contstim" / "data" / "pool.txt").read_bytes())
            listed = Path(folder, "words.txt")
            listed.write_text("\n".join(sorted({*pool.read_text("utf-8").split()})[::8]), "utf-8")
            text = Path(folder, "text.txt")
            if "TEXT" in call:
                text.write_text(text_of(pool.read_text("utf-8").split()), "utf-8")
            names |= {"POOL": str(pool), "WORDS": str(listed), "TEXT": str(text)}
            words = [names.get(word, word.replace("OUT", folder)) for word in call]
            words += UNLIMITED[2] * (unlimited and words[0] == "synthesize")
            command = [sys.executable, "-c", "import sys; from contstim.cli import main; sys.exit("
                       "main(sys.argv[1:]))", *words]  # fmt: skip
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        before = os.times()
        done = subprocess.run(
            command,
            env={**os.environ, **threads, "PYTHONPATH": str(tree)},
            cwd=folder,
            capture_output=True,
            text=True,
        )
        after = os.times()
    if done.returncode:
        raise SystemExit(f"{tree}: {done.stderr.strip().splitlines()[-1]}")
    if isinstance(call, str):
        return float(done.stdout.split()[-1])
    spent = (after.children_user, after.children_system)
    return sum(spent) - before.children_user - before.children_system


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("--after", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[""], help="words of the calls' names")
    parser.add_argument("--choices", help="published choices, CSV")
    args = parser.parse_args()
    calls = dict(CALLS)
    if args.choices:
        words = ["evaluate", "CHOICES", "--format", "golan2023", "--preset", "golan2023"]
        calls[PUBLISHED] = [*words, "--out", "OUT/results"]
    choices = args.choices and str(Path(args.choices).resolve())
    trees = (args.before.resolve(), args.after.resolve())
    print(f"processor time, 1 thread, median of {args.rounds} rounds\n")
    print("| what | before, s | after, s | ratio |\n| --- | ---: | ---: | ---: |")
    for name, call in calls.items():
        if any(word in name for word in args.only):
            rounds = [[seconds(tree, call, choices) for tree in trees] for _ in range(args.rounds)]
            before, after = (statistics.median(own) for own in zip(*rounds, strict=True))
            print(f"| {name} | {before:.3f} | {after:.3f} | {before / after:.2f} |", flush=True)


if __name__ == "__main__":
    main()
