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

#: Commands and what they do, in the order of the help. Each is a module of this package with
#: functions `configure` and `run`, imported when it is called: none waits for another's imports.
COMMANDS = {
    "demo": "see the tool at work on the bundled models",
    "models": "list, describe, check and train models",
    "score": "score sentences under models",
    "sentences": "sample natural sentences from a text",
    "synthesize": "write sentences on which two models disagree",
    "select": "select natural pairs or triplets, to proven optimality",
    "design": "lay out trials for participants; plan",
    "run": "run an experiment file, from models to trials",
    "evaluate": "tell from people's choices which model was right",
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
    args = parser.parse_args(given)
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
