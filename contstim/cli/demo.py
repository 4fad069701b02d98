"""Run the main job on the bundled models: from natural sentences to controversial pairs.

Scores the bundled sentences under the bundled models, writes triplets for several model pairs,
prints the most controversial ones, and leaves triplets.csv and triplets.html in the output folder.
Then sets two scoring metrics of the bundled BERT against each other: it selects the natural
sentence pairs on which they disagree most, and leaves them in metric-pairs.csv.
With --experiment it serves a small experiment instead, at once, to be played in a browser of this
machine; the same command again goes on with the data that are there.

Examples:
  contstim demo --out demo-output
  contstim demo --experiment
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from contstim.cli.common import add_seed, output_folder, port, positive, resumable
from contstim.cli.experiment import serve_study
from contstim.errors import InputError, OutputError
from contstim.experiment.study import example_study, read_study
from contstim.models.base import SentenceModel
from contstim.models.devices import torch_threads
from contstim.models.registry import load_model
from contstim.pipeline.engine import InProcess
from contstim.pipeline.synthesis import SynthesisRequest, write_synthesis
from contstim.pipeline.tasks import SynthesisOptions
from contstim.report.triplets_page import triplets_page
from contstim.search.triplets import Triplet
from contstim.selection import select_natural_pairs
from contstim.text.sentences import pool

#: The pairs of bundled models that the demonstration sets against each other.
PAIRS = (
    ("contstim:bigram", "contstim:trigram"),
    ("contstim:trigram", "contstim:gpt"),
)
#: The metrics of one masked model that it sets against each other.
_METRICS = ("contstim:bert?metric=pll", "contstim:bert?metric=permutation")
_SHOWN = 3
# Exact scores a position under the GPT, whose scores cost much.
_OPTIONS: dict[str, Any] = {"budget": 8}
_POOL_OF_METRICS = 32  # natural sentences; each takes hundreds of inputs


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--out",
        type=output_folder,
        default="demo-output",
        metavar="FOLDER",
        help="where to write (demo-output)",
    )
    parser.add_argument(
        "--sentences",
        type=positive,
        default=8,
        metavar="N",
        help="natural sentences to start from, a model pair (default: 8)",
    )
    parser.add_argument(
        "--experiment", action="store_true", help="serve a small experiment instead"
    )
    parser.add_argument(
        "--port", type=port, default=8000, metavar="N", help="of the experiment (8000)"
    )
    add_seed(parser)


def run(args: argparse.Namespace) -> int:
    """Run the demonstration."""
    folder = Path(args.out)
    study = folder / "study"
    if args.experiment:
        serve_study(read_study(study) if study.exists() else example_study(study), port=args.port)
        return 0
    _write_triplets(args, folder)
    _select_pairs(args, folder)
    return 0


def _write_triplets(args: argparse.Namespace, folder: Path) -> list[Triplet]:
    started = time.monotonic()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write to the folder {folder}: {error.strerror}") from None
    natural = pool()
    models = {spec: load_model(spec) for spec in dict.fromkeys(itertools.chain(*PAIRS))}
    reference = _score_pool(list(models.values()), natural)
    eight = [sentence for sentence in natural if len(sentence.split()) == 8]
    if args.sentences > len(eight):
        raise InputError(
            f"--sentences {args.sentences} exceeds the {len(eight)} bundled sentences of eight "
            "words; ask for fewer"
        )
    chosen = np.random.default_rng(args.seed).choice(len(eight), args.sentences, replace=False)
    starts = [eight[i] for i in sorted(chosen)]
    request = SynthesisRequest(
        PAIRS, starts, options=SynthesisOptions(starts="all", **_OPTIONS), seed=args.seed
    )
    out = folder / "triplets.csv"
    with resumable():
        rows = [
            row for row in write_synthesis(request, out, InProcess()) if isinstance(row, Triplet)
        ]
    page = folder / "triplets.html"
    try:
        page.write_text(triplets_page(pd.DataFrame([t.row() for t in rows]), reference), "utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {page}: {error.strerror}") from None
    for a, b in PAIRS:
        _print_pair([t for t in rows if (t.model_1, t.model_2) == (a, b)], a, b)
    print(f"\n{len(rows)} triplets in {time.monotonic() - started:.0f} s: {out} and {page}")
    return rows


def _select_pairs(args: argparse.Namespace, folder: Path) -> None:
    eight = [sentence for sentence in pool() if len(sentence.split()) == 8]
    chosen = np.random.default_rng(args.seed).choice(len(eight), _POOL_OF_METRICS, replace=False)
    sentences = [eight[i] for i in sorted(chosen)]
    with torch_threads():
        scores = {spec: load_model(spec).score(sentences) for spec in _METRICS}
    table = pd.DataFrame(scores, index=sentences)
    # Two metrics of one model put few sentences on different sides of their medians.
    above = table.rank(pct=True) >= 0.5
    apart = min((above[a] & ~above[b]).sum() for a, b in (_METRICS, _METRICS[::-1]))
    if apart == 0:
        print("\nthe two metrics agree on which of the sentences are the better half")
        return
    pairs = select_natural_pairs(table, per_pair=min(_SHOWN, int(apart)))
    path = folder / "metric-pairs.csv"
    try:
        pairs.to_csv(path, index=False, lineterminator="\n")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None
    print(
        f"\nmetric 1 = {_METRICS[0]}, metric 2 = {_METRICS[1]}: of {len(sentences)} natural "
        f"sentences the pairs on which they disagree most: {path}"
    )
    for first, second in pairs[["sentence_1", "sentence_2"]].to_numpy(str):
        width = max(len(first), len(second))
        print(f"\n  {'':<10} {'sentence':<{width}}  {'log p 1':>8} {'log p 2':>8}")
        for kind, text in (("1 prefers", first), ("2 prefers", second)):
            lp_1, lp_2 = table.loc[text]
            print(f"  {kind:<10} {text:<{width}}  {lp_1:>8.1f} {lp_2:>8.1f}")


def _score_pool(models: Sequence[SentenceModel], natural: Sequence[str]) -> dict[str, list[float]]:
    print(f"Scoring {len(natural)} natural sentences (log-probabilities in nats):")
    reference = {}
    for model in models:
        scores = model.score(natural)
        reference[model.spec] = scores.tolist()
        print(f"  {model.spec:<18} mean {scores.mean():7.1f}   [{model.event}]")
    sys.stdout.flush()
    return reference


def _print_pair(rows: Sequence[Triplet], model_1: str, model_2: str) -> None:
    opposed = [t for t in rows if t.opposed]
    print(
        f"\nmodel 1 = {model_1}, model 2 = {model_2}: in {len(opposed)} of {len(rows)} triplets "
        "they order the two synthetic sentences oppositely"
    )
    for triplet in sorted(opposed, key=lambda t: -t.controversiality)[:_SHOWN]:
        sentences = (
            ("natural", triplet.natural, triplet.natural_lp_1, triplet.natural_lp_2),
            ("1 accepts", triplet.synthetic_1, triplet.synthetic_1_lp_1, triplet.synthetic_1_lp_2),
            ("2 accepts", triplet.synthetic_2, triplet.synthetic_2_lp_1, triplet.synthetic_2_lp_2),
        )
        width = max(len(text) for _, text, _, _ in sentences)
        print(f"\n  {'':<10} {'sentence':<{width}}  {'log p 1':>8} {'log p 2':>8}")
        for kind, text, lp_1, lp_2 in sentences:
            print(f"  {kind:<10} {text:<{width}}  {lp_1:>8.1f} {lp_2:>8.1f}")
