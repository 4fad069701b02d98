"""What a student is worth: agreement with its teacher, speed, and exact scores saved in searches.

Usage: python benchmarks/students.py --data FOLDER [--learn 4000]
       python benchmarks/students.py --student FOLDER
       [--teacher SPEC] [--accept SPEC] [--starts 30] [--timed 300] [--words N] [--budget N]

With --data, a student of the teacher (contstim:bert?metric=pll) learns from sentences of 4 to 15
words of ``FOLDER/sentences.txt.gz``, drawn by lot, and is measured on 2,000 of
``FOLDER/heldout.txt.gz``. With --student, one that `contstim models distill` made is used, with
the teacher that it names. Teacher and student are timed in one run, on the pool's sentences of 4
to 15 words. The searches start from the same eight-word sentences, the teacher rejecting, with and
without the student's estimates; exact scores decide in both. Scores needed are those of the teacher
until the loss is as low as the worse of the two ends, so both are measured at equal loss; passes
of the student are counted too.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from contstim import bundled_vocabulary, load_model, pool, synthesize
from contstim.models.base import SentenceModel
from contstim.models.learnt.distilling import distill
from contstim.models.learnt.fitting import FitOptions
from contstim.models.learnt.student import StudentModel
from contstim.models.threads import torch_threads
from contstim.search.bounded import Bounded
from contstim.search.proposals import WordReplacement
from contstim.search.search import Synthesis
from contstim.text.sentence import WordList
from contstim.text.sentences import read_sentences
from contstim.text.vocabulary import Vocabulary


def rate(model: SentenceModel, sentences: list[str]) -> float:
    """Return sentences scored a second of processor time."""
    model.score(sentences[:8])
    began = time.process_time()
    model.score(sentences)
    return len(sentences) / (time.process_time() - began)


def needed(run: Synthesis, target: float) -> int:
    """Return the teacher's exact scores until the loss was at most `target`."""
    if target >= 0:
        return 0
    for step in run.steps:
        if step.reject_log_prob - run.natural_reject_log_prob <= target + 1e-6:
            return step.n_scores[0]
    return run.n_scores[0]


class Counting:
    """Counts the sentences that a student scores."""

    def __init__(self, model: SentenceModel) -> None:
        self.n, self._score = 0, model.score
        model.score = self  # type: ignore[method-assign] # counted where it is called

    def __call__(self, sentences: list[str]) -> np.ndarray:
        """Score, and count."""
        self.n += len(sentences)
        return self._score(sentences)


def searches(args: argparse.Namespace, teacher: SentenceModel, student: StudentModel) -> None:
    """Print the table of searches."""
    accept = load_model(args.accept)
    vocabulary = bundled_vocabulary()
    if args.words:
        vocabulary = Vocabulary(
            WordList(vocabulary.first.words[: args.words]),
            WordList(vocabulary.elsewhere.words[: args.words]),
            vocabulary.repeatable,
        )
    proposal = WordReplacement(vocabulary, (teacher, accept))
    starts = [s for s in pool() if len(s.split()) == 8 and accept.knows(s.split()).all()]
    passes = Counting(student)
    runs: dict[str, list[Synthesis]] = {"without": [], "with": []}
    seconds = {"without": 0.0, "with": 0.0}
    for start in starts[: args.starts]:
        for name, estimate in (("without", None), ("with", student)):
            began = time.perf_counter()
            found = synthesize(
                start,
                reject=teacher,
                accept=accept,
                strategy=Bounded(args.budget),
                proposal=proposal,
                estimate=estimate,
            )
            seconds[name] += time.perf_counter() - began
            runs[name].append(found)
    pairs = list(zip(runs["without"], runs["with"], strict=True))
    targets = [max(one.loss, two.loss) for one, two in pairs]
    print(f"\n{len(pairs)} starts, {args.accept} accepts, {len(vocabulary.elsewhere)} words\n")
    print("| estimates | mean loss, nats | exact scores | for equal loss | student's passes | s |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    counts = {}
    for name, label in (("without", "the teacher's own"), ("with", "and the student's opinion")):
        own = runs[name]
        counts[name] = np.array([needed(r, t) for r, t in zip(own, targets, strict=True)])
        print(
            f"| {label} | {np.mean([r.loss for r in own]):.2f} | "
            f"{np.mean([r.n_scores[0] for r in own]):.0f} | {counts[name].mean():.0f} | "
            f"{passes.n / len(own) if name == 'with' else 0:.0f} | {seconds[name] / len(own):.1f} |"
        )
    fewer = counts["with"] < counts["without"]
    more = counts["with"] > counts["without"]
    ratio = counts["with"].sum() / max(1, counts["without"].sum())
    print(
        f"\nFor equal loss the student needs {ratio:.2f} of the teacher's exact scores: fewer in "
        f"{fewer.sum()} starts, as many in {(~fewer & ~more).sum()}, more in {more.sum()}."
    )


def short_sentences(path: Path, n: int, seed: int) -> list[str]:
    """Draw `n` sentences of 4 to 15 words from a file."""
    found = [s for s in read_sentences(path) if 4 <= len(s.split()) <= 15]
    order = np.random.default_rng(seed).permutation(len(found))[:n]
    return [found[i] for i in order]


def make(args: argparse.Namespace, out: Path) -> None:
    """Make a student of the teacher."""
    distill(
        load_model(args.teacher),
        short_sentences(args.data / "sentences.txt.gz", args.learn, 0),
        out,
        heldout=short_sentences(args.data / "heldout.txt.gz", 2000, 1),
        options=FitOptions(epochs=args.epochs),
    )


def report(args: argparse.Namespace, folder: Path) -> None:
    """Print agreement, speed and the table of searches."""
    record = json.loads((folder / "contstim.json").read_text("utf-8"))
    student = load_model(f"student:{folder}")
    assert isinstance(student, StudentModel)
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
    if args.starts:
        searches(args, teacher, student)


def main() -> None:
    """Make a student if none is given, and print what it is worth."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--student", type=Path)
    source.add_argument("--data", type=Path)
    parser.add_argument("--teacher", default="contstim:bert?metric=pll")
    parser.add_argument("--learn", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--accept", default="contstim:trigram")
    parser.add_argument("--starts", type=int, default=30)
    parser.add_argument("--timed", type=int, default=300)
    parser.add_argument("--words", type=int, help="the vocabulary's first N words only")
    parser.add_argument("--budget", type=int, default=64)
    args = parser.parse_args()
    with torch_threads(), tempfile.TemporaryDirectory() as place:
        folder = args.student
        if folder is None:
            folder = Path(place) / "student"
            make(args, folder)
        report(args, folder)


if __name__ == "__main__":
    main()
