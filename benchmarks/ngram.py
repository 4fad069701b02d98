"""Measure the speed of n-gram models: training, scoring sentences, and scoring candidates.

Usage: python benchmarks/ngram.py --data TEXT [--model SPEC] [--order 3] [--candidates 20000]

TEXT has one sentence per line and words separated by spaces, plain or compressed by gzip. The
script prints time and peak memory of training; the number of sentences scored per second, and the
share of that time that KenLM alone needs for the same sentences; and the time to score all
candidates at one position in one step, compared with scoring the sentences one by one.
"""

from __future__ import annotations

import argparse
import gzip
import resource
import tempfile
import time
from collections import Counter
from pathlib import Path

import kenlm

from contstim.models.ngram.model import NgramModel
from contstim.models.registry import load_model
from contstim.text import Sentence, WordList
from contstim.training.ngram import train_ngram

N_SENTENCES = 50_000
N_POSITIONS = 40


def read(path: Path) -> list[str]:
    """Return the first sentences of a text."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        return [line.strip() for _, line in zip(range(N_SENTENCES), lines, strict=False)]


def time_training(text: Path, out: Path, order: int) -> None:
    """Train a model on the whole text, and print time and memory."""
    begin = time.perf_counter()
    trained = train_ngram(text, out, order=order, punctuation="split")
    seconds = time.perf_counter() - begin
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"training, order {order}, {trained.n_tokens} tokens, {sum(trained.n_ngrams)} n-grams: "
        f"{seconds:.1f} s, {memory:.2f} GB at most"
    )


def time_scoring(model: NgramModel, sentences: list[str]) -> None:
    """Score a list of sentences, and print the speed and the share of KenLM."""
    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    reader = kenlm.Model(str(model.path), config)
    model.score(sentences)  # words are split once, as in any longer run
    begin = time.perf_counter()
    model.score(sentences)
    ours = time.perf_counter() - begin
    begin = time.perf_counter()
    for sentence in sentences:
        reader.score(sentence)
    alone = time.perf_counter() - begin
    print(
        f"scoring {len(sentences)} sentences: {len(sentences) / ours:,.0f} a second; KenLM alone "
        f"takes {alone / ours:.2f} of that time"
    )


def time_replacements(model: NgramModel, sentences: list[str], n_candidates: int) -> None:
    """Score all candidates at one position in one step and one by one, and print the times."""
    counts = Counter(word for sentence in sentences for word in sentence.split())
    words = [word for word, _ in counts.most_common() if word.isalpha()]
    known = model.in_vocabulary(words)
    candidates = WordList(tuple(w for w, k in zip(words, known, strict=True) if k)[:n_candidates])
    parsed = [Sentence.parse(s) for s in sentences if len(s.split()) == 9][:N_POSITIONS]
    begin = time.perf_counter()
    model.score_replacements(parsed[0], 0, candidates)
    first = time.perf_counter() - begin
    begin = time.perf_counter()
    found = [model.score_replacements(s, i % len(s), candidates) for i, s in enumerate(parsed)]
    together = (time.perf_counter() - begin) / len(parsed)
    begin = time.perf_counter()
    fresh = model.score([str(parsed[0].replace(0, word)) for word in candidates])
    one_by_one = time.perf_counter() - begin
    print(
        f"replacements, {len(candidates)} candidates: {together * 1e3:.2f} ms in one step "
        f"(the first {first:.2f} s, since it reads the arrays), {one_by_one * 1e3:.0f} ms one by "
        f"one, ratio {one_by_one / together:.0f}; largest difference "
        f"{abs(found[0].upper_bounds - fresh).max():.1e} nats"
    )


def main() -> None:
    """Run all three."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", help="a spec, in place of training")
    parser.add_argument("--order", type=int, default=3)
    parser.add_argument("--candidates", type=int, default=20_000)
    args = parser.parse_args()
    sentences = [sentence for sentence in read(args.data) if sentence]
    with tempfile.TemporaryDirectory() as folder:
        spec = args.model
        if spec is None:
            out = Path(folder) / "model.arpa"
            time_training(args.data, out, args.order)
            spec = f"ngram:{out}?punctuation=split"
        model = load_model(spec)
        if not isinstance(model, NgramModel):
            raise SystemExit(f"{spec} is not an n-gram model")
        time_scoring(model, sentences)
        time_replacements(model, sentences, args.candidates)


if __name__ == "__main__":
    main()
