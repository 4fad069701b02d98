"""Data files of browser experiments with jsPsych: JSON, JSON lines, CSV, and results of JATOS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from contstim.errors import InputError
from contstim.files import decode_json
from contstim.tables import parse_table, read_table
from contstim.text_files import read_lines

_SUFFIXES = (".json", ".jsonl", ".csv", ".txt")


def drop_partial_files(paths: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Leave out the file of an unfinished session if the complete file is also in the list.

    For example, ``p1.partial.json`` is left out if ``p1.json`` is in the list.

    Parameters
    ----------
    paths
        Paths of data files of a browser experiment.

    Returns
    -------
    complete : list of Path
        Files that are not left out.
    notes : list of str
        One sentence for each file that was left out.
    """
    names = {path.name for path in paths}
    complete: list[Path] = []
    notes = []
    # Partial files, such as p1.partial.json, contain unfinished sessions.
    for path in paths:
        # The complete file has the same name without ".partial".
        if ".partial." in path.name and path.name.replace(".partial", "") in names:
            notes.append(f"{path.name} was left out: the complete file is there too.")
        else:
            complete.append(path)
    return complete, notes


def read_trial_files(path: Path) -> pd.DataFrame:
    """Read the trials of a browser experiment from a data file, or from all data files in a folder.

    Parameters
    ----------
    path
        JSON file, JSON lines, CSV file or text file; or a folder with such files.

    Returns
    -------
    DataFrame
        One row per trial.

    Raises
    ------
    InputError
        If the folder contains no data file or a file cannot be read.
    """
    if path.is_dir():
        # Concatenate the trials of all complete files in the folder.
        paths = sorted(p for p in path.iterdir() if p.suffix in _SUFFIXES)
        if not paths:
            raise InputError(f"the folder {str(path)!r} contains no .json, .jsonl or .csv file")
        return pd.concat(map(read_trial_files, drop_partial_files(paths)[0]), ignore_index=True)
    # CSV files are read as a table. Other files contain JSON or a table.
    lines = [] if path.suffix == ".csv" else [line for _, line in read_lines(path)]
    if not lines:
        return read_table(path, cells="inferred")
    # JSON begins with a bracket or a brace.
    first_line = next((line.strip() for line in lines if line.strip()), "")
    if first_line[:1] in ("[", "{") or path.suffix in (".json", ".jsonl"):
        return pd.DataFrame(list(_parse_trials(path, lines)))

    # JATOS concatenates the tables of all participants, each with its header.
    for number, line in enumerate(lines, start=1):
        if line.lstrip()[:1] in ("[", "{"):
            raise InputError(
                f"{path}, line {number} is JSON, and the first line is that of a table; export "
                "the results of each kind of study to a separate file"
            )
    # Repeated headers are not trials.
    header = lines[0]
    return parse_table([header, *(line for line in lines[1:] if line != header)], str(path))


def _parse_trials(path: Path, lines: list[str]) -> Iterator[dict[str, object]]:
    """Yield each trial of a JSON file as a dictionary of its columns.

    Parameters
    ----------
    path
        Path of the file, for messages.
    lines
        Lines of the file. The file is one JSON value, or contains one JSON value per line. A value
        is a trial, a list of trials, a list of lists of trials, or an object with a list of trials
        in its key ``trials``.
    """
    try:
        # The whole file is one JSON value, or (below) each line is one.
        values = [decode_json("\n".join(lines))]
    except ValueError:
        values = []
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                values.append(decode_json(line))
            except ValueError as error:
                if not values:
                    raise InputError(f"{str(path)!r} is not JSON: {error}") from error
                raise InputError(
                    f"{path}, line {number} is not JSON ({error}), and the first line is; export "
                    "the results of each kind of study to a separate file"
                ) from error
    # Unpack objects with a list of trials, lists of trials, and lists of such lists.
    for value in values:
        entries = value.get("trials", [value]) if isinstance(value, dict) else value
        for entry in entries if isinstance(entries, list) else [entries]:
            for trial in entry if isinstance(entry, list) else [entry]:
                if not isinstance(trial, dict):
                    raise InputError(f"{str(path)!r} contains {trial!r} instead of a trial")
                yield trial
