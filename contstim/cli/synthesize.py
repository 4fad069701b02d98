"""Write synthetic sentences on which models disagree.

With --pair, writes triplets (natural sentence, the sentence that model 1 accepts and model 2
rejects, and the reverse), one row each; with --reject and --accept, each of which may be given
several times, one sentence each. --target with --model names what is wanted of a set of models:
one-against-all isolates each in turn, both ways; common-failure wants sentences that all accept
and --reference rejects. --floor asks any model to keep its score, and --most-changes, --fixed,
--changed and --words-at limit what may change.

With --out, all that is finished is on the disk at once, in a folder .FILE.run beside the file:
the same command run again after an interruption goes on where it stopped. When all is done the
file is put in place and the folder removed. Without --out rows are printed as they are made, and
nothing is kept. Work can be spread over processes of this machine (--workers) or a Dask cluster
(--dask).

Exit status: 0 done, 1 some sentences could not be written (they are listed; the same command tries
them again), 2 bad input.

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
from collections.abc import Sequence
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
from contstim.cli.parsing import CommandParser, given, positive, reader
from contstim.errors import InfeasibleError, InputError
from contstim.files import is_stream
from contstim.models.training_overlap import training_notes
from contstim.pipeline.options import SynthesisOptions
from contstim.pipeline.stages import SentenceOptions, StudyOptions, StudyPlan, VocabularyOptions
from contstim.pipeline.stages.synthesis import SYNTHESIS, SynthesisStage
from contstim.pipeline.synthesis import SynthesisReport, write_synthesis
from contstim.pipeline.work import Task
from contstim.synthesis import options_of, owners_of_options, settings_of
from contstim.synthesis.results import Row, Triplet, written_and_natural
from contstim.synthesis.targets import SYNTHESIS_TARGETS
from contstim.text import pool, read_sentences
from contstim.text.diversity import diversity_line
from contstim.text.words import WordOptions

# For how many seconds work is tried that is to say what it costs.
_TRIED = 10


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
    summaries = "; ".join(f"{name}, {target.summary}" for name, target in SYNTHESIS_TARGETS.items())
    parser.add(
        "--target",
        f"what is wanted of the models of --model: {summaries}",
        choices=SYNTHESIS_TARGETS,
    )
    parser.add("--model [NAME=]SPEC", "a compared model, for --target", several=True)
    parser.add_fields(SynthesisOptions, "reference", "loss", "margin", "floors", "most_changes")
    parser.add_fields(SynthesisOptions, "fixed", "changed", "certificate")
    what = "the words that may stand at a position"
    parser.add("--words-at POSITION=WORD,WORD", what, several=True)
    parser.add_fields(SynthesisOptions, "most_use", "same_tokens", "alike", "agree", "strategy")
    _add_strategy_options(parser)
    parser.add_fields(SynthesisOptions, "starts", "per_pair", "per_sentence", "minimum_drop")
    parser.set_defaults(starts="all")
    add_executor(parser)
    parser.add(
        "--cost",
        f"work for {_TRIED} seconds, say what all will take, and stop; the same command without "
        "it goes on",
    )
    add_vocabulary(parser)
    parser.add_seed()
    parser.add_out()


def _add_strategy_options(parser: CommandParser) -> None:
    """Add the options that strategies declare, each with what it means for its strategies."""
    for option, owners in owners_of_options().items():
        by_text: dict[str, list[str]] = {}
        for owner in owners:
            field = options_of(owner)[option]
            text = field.metadata["help"]
            if field.default is not None and "(default" not in text:
                text += f" (default: {field.default})"
            by_text.setdefault(text, []).append(owner)
        texts = [f"{text} (--strategy {', '.join(names)})" for text, names in by_text.items()]
        usage = f"--{option.replace('_', '-')} {field.metadata['metavar']}"
        parser.add(usage, "; ".join(texts), reader(settings_of(owners[0]), option))


def run(
    args: argparse.Namespace, plan: StudyPlan | None = None, stage: SynthesisStage = SYNTHESIS
) -> int:
    """Write the table of a plan's stage, by default as asked for; return the exit status."""
    plan = plan_of(args) if plan is None else plan
    if share := small_share(plan.sentences.listed, plan.words):
        # Models of word pieces know any word, and would write foreign ones into the sentences.
        tell(
            f"the vocabulary has {share} different words of the sentences; if they are in another "
            "language, make one of it with 'contstim vocabulary' and give it as --vocabulary",
        )
    for note in training_notes((*plan.models, *plan.further), plan.sentences.listed):
        tell(note)
    tried = _TRIED if args.cost else None
    is_file = args.out != "-" and not is_stream(Path(args.out))
    if args.out != "-":
        lists = [*(args.allow or ()), *(args.block or ())]
        refuse_overwriting(args.out, [args.sentences, args.vocabulary, *lists])
    with executor_of(args.executor) as executor:
        if is_file:
            with resumable():
                report = write_synthesis(plan, Path(args.out), executor, stage=stage, tried=tried)
        else:
            with write_output(args.out) as file:
                printer = _Printer(file)
                report = write_synthesis(plan, None, executor, printer.show, tried=tried)
                printer.finish()
    if report.is_old:
        tell(f"{args.out}: up to date")
        return 0
    if report.failed:
        return _told_failed(report.failed)
    if _tell_left(report):
        return 0
    if report.asked is not None:
        opposed = sum(isinstance(row, Triplet) and row.opposed for row in report.rows)
        tell(
            f"{len(report.rows)} of {report.asked} triplets were found; in {opposed} of them the "
            "models order the two synthetic sentences oppositely",
        )
    if report.written is not None:
        _tell_pool(report)
    if len(report.rows) > 1:
        tell(diversity_line(*written_and_natural(report.rows)))
    return 0


