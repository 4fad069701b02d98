"""Print the figures of a bundled model's card.

Usage: python models/evaluate_bundled.py SPEC --blimp blimp.zip --heldout heldout.txt.gz

SPEC is any word-level model that scores unknown words, e.g. ``contstim:lstm?unknown=unk``. Printed:
perplexity on the held-out sentences, per scored unit (ends of sentences counted), over all units
and over those the model knows; the share of held-out sentences of eight words that score above the
same words in random order; and the accuracy on a sample of BLiMP (Warstadt et al. 2020), by
phenomenon, a tie counted as half.
"""

from __future__ import annotations

import argparse
import gzip
import json
import zipfile
from collections import defaultdict
from pathlib import Path

import numpy as np

from contstim.models.base import SentenceModel
from contstim.models.registry import load_model
from contstim.text import split_word

BATCH = 2000


def read_lines(path: Path) -> list[str]:
    """Return the sentences of a text file, gzipped or not."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        return [line.strip() for line in lines if line.strip()]


def print_perplexity(model: SentenceModel, sentences: list[str]) -> None:
    """Print the perplexity over all units and over the known ones."""
    units: list[str] = []
    values: list[np.ndarray] = []
    for first in range(0, len(sentences), BATCH):
        for part in model.parts(sentences[first : first + BATCH]):
            units += part.units
            values.append(part.log_probs)
    log_probs = np.concatenate(values)
    known = model.knows(units) | (np.array(units) == model.event.end)
    print(f"perplexity: {np.exp(-log_probs.mean()):.1f} over {len(units)} units")
    print(
        f"perplexity of known words: {np.exp(-log_probs[known].mean()):.1f} "
        f"({1 - known.mean():.2%} of units unknown)"
    )


def print_shuffles(model: SentenceModel, sentences: list[str], seed: int) -> None:
    """Print how often an eight-word sentence scores above the same words shuffled."""
    rng = np.random.default_rng(seed)
    natural, shuffled = [], []
    for sentence in sentences:
        words = sentence.split()
        if sum(any(c.isalnum() for c in word) for word in words) != 8:
            continue
        before, core, final = split_word(words[-1])
        bare = [*words[:-1], before + core]
        order = bare
        while order == bare:
            order = [bare[i] for i in rng.permutation(len(bare))]
        natural.append(sentence)
        shuffled.append(" ".join(order) + final)
    wins = model.score(natural) > model.score(shuffled)
    print(f"natural order above a shuffle: {wins.mean():.1%} of {len(wins)} eight-word sentences")


def print_blimp(model: SentenceModel, path: Path, per_paradigm: int, seed: int) -> None:
    """Print the accuracy by phenomenon on `per_paradigm` pairs of each paradigm."""
    rng = np.random.default_rng(seed)
    good: list[str] = []
    bad: list[str] = []
    terms: list[str] = []
    with zipfile.ZipFile(path) as archive:
        for name in sorted(n for n in archive.namelist() if n.endswith(".jsonl")):
            pairs = [json.loads(line) for line in archive.read(name).decode().splitlines()]
            for i in rng.choice(len(pairs), min(per_paradigm, len(pairs)), replace=False):
                good.append(pairs[i]["sentence_good"])
                bad.append(pairs[i]["sentence_bad"])
                terms.append(pairs[i]["linguistics_term"])
    difference = model.score(good) - model.score(bad)
    correct = np.where(difference == 0, 0.5, difference > 0)
    by_term: defaultdict[str, list[float]] = defaultdict(list)
    for term, value in zip(terms, correct, strict=True):
        by_term[term].append(float(value))
    print(f"BLiMP: {correct.mean():.1%} of {len(correct)} pairs")
    for term, values_of in sorted(by_term.items()):
        print(f"  {term}: {np.mean(values_of):.1%} of {len(values_of)}")


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("spec")
    parser.add_argument("--blimp", type=Path)
    parser.add_argument("--heldout", type=Path)
    parser.add_argument("--per-paradigm", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    model = load_model(args.spec)
    print(f"{model.spec}: {model.event}")
    if args.heldout is not None:
        sentences = read_lines(args.heldout)
        print_perplexity(model, sentences)
        print_shuffles(model, sentences, args.seed)
    if args.blimp is not None:
        print_blimp(model, args.blimp, args.per_paradigm, args.seed)


if __name__ == "__main__":
    main()
