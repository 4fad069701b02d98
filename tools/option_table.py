"""Print the options of each command, and check their number and the consistency of their names.

Run by ``make check``. The exit status is 1 if a command has more options than its limit, or if two
commands have an option of the same name that takes different values or whose description begins
with a different noun.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from typing import NamedTuple

from cyclopts import App
from cyclopts.help.help import create_parameter_help_panel

from contstim.cli import COMMANDS
from contstim.cli.application import describe_option, label_option

LIMIT = 20
#: Limits of single commands.
LIMITS = {"synthesize": 25}
#: Options that name a file in one command and a folder in another.
FILE_OR_FOLDER = {"--out", "--data"}
#: End of the noun at the beginning of a description.
END_OF_NOUN = re.compile(
    r"[\[(;,:]| (?:of|for|that|in|to|by|with|per|from|under|at|on|over|where)\b"
)


class Option(NamedTuple):
    """Name, value (such as ``FILE``) and description of an option of a command."""

    name: str
    value: str
    description: str

    @property
    def noun(self) -> str:
        """Noun at the beginning of the description."""
        return END_OF_NOUN.split(self.description, maxsplit=1)[0].strip()


def options_by_command() -> dict[str, list[Option]]:
    """Return the options, without positional arguments, of all commands and subcommands."""
    options: dict[str, list[Option]] = {}
    for name in COMMANDS:
        options |= _options_by_subcommand(name, COMMANDS[name])
    return options


def _options_by_subcommand(name: str, app: App) -> dict[str, list[Option]]:
    """Return the options of a command, or of its subcommands if it has any."""
    if app.default_command is not None:
        return {name: _list_options(app)}
    options: dict[str, list[Option]] = {}
    for subcommand in app:
        if not subcommand.startswith("-"):
            options |= _options_by_subcommand(f"{name} {subcommand}", app[subcommand])
    return options


def _list_options(app: App) -> list[Option]:
    """Return the options of one command, as its help shows them."""
    arguments = app.assemble_argument_collection(parse_docstring=True)
    options = []
    for group in arguments.groups:
        panel = create_parameter_help_panel(group, arguments.filter_by(group=group), "plaintext")
        for entry in panel.entries:
            name, _, value = label_option(entry).partition(" ")
            if name.startswith("--"):
                value = value.removesuffix(" ...").removeprefix("[NAME=]")
                options.append(Option(name, value, describe_option(entry)))
    return options


def check_options(commands: dict[str, list[Option]]) -> list[str]:
    """Return the findings about the options of all commands, one line each."""
    findings = []
    for command, options in commands.items():
        limit = LIMITS.get(command, LIMIT)
        if len(options) > limit:
            findings.append(f"contstim {command} has {len(options)} options, more than {limit}")
    meanings: dict[str, dict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
    for command, options in commands.items():
        for option in options:
            if option.description and option.name not in FILE_OR_FOLDER:
                meanings[option.name][option.value, option.noun].append(command)
    for name, commands_by_meaning in sorted(meanings.items()):
        if len(commands_by_meaning) > 1:
            descriptions = [
                f"{value} {noun!r} ({', '.join(names)})"
                for (value, noun), names in commands_by_meaning.items()
            ]
            findings.append(f"{name} has several meanings: {'; '.join(descriptions)}")
    return findings


def main() -> int:
    """Print the table and the findings, and return the exit status."""
    commands = options_by_command()
    commands_by_option: dict[str, list[str]] = defaultdict(list)
    for command, options in commands.items():
        print(f"{len(options):3} {command}")
        for option in options:
            commands_by_option[option.name].append(command)
    n_options = sum(map(len, commands.values()))
    print(f"{n_options:3} in total, {len(commands_by_option)} names\n")
    for name, names in sorted(commands_by_option.items()):
        print(f"{name:24} {', '.join(names)}")
    findings = check_options(commands)
    for finding in findings:
        print(finding, file=sys.stderr)
    return bool(findings)


if __name__ == "__main__":
    raise SystemExit(main())