def _tell_left(report: SynthesisReport) -> bool:
    """Say what work that was tried still takes; return whether anything is left of it."""
    if (left := report.left) is None:
        return False
    needs = "how long the others take is not known yet"
    if (seconds := left.seconds_left) is not None:
        time = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"
        needs = f"the others take about {time} of one worker"
    tell(
        f"{left.done} of {left.tasks} tasks done; {needs}. The same command without --cost goes on"
    )
    return True


def _tell_pool(report: SynthesisReport) -> None:
    """Say what was written, and where rows are missing, which constraint leaves how many."""
    tell(f"{report.written:,} different sentences were written, {report.pool:,} keep the floors")
    if report.asked is not None and len(report.rows) < report.asked:
        for name, number in report.keeping.items():
            tell(f"  {number:,.0f} of these keep {name} (at the median place)")
        tell("  for more triplets begin more sentences (--begun), or lower the floor of fewest")


def plan_of(args: argparse.Namespace) -> StudyPlan:
    """Return what is asked for as a study plan of one stage."""
    if args.sentence and args.sentences:
        raise InputError("give sentences or --sentences FILE, not both")
    texts = args.sentence or (pool() if args.sentences is None else read_sentences(args.sentences))
    sentences = [" ".join(text.split()) for text in texts]
    words = word_options(args)
    directed = [*(args.reject or ()), *(args.accept or ())]
    ways = {"--pair": args.pair, "--model": args.model, "--reject and --accept": directed}
    if not any(ways.values()) or bool(args.model) > bool(args.target):
        raise InputError(
            "name the models: --pair SPEC_1 SPEC_2 for triplets, --reject SPEC --accept SPEC, or "
            "--target with --model"
        )
    if args.pair and (args.model or directed or args.target not in (None, "pair")):
        raise InputError("name the models once: with --pair give no others, and no --target")
    models = args.model or [*itertools.chain(*args.pair or ()), *directed]
    is_given = args.vocabulary or words.given
    of_strategy = {name: getattr(args, name) for name in owners_of_options()}
    options = SynthesisOptions(
        **given(args, SynthesisOptions)
        | {
            "target": args.target or ("split" if directed else "pair"),
            "pairs": tuple(map(tuple, args.pair or ())),
            "words_at": words_at_positions(args.words_at or ()),
            "of_strategy": {k: v for k, v in of_strategy.items() if v is not None},
        }
    )
    return StudyPlan(
        tuple(dict.fromkeys(models)),
        StudyOptions("synthesis", args.seed),
        SentenceOptions(listed=tuple(dict.fromkeys(sentences[: args.limit]))),
        VocabularyOptions(**given(args, WordOptions)),
        (options,),
        words=read_vocabulary(args.vocabulary, words) if is_given else None,
    )


class _Printer:
    """Prints each row as it comes, below a header."""

    def __init__(self, file: IO[str]) -> None:
        self.file, self.writer = file, csv.writer(file, lineterminator="\n")
        self.begun = False

    def show(self, row: Row) -> None:
        values = row.row()
        if not self.begun:
            self.writer.writerow(values)
        self.begun = True
        self.writer.writerow(values.values())
        self.file.flush()

    def finish(self) -> None:
        """Print the header of no rows."""
        if not self.begun:
            self.writer.writerow(Triplet.columns())


def _told_failed(failed: Sequence[tuple[Task, str]]) -> int:
    """Say which tasks failed; return the exit status."""
    lines = [line for _, line in failed]
    kind = f"{InfeasibleError.__name__}: "
    if all(line.startswith(kind) for line in lines):
        more = f" ({len(lines) - 1} more searches fail likewise)" if len(lines) > 1 else ""
        raise InfeasibleError(lines[0].removeprefix(kind) + more)
    tell_failed(failed)
    return 1
