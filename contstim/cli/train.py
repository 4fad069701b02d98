"""The arguments and calls of ``contstim models train``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from contstim.cli.common import refuse_overwriting, resumable
from contstim.cli.parsing import CommandParser, given, new_file, number, positive, whole_number
from contstim.errors import InputError
from contstim.text.sentence import PUNCTUATION_POLICIES

T = TypeVar("T")


def configure(parser: CommandParser) -> None:
    """Add one subcommand for each kind of model that can be trained."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    ngram = kinds.add_parser("ngram", help="n-gram model, modified Kneser-Ney, as ARPA")
    _add_text(ngram)
    ngram.add("--order N", "", whole_number(1, 100), default=3)
    ngram.add("--closed", "no unknown-word class: an unknown word is always an error")
    ngram.add(
        "--cutoffs N,N,...",
        "for each order the count up to which n-grams are left out, as lmplz --prune",
        _list_of(whole_number(0), "0,0,1"),
        default=(),
    )
    what = "leave out n-grams that raise the perplexity by less than this share, e.g. 1e-8"
    ngram.add("--entropy SHARE", what, number(0), default=0.0)
    ngram.add(
        "--fallback D1,D2,D3",
        "discounts to use where the text is too small to estimate them, e.g. 0.5,1,1.5",
        _list_of(number(0, 3), "0.5,1,1.5"),
    )
    for kind, summary in (("rnn", "recurrent network, ReLU units"), ("lstm", "LSTM network")):
        network = kinds.add_parser(kind, help=summary)
        _add_text(network)
        _add_network(network)


def _add_text(parser: CommandParser) -> None:
    what = "text, one sentence a line, words between spaces"
    parser.add_argument("text", nargs="+", type=Path, help=what)
    parser.add("--out FILE", "model to write", new_file, required=True)
    parser.add(
        "--punctuation",
        "what to do with punctuation: keep words as given (default), split or drop it; use the "
        "same in the model's spec, e.g. ngram:FILE?punctuation=split",
        choices=PUNCTUATION_POLICIES,
        default="keep",
    )
    parser.add("--vocabulary FILE", "words to keep, one a line", Path)
    parser.add("--min-count N", "keep words seen at least N times", positive)


def _add_network(parser: CommandParser) -> None:
    parser.add("--embedding N", "width of the words' vectors", positive, default=256)
    parser.add("--hidden N", "units of the hidden layer", positive, default=512)
    what = "an output layer of its own, as published, instead of the embedding's weights"
    parser.add("--untied", what)
    parser.add("--learning-rate RATE", "", number(above=0, most=1), default=0.002)
    parser.add("--epochs N", "passes over the text", number(0, 10_000), default=10.0)
    what = "further passes with the softmax over all words"
    parser.add("--full-epochs N", what, number(0, 10_000), default=1.0)
    parser.add("--batch-tokens N", "tokens of a batch", positive, default=2048)
    parser.add(
        "--weight W",
        "how often each text is seen in a pass, once a text",
        number(above=0, most=10_000),
        several=True,
    )
    parser.add("--heldout FILE", "held-out text (default: 1 %% of the text)", Path)
    precisions, sizes = ("float32", "bfloat16"), ("float32", "float16", "int8")
    parser.add("--precision", "of matrix products", choices=precisions, default="float32")
    parser.add("--storage", "of the file", choices=sizes, default="float32")
    parser.add_device()
    parser.add_seed()


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
    if args.fallback is not None and len(args.fallback) != 3:
        raise InputError(f"--fallback needs three numbers, not {len(args.fallback)}")
    trained = train_ngram(
        args.text,
        args.out,
        order=args.order,
        punctuation=args.punctuation,
        vocabulary=vocabulary,
        cutoffs=args.cutoffs,
        entropy=args.entropy,
        fallback=args.fallback,
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
            options=TrainingOptions(**given(args, TrainingOptions)),
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
