"""The command line: ``contstim COMMAND``.

Each command is a module with one function. The signature of the function declares the arguments
and options, and its numpydoc docstring describes them; `cyclopts` parses both. The docstring of
the module is the help text: purpose, details and examples. A complete command::

    '''Count the words of sentences.

    examples:
      contstim count sentences.txt --longest 8
    '''

    app = create_application("count", __doc__)
    LIMITS = Group.create_ordered("limits")

    @app.default
    def count(
        sentences: File,  # an argument: contstim count SENTENCES
        /,
        *,
        longest: Annotated[PositiveInteger | None, Parameter(group=LIMITS)] = None,  # --longest N
        word: Annotated[list[Text], Parameter(metavar="WORD")] = [],  # repeatable
        out: OutputFile = STANDARD_OUTPUT,
    ) -> int | None:
        '''Count words.

        Parameters
        ----------
        sentences
            sentences, one per line
        longest
            maximum number of words of a sentence [no limit]
        word
            word to count
        out
            output table [standard output]
        '''
        ...  # import pandas, torch and the like here: ``--help`` does not need them

The description of an option is a noun phrase with its unit. The help appends the default value in
brackets, unless the description ends with brackets. `contstim.cli.parameters` provides parameter
types, e.g. `PositiveInteger`, `File` and `Spec`. Options that several commands share are the fields
of a frozen dataclass with ``@Parameter(name="*")`` and are documented under "Attributes". A command
with subcommands, e.g. ``contstim select natural``, registers one application for each:
``app.command(create_application("natural", HELP, function))``.

A command returns its exit status; None means 0. A `ContstimError` becomes one line on standard
error and exit status 2.

The commands of the surrounding packages, e.g. `contstim.experiment`, are in those packages.
Installed packages add commands by entry points of the group ``contstim.commands``, with the address
of an application as value: ``package.module:app``.
"""

from __future__ import annotations

import io
import itertools
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from contstim import __version__
from contstim.errors import ContstimError, InputError
from contstim.plugins import Registry

if TYPE_CHECKING:
    from cyclopts import App

__all__ = ["main"]

# Addresses and summaries of the bundled commands, in the order of a study.
_BUNDLED = {
    "demo": ("cli.demo:app", "demonstrate contstim on bundled models, in a minute"),
    "models": ("cli.models:app", "list, describe, check and train models"),
    "score": ("cli.score:app", "score sentences under models"),
    "sentences": ("cli.sentences:app", "sample natural sentences from texts"),
    "vocabulary": ("cli.vocabulary:app", "make a list of words for synthesis, in any language"),
    "synthesize": ("cli.synthesize:app", "write sentences on which two models disagree"),
    "review": ("experiment.commands.review:app", "let people approve, edit or judge sentences"),
    "select": ("cli.select:app", "select controversial pairs or triplets, with a proven bound"),
    "design": ("cli.design:app", "lay out trials, simulate choices, compute power"),
    "experiment": ("experiment.commands.experiment:app", "run an experiment in the browser"),
    "preregister": ("experiment.commands.preregister:app", "write the preregistration of a study"),
    "watch": ("experiment.commands.watch:app", "analyse a running study and its stopping rule"),
    "run": ("cli.run:app", "run a study plan, from models to trials"),
    "benchmark": ("benchmarks.commands.benchmark:app", "evaluate models on published human data"),
    "reproduce": ("benchmarks.commands.reproduce:app", "reproduce a published study"),
    "evaluate": ("cli.evaluate:app", "find out which model predicts people's choices"),
    "publish": ("benchmarks.commands.publish:app", "export a finished study for others"),
}
# Addresses and names of subcommands that a surrounding package adds to a command.
_BUNDLED_SUBCOMMANDS = {
    "design": ("adaptive.commands:SUBCOMMANDS", "savings"),
    "models": ("training.commands:SUBCOMMANDS", "train, adapt, distill, finetune"),
}


