"""Arguments and call of ``contstim models finetune``."""

from __future__ import annotations

import argparse
from pathlib import Path

from contstim.cli.common import add_out_folder, resumable, whole_number
from contstim.cli.distill import add_fitting
from contstim.models.devices import torch_threads


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "base", help="encoder to start from: a folder, hub name or spec, e.g. contstim:bert"
    )
    parser.add_argument("--task", choices=("cola",), default="cola", help="(default: cola)")
    parser.add_argument(
        "--data",
        required=True,
        type=Path,
        metavar="FOLDER",
        help="folder with in_domain_train.tsv, in_domain_dev.tsv and out_of_domain_dev.tsv",
    )
    add_out_folder(parser)
    parser.add_argument(
        "--restarts",
        type=whole_number(1, 1000),
        default=10,
        metavar="N",
        help="networks to train that are not degenerate (default: 10)",
    )
    add_fitting(parser, epochs=3, layers=2)


def run(args: argparse.Namespace) -> int:
    """Fine-tune, and say how well the restarts do."""
    from contstim.models.learnt.encoder import FitOptions
    from contstim.models.learnt.finetuning import finetune

    options = FitOptions(
        args.epochs, args.batch, args.learning_rate, args.layers, precision=args.precision
    )
    with resumable(), torch_threads(args.threads):
        record = finetune(
            args.base,
            args.data,
            Path(args.out),
            task=args.task,
            restarts=args.restarts,
            options=options,
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
