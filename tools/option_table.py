"""Print which options each command has, and check their number and that each name has one meaning.

Run by ``make check``. Exit status 1 if a command has more options than its limit, or if an option
of two commands takes different values or is described by another noun.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from typing import NamedTuple

from cyclopts import App
from cyclopts.help.help import create_parameter_help_panel

from contstim.cli import COMMANDS
from contstim.cli.application import describe_entry, label_entry

LIMIT = 20
#: Limits of single commands.
LIMITS = {"synthesize": 25}
#: Options that name a file in one command and a folder in another.
FILE_OR_FOLDER = {"--out", "--data"}
#: Ends the noun that a description begins with.
END_OF_NOUN = re.compile(
    r"[\[(;,:]| (?:of|for|that|in|to|by|with|per|from|under|at|on|over|where)\b"
)


class Option(NamedTuple):
    """An option of a command: its name, the value that it takes, and its description."""

    name: str
    value: str
    description: str

    @property
    def noun(self) -> str:
        """The noun that the description begins with."""
        return END_OF_NOUN.split(self.description, maxsplit=1)[0].strip()


def options_by_command() -> dict[str, list[Option]]:
    """Return the options of every command and kind of a command, arguments left out."""
    found: dict[str, list[Option]] = {}
    for name in COMMANDS:
        found.update(_options_by_kind(name, COMMANDS[name]))
    return found


def _options_by_kind(name: str, app: App) -> dict[str, list[Option]]:
    if app.default_command is not None:
        return {name: _options(app)}
    kinds = [kind for kind in app if not kind.startswith("-")]
    return {
        k: v for kind in kinds for k, v in _options_by_kind(f"{name} {kind}", app[kind]).items()
    }


def _options(app: App) -> list[Option]:
    arguments = app.assemble_argument_collection(parse_docstring=True)
    options = []
    for group in arguments.groups:
        panel = create_parameter_help_panel(group, arguments.filter_by(group=group), "plaintext")
        for entry in panel.entries:
            name, _, value = label_entry(entry).partition(" ")
            if name.startswith("--"):
                value = value.removesuffix(" ...").removeprefix("[NAME=]")
                options.append(Option(name, value, describe_entry(entry)))
    return options


def faults_of(commands: dict[str, list[Option]]) -> list[str]:
    """Return what is wrong with the options, one line each."""
    faults = []
    for command, options in commands.items():
        limit = LIMITS.get(command, LIMIT)
        if len(options) > limit:
            faults.append(f"contstim {command} has {len(options)} options, more than {limit}")
    meanings: dict[str, dict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
    for command, options in commands.items():
        for option in options:
            if option.description and option.name not in FILE_OR_FOLDER:
                meanings[option.name][option.value, option.noun].append(command)
    for name, found in sorted(meanings.items()):
        if len(found) > 1:
            said = [f"{value} {noun!r} ({', '.join(by)})" for (value, noun), by in found.items()]
            faults.append(f"{name} has several meanings: {'; '.join(said)}")
    return faults


def main() -> int:
    """Print the table and the faults; return the exit status."""
    commands = options_by_command()
    owners: dict[str, list[str]] = defaultdict(list)
    for command, options in commands.items():
        print(f"{len(options):3} {command}")
        for option in options:
            owners[option.name].append(command)
    print(f"{sum(map(len, commands.values())):3} in all, {len(owners)} names\n")
    for name, by in sorted(owners.items()):
        print(f"{name:24} {', '.join(by)}")
    faults = faults_of(commands)
    for fault in faults:
        print(fault, file=sys.stderr)
    return bool(faults)


if __name__ == "__main__":
    raise SystemExit(main())
