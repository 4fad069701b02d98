"""The command line: ``contstim COMMAND``; each command is a thin module of this package."""

from __future__ import annotations

import argparse
import io
import itertools
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module

from contstim import __version__
from contstim.cli.parsing import CommandParser
from contstim.errors import ContstimError

__all__ = ["main"]

#: Commands and what they do, in the order of the help. Each is a module of this package with
#: functions `configure` and `run`, imported when it is called: none waits for another's imports.
COMMANDS = {
    "demo": "see what contstim does, on the bundled models",
    "models": "list, describe, check and train models",
    "datasets": "list and fetch published human data",
    "score": "score sentences under models",
    "sentences": "sample natural sentences from a text",
    "vocabulary": "make the list of words to write with, in any language",
    "synthesize": "write sentences on which two models disagree",
    "write": "write a pool of sentences with a language model",
    "review": "have people approve or edit sentences, or judge them blind; ethics appendix",
    "select": "select natural pairs or triplets, with a proven bound",
    "design": "lay out trials for participants; plan",
    "experiment": "run the experiment with people in a browser, and collect their choices",
    "preregister": "write a study's plan, with when it stops, in whole sentences",
    "watch": "say which model is best by now, and whether a study may stop",
    "run": "run a study plan, from models to trials",
    "benchmark": "judge models by published human data, beside published models",
    "evaluate": "find out from people's choices which model was right",
    "publish": "make of a finished study a folder for others, or add a model to one",
    "report": "draw an evaluation's figure for a paper",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line.

    Returns
    -------
    int
        Exit status: 0 done, 2 bad input (one line on standard error says what and what to do),
        130 interrupted.
    """
    parser = CommandParser(
        prog="contstim",
        description="Controversial stimuli: sentence pairs on which language models disagree.",
    )
    parser.add_argument("--version", action="version", version=f"contstim {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    given = sys.argv[1:] if argv is None else list(argv)
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(
            name, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name in given[:1]:
            module = import_module(f"contstim.cli.{name}")
            sub.description = module.__doc__
            module.configure(sub)
            sub.set_defaults(run=module.run)
    _open_streams()
    _refuse_empty(parser, given)
    if not given:
        parser.error(
            "give a command: `contstim demo` shows in a minute what it does, `contstim evaluate` "
            "finds out from people's choices which model was right"
        )
    try:
        args = parser.parse_args(given)
        with _ended_by_signal():
            status: int = args.run(args)
        sys.stdout.flush()
    except ContstimError as error:
        message = " ".join(str(error).split())
        print(f"contstim: {message}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader (head, less) has enough; nothing is wrong. Python would complain at exit.
        _silence()
        return 0
    except OSError as error:
        if error.filename is not None:
            # A place that no command expected to fail: a name too long, a folder taken away.
            print(f"contstim: cannot use {error.filename}: {error.strerror}", file=sys.stderr)
            return 2
        # A stream, not a file of ours: standard output on a full disk, for example.
        _silence()
        print(f"contstim: cannot write standard output: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interruption:
        # Commands whose work goes on say so.
        print("; ".join(["contstim: interrupted", *interruption.args]), file=sys.stderr)
        return 130
    return status


@contextmanager
def _ended_by_signal() -> Iterator[None]:
    """Let what a system or cluster sends before the time is up end the work as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the caller's business
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _open_streams() -> None:
    """Make the standard streams what the commands rely on, whatever the caller left of them."""
    if sys.stderr is None:
        # Python prints to standard output what is meant for a closed standard error.
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open to the end
    if sys.stdout is None:
        print("contstim: standard output is closed; send it to a file", file=sys.stderr)
        raise SystemExit(2)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # tables are UTF-8 in every locale


def _refuse_empty(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    """Refuse an empty argument, mostly a shell variable that is not set, and ``--option=--``."""
    for before, argument in itertools.pairwise(["", *given]):
        option = argument.removesuffix("=") if argument.endswith("=") else before
        if argument.startswith("--") and argument.endswith("=--"):
            # argparse would take the two dashes away and leave nothing.
            parser.error(f"{argument} gives no value; write one after the =")
        if argument == "" or (argument.startswith("--") and argument.endswith("=")):
            place = f" after {option}" if option.startswith("-") else ""
            parser.error(f"there is an empty argument{place}; fill it or leave it out")


def _silence() -> None:
    """Send what is left of standard output nowhere; Python would complain about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
