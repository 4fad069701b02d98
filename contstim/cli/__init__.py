"""The command line: ``contstim COMMAND``; each command is a thin module of this package."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from contstim import __version__
from contstim.cli.common import CommandParser
from contstim.errors import ContstimError

__all__ = ["main"]

#: Commands in the order of the help; each is a module with `SUMMARY`, `configure` and `run`.
COMMANDS = ("demo", "models", "score", "sentences", "synthesize")


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
    for name in COMMANDS:
        module = import_module(f"contstim.cli.{name}")
        sub = commands.add_parser(
            name,
            help=module.SUMMARY,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.configure(sub)
        sub.set_defaults(run=module.run)
    args = parser.parse_args(argv)
    try:
        status: int = args.run(args)
        sys.stdout.flush()
    except ContstimError as error:
        message = " ".join(str(error).split())
        print(f"contstim: {message}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader (head, less) has enough; nothing is wrong. Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("contstim: interrupted; finished results are kept", file=sys.stderr)
        return 130
    return status
