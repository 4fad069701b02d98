"""Format the command or Python call that reads a table, for error messages."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import pandas as pd


class ReadCall:
    """Call by which the user tried to read a table of choices.

    If an argument is missing, the error message shows the call with this argument added: a call of
    the Python function `read_choices` and, for a file, also the arguments of a command.

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
        # The side is a separate option, not an entry of the mapping of columns.
        self._source = source
        self._columns = {standard: name for standard, name in columns.items() if standard != "side"}
        self.options = {key: value for key, value in options.items() if value is not None}

    def format_with(self, columns: Mapping[str, str] | None = None, **options: object) -> str:
        """Return the call that reads the table, with arguments added, as text to copy and run.

        Parameters
        ----------
        columns
            Mapping from standard column names to names in the table. It is added to the mapping
            that the user gave.
        options
            Options of `read_export`. They are added to the options that the user gave.

        Returns
        -------
        str
            Python code; if the source is a file, also the arguments of a command.
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
