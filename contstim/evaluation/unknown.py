"""Trials that some model cannot score, because it does not know a word of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from contstim.errors import InputError
from contstim.evaluation.choices import HumanData

__all__ = ["leave_out_unknown"]


class _Knower(Protocol):
    @property
    def spec(self) -> str: ...

    def knows(self, words: Sequence[str], /) -> NDArray[np.bool_]: ...


def leave_out_unknown(human: HumanData, models: Iterable[_Knower]) -> HumanData:
    """Leave out the trials in which a model does not know a word, so that all models share trials.

    Parameters
    ----------
    human
        People's choices.
    models
        The models that refuse unknown words.

    Returns
    -------
    HumanData
        The choices that every model can score. The table of exclusions gains a row a model and
        participant, and the notes a sentence for each model that costs trials.

    Raises
    ------
    InputError
        If no trial is left.
    """
    choices, notes, left_out = human.choices, list(human.notes), [human.excluded]
    for model in models:
        sentences = pd.unique(pd.concat([choices["sentence_1"], choices["sentence_2"]]))
        refused = {s for s in sentences if not model.knows(str(s).split()).all()}
        bad = choices["sentence_1"].isin(refused) | choices["sentence_2"].isin(refused)
        if not bad.any():
            continue
        detail = f"a word unknown to {model.spec}"
        counts = choices.loc[bad, "participant"].value_counts(sort=False)
        rows = {
            "rule": "unknown word",
            "participant": counts.index.astype(str),
            "n_rows": counts.to_numpy(dtype=np.int64),
            "detail": detail,
        }
        left_out.append(pd.DataFrame(rows))
        notes.append(
            f"{int(bad.sum())} choices were left out for {detail}; with unknown=unk in the spec "
            "its unknown-word class would stand in."
        )
        choices = choices.loc[~bad]
        if choices.empty:
            raise InputError(
                f"no trial is left without {detail}; ask for unknown=unk in the spec, or use a "
                "model that knows the words"
            )
    excluded = pd.concat([table for table in left_out if len(table)] or [human.excluded])
    return replace(
        human, choices=choices, excluded=excluded.reset_index(drop=True), notes=tuple(notes)
    )
