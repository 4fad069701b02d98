"""Commands as cyclopts applications, with plain-text help and error messages of one line."""

from __future__ import annotations

import difflib
import os
import shutil
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from cyclopts import App, CycloptsError, Group, Parameter, exceptions

from contstim.cli.parameters import Output
from contstim.errors import InputError, OutputError, suggest_names, truncate
from contstim.files import is_stream

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

# Column at which the descriptions start in the help, and the maximum width of a line.
_DESCRIPTION_COLUMN, _MAX_WIDTH = 25, 100


def create_application(
    name: str, text: str | None, command: Callable[..., int | None] | None = None, **settings: Any
) -> App:
    """Create the application of a command or a subcommand.

    Parameters
    ----------
    name
        Name of the command after ``contstim``, or of the subcommand, e.g. ``natural``.
    text
        Help text with purpose, details and examples, printed unchanged.
    command
        Function of a subcommand. The function of a command is decorated with ``@app.default``
        instead.
    **settings
        Further arguments of `cyclopts.App`, e.g. `usage`.

    Returns
    -------
    App
        The application.
    """
    return App(
        name=name if command else f"contstim {name}",
        help=text,
        default_command=command,
        # Plain text without boxes, and the headings of the groups of arguments.
        help_format="plaintext",
        help_formatter=PlainTextHelp(),
        help_flags=("--help", "-h"),
        version_flags=(),
        group_arguments=Group.create_default_arguments("arguments"),
        group_parameters="options",
        group_commands="subcommands",
        # Flags have no --no-x, lists no --empty-x.
        default_parameter=Parameter(negative=(), show_choices=False),
        **settings,
    )


def run_application(app: App, arguments: Sequence[str]) -> int:
    """Parse the arguments of a command, run it, and return its exit status.

    Parameters
    ----------
    app
        Application of the command, from `create_application`.
    arguments
        Arguments after the name of the command.

    Returns
    -------
    int
        Exit status, 0 for success.

    Raises
    ------
    InputError
        If an argument cannot be used; the message names the value and the remedy.
    OutputError
        If two options would write to the same file, or both to standard output.
    """
    if not arguments and app.default_command is None:
        subcommands = ", ".join(name for name in app if not name.startswith("-"))
        raise InputError(f"give one of {subcommands} after {app.name[0]}; see {app.name[0]} --help")
    # Errors of the parser become one line, which ends with the command for help.
    try:
        command, bound, _ = app.parse_args(
            arguments, exit_on_error=False, print_error=False, verbose=False
        )
    except CycloptsError as error:
        name = " ".join([app.name[0], *(error.command_chain or ())])
        raise InputError(f"{describe_parse_error(error)}; see {name} --help") from error
    bound.apply_defaults()
    # Refuse two options that write to one file. Pipes and devices can be shared.
    options_by_path: dict[str, str] = {}
    for option, value in bound.arguments.items():
        if isinstance(value, Output) and (value == "-" or not is_stream(Path(value))):
            path = value if value == "-" else os.path.realpath(value)
            first_option = options_by_path.setdefault(path, option)
            if first_option != option:
                raise OutputError(
                    f"--{first_option} and --{option} are one file, {value}; give each its own"
                )
    return command(*bound.args, **bound.kwargs) or 0


