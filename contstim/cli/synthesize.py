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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from contstim.cli.common import (
    add_executor,
    add_vocabulary,
    executor_of,
    read_vocabulary,
    refuse_overwriting,
    resumable,
    small_share,
    tell,
    tell_failed,
    word_options,
    words_at_positions,
    write_output,
)
from contstim.cli.parsing import CommandParser, given, positive, reader, threads
from contstim.errors import InfeasibleError, InputError
from contstim.files import is_stream
from contstim.models.seen import training_notes
from contstim.pipeline import Executor
from contstim.pipeline.options import SynthesisOptions
from contstim.pipeline.synthesis import FailedTasksError, SynthesisRequest, write_synthesis
from contstim.search import OPTION_OF, STRATEGIES, options
from contstim.search.results import Row, Triplet, written_and_natural
from contstim.search.targets import NAMED_TARGETS
from contstim.text.diversity import diversity_line
from contstim.text.vocabulary import Vocabulary


def configure(parser: CommandParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("sentence", nargs="*", help="natural sentences to start from")
    parser.add(
        "--sentences FILE",
        "natural sentences, one a line, or a CSV with a column 'sentence' (default: the bundled "
        "pool)",
    )
    parser.add("--limit N", "start from the first N only", positive)
    parser.add("--pair SPEC_1 SPEC_2", "two models to make triplets for", several=True)
    parser.add_fields(SynthesisOptions, "reject", "accept")
    parser.add(
        "--target",
        "what is wanted of the models of --model: pair, triplets of every two; one-against-all; "
        "common-failure, with --reference; split, with --reject and --accept",
        choices=NAMED_TARGETS,
    )
    parser.add("--model SPEC", "a compared model, for --target", several=True)
    parser.add_fields(SynthesisOptions, "reference", "loss", "margin", "floors", "most_changes")
    parser.add_fields(SynthesisOptions, "fixed", "changed", "certificate")
    what = "the words that may stand at a position"
    parser.add("--words-at POSITION=WORD,WORD", what, several=True)
    parser.add_fields(SynthesisOptions, "most_use", "alike", "strategy")
    _add_strategy_options(parser)
    parser.add_fields(SynthesisOptions, "starts", "per_pair", "per_sentence", "minimum_drop")
    parser.set_defaults(starts="all")
    parser.add(
        "--threads N",
        "threads of PyTorch (default: 1); another number may change a network's last digits",
        threads,
        default=1,
    )
    add_executor(parser)
    add_vocabulary(parser)
    parser.add_seed()
    parser.add_out()


def _add_strategy_options(parser: CommandParser) -> None:
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
        usage = f"--{option.replace('_', '-')} {field.metadata['metavar']}"
        parser.add(usage, "; ".join(texts), reader(STRATEGIES[owners[0]], option))


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
    words_at = words_at_positions(args.words_at or ())
    words.refuse((word for listed in words_at.values() for word in listed), Path())
    pairs = args.pair or (itertools.combinations(args.model, 2) if target == "pair" else ())
    request = SynthesisRequest(
        pairs=[(a, b) for a, b in pairs],
        models=args.model or (),
        sentences=sentences[: args.limit],
        vocabulary=vocabulary,
        words=words.given,
        options=SynthesisOptions(
            **given(args, SynthesisOptions) | {"target": target, "words_at": words_at}
        ),
        seed=args.seed,
        threads=args.threads,
    )
    _tell_foreign(request.sentences, vocabulary)
    models = [*itertools.chain.from_iterable(args.pair or ()), *(args.model or ())]
    models += [*(args.reject or ()), *(args.accept or ())]
    for note in training_notes(models, request.sentences):
        tell(note)
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
    from contstim.text import pool, read_sentences

    return pool() if path is None else read_sentences(path)


def _tell_foreign(sentences: Sequence[str], vocabulary: Vocabulary | None) -> None:
    """Say so if the vocabulary has so few of the sentences' words that it is of another language.

    Models of word pieces know any word, and would write theirs into sentences of another language.
    """
    if share := small_share(sentences, vocabulary):
        tell(
            f"the vocabulary has {share} different words of the sentences; if they are in another "
            "language, make one of it with 'contstim vocabulary' and give it as --vocabulary",
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
        writer.writerow(Triplet.columns())


def _write(request: SynthesisRequest, rows: Iterator[Row]) -> int:
    """Have the rows made and say how many there are; return the exit status."""
    try:
        made = list(rows)
    except FailedTasksError as error:
        lines = [line for _, line in error.failed]
        kind = f"{InfeasibleError.__name__}: "
        if all(line.startswith(kind) for line in lines):
            more = f" ({len(lines) - 1} more searches fail likewise)" if len(lines) > 1 else ""
            raise InfeasibleError(lines[0].removeprefix(kind) + more) from None
        tell_failed(error.failed)
        return 1
    if request.options.target == "pair":
        opposed = sum(isinstance(row, Triplet) and row.opposed for row in made)
        tell(
            f"{len(made)} triplets of {request.n_asked} asked for; in {opposed} the models order "
            "the two synthetic sentences oppositely",
        )
    if len(made) > 1:
        tell(diversity_line(*written_and_natural(made)))
    return 0
