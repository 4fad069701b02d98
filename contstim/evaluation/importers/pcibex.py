"""Results files of PCIbex."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd

from contstim.errors import InputError
from contstim.tables import require_columns

_TIME, _TRIAL = "Results reception time", "Order number of item"


def is_pcibex(lines: Sequence[str]) -> bool:
    """Return whether the first 50 lines of a file contain a column comment of PCIbex."""
    return any(re.match(r"# \d+\. ", line) for line in lines[:50])


def parse_pcibex(lines: Sequence[str], name: str) -> pd.DataFrame:
    """Return the answers in a PCIbex results file, with response times in a column `rt`.

    The file is a comma-separated table without quotes. Comments before the rows name the columns.
    Commas, line ends and per cent signs within cells are percent-encoded.

    Parameters
    ----------
    lines
        Lines of the results file.
    name
        Name of the file, for messages.

    Raises
    ------
    InputError
        If a row does not have as many cells as its header, or a required column is missing.
    """
    header: list[str] = []
    rows = []
    for number, line in enumerate(lines, start=1):
        column = re.match(r"# (\d+)\. (.*?)\.?$", line)
        if column:
            # A comment with the number 1 begins a new header.
            header = [*header[: int(column[1]) - 1], column[2]]
        elif line.strip() and not line.startswith("#"):
            cells = [_decode_cell(cell) for cell in line.split(",")]
            if len(cells) != len(header):
                raise InputError(
                    f"{name}, line {number} has {len(cells)} cells, its header {len(header)}; "
                    "PCIbex writes a comma within a text as %2C, so the line was changed: use the "
                    "file as PCIbex wrote it"
                )
            rows.append(dict(zip(header, cells, strict=True)))
    table = pd.DataFrame(rows)
    require_columns(table, ("PennElementName", "Parameter", "Value"), f"the PCIbex file {name}")
    if "EventTime" in table:
        table["EventTime"] = pd.to_numeric(table["EventTime"], errors="coerce")
    answers = table[table["Parameter"].isin(("Selection", "Choice", "PressedKey"))]

    # Response time: time of the answer minus start of the same trial in the same session.
    keys = [column for column in (_TIME, _TRIAL) if column in table]
    keys += [column for column in table.columns if column.startswith("MD5 hash")]
    if "EventTime" in table and keys:
        is_start = table["Value"].eq("Start") | table["Parameter"].eq("Start")
        starts = table[is_start].drop_duplicates(keys).set_index(keys)["EventTime"]
        starts = starts.rename("start")
        joined = answers[keys].merge(starts, left_on=keys, right_index=True, how="left")
        answers = answers.assign(rt=answers["EventTime"] - joined["start"].to_numpy())
    return answers.replace(["", "NULL"], pd.NA).reset_index(drop=True)


def _decode_cell(cell: str) -> str:
    """Replace the percent-encoded comma, line ends and per cent sign in a cell."""
    # %2C is a comma, %0A and %0D end a line, and %25 is a per cent sign.
    return re.sub("%(2C|0A|0D|25)", lambda code: chr(int(code[1], 16)), cell, flags=re.IGNORECASE)


def separate_sessions(answers: pd.DataFrame, column: str) -> tuple[pd.DataFrame, list[str]]:
    """Distinguish participants who have the same identifier because they share an internet address.

    PCIbex identifies participants by a hash of their IP address, which all participants in one
    laboratory may share. A hash is shared if the answers to one of its trials were received at
    several times. Each session with a shared hash then becomes a separate participant.

    Parameters
    ----------
    answers
        Answers of a PCIbex results file; other tables are returned unchanged.
    column
        Name of the column with the participants.

    Returns
    -------
    answers : DataFrame
        Answers in which shared hashes are replaced by the hash and the time of the session.
    notes : list of str
        A note if any hash is shared.
    """
    if not column.startswith("MD5 hash") or not {_TIME, _TRIAL} <= {*answers.columns}:
        return answers, []
    # One participant answers a trial once, so a hash with several reception times is shared.
    n_times = answers.groupby([column, _TRIAL])[_TIME].nunique()
    shared_hashes = n_times[n_times > 1].index.get_level_values(column).unique()
    is_shared = answers[column].isin(shared_hashes)
    if not is_shared.any():
        return answers, []
    # All answers of a session are received at the same time, which identifies the session.
    sessions = answers[column].astype("str") + " " + answers[_TIME].astype("str")
    note = (
        f"Participants who share an address (MD5 hash): {sessions[is_shared].nunique()} with "
        f"{len(shared_hashes)}, separated by {_TIME!r}; if a participant took part twice, exclude "
        "the later session."
    )
    return answers.assign(**{column: answers[column].where(~is_shared, sessions)}), [note]
