"""Rules by which participants and trials are left out, and the table that says which were."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Protocol

import numpy as np
import pandas as pd
from pydantic import Field

from contstim.arrays import BoolArray
from contstim.errors import InputError
from contstim.evaluation.choices import CATCH, HumanData, empty_exclusions, stack_exclusions
from contstim.settings import settings

_Least = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@settings
class ExclusionRules:
    """Which participants and trials are left out; by default none.

    Attributes
    ----------
    min_catch_correct
        Least share of catch trials right (trials of a catch condition with an `expected`
        sentence), for example 11 / 12.
    min_rt_ms, max_rt_ms
        A trial answered faster or slower than this is left out.
    min_median_rt_ms
        A participant whose median response time is shorter is left out.
    min_trials
        A participant with fewer trials, after the rules on trials, is left out.
    """

    min_catch_correct: _Least | None = None
    min_rt_ms: _Least | None = None
    max_rt_ms: _Least | None = None
    min_median_rt_ms: _Least | None = None
    min_trials: _Least | None = None


def catch_accuracy(choices: pd.DataFrame) -> pd.Series:
    """Return each participant's share of catch trials right; empty if there are none."""
    if "expected" not in choices:
        return pd.Series(dtype="float64")
    rows = choices[choices["condition"].isin(CATCH) & choices["expected"].notna()]
    right = (rows["rating"] > 0) == (rows["expected"] == 2)
    score = right.astype(float).where(rows["rating"] != 0, 0.5)
    return score.groupby(rows["participant"], sort=False).mean()


def exclude(choices: pd.DataFrame, rules: ExclusionRules) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Apply `rules` and return the choices kept and the table of what was left out.

    The table has one row a rule and participant: `rule`, `participant`, `n_rows`, `detail`.

    Raises
    ------
    InputError
        If a rule needs data that the table lacks (response times, catch trials), or nobody is
        left.
    """
    kept = choices
    found: list[tuple[str, str, int, str]] = []

    def drop(bad: pd.Series, rule: str, detail: str) -> None:
        nonlocal kept
        for participant, n_rows in kept.loc[bad, "participant"].value_counts(sort=False).items():
            found.append((rule, str(participant), int(n_rows), detail))
        kept = kept.loc[~bad]

    timed = (rules.min_rt_ms, rules.max_rt_ms, rules.min_median_rt_ms)
    if any(limit is not None for limit in timed) and choices["rt_ms"].isna().all():
        raise InputError("a rule on response times needs the column rt_ms, which is empty")
    if rules.min_catch_correct is not None:
        share = catch_accuracy(kept)
        if share.empty:
            raise InputError(
                "the rule on catch trials needs trials of a condition named "
                f"{' or '.join(CATCH)} with an expected sentence; there are none"
            )
        poor = share.index[share < rules.min_catch_correct]
        for participant in poor:
            detail = f"{share[participant]:.3f} of catch trials right"
            drop(kept["participant"] == participant, "catch trials", detail)
        untested = kept["participant"].isin(share.index)
        drop(~untested, "catch trials", "no catch trial answered")
    if rules.min_rt_ms is not None:
        drop(kept["rt_ms"] < rules.min_rt_ms, "too fast", f"below {rules.min_rt_ms:g} ms")
    if rules.max_rt_ms is not None:
        drop(kept["rt_ms"] > rules.max_rt_ms, "too slow", f"above {rules.max_rt_ms:g} ms")
    if rules.min_median_rt_ms is not None:
        median = kept.groupby("participant")["rt_ms"].transform("median")
        detail = f"median response time below {rules.min_median_rt_ms:g} ms"
        drop(median < rules.min_median_rt_ms, "median time", detail)
    if rules.min_trials is not None:
        size = kept.groupby("participant")["rating"].transform("size")
        drop(size < rules.min_trials, "few trials", f"fewer than {rules.min_trials:g} trials")
    if kept.empty:
        raise InputError("the exclusion rules leave no choices; loosen them")
    columns = list(empty_exclusions().columns)
    return kept, pd.DataFrame(found, columns=columns) if found else empty_exclusions()


class _Knower(Protocol):
    """A model that tells which words it knows."""

    @property
    def spec(self) -> str: ...

    def knows(self, words: Sequence[str], /) -> BoolArray: ...


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
    return replace(human, choices=choices, excluded=stack_exclusions(*left_out), notes=tuple(notes))
