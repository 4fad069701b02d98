"""The arguments and calls of ``contstim models adapt``, ``distill`` and ``finetune``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from contstim.cli.common import refuse_overwriting, resumable
from contstim.cli.parsing import CommandParser, given, number, positive, threads, whole_number
from contstim.models.devices import torch_threads
from contstim.models.registry import load_model
from contstim.text.sentence import pool, read_sentences

if TYPE_CHECKING:
    from contstim.models.learnt.encoder import FitOptions


def add_adapt(parser: CommandParser) -> None:
    """Add the arguments of ``adapt``."""
    parser.description = (
        "Continue the pre-training of a masked transformer on a text, stop when the "
        "pseudo-perplexity of its held-out part falls no more, and write the best checkpoint as a "
        "folder for hf:FOLDER."
    )
    parser.add("base BASE", "a masked model's spec or folder")
    parser.add("--text FILE", "the domain, one sentence a line", Path, required=True)
    parser.add_out_folder()
    parser.add(
        "--dev FILE",
        "held-out text of the domain (default: a tenth of the text, at most 200 sentences)",
        Path,
    )
    parser.add(
        "--other FILE",
        "another corpus, to see what it costs there (default: the bundled pool, English)",
        Path,
    )
    parser.add("--steps N", "at most", whole_number(1, 10**7), default=1000)
    parser.add("--interval N", "steps between evaluations", positive, default=50)
    parser.add("--patience N", "evaluations without gain", positive, default=3)
    parser.add("--batch-tokens N", "tokens of a batch", positive, default=1024)
    parser.add("--learning-rate RATE", "", number(above=0, most=1), default=5e-5)
    parser.add_seed()


def run_adapt(args: argparse.Namespace) -> int:
    """Adapt, write and print the pseudo-perplexities before and after."""
    from contstim.models.adapting import AdaptOptions, adapt

    found = adapt(
        args.base,
        read_sentences(args.text),
        Path(args.out),
        other=pool() if args.other is None else read_sentences(args.other),
        domain=None if args.dev is None else read_sentences(args.dev),
        options=AdaptOptions(**given(args, AdaptOptions)),
    )
    left_out = f", {found.n_left_out} left out" if found.n_left_out else ""
    print(f"{args.out}: {found.n_train} sentences{left_out}, best after {found.after.step} steps")
    print("pseudo-perplexity per token (per word)   before            after")
    before, after = found.before, found.after
    for name, n, own in (
        ("domain", found.n_domain, [(p.domain, p.domain_word) for p in (before, after)]),
        ("other", found.n_other, [(p.other, p.other_word) for p in (before, after)]),
    ):
        cells = "  ".join(f"{token:7.2f} ({word:.2f})".ljust(16) for token, word in own)
        print(f"{name + f', {n} sentences':<40} {cells}".rstrip())
    return 0


def add_distill(parser: CommandParser) -> None:
    """Add the arguments of ``distill``."""
    parser.add("teacher", "spec of the model to imitate, e.g. contstim:bert?metric=pll")
    what = "sentences to learn from, one a line, or a CSV with a column 'sentence'"
    parser.add("--text FILE", what, required=True)
    parser.add_out_folder()
    what = "encoder to start from, a folder, hub name or spec (default: the teacher's own)"
    parser.add("--base BASE", what)
    what = "sentences to measure the student on (default: a tenth of the text, at most 2,000)"
    parser.add("--heldout FILE", what)
    parser.add("--limit N", "use the first N sentences", positive)
    parser.add_cache("where the teacher's scores are kept (default: OUT.scores)")
    _add_fitting(parser, epochs=5, layers=None)


def run_distill(args: argparse.Namespace) -> int:
    """Distill, and say how near the student comes."""
    from contstim.models.learnt.student import distill

    refuse_overwriting(args.out, [args.text, args.heldout])
    sentences = read_sentences(args.text)[: args.limit]
    heldout = None if args.heldout is None else read_sentences(args.heldout)
    teacher = load_model(args.teacher)
    with resumable(), torch_threads(args.threads):
        record = distill(
            teacher,
            sentences,
            Path(args.out),
            base=args.base,
            heldout=heldout,
            options=_fitting(args),
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


def add_finetune(parser: CommandParser) -> None:
    """Add the arguments of ``finetune``."""
    parser.add("base", "encoder to start from: a folder, hub name or spec, e.g. contstim:bert")
    parser.add("--task", "", choices=("cola",), default="cola")
    parser.add(
        "--data FOLDER",
        "folder with in_domain_train.tsv, in_domain_dev.tsv and out_of_domain_dev.tsv",
        Path,
        required=True,
    )
    parser.add_out_folder()
    what = "networks to train that are not degenerate"
    parser.add("--restarts N", what, whole_number(1, 1000), default=10)
    _add_fitting(parser, epochs=3, layers=2)


def run_finetune(args: argparse.Namespace) -> int:
    """Fine-tune, and say how well the restarts do."""
    from contstim.models.learnt.finetuning import finetune

    with resumable(), torch_threads(args.threads):
        record = finetune(
            args.base,
            args.data,
            Path(args.out),
            task=args.task,
            restarts=args.restarts,
            options=_fitting(args),
            seed=args.seed,
            device=args.device,
        )
    for part, mcc in record["mcc"].items():
        print(
            f"{part}: Matthews' correlation {mcc['mean']:.3f} (sd {mcc['sd']:.3f}), best "
            f"{mcc['best']:.3f}, majority of {len(record['majority'])} {mcc['majority']:.3f}"
        )
    degenerate = [row["seed"] for row in record["degenerate"]]
    replaced = f", seeds {degenerate} degenerate" if degenerate else ""
    print(f"classifier:{args.out}: best {record['best']}{replaced}")
    return 0


def _add_fitting(parser: CommandParser, epochs: int, layers: int | None) -> None:
    """Add the arguments on how a network is trained."""
    parser.add("--epochs N", "passes", whole_number(1, 10_000), default=epochs)
    parser.add("--batch N", "sentences of a batch", positive, default=32)
    what = "highest step (default: 0.0768 over the network's width)"
    parser.add("--learning-rate RATE", what, number(above=0, most=1))
    usual = "all, and embeddings" if layers is None else layers
    what = f"train the upper N layers only, the others run once (default: {usual})"
    parser.add("--layers N", what, positive, default=layers)
    what, precisions = "of matrix products in training", ("bfloat16", "float32")
    parser.add("--precision", what, choices=precisions, default="bfloat16")
    parser.add_device()
    parser.add("--threads N", "threads of PyTorch", threads, default=1)
    parser.add_seed()


def _fitting(args: argparse.Namespace) -> FitOptions:
    from contstim.models.learnt.encoder import FitOptions

    return FitOptions(**given(args, FitOptions))
