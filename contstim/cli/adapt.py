"""The arguments and calls of ``contstim models adapt``."""

from __future__ import annotations

import argparse
from pathlib import Path

from contstim.cli.common import add_out_folder, add_seed, number, positive, whole_number


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.description = (
        "Continue the pre-training of a masked transformer on a text, stop when the "
        "pseudo-perplexity of its held-out part falls no more, and write the best checkpoint as a "
        "folder for hf:FOLDER."
    )
    parser.add_argument("base", metavar="BASE", help="a masked model's spec or folder")
    parser.add_argument(
        "--text", required=True, type=Path, metavar="FILE", help="the domain, one sentence a line"
    )
    add_out_folder(parser)
    parser.add_argument(
        "--dev",
        type=Path,
        metavar="FILE",
        help="held-out text of the domain (default: a tenth of the text, at most 200 sentences)",
    )
    parser.add_argument(
        "--other",
        type=Path,
        metavar="FILE",
        help="another corpus, to see what it costs there (default: the bundled pool, English)",
    )
    parser.add_argument(
        "--steps", type=whole_number(1, 10**7), default=1000, metavar="N", help="at most (1000)"
    )
    parser.add_argument("--interval", type=positive, default=50, metavar="N", help="(50)")
    parser.add_argument(
        "--patience", type=positive, default=3, metavar="N", help="evaluations without gain (3)"
    )
    parser.add_argument("--batch-tokens", type=positive, default=1024, metavar="N", help="(1024)")
    parser.add_argument(
        "--learning-rate", type=number(above=0, most=1), default=5e-5, metavar="RATE", help="(5e-5)"
    )
    add_seed(parser)


def run(args: argparse.Namespace) -> int:
    """Adapt, write and print the pseudo-perplexities before and after."""
    from contstim.models.adapting import AdaptOptions, adapt
    from contstim.text.sentence import pool, read_sentences

    options = AdaptOptions(
        steps=args.steps,
        batch_tokens=args.batch_tokens,
        learning_rate=args.learning_rate,
        interval=args.interval,
        patience=args.patience,
        seed=args.seed,
    )
    found = adapt(
        args.base,
        read_sentences(args.text),
        Path(args.out),
        other=pool() if args.other is None else read_sentences(args.other),
        domain=None if args.dev is None else read_sentences(args.dev),
        options=options,
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
