"""The small experiment of the demonstration, from the triplets that it wrote."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from contstim.errors import InputError, OutputError
from contstim.experiment.study import Study, new_study
from contstim.search.triplets import Triplet
from contstim.selection.design import CONDITIONS, Layout, design_trials
from contstim.text.sentences import pool

__all__ = ["demo_study"]

_LAYOUT = Layout(3, 4, random_natural=3, catch=3, conditions=CONDITIONS[1:4])


def demo_study(triplets: Sequence[Triplet], folder: Path, seed: int) -> Study:
    """Lay out an experiment for three groups of four participants and write its study folder.

    The trials stand beside the folder as ``trials.csv``. Each natural sentence serves one model
    pair only, that with fewer triplets so far: nobody sees a sentence twice.

    Raises
    ------
    InputError
        If there are fewer than three triplets for a model pair.
    OutputError
        If the place cannot be written to.
    """
    best = sorted(triplets, key=lambda t: -t.controversiality)
    chosen: dict[tuple[str, str], list[Triplet]] = {(t.model_1, t.model_2): [] for t in best}
    used: set[str] = set()
    while free := [t for t in best if t.natural not in used]:
        pair = min({(t.model_1, t.model_2) for t in free}, key=lambda p: (len(chosen[p]), p))
        found = next(t for t in free if (t.model_1, t.model_2) == pair)
        chosen[pair].append(found)
        used.add(found.natural)
    each = min(map(len, chosen.values()), default=0) // _LAYOUT.groups * _LAYOUT.groups
    if not each:
        raise InputError("an experiment needs three triplets a model pair; give more --sentences")
    rows = [t.row() for own in chosen.values() for t in own[:each]]
    trials = design_trials(None, pd.DataFrame(rows), pool(), _LAYOUT, seed=seed)
    path = folder.parent / "trials.csv"
    try:
        trials.to_csv(path, index=False, lineterminator="\n")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from None
    return new_study(folder, path)
