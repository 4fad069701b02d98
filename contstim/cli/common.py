"""What the commands share: reading sentences, writing results, checking arguments."""

from __future__ import annotations

import argparse
import difflib
import math
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn

from contstim.errors import InputError, OutputError
from contstim.files import is_stream, replacing

if TYPE_CHECKING:
    import pandas as pd

    from contstim.arrays import FloatArray
    from contstim.pipeline.engine import Executor
    from contstim.pipeline.work import Task
    from contstim.selection.people import People
    from contstim.text.vocabulary import Vocabulary
    from contstim.text.words import WordOptions


class CommandParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line that says what to do.

    The help of a subcommand ends with those of its command's examples that are its own.
    """

    def format_help(self) -> str:
        """Return the help, with examples."""
        command = self.prog.split()[1:]
        module = sys.modules.get(f"contstim.cli.{command[0]}") if len(command) > 1 else None
        lines = (line.strip() for line in (module.__doc__ or "").splitlines()) if module else ()
        examples = [f"  {line}" for line in lines if line.startswith(f"{self.prog} ")]
        if examples:
            self.formatter_class = argparse.RawDescriptionHelpFormatter
            self.epilog = "\n".join(["Example:" if len(examples) == 1 else "Examples:", *examples])
        return super().format_help()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; what a command does not take is an error of this command, not of `contstim`."""
        found, left = super().parse_known_args(args, namespace)
        if left and len(self._actions) > 1:  # else it is no command that was asked for
            options = [text.partition("=")[0] for text in left if text.startswith("-")]
            if not options:
                self.error(f"{_short(left[0])} is an argument too many")
            near = difflib.get_close_matches(options[0], self._option_string_actions, 1, 0.75)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            self.error(f"there is no option {_short(options[0])} here{hint}")
        return found, left

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with status 2."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def whole_number(least: int, most: int = 10**9) -> Callable[[str], int]:
    """Return a reader of whole numbers from `least` up to `most`, for ``type=``."""

    def read(text: str) -> int:
        # int() would also take 1_000 and the digits of other scripts.
        digits = text.isascii() and text.isdigit()
        if digits and len(text) <= 99 and least <= int(text) <= most:
            return int(text)
        wrong = f"{_short(text)} is not a whole number from {least} up"
        if digits and int(text[-99:]) >= least:
            wrong = f"{_short(text)} is too large, the most is {most}"
        raise argparse.ArgumentTypeError(wrong)

    return read


#: Reads a whole number above 0.
positive = whole_number(1)

#: Read numbers of threads, of resamples or simulated experiments, and of a port.
threads = whole_number(1, 1024)
resamples = whole_number(1, 10**6)
port = whole_number(0, 65_535)


def number(
    least: float = -math.inf,
    most: float = math.inf,
    *,
    above: float | None = None,
    below: float | None = None,
) -> Callable[[str], float]:
    """Return a reader of finite numbers within bounds, for ``type=``.

    `above` and `below` are bounds that are left out.
    """
    low = f"above {above:g}" if above is not None else f"from {least:g}"
    high = f"below {below:g}" if below is not None else f"to {most:g}"
    bounds = [bound for bound in (low, high) if not bound.endswith("inf")]
    wanted = " ".join(["a finite number", *bounds])

    def read(text: str) -> float:
        try:
            value = float(text) if text.isascii() and "_" not in text else math.nan
        except ValueError:
            value = math.nan
        within = math.isfinite(value) and least <= value <= most
        within &= (above is None or value > above) and (below is None or value < below)
        if not within:
            raise argparse.ArgumentTypeError(f"{_short(text)} is not {wanted}")
        return value

    return read


def reader(kind: type, name: str) -> Callable[[str], Any]:
    """Return a reader, for ``type=``, of a field of settings: a text, or numbers in its range."""
    from contstim.settings import range_of  # pydantic, which not every command needs

    takes, bounds = range_of(kind, name)
    if takes is str:
        return str
    if takes is int:
        return whole_number(bounds["ge"], bounds.get("le", 10**9))
    least, most = bounds.get("ge", -math.inf), bounds.get("le", math.inf)
    return number(least, most, above=bounds.get("gt"), below=bounds.get("lt"))


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def output_file(text: str) -> str:
    """Return a path that a file can be written to, or ``-``, for ``type=``.

    Raises
    ------
    OutputError
        If the path is a folder, leads nowhere, or has a name that no table can hold.
    """
    if text == "-":
        return text
    _check_place(text)
    if os.path.isdir(text):
        raise OutputError(f"cannot write {text}: it is a folder; give a file name")
    return text


