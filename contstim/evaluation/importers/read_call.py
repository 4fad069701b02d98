"""The call that reads a table, completed in error messages."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import pandas as pd


class ReadCall:
    """Call that reads a table, shown to the user when the table cannot be read.

    An error message contains the call with the missing arguments, as a call of `read_choices` and,
    for a file, as arguments of a command.

    Parameters
    ----------
    source
        Path of the file, or a DataFrame.
    columns
        Mapping from standard column names to the names in the table.
    options
        Further options of `read_export`; None if not given.
    """

    def __init__(self, source: object, columns: Mapping[str, str], **options: object) -> None:
        # The side is an option of its own, not an entry of the mapping of columns.
        self._source = source
        self._columns = {standard: name for standard, name in columns.items() if standard != "side"}
        self.options = {key: value for key, value in options.items() if value is not None}
        if "side" in columns:
            self.options["side"] = columns["side"]

    def complete(self, columns: Mapping[str, str] | None = None, **options: object) -> str:
        """Format the call, with further arguments, as text that the user can copy and run.

        Parameters
        ----------
        columns
            Further entries of the mapping from standard column names to the names in the table.
        options
            Further options of `read_export`.

        Returns
        -------
        str
            Python code; if the source is a file, also the arguments of a command.
        """
        columns = {**self._columns, **(columns or {})}
        options = {**self.options, **options}
        # Format a call of `read_choices` in Python.
        arguments = {**({"columns": columns} if columns else {}), **options}
        text = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        if isinstance(self._source, pd.DataFrame):
            return f"read_choices(table, {text})"
        # A file: format arguments of the command line, quoted for a shell.
        words = [shlex.quote(str(self._source))]
        if columns:
            pairs = ",".join(f"{standard}={name}" for standard, name in columns.items())
            words += ["--column", shlex.quote(pairs)]
        # Options that have a different name on the command line.
        option_names = {"n_choices": "buttons"}
        for key, value in options.items():
            text = f"{value:g}" if isinstance(value, float) else str(value)
            words += [f"--{option_names.get(key, key)}", shlex.quote(text)]
        return f"{' '.join(words)} or, in Python, read_choices({str(self._source)!r}, {text})"
