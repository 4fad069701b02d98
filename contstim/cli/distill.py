"""Arguments and call of ``contstim models distill``."""

from __future__ import annotations

import argparse
from pathlib import Path

from contstim.cli.common import (
    add_out_folder,
    add_seed,
    number,
    output_folder,
    positive,
    refuse_overwriting,
    resumable,
    threads,
    whole_number,
)
from contstim.models.devices import torch_threads
from contstim.models.registry import load_model
from contstim.text.sentence import read_sentences


def add_fitting(parser: argparse.ArgumentParser, epochs: int, layers: int | None) -> None:
    """Add the arguments on how a network is trained."""
    parser.add_argument(
        "--epochs",
        type=whole_number(1, 10_000),
        default=epochs,
        metavar="N",
        help=f"passes (default: {epochs})",
    )
    parser.add_argument(
        "--batch", type=positive, default=32, metavar="N", help="sentences of a batch (default: 32)"
    )
    parser.add_argument(
        "--learning-rate",
        type=number(above=0, most=1),
        metavar="RATE",
        help="highest step (default: 0.0768 over the network's width)",
    )
    parser.add_argument(
        "--layers",
        type=positive,
        default=layers,
        metavar="N",
        help="train the upper N layers only, the others run once "
        f"(default: {'all, and embeddings' if layers is None else layers})",
    )
    parser.add_argument(
        "--precision",
        choices=("bfloat16", "float32"),
        default="bfloat16",
        help="of matrix products in training (default: bfloat16)",
    )
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda:0 ...")
    parser.add_argument(
        "--threads", type=threads, default=1, metavar="N", help="threads of PyTorch (default: 1)"
    )
    add_seed(parser)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "teacher", help="spec of the model to imitate, e.g. contstim:bert?metric=pll"
    )
    parser.add_argument(
        "--text",
        required=True,
        metavar="FILE",
        help="sentences to learn from, one a line, or a CSV with a column 'sentence'",
    )
    add_out_folder(parser)
    parser.add_argument(
        "--base",
        metavar="BASE",
        help="encoder to start from, a folder, hub name or spec (default: the teacher's own)",
    )
    parser.add_argument(
        "--heldout",
        metavar="FILE",
        help="sentences to measure the student on (default: a tenth of the text, at most 2,000)",
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="use the first N sentences")
    parser.add_argument(
        "--cache",
        type=output_folder,
        metavar="FOLDER",
        help="where the teacher's scores are kept (default: OUT.scores)",
    )
    add_fitting(parser, epochs=5, layers=None)


def run(args: argparse.Namespace) -> int:
    """Distill, and say how near the student comes."""
    from contstim.models.learnt.encoder import FitOptions
    from contstim.models.learnt.student import distill

    refuse_overwriting(args.out, [args.text, args.heldout])
    sentences = read_sentences(args.text)[: args.limit]
    heldout = None if args.heldout is None else read_sentences(args.heldout)
    options = FitOptions(
        args.epochs, args.batch, args.learning_rate, args.layers, precision=args.precision
    )
    teacher = load_model(args.teacher)
    with resumable(), torch_threads(args.threads):
        record = distill(
            teacher,
            sentences,
            Path(args.out),
            base=args.base,
            heldout=heldout,
            options=options,
            cache=None if args.cache is None else Path(args.cache),
            seed=args.seed,
            device=args.device,
        )
    found, training = record["heldout"], record["training"]
    print(
        f"student:{args.out}: Pearson {found['pearson']:.4f}, Spearman {found['spearman']:.4f}, "
        f"error {found['rmse']:.3f} (standard deviation {found['sd']:.3f}) on "
        f"{found['sentences']} sentences; {training['sentences']} learnt from, "
        f"{training['left_out']} left out"
    )
    return 0
