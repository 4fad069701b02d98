"""Trials of single sentences: who sees which versions, in which order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from contstim.errors import InputError
from contstim.experiment.study import write_record
from contstim.experiment.trials import read_rows
from contstim.files import write_whole

_MOST = 10_000  # participants
_MADE = ("participant", "group", "trial", "set")


def sentence_trials(path: Path, participants: int, seed: int = 0) -> list[dict[str, str]]:
    """Lay out trials of single sentences in a Latin square.

    Every participant sees each item once, in one of its conditions; each condition of an item is
    seen by equally many participants, or nearly so, and the order is drawn for each.

    Parameters
    ----------
    path
        A CSV file with a row a sentence: ``sentence``, where there are several versions of an item
        ``item`` and ``condition``, and further columns such as ``question`` and ``expected``, which
        stay.
    participants
        How many participants, of equally many lists as there are conditions, in turn.
    seed
        Of the orders.

    Returns
    -------
    list of dict
        Rows as `read_design` reads them. ``item`` numbers the sentences; ``set`` is what the file
        calls the item. The group is the list.

    Raises
    ------
    InputError
        If there are too many participants, no column ``sentence``, an item has a condition twice,
        or items have different numbers of conditions.
    """
    if not 1 <= participants <= _MOST:
        raise InputError(f"participants is {participants}; give 1 to {_MOST}")
    rows, columns = read_rows(path)
    if "sentence" not in columns or not rows:
        raise InputError(f"{path} has no sentences in a column 'sentence'; give one a row")
    for name in _MADE:
        if name in columns:
            raise InputError(f"{path} has a column {name!r}, which is made here; name it otherwise")
    items: dict[str, list[dict[str, str]]] = {}
    for number, row in enumerate(rows, start=1):
        item = row.get("item") or str(number)
        condition = row.get("condition") or "sentence"
        own = items.setdefault(item, [])
        if any(one["condition"] == condition for one in own):
            raise InputError(f"{path}: item {item} has condition {condition!r} twice")
        own.append({**row, "set": item, "item": str(number), "condition": condition})
    n_lists = max(map(len, items.values()))
    for item, own in items.items():
        if len(own) not in (1, n_lists):
            raise InputError(
                f"{path}: item {item} has {len(own)} conditions, others have {n_lists}; give all "
                "items as many, or fillers one"
            )
    rng = np.random.default_rng(seed)
    laid_out = []
    for participant in range(participants):
        which = participant % n_lists
        shown = [own[(place + which) % len(own)] for place, own in enumerate(items.values())]
        for trial, place in enumerate(rng.permutation(len(shown)), start=1):
            numbers = {"participant": participant + 1, "group": which + 1, "trial": trial}
            laid_out.append({name: str(n) for name, n in numbers.items()} | shown[place])
    return laid_out


def write_sentence_trials(path: Path, folder: Path, participants: int, seed: int = 0) -> Path:
    """Write what `sentence_trials` lays out, with a record of how, and return the table's place.

    Raises
    ------
    InputError
        As `sentence_trials`.
    OutputError
        If the place cannot be written to.
    """
    rows = sentence_trials(path, participants, seed)
    table = pd.DataFrame(rows).to_csv(index=False, lineterminator="\n")
    trials = folder / "trials.csv"
    write_whole(trials, table)
    write_record(trials, {"participants": participants, "seed": seed})
    return trials
