"""Write synthetic sentences on which two models disagree.

With --pair, writes triplets (natural sentence, the sentence that model 1 accepts and model 2
rejects, and the reverse), one row each as soon as it is made. The same command run again after an
interruption goes on where it stopped. With --reject and --accept, writes one sentence each.

Examples:
  contstim synthesize --pair contstim:bigram contstim:trigram --out triplets.csv
  contstim synthesize --reject contstim:bigram --accept contstim:trigram "The ship left at dawn."
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from contstim.cli.common import (
    add_seed,
    add_vocabulary,
    positive,
    read_vocabulary,
    write_output,
)
from contstim.errors import InputError
from contstim.models.registry import load_model
from contstim.models.threads import torch_threads
from contstim.provenance import run_settings
from contstim.search.proposals import WordReplacement
from contstim.search.search import synthesize
from contstim.search.strategies import DEFAULT, OPTION_OF, STRATEGIES, options, strategy
from contstim.search.sweeps import Strategy
from contstim.search.triplets import ModelPair
from contstim.search.writing import COLUMNS, write_triplets
from contstim.text.sentences import pool, read_sentences
from contstim.text.vocabulary import Vocabulary

# Readers of a strategy's options, by the annotation of the field.
_TYPES: dict[str, Callable[[str], Any]] = {"Count": positive, "float": float, "str": str}


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
        "--per-sentence",
        type=positive,
        default=1,
        metavar="N",
        help="triplets a natural sentence (default: 1)",
    )
    parser.add_argument(
        "--minimum-drop",
        type=float,
        default=0.0,
        metavar="NATS",
        help="leave out sentences whose log-probability falls by less than this (default: 0)",
    )
    parser.add_argument(
        "--threads",
        type=positive,
        default=1,
        metavar="N",
        help="threads of PyTorch (default: 1); another number may change a network's last digits",
    )
    add_vocabulary(parser)
    add_seed(parser)
    parser.add_argument(
        "--out", default="-", metavar="CSV", help="where to write (default: standard output)"
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
    sentences = args.sentence or (read_sentences(args.sentences) if args.sentences else pool())
    sentences = sentences[: args.limit]
    vocabulary = read_vocabulary(args.vocabulary)
    search: str | Strategy = args.strategy
    given = {option: getattr(args, option) for option in OPTION_OF}
    if any(value is not None for value in given.values()):
        search = strategy(args.strategy, **given)
    if one_way:
        _one_way(args, sentences, vocabulary, search)
    else:
        _triplets(args, sentences, vocabulary, search)
    return 0


def _triplets(
    args: argparse.Namespace, sentences: list[str], words: Vocabulary, search: str | Strategy
) -> None:
    specs = dict.fromkeys(itertools.chain.from_iterable(args.pair))
    models = {spec: load_model(spec) for spec in specs}
    pairs = [ModelPair.of(models[a], models[b], words) for a, b in args.pair]
    settings = run_settings(
        list(models.values()),
        words,
        sentences,
        pairs=[[p.model_1.spec, p.model_2.spec] for p in pairs],
        strategy=search if isinstance(search, str) else repr(search),
        seed=args.seed,
        per_sentence=args.per_sentence,
        minimum_drop=args.minimum_drop,
    )
    rows = write_triplets(
        pairs,
        sentences,
        None if args.out == "-" else Path(args.out),
        settings=settings,
        per_sentence=args.per_sentence,
        strategy=search,
        seed=args.seed,
        minimum_drop=args.minimum_drop,
    )
    made = opposed = 0
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if args.out == "-":
        writer.writerow(COLUMNS)
    with torch_threads(args.threads):
        for row in rows:
            made += 1
            opposed += row.opposed
            if args.out == "-":
                writer.writerow(row.row().values())
    asked = len(pairs) * len(dict.fromkeys(sentences)) * args.per_sentence
    print(
        f"{made} triplets of {asked} asked for; in {opposed} the models order the two synthetic "
        "sentences oppositely",
        file=sys.stderr,
    )


def _one_way(
    args: argparse.Namespace, sentences: list[str], words: Vocabulary, search: str | Strategy
) -> None:
    reject, accept = load_model(args.reject), load_model(args.accept)
    proposal = WordReplacement(words, (reject, accept))
    for model in (reject, accept):
        model.score(sentences)
    place = write_output(args.out, [args.sentences, args.vocabulary])
    with torch_threads(args.threads), place as out:
        _write_header(out)
        for sentence in sentences:
            result = synthesize(
                sentence,
                reject=reject,
                accept=accept,
                strategy=search,
                seed=args.seed,
                proposal=proposal,
            )
            csv.writer(out, lineterminator="\n").writerow(
                (
                    result.reject,
                    result.accept,
                    result.natural,
                    result.sentence,
                    result.natural_reject_log_prob,
                    result.reject_log_prob,
                    result.natural_accept_log_prob,
                    result.accept_log_prob,
                    len(result.steps),
                    *result.n_scores,
                    result.finished,
                )
            )
            out.flush()


def _write_header(out: IO[str]) -> None:
    csv.writer(out, lineterminator="\n").writerow(
        (
            "reject",
            "accept",
            "natural",
            "synthetic",
            "natural_lp_reject",
            "synthetic_lp_reject",
            "natural_lp_accept",
            "synthetic_lp_accept",
            "n_replaced",
            "n_scores_reject",
            "n_scores_accept",
            "finished",
        )
    )
