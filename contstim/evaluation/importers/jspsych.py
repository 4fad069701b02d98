"""Files of a browser experiment, JSON or CSV, of one participant a file or of many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from contstim.errors import InputError
from contstim.files import json_value
from contstim.tables import parse_table, read_table
from contstim.text_files import read_lines

_ENDINGS = (".json", ".jsonl", ".csv", ".txt")


def drop_partial_files(paths: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Return the files without partial ones whose complete file is there too, and notes.

    Browsers that stream a session write ``ID.partial.json`` beside ``ID.json``.
    """
    names = {path.name for path in paths}
    partial = [
        p for p in paths if ".partial." in p.name and p.name.replace(".partial", "") in names
    ]
    notes = [f"{path.name} was left out: the complete file is there too." for path in partial]
    return [path for path in paths if path not in partial], notes


def read_trial_files(path: Path) -> pd.DataFrame:
    """Read a CSV, JSON, JSON lines or text of JATOS, or a folder of such files, as they are.

    Raises
    ------
    InputError
        If there is no such file, or it cannot be read.
    """
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix in _ENDINGS)
        if not files:
            raise InputError(f"the folder {str(path)!r} holds no .json, .jsonl or .csv file")
        return pd.concat(map(read_trial_files, drop_partial_files(files)[0]), ignore_index=True)
    lines = [] if path.suffix == ".csv" else [line for _, line in read_lines(path)]
    first = next((line.strip() for line in lines if line.strip()), "")
    if not lines:
        return read_table(path, cells="inferred")
    if first[:1] in ("[", "{") or path.suffix in (".json", ".jsonl"):
        return pd.DataFrame(list(_trials(path, lines)))
    # JATOS puts the results of participants one below the other, each with its header.
    header = lines[0]
    for number, line in enumerate(lines, start=1):
        if line.lstrip()[:1] in ("[", "{"):
            raise InputError(
                f"{path}, line {number} is JSON, and the first line is that of a table; export "
                "the results of each kind of study to a file of their own"
            )
    return parse_table([header, *(line for line in lines[1:] if line != header)], str(path))


def _trials(path: Path, lines: list[str]) -> Iterator[dict[str, object]]:
    try:
        blocks = [json_value("\n".join(lines))]
    except ValueError:
        blocks = []
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                blocks.append(json_value(line))
            except ValueError as error:
                if not blocks:
                    raise InputError(f"{str(path)!r} is not JSON: {error}") from error
                raise InputError(
                    f"{path}, line {number} is not JSON ({error}), and the first line is; export "
                    "the results of each kind of study to a file of their own"
                ) from error
    for block in blocks:
        entries = block.get("trials", [block]) if isinstance(block, dict) else block
        for entry in entries if isinstance(entries, list) else [entries]:
            inner = entry if isinstance(entry, list) else [entry]
            for trial in inner:
                if not isinstance(trial, dict):
                    raise InputError(f"{str(path)!r} holds {trial!r} where a trial should be")
                yield trial