def describe_parse_error(error: CycloptsError) -> str:
    """Return an error message of one line for an error of cyclopts.

    The message names the invalid argument and, if possible, suggests a correction.
    """
    argument = error.argument
    token = getattr(error, "token", None)
    option = "" if token is None else (token.keyword or token.value).partition("=")[0]
    is_option = token is not None and token.keyword is None and option.startswith("--")
    if isinstance(error, exceptions.UnknownOptionError) or is_option:
        assert error.app is not None
        options = [name for arg in error.app.assemble_argument_collection() for name in arg.names]
        matches = difflib.get_close_matches(option, options, 1, 0.75)
        hint = f"; did you mean {matches[0]!r}?" if matches else ""
        return f"there is no option {truncate(option, 40)!r} here{hint}"
    if isinstance(error, exceptions.UnknownCommandError):
        assert error.unused_tokens is not None
        assert error.app is not None
        names = [name for name in error.app if not name.startswith("-")]
        return f"unknown subcommand {error.unused_tokens[0]!r}; " + suggest_names(
            error.unused_tokens[0], names
        )
    if isinstance(error, exceptions.UnusedCliTokensError) and error.unused_tokens:
        return f"{truncate(error.unused_tokens[0], 40)!r} is an argument too many"
    if isinstance(error, exceptions.MissingArgumentError):
        assert argument is not None
        metavar = argument.parameter.metavar or ""
        if error.keyword is not None or argument.tokens:
            return f"{argument.name} needs {metavar or 'a value'}"
        value = metavar if argument.name.startswith("-") else ""
        return f"{f'{argument.name} {value}'.strip()} is missing; give it"
    if isinstance(error, exceptions.RepeatArgumentError):
        return f"{option} is given twice; give it once"
    if isinstance(error, exceptions.CoercionError):
        prefix = f"{token.keyword}: " if token is not None and token.keyword else ""
        if error.msg is not None:
            return f"{prefix}{error.msg}"
        if get_origin(error.target_type) is Literal and token is not None:
            suggestion = suggest_names(token.value, get_args(error.target_type))
            return f"{prefix}unknown value {token.value!r}; {suggestion}"
    return str(error)


class PlainTextHelp:
    """Plain-text help of a command: one entry per option, in groups, without boxes.

    Each entry consists of the option, the placeholder of its value, and its description with the
    default value in brackets. The methods are the interface of cyclopts for help formatters.
    """

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        """Print the usage line."""
        line = str(usage).strip().replace("[OPTIONS]", "[options]").removeprefix("Usage: ")
        print(f"usage: {line}", file=console.file)

    def render_description(self, console: Console, options: ConsoleOptions, text: Any) -> None:
        """Print the help text unchanged."""
        print(f"\n{_to_text(text)}", file=console.file)

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Print one group of options, or the subcommands."""
        entries = [(label_option(entry), describe_option(entry)) for entry in panel.entries]
        # The option --help is not listed.
        entries = [entry for entry in entries if not entry[0].startswith("--help")]
        if entries:
            print(f"\n{panel.title}:", file=console.file)
        # Wrap each description to the width of the terminal, in a column beside the labels.
        width = min(shutil.get_terminal_size((_MAX_WIDTH, 24)).columns, _MAX_WIDTH)
        indent = " " * _DESCRIPTION_COLUMN
        for label, description in entries:
            lines = textwrap.wrap(
                description, max(20, width - _DESCRIPTION_COLUMN), break_on_hyphens=False
            )
            first_line = f"  {label}".ljust(_DESCRIPTION_COLUMN - 1)
            if len(first_line) >= _DESCRIPTION_COLUMN:
                # The label is too long for a description on the same line.
                print(first_line, file=console.file)
                first_line = indent[1:]
            text = f"\n{indent}".join(lines)
            print(f"{first_line} {text}".rstrip(), file=console.file)


def label_option(entry: HelpEntry) -> str:
    """Return the label of a help entry: ``--option VALUE``, or the name of an argument."""
    if entry.positional_label:
        return entry.positional_label
    metavar = entry.metavar or ""
    if not metavar.endswith(" ..."):  # cyclopts appends dots to the placeholder of every list
        metavar = metavar.removesuffix("...")
    return f"{', '.join(entry.all_options)} {metavar}".strip()


def describe_option(entry: HelpEntry) -> str:
    """Return the description of a help entry, with "(repeatable)" and the default value."""
    text = " ".join(_to_text(entry.description).split())
    # Options that take a list can be given several times.
    is_list = get_origin(entry.type) in (list, tuple) and not entry.positional_label
    if is_list and "repeatable" not in text and not (entry.metavar or "").endswith(" ..."):
        text += " (repeatable)"
    # State the default in brackets, unless it is empty or the text ends with brackets already.
    if entry.default not in (None, "False", "-", "[]", "()") and not text.endswith("]"):
        text += f" [{entry.default}]"
    return text


def _to_text(parsed: Any) -> str:
    """Return the plain text of a description that cyclopts parsed."""
    return str(getattr(parsed, "primary_renderable", parsed) or "").strip()
