"""Parsers of the commands: options as synopses and settings declare them, and argument types."""

from __future__ import annotations

import argparse
import difflib
import math
import os
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from contstim.cli.parameters import read_new_file, read_output, read_output_folder
from contstim.errors import OutputError, shortened
from contstim.files import is_stream


class CommandParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line that says what to do.

    The help of a subcommand ends with those of its command's examples that are its own.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        # Else --device, which a command does not have, is taken for its --devices.
        super().__init__(*args, **{"allow_abbrev": False, **more})

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

    def add(
        self,
        usage: str,
        what: str,
        read: Callable[[str], object] = str,
        *,
        default: object = None,
        choices: Collection[str] | None = None,
        required: bool = False,
        several: bool = False,
        to: argparse._ActionsContainer | None = None,
    ) -> None:
        """Add an option or an argument.

        Parameters
        ----------
        usage
            As a synopsis has it: ``study STUDY``, an argument; ``--limit N``; ``--pair A B`` takes
            two values, ``--groups N ...`` one or more; ``--distinct``, without choices, is true
            where it is given.
        what
            The help. The default is added unless it speaks of one.
        read
            Reads a value.
        default, choices, required
            As argparse has them.
        several
            Whether the option may be given several times, which the help then says.
        to
            A group of options of the parser that this one belongs to.
        """
        name, *values = usage.split()
        if (default or isinstance(default, float | int)) and "default" not in what:
            shown = f"{default:g}" if isinstance(default, float) else default
            what = f"{what} (default: {shown})".lstrip()
        how: dict[str, Any] = {"default": default, "type": read, "choices": choices}
        if name.startswith("--") and not values and choices is None:
            how = {"action": "store_true"}
        elif values[1:]:
            how["nargs"] = "+" if values[1] == "..." else len(values)
        if values:
            how["metavar"] = values[0] if how.get("nargs", "+") == "+" else tuple(values)
        if required:
            how["required"] = True
        if several:
            how["action"] = "extend" if how.get("nargs") == "+" else "append"
            what += "; may be given several times"
        (to or self).add_argument(name, help=what, **how)

    def add_seed(self, planned: bool = False) -> None:
        """Add ``--seed``; where a plan may have one (`planned`), it is None unless given."""
        what = "seed of everything left to chance"
        seed = whole_number(0, 2**63 - 1)
        if planned:
            self.add("--seed N", f"{what} (default: the plan's, or 0)", seed)
        else:
            self.add("--seed N", what, seed, default=0)

    def add_out(self, metavar: str = "CSV") -> None:
        """Add ``--out``, a file, by default standard output."""
        what = "where to write (default: standard output)"
        self.add(f"--out {metavar}", what, output_file, default="-")

    def add_out_folder(self) -> None:
        """Add ``--out``, a folder that must be named."""
        self.add("--out FOLDER", "where to write", output_folder, required=True)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; what a command does not take is an error of this command, not of `contstim`."""
        parsed, left = super().parse_known_args(args, namespace)
        if left and len(self._actions) > 1:  # else it is no command that was asked for
            options = [text.partition("=")[0] for text in left if text.startswith("-")]
            if not options:
                self.error(f"{_short(left[0])} is an argument too many")
            near = difflib.get_close_matches(options[0], self._option_string_actions, 1, 0.75)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            self.error(f"there is no option {_short(options[0])} here{hint}")
        self._refuse_one_output_for_two(parsed)
        return parsed, left

    def _refuse_one_output_for_two(self, parsed: argparse.Namespace) -> None:
        """Refuse two options that would both be written to one file, or to standard output."""
        taken: dict[str, str] = {}
        for action in self._actions:
            value = getattr(parsed, action.dest, None)
            if action.type not in (output_file, new_file) or value is None:
                continue
            path = str(value) if value == "-" else os.path.realpath(value)
            option = action.option_strings[0]
            other = taken.setdefault(path, option)
            if other != option and not is_stream(Path(path)):
                raise OutputError(f"{other} and {option} are one file, {value}; give each its own")

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with status 2."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def run_module(name: str, summary: str, module: ModuleType, arguments: Sequence[str]) -> int:
    """Run a command that declares its options with `configure`."""
    parser = CommandParser(prog="contstim")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    sub = commands.add_parser(
        name,
        help=summary,
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.configure(sub)
    status: int = module.run(parser.parse_args(arguments))
    return status


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

#: Reads the number of a port.
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


def _short(text: str) -> str:
    return repr(shortened(text, 40))


def output_file(text: str) -> str:
    """Return a path that a file can be written to, or ``-``, for ``type=``."""
    return read_output(text)


def output_folder(text: str) -> str:
    """Return a path of a folder that can be written into, for ``type=``; it need not exist."""
    return read_output_folder(text)


def new_file(text: str) -> Path:
    """Return the path of a file that is put in place in one step, for ``type=``."""
    return Path(read_new_file(text))
