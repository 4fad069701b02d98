"""Write synthetic sentences on which models disagree.

With --pair, writes triplets (natural sentence, the sentence that model 1 accepts and model 2
rejects, and the reverse), one row each; with --reject and --accept, each of which may be given
several times, one sentence each. --target with --model names what is wanted of a set of models:
one-against-all isolates each in turn, both ways; common-failure wants sentences that all accept
and --reference rejects. --floor asks any model to keep its score, and --most-changes, --fixed,
--changed and --words-at limit what may change.

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
  contstim synthesize --target one-against-all --model contstim:bigram --model contstim:trigram
    --model contstim:rnn --limit 5 --floor "contstim:gpt>=natural-5" --out isolated.csv
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from contstim.cli.common import (
    add_executor,
    add_out,
    add_seed,
    add_vocabulary,
    executor_of,
    positive,
    read_vocabulary,
    reader,
    refuse_overwriting,
    resumable,
    tell_failed,
    threads,
    whole_number,
    word_options,
    write_output,
)
from contstim.errors import InfeasibleError, InputError
from contstim.files import is_stream
from contstim.pipeline.engine import Executor
from contstim.pipeline.options import STARTS, SynthesisOptions
from contstim.pipeline.searches import Row, texts_of
from contstim.pipeline.synthesis import (
    FailedTasksError,
    SynthesisRequest,
    columns_of,
    write_synthesis,
)
from contstim.search.results import Triplet
from contstim.search.strategies import DEFAULT, OPTION_OF, STRATEGIES, options, strategy_called
from contstim.search.targets import LOSSES, NAMED_TARGETS
from contstim.text.diversity import MOST_USE, diversity_line, words_of
from contstim.text.vocabulary import Vocabulary, bundled_vocabulary
from contstim.text.words import LIKENESSES

# What share of the words of natural sentences a vocabulary of their language has, at least.
_SHARED = 0.25


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
    parser.add_argument(
        "--reject",
        metavar="SPEC",
        action="append",
        help="a model that is to reject; may be given several times",
    )
    parser.add_argument(
        "--accept",
        metavar="SPEC",
        action="append",
        help="a model that is to accept; may be given several times",
    )
    _add_sets(parser)
    parser.add_argument(
        "--strategy",
        choices=sorted(STRATEGIES),
        help="how words are chosen (default: beam, which writes whole sentences from the left for "
        "models of n-grams and is bounded for others)",
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
        "--per-pair",
        type=reader(SynthesisOptions, "per_pair"),
        metavar="N",
        help="start sentences a pair, at most",
    )
    parser.add_argument(
        "--per-sentence",
        type=reader(SynthesisOptions, "per_sentence"),
        default=1,
        metavar="N",
        help="triplets a natural sentence (default: 1)",
    )
    parser.add_argument(
        "--minimum-drop",
        type=reader(SynthesisOptions, "minimum_drop"),
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
    add_out(parser)


def _add_sets(parser: argparse.ArgumentParser) -> None:
    """Add what is wanted of sets of models, floors and edits."""
    parser.add_argument(
        "--target",
        choices=NAMED_TARGETS,
        help="what is wanted of the models of --model: pair, triplets of every two; "
        "one-against-all; common-failure, with --reference; split, with --reject and --accept",
    )
    parser.add_argument(
        "--model",
        metavar="SPEC",
        action="append",
        help="a compared model, for --target; give it several times",
    )
    parser.add_argument(
        "--reference",
        metavar="SPEC",
        help="the model outside the set that is to reject, for --target common-failure",
    )
    parser.add_argument(
        "--loss",
        choices=LOSSES,
        default="max",
        help="what counts of the falls of several rejecting models, in standard deviations of "
        "their scores of natural sentences: the least fall (max, the default) or the mean",
    )
    parser.add_argument(
        "--margin",
        type=reader(SynthesisOptions, "margin"),
        default=0.0,
        metavar="NATS",
        help="by how much an accepting model's score may fall (default: 0)",
    )
    parser.add_argument(
        "--floor",
        action="append",
        metavar="FLOOR",
        help="a score that a model must keep, MODEL[/word|/token]>=VALUE or >=natural[-MARGIN], "
        "such as contstim:gpt>=natural-5, or plausible (contstim:gpt/word>=natural-0.5) or strict "
        "(natural-0.1); may be given several times",
    )
    parser.add_argument(
        "--most-changes",
        type=reader(SynthesisOptions, "most_changes"),
        metavar="N",
        help="words that may change, at most",
    )
    parser.add_argument(
        "--fixed",
        action="append",
        type=whole_number(0),
        metavar="POSITION",
        help="a position whose word stays, counted from 0; may be given several times",
    )
    parser.add_argument(
        "--changed",
        action="append",
        type=whole_number(0),
        metavar="POSITION",
        help="a position whose word must change; may be given several times",
    )
    parser.add_argument(
        "--certificate",
        action="store_true",
        help="add to each row at least what part of the lowest possible loss was reached, 0 to 1; "
        "for models of n-grams",
    )
    parser.add_argument(
        "--words-at",
        action="append",
        metavar="POSITION=WORD,WORD",
        help="the words that may stand at a position; may be given several times",
    )
    parser.add_argument(
        "--most-use",
        type=reader(SynthesisOptions, "most_use"),
        default=MOST_USE,
        metavar="SHARE",
        help="in what share of a pair's synthetic sentences a word may be, at most, unless the "
        f"natural sentences have it more often (default: {MOST_USE:g}; 1: no limit)",
    )
    parser.add_argument(
        "--alike",
        choices=LIKENESSES,
        help="what a word shares with the natural sentence's word that it replaces: its word "
        "class, or its Penn Treebank tag (a plural noun for a plural noun)",
    )


def _add_strategy_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that strategies declare, each with what it means for its strategies."""
    for option, owners in OPTION_OF.items():
        by_text: dict[str, list[str]] = {}
        for owner in owners:
            field = options(owner)[option]
            text = field.metadata["help"]
            if field.default is not None and "(default" not in text:
                text += f" (default: {field.default})"
            by_text.setdefault(text, []).append(f"'{owner}'")
        texts = [f"of the strategy {' or '.join(names)}: {text}" for text, names in by_text.items()]
        parser.add_argument(
            f"--{option.replace('_', '-')}",
            type=reader(STRATEGIES[owners[0]], option),
            metavar=field.metadata["metavar"],
            help="; ".join(texts),
        )