def output_folder(text: str) -> str:
    """Return a path of a folder that can be written into, for ``type=``; it need not exist.

    Raises
    ------
    OutputError
        If the path is a file or the root of the file system, leads nowhere, or has a name that no
        table can hold.
    """
    _check_place(text)
    if os.path.lexists(text) and not os.path.isdir(text):
        raise OutputError(f"cannot write into {text}: it is no folder; give another")
    if os.path.isdir(text) and os.path.samefile(text, os.sep):
        raise OutputError(
            f"cannot write into {text}: it is the root of the file system; give another folder"
        )
    return text


def new_file(text: str) -> Path:
    """Return the path of a file that is put in place in one step, for ``type=``.

    Raises
    ------
    OutputError
        As `output_file`, and for a device or pipe, which would be lost.
    """
    path = Path(output_file(text))
    if is_stream(path):
        raise OutputError(f"cannot write {text}: it is no file; give a file name")
    return path


def _check_place(text: str) -> None:
    try:
        text.encode()
        os.stat(text)
    except UnicodeEncodeError:
        raise OutputError(
            f"cannot write {text!a}: the name is not UTF-8; choose another output"
        ) from None
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise OutputError(f"cannot write {text}: {said}; choose another output") from None


def add_seed(parser: argparse.ArgumentParser) -> None:
    """Add ``--seed``."""
    parser.add_argument(
        "--seed",
        type=whole_number(0, 2**63 - 1),
        default=0,
        metavar="N",
        help="seed of everything left to chance (default: 0)",
    )


def add_out(parser: argparse.ArgumentParser, metavar: str = "CSV") -> None:
    """Add ``--out``, a file, by default standard output."""
    parser.add_argument(
        "--out",
        type=output_file,
        default="-",
        metavar=metavar,
        help="where to write (default: standard output)",
    )


def add_out_folder(parser: argparse.ArgumentParser) -> None:
    """Add ``--out``, a folder that must be named."""
    parser.add_argument(
        "--out", required=True, type=output_folder, metavar="FOLDER", help="where to write"
    )


def add_people(parser: argparse.ArgumentParser, but: Collection[str] = ()) -> None:
    """Add the options of `contstim.selection.People`, `but` those that the parser has."""
    from contstim.selection.people import People

    standard = People()
    group = parser.add_argument_group("how people answer if a model is right")
    for name, what in (
        ("slope", "log-odds a standard deviation of log-probability"),
        ("slope-sd", "of the logarithm of the slope, over people"),
        ("side-sd", "of people's leanings to one side, logits"),
        ("item-sd", "of the effects of pairs of sentences, logits"),
        ("lapse", "share of answers at random"),
    ):
        if name in but:
            continue
        field = name.replace("-", "_")
        group.add_argument(
            f"--{name}",
            type=reader(People, field),
            metavar="NUMBER",
            help=f"{what} (default: {getattr(standard, field):g})",
        )


def people_of(args: argparse.Namespace) -> People | None:
    """Return the people that the options of `add_people` describe; None if none is given."""
    from contstim.selection.people import People

    names = ("slope", "slope_sd", "side_sd", "item_sd", "lapse")
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    return People(**given) if given else None


def add_vocabulary(parser: argparse.ArgumentParser) -> None:
    """Add ``--vocabulary``, and the options that say which of its words may be used."""
    parser.add_argument(
        "--vocabulary",
        metavar="FILE",
        help="words that may be used: one a line, or a CSV with a column 'word'; capitalised ones "
        "open sentences, lower-case ones stand elsewhere (default: the bundled English words)",
    )
    parser.add_argument(
        "--block",
        metavar="FILE",
        action="append",
        help="words never to use, one a line, whatever their case; may be given several times",
    )
    add_word_options(parser)


