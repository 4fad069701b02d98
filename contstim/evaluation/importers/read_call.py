"""Format the command or Python call that reads a table, for error messages."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import pandas as pd


class ReadCall:
    """Arguments with which a user called `read_choices`, for suggestions in error messages.

    If the call lacks an argument, the error message suggests the same call with the argument added,
    in Python and, for a file, also on the command line.

    Parameters
    ----------
    source
        Path of the file of choices, or a DataFrame.
    columns
        Mapping from contstim's column names to the column names in the user's table.
    options
        Further arguments of the call. Those that are None were not given.
    """

    def __init__(self, source: object, columns: Mapping[str, str], **options: object) -> None:
        # The side is a separate option, not an entry of the mapping of columns.
        self._source = source
        self._columns = {standard: name for standard, name in columns.items() if standard != "side"}
        self.options = {key: value for key, value in options.items() if value is not None}

    def format_with(self, columns: Mapping[str, str] | None = None, **options: object) -> str:
        """Format the user's call with further arguments, as text to copy and run.

        Parameters
        ----------
        columns
            Names of columns to add to the user's mapping, by contstim's name of the column.
        options
            Further arguments to add or replace.

        Returns
        -------
        str
            Call of `read_choices` in Python. If the source is a file, arguments for the command
            line come first.
        """
        columns = {**self._columns, **(columns or {})}
        options = {**self.options, **options}
        # Format a call of `read_choices` in Python.
        arguments = {**({"columns": columns} if columns else {}), **options}
        python_text = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        if isinstance(self._source, pd.DataFrame):
            return f"read_choices(table, {python_text})"
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
        return (
            f"{' '.join(words)} or, in Python, read_choices({str(self._source)!r}, {python_text})"
        )
