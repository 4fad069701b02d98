"""The arguments and calls of ``contstim models train``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from contstim.cli.common import (
    add_seed,
    new_file,
    number,
    positive,
    refuse_overwriting,
    resumable,
    whole_number,
)
from contstim.errors import InputError
from contstim.text.sentence import PUNCTUATION_POLICIES

T = TypeVar("T")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add one subcommand for each kind of model that can be trained."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    ngram = kinds.add_parser("ngram", help="n-gram model, modified Kneser-Ney, as ARPA")
    _add_text(ngram)
    ngram.add_argument(
        "--order", type=whole_number(1, 100), default=3, metavar="N", help="(default: 3)"
    )
    ngram.add_argument(
        "--closed",
        action="store_true",
        help="no unknown-word class: an unknown word is always an error",
    )
    ngram.add_argument(
        "--cutoffs",
        type=_list_of(whole_number(0), "0,0,1"),
        default=(),
        metavar="N,N,...",
        help="for each order the count up to which n-grams are left out, as lmplz --prune",
    )
    ngram.add_argument(
        "--entropy",
        type=number(0),
        default=0.0,
        metavar="SHARE",
        help="leave out n-grams that raise the perplexity by less than this share, e.g. 1e-8",
    )
    ngram.add_argument(
        "--fallback",
        type=_list_of(number(0, 3), "0.5,1,1.5"),
        metavar="D1,D2,D3",
        help="discounts to use where the text is too small to estimate them, e.g. 0.5,1,1.5",
    )
    for kind, help_text in (("rnn", "recurrent network, ReLU units"), ("lstm", "LSTM network")):
        network = kinds.add_parser(kind, help=help_text)
        _add_text(network)
        _add_network(network)


def _add_text(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "text", nargs="+", type=Path, help="text, one sentence a line, words between spaces"
    )
    parser.add_argument(
        "--out", required=True, type=new_file, metavar="FILE", help="model to write"
    )
    parser.add_argument(
        "--punctuation",
        choices=PUNCTUATION_POLICIES,
        default="keep",
        help="what to do with punctuation: keep words as given (default), split or drop it; use "
        "the same in the model's spec, e.g. ngram:FILE?punctuation=split",
    )
    parser.add_argument("--vocabulary", type=Path, metavar="FILE", help="words to keep, one a line")
    parser.add_argument(
        "--min-count", type=positive, metavar="N", help="keep words seen at least N times"
    )


def _add_network(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--embedding", type=positive, default=256, metavar="N", help="(256)")
    parser.add_argument("--hidden", type=positive, default=512, metavar="N", help="(512)")
    parser.add_argument(
        "--untied",
        action="store_true",
        help="an output layer of its own, as published, instead of the embedding's weights",
    )
    parser.add_argument(
        "--learning-rate", type=number(above=0, most=1), default=0.002, metavar="RATE"
    )
    parser.add_argument("--epochs", type=number(0, 10_000), default=10.0, metavar="N", help="(10)")
    parser.add_argument(
        "--full-epochs",
        type=number(0, 10_000),
        default=1.0,
        metavar="N",
        help="further passes with the softmax over all words (1)",
    )
    parser.add_argument("--batch-tokens", type=positive, default=2048, metavar="N", help="(2048)")
    parser.add_argument(
        "--weight",
        type=number(above=0, most=10_000),
        action="append",
        metavar="W",
        help="how often each text is seen in a pass, once a text",
    )
    parser.add_argument(
        "--heldout", type=Path, metavar="FILE", help="held-out text (default: 1 %% of the text)"
    )
    parser.add_argument(
        "--precision", choices=("float32", "bfloat16"), default="float32", help="matrix products"
    )
    parser.add_argument(
        "--storage", choices=("float32", "float16", "int8"), default="float32", help="of the file"
    )
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda:0 ...")
    add_seed(parser)


def run(args: argparse.Namespace) -> int:
    """Train what the subcommand names."""
    heldout = getattr(args, "heldout", None)
    refuse_overwriting(args.out, [*args.text, args.vocabulary, heldout])
    return _ngram(args) if args.kind == "ngram" else _network(args)


def _list_of(read: Callable[[str], T], example: str) -> Callable[[str], tuple[T, ...]]:
    """Return a reader of numbers with commas between them, for ``type=``."""

    def read_list(text: str) -> tuple[T, ...]:
        try:
            return tuple(read(part.strip()) for part in text.split(","))
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(f"{error}; write numbers like {example}") from None

    return read_list


def _ngram(args: argparse.Namespace) -> int:
    from contstim.models.ngram.training import NgramVocabulary, train_ngram
    from contstim.text.sentence import read_words

    if args.vocabulary is not None and args.min_count is not None:
        raise InputError("give --vocabulary or --min-count, not both")
    words = read_words(args.vocabulary) if args.vocabulary else None
    vocabulary = NgramVocabulary(words=words, min_count=args.min_count or 1, closed=args.closed)
    fallback = None
    if args.fallback is not None:
        if len(args.fallback) != 3:
            raise InputError(f"--fallback needs three numbers, not {len(args.fallback)}")
        fallback = args.fallback
    trained = train_ngram(
        args.text,
        args.out,
        order=args.order,
        punctuation=args.punctuation,
        vocabulary=vocabulary,
        cutoffs=args.cutoffs,
        entropy=args.entropy,
        fallback=fallback,
    )
    numbers = ", ".join(str(n) for n in trained.n_ngrams)
    print(
        f"{trained.path}: {numbers} n-grams of order 1 to {args.order}, from "
        f"{trained.n_sentences} sentences of {trained.n_tokens} tokens"
    )
    return 0


def _network(args: argparse.Namespace) -> int:
    from contstim.models.recurrent import NetworkConfig
    from contstim.models.recurrent.training import TrainingOptions, train_recurrent

    with resumable():
        record = train_recurrent(
            args.text,
            args.out,
            config=NetworkConfig(args.kind, args.embedding, args.hidden, tied=not args.untied),
            options=TrainingOptions(
                epochs=args.epochs,
                full_epochs=args.full_epochs,
                batch_tokens=args.batch_tokens,
                learning_rate=args.learning_rate,
                precision=args.precision,
                seed=args.seed,
            ),
            weights=args.weight,
            vocabulary=args.vocabulary,
            min_count=args.min_count or 5,
            heldout=args.heldout,
            punctuation=args.punctuation,
            storage=args.storage,
            device=args.device,
        )
    print(f"{args.out}: held-out perplexity {record['heldout_perplexity']:.2f} per token")
    return 0