def add_word_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which words of a vocabulary may be used, but ``--block``."""
    from contstim.text.words import CASINGS

    parser.add_argument(
        "--min-zipf",
        type=number(0, 10),
        metavar="ZIPF",
        help="leave out words of a lower Zipf frequency in wordfreq (3 is once in a million words)",
    )
    parser.add_argument(
        "--language",
        default="en",
        metavar="CODE",
        help="language of those frequencies (default: en)",
    )
    parser.add_argument(
        "--allow",
        metavar="FILE",
        action="append",
        help="words to use whatever the other options say, one a line; may be given several times",
    )
    parser.add_argument(
        "--offensive",
        type=whole_number(0, 2),
        metavar="LEVEL",
        help="leave out words of the bundled list of offensive words: 2, those that are likely to "
        "be meant so; 1, also those that may be; 0, all",
    )
    parser.add_argument(
        "--names",
        action=argparse.BooleanOptionalAction,
        help="allow words that are listed with a capital only inside sentences, or leave them out",
    )
    parser.add_argument(
        "--casing",
        choices=CASINGS,
        default="listed",
        help="words as listed (the default); 'sentence': those that may stand inside may also open "
        "a sentence, with a capital; 'lower': all in lower case",
    )
    parser.add_argument(
        "--part-of-speech",
        metavar="CLASS",
        action="append",
        help="keep words that can be of this class (noun, verb, ...) or Penn Treebank tag; may be "
        "given several times",
    )


def word_options(args: argparse.Namespace) -> WordOptions:
    """Return the options of `add_vocabulary`."""
    from contstim.text.words import WordOptions

    block = [args.block] if isinstance(args.block, str) else args.block or ()
    return WordOptions(
        min_zipf=args.min_zipf,
        language=args.language,
        allow=tuple(args.allow or ()),
        block=tuple(block),
        offensive=args.offensive,
        names=args.names,
        casing=args.casing,
        part_of_speech=tuple(args.part_of_speech or ()),
    )


def read_vocabulary(path: str | None, options: WordOptions | None = None) -> Vocabulary:
    """Read the vocabulary given by ``--vocabulary``, or the bundled one, and choose of its words.

    Whoever lists a word means it, so words with apostrophes, hyphens or digits and single letters
    are admitted; what is left out all the same is reported on standard error.
    """
    # Loaded where it is asked for: a server that was killed is back the sooner.
    from contstim.text.vocabulary import (
        Vocabulary,
        WordRules,
        bundled_vocabulary,
        read_word_rows,
    )

    if path is None:
        words = bundled_vocabulary()
        return words if options is None else options.choose(words, Path())
    rules = WordRules(characters="any", exclude=frozenset())
    vocabulary = Vocabulary.read(path, rules=rules)
    if path != "-":
        used = {*vocabulary.first, *vocabulary.elsewhere}
        left_out = [
            word
            for word in dict.fromkeys(row["word"] for row in read_word_rows(path)[0])
            if word not in used
        ]
        if left_out:
            shown = ", ".join(map(repr, left_out[:3])) + (" ..." if len(left_out) > 3 else "")
            print(
                f"{path}: {len(left_out)} words left out, which are no bare words or may stand "
                f"nowhere: {shown}",
                file=sys.stderr,
            )
    return vocabulary if options is None else options.choose(vocabulary, Path())


def add_decisions(parser: argparse.ArgumentParser) -> None:
    """Add ``--decisions`` and ``--reviewers``."""
    parser.add_argument(
        "--decisions",
        metavar="CSV",
        action="append",
        help="keep only what reviewers approved, as `contstim review` writes it; edited sentences "
        "are scored again; may be given several times, for reviewers with files of their own",
    )
    parser.add_argument(
        "--reviewers",
        type=positive,
        metavar="N",
        help="with --decisions: how many must agree, at least (default: 1)",
    )


def approved(args: argparse.Namespace, table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that reviewers approved, if the options of `add_decisions` ask for them."""
    if not args.decisions:
        if args.reviewers is not None:
            raise InputError("--reviewers goes with --decisions; give both, or neither")
        return table
    from contstim.selection.review import read_decisions, reviewed

    decisions = [decision for path in args.decisions for decision in read_decisions(path)]

    def score(spec: str, sentences: Sequence[str]) -> FloatArray:
        from contstim.models.registry import load_model

        return load_model(spec).score(sentences)

    left = reviewed(table, decisions, score, args.reviewers or 1)
    counts = left.attrs.pop("review")
    print(
        f"review: {counts['approved']} of {counts['rows']} rows have approved sentences alone, "
        f"{counts['edited']} of them edited ones, scored again",
        file=sys.stderr,
    )
    return left