def run(args: argparse.Namespace) -> int:
    """Synthesize and write."""
    target = _target(args)
    if target != "pair" and (args.per_sentence != 1 or args.minimum_drop != 0):
        raise InputError(
            "--per-sentence and --minimum-drop are for triplets; give them with --pair"
        )
    if args.sentence and args.sentences:
        raise InputError("give sentences or --sentences FILE, not both")
    sentences = args.sentence or _sentences(args.sentences)
    words = word_options(args)
    own = args.vocabulary or words.given
    vocabulary = read_vocabulary(args.vocabulary, words) if own else None
    words_at = dict(map(_words_at, args.words_at or ()))
    words.refuse((word for listed in words_at.values() for word in listed), Path())
    given = {option: getattr(args, option) for option in OPTION_OF}
    strategy_called(args.strategy, **given)  # refuses what the strategy does not have
    pairs = args.pair or (itertools.combinations(args.model, 2) if target == "pair" else ())
    request = SynthesisRequest(
        pairs=[(a, b) for a, b in pairs],
        models=args.model or (),
        sentences=sentences[: args.limit],
        vocabulary=vocabulary,
        words=words.given,
        options=SynthesisOptions(
            strategy=args.strategy,
            starts=args.starts,
            per_pair=args.per_pair,
            per_sentence=args.per_sentence,
            minimum_drop=args.minimum_drop,
            target=target,
            reject=args.reject or (),
            accept=args.accept or (),
            reference=args.reference,
            loss=args.loss,
            margin=args.margin,
            floors=args.floor or (),
            most_changes=args.most_changes,
            fixed=args.fixed or (),
            changed=args.changed or (),
            words_at=words_at,
            certificate=args.certificate,
            alike=args.alike,
            most_use=args.most_use,
            **given,
        ),
        seed=args.seed,
        threads=args.threads,
    )
    _tell_foreign(request.sentences, vocabulary)
    is_file = args.out != "-" and not is_stream(Path(args.out))
    if args.out != "-":
        lists = [*(args.allow or ()), *(args.block or ())]
        refuse_overwriting(args.out, [args.sentences, args.vocabulary, *lists])
    with executor_of(args) as executor:
        if is_file:
            with resumable():
                return _write(request, write_synthesis(request, Path(args.out), executor))
        with write_output(args.out) as out:
            return _write(request, _print_rows(request, executor, out))


