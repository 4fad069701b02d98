"""Write synthetic sentences on which two models disagree.

With --pair, writes triplets (natural sentence, the sentence that model 1 accepts and model 2
rejects, and the reverse), one row each; with --reject and --accept, one sentence each.

With --out, every finished search is on the disk at once, in a folder .FILE.run beside the file:
the same command run again after an interruption goes on where it stopped. When all is done the
file is put in place and the folder removed. Without --out rows are printed as they are made, and
nothing is kept. Work can be spread over processes of this machine (--workers) or a Dask cluster
(--dask).

Exit status: 0 done, 1 searches failed (they are listed; the same command tries them again), 2 bad
input.

Examples:
  contstim synthesize --pair contstim:bigram contstim:trigram --out triplets.csv
  contstim synthesize --reject contstim:bigram --accept contstim:trigram "The ship left at dawn."
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Iterator
from dataclasses import astuple, fields
from pathlib import Path
from typing import IO, Any

from contstim.cli.common import (
    add_executor,
    add_seed,
    add_vocabulary,
    executor_of,
    number,
    output_file,
    positive,
    read_vocabulary,
    refuse_overwriting,
    resumable,
    tell_failed,
    threads,
    whole_number,
    write_output,
)
from contstim.errors import InputError
from contstim.files import is_stream
from contstim.pipeline.engine import Executor
from contstim.pipeline.synthesis import (
    FailedTasksError,
    OneWay,
    SynthesisRequest,
    write_synthesis,
)
from contstim.pipeline.tasks import STARTS, SynthesisOptions
from contstim.search.strategies import DEFAULT, OPTION_OF, STRATEGIES, options, strategy
from contstim.search.triplets import Triplet, check_request

# Readers of a strategy's options, by the annotation of the field.
_TYPES: dict[str, Callable[[str], Any]] = {"Count": positive, "float": number(), "str": str}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("sentence", nargs="*", help="natural sentences to start from")
    parser.add_argument(
        "--sentences",
        metavar="FILE",
        help="natural sentences, one a line, or a CSV with a column 'sentence' (default: the "
        "bundled pool)",
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="start from the first N only")
    parser.add_argument(
        "--pair",
        nargs=2,
        action="append",
        metavar=("SPEC_1", "SPEC_2"),
        help="two models to make triplets for; may be given several times",
    )
    parser.add_argument("--reject", metavar="SPEC", help="the model that is to reject")
    parser.add_argument("--accept", metavar="SPEC", help="the model that is to accept")
    parser.add_argument(
        "--strategy",
        choices=sorted(STRATEGIES),
        help="how words are chosen (default: bounded, which is exhaustive where scores of all "
        "words are known at once)",
        default=DEFAULT,
    )
    _add_strategy_options(parser)
    parser.add_argument(
        "--starts",
        choices=STARTS,
        default="all",
        help="sentences that a pair starts from: all, in the order given (the default); shared, in "
        "an order of its own; partitioned, each sentence for one pair",
    )
    parser.add_argument(
        "--per-pair", type=positive, metavar="N", help="start sentences a pair, at most"
    )
    parser.add_argument(
        "--per-sentence",
        type=whole_number(1, 1000),
        default=1,
        metavar="N",
        help="triplets a natural sentence (default: 1)",
    )
    parser.add_argument(
        "--minimum-drop",
        type=number(),
        default=0.0,
        metavar="NATS",
        help="leave out sentences whose log-probability falls by less than this (default: 0)",
    )
    parser.add_argument(
        "--threads",
        type=threads,
        default=1,
        metavar="N",
        help="threads of PyTorch (default: 1); another number may change a network's last digits",
    )
    add_executor(parser)
    add_vocabulary(parser)
    add_seed(parser)
    parser.add_argument(
        "--out",
        type=output_file,
        default="-",
        metavar="CSV",
        help="where to write (default: standard output)",
    )


def _add_strategy_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that strategies declare, each with what it means for its strategies."""
    for option, owners in OPTION_OF.items():
        texts = []
        for owner in owners:
            field = options(owner)[option]
            text = f"of the strategy '{owner}': {field.metadata['help']}"
            if field.default is not None and "(default" not in text:
                text += f" (default: {field.default})"
            texts.append(text)
        parser.add_argument(
            f"--{option.replace('_', '-')}",
            type=_TYPES[str(field.type).split(" | ")[0]],
            metavar=field.metadata["metavar"],
            help="; ".join(texts),
        )


def run(args: argparse.Namespace) -> int:
    """Synthesize and write."""
    directed = [spec for spec in (args.reject, args.accept) if spec is not None]
    one_way = len(directed) == 2
    if one_way == bool(args.pair) or len(directed) == 1:
        raise InputError(
            "say which models: --pair SPEC_1 SPEC_2 for triplets, or --reject SPEC --accept SPEC"
        )
    if one_way and (args.per_sentence != 1 or args.minimum_drop != 0):
        raise InputError(
            "--per-sentence and --minimum-drop are for triplets; give them with --pair"
        )
    if args.sentence and args.sentences:
        raise InputError("give sentences or --sentences FILE, not both")
    sentences = args.sentence or _sentences(args.sentences)
    vocabulary = read_vocabulary(args.vocabulary) if args.vocabulary else None
    given = {option: getattr(args, option) for option in OPTION_OF}
    strategy(args.strategy, **given)  # refuses what the strategy does not have
    check_request(args.per_sentence, args.minimum_drop)
    request = SynthesisRequest(
        pairs=[(args.reject, args.accept)] if one_way else [(a, b) for a, b in args.pair],
        sentences=sentences[: args.limit],
        vocabulary=vocabulary,
        options=SynthesisOptions(
            strategy=args.strategy,
            starts=args.starts,
            per_pair=args.per_pair,
            per_sentence=args.per_sentence,
            minimum_drop=args.minimum_drop,
            **given,
        ),
        seed=args.seed,
        threads=args.threads,
        one_way=one_way,
    )
    is_file = args.out != "-" and not is_stream(Path(args.out))
    if args.out != "-":
        refuse_overwriting(args.out, [args.sentences, args.vocabulary])
    with executor_of(args) as executor:
        if is_file:
            with resumable():
                return _write(request, write_synthesis(request, Path(args.out), executor))
        with write_output(args.out) as out:
            return _write(request, _print_rows(request, executor, out))


def _sentences(path: str | None) -> list[str]:
    from contstim.text.sentences import pool, read_sentences

    return pool() if path is None else read_sentences(path)


def _print_rows(
    request: SynthesisRequest, executor: Executor, out: IO[str]
) -> Iterator[Triplet | OneWay]:
    """Print each row as soon as it and those before are there."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(field.name for field in fields(request.row))
    for row in write_synthesis(request, None, executor):
        writer.writerow(astuple(row))
        out.flush()
        yield row


def _write(request: SynthesisRequest, rows: Iterator[Triplet | OneWay]) -> int:
    """Have the rows made and say how many there are; return the exit status."""
    made = opposed = 0
    try:
        for row in rows:
            made += 1
            opposed += isinstance(row, Triplet) and row.opposed
    except FailedTasksError as error:
        tell_failed(error.failed)
        return 1
    if not request.one_way:
        print(
            f"{made} triplets of {request.n_asked} asked for; in {opposed} the models order the "
            "two synthetic sentences oppositely",
            file=sys.stderr,
        )
    return 0
