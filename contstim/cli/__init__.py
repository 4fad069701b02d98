"""The command line: ``contstim COMMAND``; each command is a thin module with a function.

The function's signature declares the arguments and options, its numpydoc docstring describes them,
and `cyclopts` parses them. The docstring of the module is the help text: purpose, details and
examples. A command in full::

    '''Count the words of sentences.

    examples:
      contstim count sentences.txt --longest 8
    '''

    app = application("count", __doc__)
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
        ...  # imports of torch, pandas and the like stand here: ``--help`` does without them

A description is a noun phrase with its unit. The default is added in brackets, unless the
description ends with brackets of its own. `contstim.cli.parameters` has the types of parameters:
`PositiveInteger`, `File`, `Spec`. Options that several commands share are a frozen dataclass with
``@Parameter(name="*")``, documented under "Attributes". A command with kinds, such as ``contstim
select natural``, adds one application per kind: ``app.command(application("natural", HELP,
function))``. A `ContstimError` anywhere becomes one line on standard error and exit status 2;
another exit status is returned, or None for 0.

The commands of the surrounding packages, such as `contstim.experiment`, are in those packages.
Installed packages add commands by entry points of the group ``contstim.commands``; the value is the
address of an application, ``package.module:app``.
"""

from __future__ import annotations

import io
import itertools
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from contstim import __version__
from contstim.errors import ContstimError, InputError
from contstim.plugins import Registry

if TYPE_CHECKING:
    from cyclopts import App

__all__ = ["main"]

#: What contstim's own commands do, and where they are, in the order of the help.
_OWN = {
    "demo": ("cli.demo", "see what contstim does, on the bundled models"),
    "models": ("cli.models", "list, describe, check and train models"),
    "score": ("cli.score", "score sentences under models"),
    "sentences": ("cli.sentences", "sample natural sentences from a text"),
    "vocabulary": ("cli.vocabulary", "make the list of words to write with, in any language"),
    "synthesize": ("cli.synthesize", "write sentences on which two models disagree"),
    "review": (
        "experiment.commands.review",
        "have people approve or edit sentences, or judge them blind",
    ),
    "select": ("cli.select", "select natural pairs or triplets, with a proven bound"),
    "design": ("cli.design", "lay out trials for participants; plan"),
    "experiment": (
        "experiment.commands.experiment",
        "run the experiment with people in a browser, and collect their choices",
    ),
    "preregister": (
        "experiment.commands.preregister",
        "write a study's plan, with when it stops, in whole sentences",
    ),
    "watch": (
        "experiment.commands.watch",
        "say which model is best by now, and whether a study may stop",
    ),
    "run": ("cli.run", "run a study plan, from models to trials"),
    "benchmark": (
        "benchmarks.commands.benchmark",
        "list published human data, and judge models by them",
    ),
    "evaluate": ("cli.evaluate", "find out from people's choices which model was right"),
    "publish": (
        "benchmarks.commands.publish",
        "write a finished study as a folder that others can use",
    ),
}

#: Commands by name; each is imported when it is called. Packages add more by the entry-point group
#: ``contstim.commands``. The packages that surround the core need not be installed.
COMMANDS: Registry[App] = Registry(
    "command",
    "contstim.commands",
    {
        name: f"contstim.{module}:app"
        for name, (module, _) in _OWN.items()
        if find_spec(f"contstim.{module.partition('.')[0]}") is not None
    },
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line.

    Returns
    -------
    int
        Exit status: 0 done, 2 bad input (one line on standard error says what and what to do),
        130 interrupted.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    _open_streams()
    try:
        _refuse_empty(arguments)
        with _ended_by_signal():
            status = _run(arguments)
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


def _run(arguments: list[str]) -> int:
    if not arguments:
        raise InputError(
            "give a command: `contstim demo` shows in a minute what it does, `contstim evaluate` "
            "finds out from people's choices which model was right; see contstim --help"
        )
    name = arguments[0]
    if name in ("--help", "-h"):
        print(_overview())
        return 0
    if name == "--version":
        print(f"contstim {__version__}")
        return 0
    if name.startswith("-"):
        raise InputError(f"there is no option {name!r} here; see contstim --help")
    from contstim.cli.application import run_application

    return run_application(COMMANDS[name], arguments[1:])


def _overview() -> str:
    """Return the help of ``contstim`` itself: its commands."""
    lines = [
        "usage: contstim COMMAND [options]\n",
        "Controversial stimuli: sentence pairs on which language models disagree.\n",
        "commands:",
    ]
    for name in COMMANDS:
        package = COMMANDS.package(name)
        lines.append(f"  {name:<14} {f'from {package}' if package else _OWN[name][1]}")
    lines += [
        "\noptions:",
        "  --help         this help; contstim COMMAND --help shows that of a command",
    ]
    lines += ["  --version      version of contstim"]
    return "\n".join(lines)


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


def _refuse_empty(arguments: Sequence[str]) -> None:
    """Refuse an empty argument, mostly a shell variable that is not set, and ``--option=--``."""
    for before, argument in itertools.pairwise(["", *arguments]):
        option = argument.removesuffix("=") if argument.endswith("=") else before
        if argument.startswith("--") and argument.endswith("=--"):
            raise InputError(f"{argument} gives no value; write one after the =")
        if argument == "" or (argument.startswith("--") and argument.endswith("=")):
            place = f" after {option}" if option.startswith("-") else ""
            raise InputError(f"there is an empty argument{place}; fill it or leave it out")


def _silence() -> None:
    """Send what is left of standard output nowhere; Python would complain about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