def refuse_overwriting(path: str | Path, inputs: Iterable[str | Path | None]) -> None:
    """Refuse an output that is one of the files that the command reads; None stands for no file.

    Raises
    ------
    InputError
        Naming the file.
    """
    for source in inputs:
        same = False
        # A source may be no path at all, such as nltk:brown or standard input.
        with suppress(OSError, ValueError):
            same = source is not None and os.path.samefile(source, path)
        if same and not is_stream(Path(path)):
            raise InputError(f"{path} would be both read and written; choose another output")


@contextmanager
def resumable() -> Iterator[None]:
    """Say, if the work is interrupted, that the same command goes on with it."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "finished results are kept, and the same command goes on with the rest"
        ) from None


@contextmanager
def write_output(path: str, reading: Iterable[str | None] = ()) -> Iterator[IO[str]]:
    """Open `path` for writing text, ``-`` for standard output.

    A file appears under its name only when everything is written; until then it is a temporary
    file beside it, removed if an error stops the work. What is there but is no file, such as a
    pipe or ``/dev/null``, is written to as it is.

    Parameters
    ----------
    path
        Where to write.
    reading
        Files that the command reads, none of which may be written over.

    Raises
    ------
    InputError
        If `path` is one of `reading`.
    OutputError
        If the place cannot be written to; before any work is done.
    """
    if path == "-":
        yield sys.stdout
        return
    refuse_overwriting(path, reading)
    output_file(path)
    with (
        replacing(Path(path), hint="choose another output") as place,
        place.open("w", encoding="utf-8", newline="") as file,
    ):
        yield file


def write_rows(table: pd.DataFrame, path: str, reading: Iterable[str | None] = ()) -> None:
    """Write a table as CSV; parameters and errors as of `write_output`."""
    with write_output(path, reading) as out:
        table.to_csv(out, index=False, lineterminator="\n")


def add_executor(parser: argparse.ArgumentParser) -> None:
    """Add ``--workers``, ``--dask`` and ``--devices``."""
    parser.add_argument(
        "--workers",
        type=whole_number(0, 1024),
        default=0,
        metavar="N",
        help="worker processes on this machine, one thread each (default: 0, in this process)",
    )
    parser.add_argument(
        "--dask",
        metavar="WHERE",
        help="a Dask cluster: a scheduler's address, local:N, or slurm:N for N jobs; workers must "
        "share this machine's files (needs the extra 'cluster')",
    )
    parser.add_argument(
        "--devices",
        metavar="LIST",
        help="GPUs for the workers, in turn, e.g. 0,1; models then ask for device=cuda",
    )


def executor_of(args: argparse.Namespace) -> Executor:
    """Return what the arguments say that tasks are done by."""
    # Worker processes and clusters are loaded where they are asked for.
    devices = [] if args.devices is None else args.devices.split(",")
    if devices and not args.workers:
        raise InputError(f"--devices {args.devices} needs workers; add --workers {len(devices)}")
    if args.dask is not None:
        if args.workers:
            raise InputError("give --workers or --dask, not both")
        from contstim.pipeline.cluster import DaskWorkers

        return DaskWorkers(args.dask)
    if args.workers:
        from contstim.pipeline.executors import LocalWorkers

        return LocalWorkers(args.workers, devices)
    from contstim.pipeline.engine import InProcess

    return InProcess()


def tell_failed(failed: Sequence[tuple[Task, str]]) -> None:
    """List the tasks that failed on standard error, each with its error."""
    for task, error in failed:
        print(f"failed: {task}: {error}", file=sys.stderr)
    print(f"{len(failed)} tasks failed; the same command tries them again", file=sys.stderr)


#: Named as the fields of `contstim.evaluation.exclusion.ExclusionRules`.
_EXCLUSIONS = {
    "min_catch_correct": "least share of catch trials right, e.g. 0.91",
    "min_rt_ms": "leave out trials answered faster than this",
    "max_rt_ms": "leave out trials answered slower than this",
    "min_median_rt_ms": "leave out participants whose median time is shorter",
    "min_trials": "leave out participants with fewer trials",
}


def add_exclusions(parser: argparse.ArgumentParser, title: str) -> None:
    """Add the options under a title of their own."""
    group = parser.add_argument_group(title)
    for name, what in _EXCLUSIONS.items():
        option = f"--{name.replace('_', '-')}"
        group.add_argument(option, type=number(0), metavar="N", help=what)


def given_rules(args: argparse.Namespace) -> dict[str, Any]:
    """Return the rules that were given, as fields of `ExclusionRules`."""
    return {name: value for name in _EXCLUSIONS if (value := getattr(args, name)) is not None}
