"""Measure how well a student agrees with its teacher, and how much faster it is.

Usage: python benchmarks/students.py --data FOLDER [--learn 4000]
       python benchmarks/students.py --student FOLDER
       [--teacher SPEC] [--timed 300]

With --data, a student of the teacher (contstim:bert?metric=pll) is trained on random sentences of 4
to 15 words from ``FOLDER/sentences.txt.gz``, and evaluated on 2,000 sentences of
``FOLDER/heldout.txt.gz``. With --student, a student made by `contstim models distill` is evaluated.
Teacher and student are timed in one run, on bundled sentences of 4 to 15 words.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from contstim import load_model, pool
from contstim.models.base import SentenceModel
from contstim.models.devices import limit_torch_threads
from contstim.text import read_sentences
from contstim.training.distillation import distill
from contstim.training.options import FitOptions


def rate(model: SentenceModel, sentences: list[str]) -> float:
    """Return sentences scored a second of processor time."""
    model.score(sentences[:8])
    began = time.process_time()
    model.score(sentences)
    return len(sentences) / (time.process_time() - began)


def short_sentences(path: Path, n: int, seed: int) -> list[str]:
    """Draw `n` sentences of 4 to 15 words from a file."""
    found = [s for s in read_sentences(path) if 4 <= len(s.split()) <= 15]
    order = np.random.default_rng(seed).permutation(len(found))[:n]
    return [found[i] for i in order]


def make(args: argparse.Namespace, out: Path) -> None:
    """Train a student of the teacher."""
    distill(
        load_model(args.teacher),
        short_sentences(args.data / "sentences.txt.gz", args.learn, 0),
        out,
        heldout=short_sentences(args.data / "heldout.txt.gz", 2000, 1),
        options=FitOptions(epochs=args.epochs),
    )


def report(args: argparse.Namespace, folder: Path) -> None:
    """Print the agreement with the teacher and the speed of both."""
    record = json.loads((folder / "contstim.json").read_text("utf-8"))
    student = load_model(f"student:{folder}")
    teacher = load_model(record["teacher"]["spec"])
    found, training = record["heldout"], record["training"]
    print(
        f"{teacher.spec}: Pearson {found['pearson']:.4f}, of the length alone "
        f"{found['pearson_of_length']:.4f}, error {found['rmse']:.2f} nats of a standard deviation "
        f"of {found['sd']:.2f}, on {found['sentences']} held-out sentences; "
        f"{training['sentences']} learnt from in {training['epochs']} passes"
    )
    sentences = [s for s in pool() if 4 <= len(s.split()) <= 15][: args.timed]
    teachers, students = (rate(model, sentences) for model in (teacher, student))
    print(
        f"\nsentences a second of processor time: teacher {teachers:.1f}, student {students:.1f}, "
        f"ratio {students / teachers:.1f}"
    )


def main() -> None:
    """Make a student if none is given, and print what it is worth."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--student", type=Path)
    source.add_argument("--data", type=Path)
    parser.add_argument("--teacher", default="contstim:bert?metric=pll")
    parser.add_argument("--learn", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--timed", type=int, default=300)
    args = parser.parse_args()
    with limit_torch_threads(), tempfile.TemporaryDirectory() as place:
        folder = args.student
        if folder is None:
            folder = Path(place) / "student"
            make(args, folder)
        report(args, folder)


if __name__ == "__main__":
    main()
