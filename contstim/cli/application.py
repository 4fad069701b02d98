"""Commands as cyclopts applications: their construction, plain help, and one-line errors."""

from __future__ import annotations

import difflib
import inspect
import os
import shutil
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from cyclopts import App, CycloptsError, Group, Parameter
from cyclopts.exceptions import (
    CoercionError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from contstim.cli.parameters import Output
from contstim.errors import InputError, OutputError, UnknownNameError, suggest_names, truncate
from contstim.files import is_stream

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

# Columns of the help: where the descriptions begin, and the widest line.
_DESCRIPTIONS, _WIDEST = 25, 100


def create_application(
    name: str, text: str | None, command: Callable[..., int | None] | None = None, **settings: Any
) -> App:
    """Return the application of a command, or of one kind of a command.

    Parameters
    ----------
    name
        Name of the command after ``contstim``, such as ``select``.
    text
        Help text, printed as it is: purpose, details, and examples. The docstring of the module, or
        of the function.
    command
        Function of a kind, as in ``select natural``; a command is decorated with ``@app.default``.
    **settings
        Settings of `cyclopts.App`, such as `usage`.
    """
    return App(
        name=name if command else f"contstim {name}",
        help=text,
        default_command=command,
        help_format="plaintext",
        help_formatter=PlainTextHelp(),
        help_flags=("--help", "-h"),
        version_flags=(),
        group_arguments=Group.create_default_arguments("arguments"),
        group_parameters="options",
        group_commands="kinds",
        # No --no-x for a flag, no --empty-x for a list.
        default_parameter=Parameter(negative=(), show_choices=False),
        **settings,
    )


def run_application(app: App, arguments: Sequence[str]) -> int:
    """Parse the arguments of a command and run it; return its exit status.

    Raises
    ------
    InputError
        If the arguments cannot be used; the message names the value and what to do.
    """
    if not arguments and app.default_command is None:
        kinds = ", ".join(kind for kind in app if not kind.startswith("-"))
        raise InputError(f"write one of {kinds} after {app.name[0]}; see {app.name[0]} --help")
    try:
        command, bound, _ = app.parse_args(
            arguments, exit_on_error=False, print_error=False, verbose=False
        )
    except CycloptsError as error:
        name = " ".join([app.name[0], *(error.command_chain or ())])
        raise InputError(f"{_describe(error)}; see {name} --help") from error
    bound.apply_defaults()
    _refuse_one_output_for_two(bound)
    return command(*bound.args, **bound.kwargs) or 0


def _describe(error: CycloptsError) -> str:
    """Return what is wrong with the arguments, and what to do, in one line."""
    argument = error.argument
    token = getattr(error, "token", None)
    option = "" if token is None else (token.keyword or token.value).partition("=")[0]
    is_option = token is not None and token.keyword is None and option.startswith("--")
    if isinstance(error, UnknownOptionError) or is_option:
        assert error.app is not None
        names = [name for known in error.app.assemble_argument_collection() for name in known.names]
        near = difflib.get_close_matches(option, names, 1, 0.75)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return f"there is no option {truncate(option, 40)!r} here{hint}"
    if isinstance(error, UnknownCommandError):
        assert error.unused_tokens is not None
        assert error.app is not None
        kinds = [name for name in error.app if not name.startswith("-")]
        return str(UnknownNameError.with_suggestions("kind", error.unused_tokens[0], kinds))
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        return f"{truncate(error.unused_tokens[0], 40)!r} is an argument too many"
    if isinstance(error, MissingArgumentError):
        assert argument is not None
        values = argument.parameter.metavar or ""
        if error.keyword is not None or argument.tokens:
            return f"{argument.name} needs {values or 'a value'}"
        value = values if argument.name.startswith("-") else ""
        return f"{f'{argument.name} {value}'.strip()} is missing; give it"
    if isinstance(error, RepeatArgumentError):
        return f"{option} is given twice; give it once"
    if isinstance(error, CoercionError):
        where = f"{token.keyword}: " if token is not None and token.keyword else ""
        if error.msg is not None:
            return f"{where}{error.msg}"
        if get_origin(error.target_type) is Literal and token is not None:
            choices = suggest_names(token.value, get_args(error.target_type))
            return f"{where}unknown value {token.value!r}; {choices}"
    return str(error)


def _refuse_one_output_for_two(bound: inspect.BoundArguments) -> None:
    """Refuse two options that would both be written to one file, or to standard output."""
    taken: dict[str, str] = {}
    for name, value in bound.arguments.items():
        if isinstance(value, Output) and not (value != "-" and is_stream(Path(value))):
            path = value if value == "-" else os.path.realpath(value)
            other = taken.setdefault(path, name)
            if other != name:
                raise OutputError(
                    f"--{other} and --{name} are one file, {value}; give each its own"
                )


class PlainTextHelp:
    """Formats the help of a command as plain text: one entry per option, grouped, without boxes.

    The value that an option takes follows its name; its default follows the description in
    brackets, unless the description says there what happens otherwise.
    """

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        """Print the line of usage."""
        line = str(usage).strip().replace("[OPTIONS]", "[options]").removeprefix("Usage: ")
        print(f"usage: {line}", file=console.file)

    def render_description(self, console: Console, options: ConsoleOptions, text: Any) -> None:
        """Print the help text as it was written."""
        print(f"\n{_plain(text)}", file=console.file)

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Print one group of options, or the kinds of a command."""
        entries = [(label_entry(entry), describe_entry(entry)) for entry in panel.entries]
        entries = [entry for entry in entries if not entry[0].startswith("--help")]
        if entries:
            print(f"\n{panel.title}:", file=console.file)
        width = min(shutil.get_terminal_size((_WIDEST, 24)).columns, _WIDEST)
        for label, description in entries:
            lines = textwrap.wrap(description, max(20, width - _DESCRIPTIONS)) or [""]
            first = f"  {label}".ljust(_DESCRIPTIONS - 1)
            if len(first) >= _DESCRIPTIONS:
                print(first, file=console.file)
                first = " " * (_DESCRIPTIONS - 1)
            for line in lines:
                print(f"{first} {line}".rstrip(), file=console.file)
                first = " " * (_DESCRIPTIONS - 1)


def label_entry(entry: HelpEntry) -> str:
    """Return what a user writes: ``--option VALUE``, or the name of an argument."""
    if entry.positional_label:
        return entry.positional_label
    value = entry.metavar or ""
    if not value.endswith(" ..."):  # cyclopts marks any list with dots
        value = value.removesuffix("...")
    return f"{', '.join(entry.all_options)} {value}".strip()


def describe_entry(entry: HelpEntry) -> str:
    """Return the description of an entry, with whether it is repeatable and its default."""
    text = " ".join(_plain(entry.description).split())
    is_list = get_origin(entry.type) in (list, tuple) and not entry.positional_label
    if is_list and "repeatable" not in text and not (entry.metavar or "").endswith(" ..."):
        text += " (repeatable)"
    if entry.default not in (None, "False", "-", "[]", "()") and not text.endswith("]"):
        text += f" [{entry.default}]"
    return text


def _plain(text: Any) -> str:
    """Return the text of what cyclopts parsed from a docstring."""
    return str(getattr(text, "primary_renderable", text) or "").strip()