def _sentences(path: str | None) -> list[str]:
    from contstim.text.sentence import pool, read_sentences

    return pool() if path is None else read_sentences(path)


def _tell_foreign(sentences: Sequence[str], vocabulary: Vocabulary | None) -> None:
    """Say so if the vocabulary has so few of the sentences' words that it is of another language.

    Models of word pieces know any word, and would write theirs into sentences of another language.
    """
    own = {word for sentence in sentences for word in words_of(sentence)}
    known = vocabulary or bundled_vocabulary()
    shared = own & {word.casefold() for word in (*known.first, *known.elsewhere)}
    if len(shared) < _SHARED * len(own):
        print(
            f"the vocabulary has {len(shared):,} of the {len(own):,} different words of the "
            "sentences; if they are in another language, make one of it with 'contstim "
            "vocabulary' and give it as --vocabulary",
            file=sys.stderr,
        )


def _target(args: argparse.Namespace) -> str:
    """Return what is wanted of the models; refuse models that do not go with it."""
    directed = bool(args.reject) + bool(args.accept)
    target = args.target or ("split" if directed else "pair")
    if bool(args.model) != (args.target is not None and target != "split"):
        raise InputError(
            "--model gives the compared models of --target pair, one-against-all or "
            "common-failure; give both, or neither"
        )
    if args.pair and (args.target or directed):
        raise InputError("say which models once: with --pair give no others, and no --target")
    if directed != 2 * (target == "split") or not (args.pair or args.model or directed):
        raise InputError(
            "say which models: --pair SPEC_1 SPEC_2 for triplets, --reject SPEC --accept SPEC, or "
            "--target with --model"
        )
    return str(target)


def _words_at(text: str) -> tuple[str, tuple[str, ...]]:
    """Read a position and its words."""
    position, equals, words = text.partition("=")
    if not equals or not words:
        raise InputError(f"--words-at {text!r} lists no words; write POSITION=WORD,WORD")
    return position, tuple(words.split(","))


def _print_rows(request: SynthesisRequest, executor: Executor, out: IO[str]) -> Iterator[Row]:
    """Print each row as soon as it and those before are there."""
    writer = csv.writer(out, lineterminator="\n")
    begun = False
    for row in write_synthesis(request, None, executor):
        values = row.row()
        if not begun:
            writer.writerow(values)
        begun = True
        writer.writerow(values.values())
        out.flush()
        yield row
    if not begun:
        writer.writerow(columns_of(Triplet))


def _write(request: SynthesisRequest, rows: Iterator[Row]) -> int:
    """Have the rows made and say how many there are; return the exit status."""
    made = opposed = 0
    written: list[str] = []
    natural: list[str] = []
    try:
        for row in rows:
            made += 1
            written += texts_of(row)
            natural += [row.natural] * len(texts_of(row))
            opposed += isinstance(row, Triplet) and row.opposed
    except FailedTasksError as error:
        lines = [line for _, line in error.failed]
        kind = f"{InfeasibleError.__name__}: "
        if all(line.startswith(kind) for line in lines):
            more = f" ({len(lines) - 1} more searches fail likewise)" if len(lines) > 1 else ""
            raise InfeasibleError(lines[0].removeprefix(kind) + more) from None
        tell_failed(error.failed)
        return 1
    if request.options.target == "pair":
        print(
            f"{made} triplets of {request.n_asked} asked for; in {opposed} the models order the "
            "two synthetic sentences oppositely",
            file=sys.stderr,
        )
    if made > 1:
        print(diversity_line(written, natural), file=sys.stderr)
    return 0
