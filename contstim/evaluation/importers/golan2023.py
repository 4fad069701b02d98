"""The behavioural files of Golan et al. (2023), as exported by their experiment platform."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

from contstim.evaluation.choices import CleaningRules, RawChoices
from contstim.evaluation.ratings import rescale
from contstim.evaluation.rows import refuse_rows
from contstim.tables import read_table, require_columns

#: The published name of each kind of trial, by the sorted kinds of its two sentences: N natural,
#: S synthetic, C natural and shuffled, R random natural.
PUBLISHED_CONDITIONS = {
    "NN": "natural_controversial",
    "NS": "natural_vs_synthetic",
    "SS": "synthetic_vs_synthetic",
    "CC": "natural_vs_shuffled",
    "RR": "randomly_sampled_natural",
}
_NEEDED = (
    *("subject", "Zone Name", "Reaction Time", "Trial Number"),
    *("sentence1", "sentence2", "sentence1_type", "sentence2_type"),
    *("sentence1_model", "sentence2_model"),
)


def read_golan2023(source: str | Path | pd.DataFrame) -> RawChoices:
    """Read a raw behavioural file: choices, the models' log-probabilities, catch trials.

    The codes ``resp1`` (very confident of the left sentence) to ``resp6`` become -2.5 to 2.5.
    `expected` is the natural sentence of a catch trial. Of a repeated pair the participant's
    first answer is kept and the rest reported. Log-probabilities stand in columns
    ``sentence1_MODEL_prob`` and ``sentence2_MODEL_prob``.

    In the result `model_1` is the model that is to prefer sentence 1. In the file this holds for
    pairs of synthetic sentences; for natural pairs (N1, N2) it is the other way round there and
    is turned. For a natural sentence with a synthetic one the side does not say it, and the
    model that gives the synthetic sentence at least the natural one's probability is taken as
    the one that accepts it; where that is not exactly one model the trial targets none and a
    note says how many such trials there are.

    Raises
    ------
    InputError
        If a column is absent, or a response code or sentence kind is not known.
    """
    raw = source if isinstance(source, pd.DataFrame) else read_table(source, cells="inferred")
    require_columns(raw, _NEEDED, "the golan2023 file")
    raw = raw.reset_index(drop=True)
    codes = raw["Zone Name"].astype("str").str.extract(r"^resp([1-6])$")[0]
    refuse_rows(codes.isna(), "unknown response {value!r} ({rows})", raw["Zone Name"])
    kinds = []
    for side in ("1", "2"):
        kinds.append(raw[f"sentence{side}_type"].astype("str").str[0])
        odd = ~kinds[-1].isin(list("NSCR"))
        refuse_rows(odd, "unknown sentence type {value!r} ({rows})", raw[f"sentence{side}_type"])
    pair_kind = pd.Series(
        ["".join(sorted(two)) for two in zip(*kinds, strict=True)], index=raw.index
    )
    odd = ~pair_kind.isin(list(PUBLISHED_CONDITIONS))
    refuse_rows(odd, "no trial pairs kinds {value!r} ({rows})", pair_kind)
    named = (re.fullmatch("sentence1_(.*)_prob", str(column)) for column in raw.columns)
    models = [name[1] for name in named if name and f"sentence2_{name[1]}_prob" in raw.columns]
    model_1, model_2, notes = _targets(raw, pair_kind, kinds[0], models)
    catch = pair_kind == "CC"
    expected = pd.Series(np.nan, index=raw.index)
    expected[catch & (raw["sentence1_type"] == "C1")] = 1.0
    expected[catch & (raw["sentence2_type"] == "C1")] = 2.0
    group = pd.Series("1", index=raw.index)
    if "counterbalance-o1ql" in raw.columns:
        group = raw["counterbalance-o1ql"].astype("str").str.extract(r"(\d+)")[0].fillna("1")
    table = pd.DataFrame(
        {
            "participant": raw["subject"],
            "group": group,
            "trial": raw["Trial Number"],
            "condition": pair_kind.map(PUBLISHED_CONDITIONS),
            "sentence_1": raw["sentence1"],
            "sentence_2": raw["sentence2"],
            "model_1": model_1,
            "model_2": model_2,
            "rating": rescale(codes.astype(float), 1, 6),
            "rt_ms": raw["Reaction Time"],
            "kind_1": kinds[0],
            "kind_2": kinds[1],
            "expected": expected,
        }
    )
    if any(model.endswith("_has_a_mouth") for model in models):
        notes += (
            "MODEL_has_a_mouth is the file's name for a model scored by pseudo-log-likelihood, "
            "after the paper 'BERT has a mouth' (Wang & Cho 2019); MODEL alone is the mean over "
            "orders of words.",
        )
    first = CleaningRules(repeated_trial="keep_first")
    return RawChoices(table, first, "6-point", _scores(raw, models), notes)


def _targets(
    raw: pd.DataFrame, pair_kind: pd.Series, kind_1: pd.Series, models: list[str]
) -> tuple[pd.Series, pd.Series, tuple[str, ...]]:
    first = raw["sentence1_model"].astype("str")
    second = raw["sentence2_model"].astype("str")
    model_1, model_2 = first.copy(), second.copy()
    natural = pair_kind == "NN"
    model_1[natural], model_2[natural] = second[natural], first[natural]
    notes: tuple[str, ...] = ()
    mixed = pair_kind == "NS"
    if mixed.any():
        sides = {name: pd.Series(False, index=raw.index) for name in ("first", "second")}
        for model in models:
            prefers = raw[f"sentence2_{model}_prob"] - raw[f"sentence1_{model}_prob"]
            accepts = (prefers >= 0).where(kind_1 == "N", prefers <= 0)
            for name, side in (("first", first), ("second", second)):
                sides[name] |= accepts & (side == model)
        clear = sides["first"] != sides["second"]
        accepting = first.where(sides["first"], second)
        rejecting = second.where(sides["first"], first)
        synthetic_first = kind_1 == "S"
        model_1[mixed] = accepting.where(synthetic_first, rejecting)[mixed]
        model_2[mixed] = rejecting.where(synthetic_first, accepting)[mixed]
        unclear = mixed & ~clear
        model_1[unclear] = model_2[unclear] = None
        if unclear.any():
            notes = (
                f"{int(unclear.sum())} rows pair a natural with a synthetic sentence that not "
                "exactly one of the two models accepts; they target no model.",
            )
    none = (first == "all") | ~pair_kind.isin(["NN", "NS", "SS"])
    return model_1.where(~none), model_2.where(~none), notes


def _scores(raw: pd.DataFrame, models: list[str]) -> pd.DataFrame | None:
    if not models:
        return None
    parts = []
    for side in ("sentence1", "sentence2"):
        columns = [side, *(f"{side}_{model}_prob" for model in models)]
        parts.append(raw[columns].set_axis(["sentence", *models], axis=1))
    return pd.concat(parts, ignore_index=True).drop_duplicates()