def _find_installed(entries: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return the full addresses, ``contstim.module:name``, of entries in installed packages."""
    return {
        name: f"contstim.{address}"
        for name, (address, _) in entries.items()
        if find_spec(f"contstim.{address.partition('.')[0]}") is not None
    }


#: Commands by name, imported when they are called. Installed packages add commands by the
#: entry-point group ``contstim.commands``. A command is omitted if its package is not installed.
COMMANDS: Registry[App] = Registry("command", "contstim.commands", _find_installed(_BUNDLED))
#: Applications that one other package adds to a command as subcommands, by name of the command.
SUBCOMMANDS: Registry[Sequence[App]] = Registry(
    "subcommands of", "contstim.subcommands", _find_installed(_BUNDLED_SUBCOMMANDS)
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line.

    Parameters
    ----------
    argv
        Arguments after ``contstim``; by default ``sys.argv[1:]``.

    Returns
    -------
    int
        Exit status: 0 success, 1 incomplete result, 2 bad input (with one line on standard error
        that names the value and the remedy), 130 interrupted.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    if sys.stderr is None:
        # Python prints messages for a closed standard error to standard output.
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open to the end
    if sys.stdout is None:
        print("contstim: standard output is closed; send it to a file", file=sys.stderr)
        raise SystemExit(2)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # tables are UTF-8 in every locale
    try:
        refuse_empty_arguments(arguments)
        with interrupt_on_sigterm():
            status = run_command(arguments)
        sys.stdout.flush()
    except ContstimError as error:
        message = " ".join(str(error).split())
        print(f"contstim: {message}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader, e.g. head or less, has closed the pipe. This is no error.
        _discard_output()
        return 0
    except OSError as error:
        if error.filename is not None:
            print(f"contstim: cannot use {error.filename}: {error.strerror}", file=sys.stderr)
            return 2
        # The error concerns a stream, e.g. standard output on a full disk.
        _discard_output()
        print(f"contstim: cannot write standard output: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interruption:
        # A resumable command adds an explanation to the exception.
        print("; ".join(["contstim: interrupted", *interruption.args]), file=sys.stderr)
        return 130
    return status


def refuse_empty_arguments(arguments: Sequence[str]) -> None:
    """Refuse an empty argument, often an unset shell variable, and ``--option=--``.

    Raises
    ------
    InputError
        If an argument is empty; the message names the option before it.
    """
    for previous, argument in itertools.pairwise(["", *arguments]):
        is_option = argument.startswith("--")
        # `--option=--` would end the options instead of giving a value.
        if is_option and argument.endswith("=--"):
            raise InputError(f"{argument} has no value; write one after the =")
        if argument == "" or (is_option and argument.endswith("=")):
            # An empty argument is often an unset shell variable. Name the option before it.
            option = argument.removesuffix("=") if is_option else previous
            position = f" after {option}" if option.startswith("-") else ""
            raise InputError(f"there is an empty argument{position}; fill it or leave it out")


@contextmanager
def interrupt_on_sigterm() -> Iterator[None]:
    """Handle the signal SIGTERM like Ctrl-C during the ``with`` block.

    Schedulers of clusters send SIGTERM to a job before they stop it at its time limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return
    # Handle SIGTERM like Ctrl-C within the block, so that the program ends in an orderly way.
    previous_handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous_handler)


def run_command(arguments: list[str]) -> int:
    """Run the command that the first argument names; return its exit status.

    Raises
    ------
    InputError
        If the command is missing or unknown, or an argument cannot be used.
    """
    if not arguments:
        raise InputError(
            "give a command: `contstim demo` shows in a minute what it does, `contstim evaluate` "
            "finds out from people's choices which model was right; see contstim --help"
        )
    name = arguments[0]
    if name in ("--help", "-h"):
        print(format_overview())
        return 0
    if name == "--version":
        print(f"contstim {__version__}")
        return 0
    if name.startswith("-"):
        raise InputError(f"there is no option {name!r} here; see contstim --help")
    # Import the parser only now, because it takes time that --help need not wait for.
    from contstim.cli.application import run_application

    # `COMMANDS` maps names of commands to applications, also of installed packages.
    return run_application(COMMANDS[name], arguments[1:])


def format_overview() -> str:
    """Return the text of ``contstim --help``: all commands with their summaries."""
    lines = [
        "usage: contstim COMMAND [options]\n",
        "Controversial stimuli: sentence pairs on which language models disagree.\n",
        "commands:",
    ]
    for name in COMMANDS:
        # Commands of installed packages have no summary here, because it would require an import.
        package = COMMANDS.package(name)
        summary = f"from {package}" if package else _BUNDLED[name][1]
        lines.append(f"  {name:<14} {summary}")
    lines.append("\noptions:\n  --help         this help; after a command, the help of the command")
    lines.append("  --version      version of contstim")
    return "\n".join(lines)


def _discard_output() -> None:
    """Redirect standard output to the null device, since Python flushes it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
