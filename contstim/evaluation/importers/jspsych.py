"""Files of a jsPsych experiment, JSON or CSV, of one participant a file or of many."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from contstim.errors import InputError
from contstim.files import json_value
from contstim.tables import numbered_lines, read_table


def read_trials(path: Path) -> pd.DataFrame:
    """Read a CSV, JSON or JSON lines of trials, or a folder of such files, as they are.

    Raises
    ------
    InputError
        If there is no such file, or it cannot be read.
    """
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix in (".json", ".jsonl", ".csv"))
        if not files:
            raise InputError(f"the folder {str(path)!r} holds no .json, .jsonl or .csv file")
        return pd.concat([read_trials(p) for p in files], ignore_index=True)
    if path.suffix not in (".json", ".jsonl", ".txt"):
        return read_table(path, cells="guessed")
    return pd.DataFrame(list(_trials(path)))


def _trials(path: Path) -> Iterator[dict[str, object]]:
    lines = [line for _, line in numbered_lines(path)]
    try:
        blocks = [json_value("\n".join(lines))]
    except ValueError:
        try:
            blocks = [json_value(line) for line in lines if line.strip()]
        except ValueError as error:
            raise InputError(f"{str(path)!r} is not JSON: {error}") from error
    for block in blocks:
        entries = block.get("trials", [block]) if isinstance(block, dict) else block
        for entry in entries if isinstance(entries, list) else [entries]:
            inner = entry if isinstance(entry, list) else [entry]
            for trial in inner:
                if not isinstance(trial, dict):
                    raise InputError(f"{str(path)!r} holds {trial!r} where a trial should be")
                yield trial
