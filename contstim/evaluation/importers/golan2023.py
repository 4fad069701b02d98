"""Behavioural data of Golan et al. (2023), as exported by their experiment platform."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

from contstim.evaluation.choices import CleaningRules, RawChoices
from contstim.evaluation.ratings import rescale
from contstim.evaluation.rows import refuse_rows
from contstim.tables import read_table, require_columns

#: Published name of each condition, by the sorted types of its two sentences: N natural,
#: S synthetic, C natural and shuffled, R random natural.
PUBLISHED_CONDITIONS = {
    "NN": "natural_controversial",
    "NS": "natural_vs_synthetic",
    "SS": "synthetic_vs_synthetic",
    "CC": "natural_vs_shuffled",
    "RR": "randomly_sampled_natural",
}
_REQUIRED = (
    *("subject", "Zone Name", "Reaction Time", "Trial Number"),
    *("sentence1", "sentence2", "sentence1_type", "sentence2_type"),
    *("sentence1_model", "sentence2_model"),
)


def read_golan2023(source: str | Path | pd.DataFrame) -> RawChoices:
    """Read a file with the choices of participants and the log-probabilities of models.

    The responses ``resp1`` (highest confidence in the left sentence) to ``resp6`` are converted to
    ratings from -2.5 to 2.5. In catch trials, the natural sentence is the expected answer. Only the
    first answer of a participant to a pair is used. The columns ``sentence1_MODEL_prob`` and
    ``sentence2_MODEL_prob`` contain the log-probabilities of the two sentences under each model.

    Parameters
    ----------
    source
        Path of the file, or its contents as a table.

    Raises
    ------
    InputError
        If a column is missing, or a response or sentence type is unknown.
    """
    raw = source if isinstance(source, pd.DataFrame) else read_table(source, cells="inferred")
    require_columns(raw, _REQUIRED, "the golan2023 file")
    raw = raw.reset_index(drop=True)
    codes = raw["Zone Name"].astype("str").str.extract(r"^resp([1-6])$")[0]
    refuse_rows(codes.isna(), "unknown response {value!r} ({rows})", raw["Zone Name"])

    # The types of the two sentences, for example N (natural) and S, determine the condition.
    type_1, type_2 = (raw[f"sentence{k}_type"].astype("str").str[0] for k in (1, 2))
    for sentence_type, column in ((type_1, "sentence1_type"), (type_2, "sentence2_type")):
        is_unknown = ~sentence_type.isin(["N", "S", "C", "R"])
        refuse_rows(is_unknown, "unknown sentence type {value!r} ({rows})", raw[column])
    # Sort the letters of each pair: NS and SN are the same condition.
    pair_type = (type_1 + type_2).where(type_1 <= type_2, type_2 + type_1)
    is_unknown = ~pair_type.isin(list(PUBLISHED_CONDITIONS))
    refuse_rows(is_unknown, "no trial compares sentence types {value!r} ({rows})", pair_type)
    is_catch = pair_type == "CC"
    expected = pd.Series(np.nan, index=raw.index)
    expected[is_catch & (raw["sentence1_type"] == "C1")] = 1.0
    expected[is_catch & (raw["sentence2_type"] == "C1")] = 2.0

    matches = (re.fullmatch("sentence1_(.*)_prob", str(column)) for column in raw.columns)
    models = [m[1] for m in matches if m and f"sentence2_{m[1]}_prob" in raw.columns]
    model_1, model_2, notes = _infer_targets(raw, pair_type, type_1, models)
    group = pd.Series("1", index=raw.index)
    if "counterbalance-o1ql" in raw.columns:
        group = raw["counterbalance-o1ql"].astype("str").str.extract(r"(\d+)")[0].fillna("1")
    table = pd.DataFrame(
        {
            "participant": raw["subject"],
            "group": group,
            "trial": raw["Trial Number"],
            "condition": pair_type.map(PUBLISHED_CONDITIONS),
            "sentence_1": raw["sentence1"],
            "sentence_2": raw["sentence2"],
            "model_1": model_1,
            "model_2": model_2,
            "rating": rescale(codes.astype(float), low=1, high=6),
            "rt_ms": raw["Reaction Time"],
            "kind_1": type_1,
            "kind_2": type_2,
            "expected": expected,
        }
    )
    if any(model.endswith("_has_a_mouth") for model in models):
        notes += (
            "MODEL_has_a_mouth is the file's name for a model scored by pseudo-log-likelihood, "
            "after the paper 'BERT has a mouth' (Wang & Cho 2019); MODEL alone is the mean over "
            "word orders.",
        )
    scores = None
    if models:
        parts = []
        for sentence in ("sentence1", "sentence2"):
            columns = [sentence, *(f"{sentence}_{model}_prob" for model in models)]
            parts.append(raw[columns].set_axis(["sentence", *models], axis=1))
        scores = pd.concat(parts, ignore_index=True).drop_duplicates()
    return RawChoices(table, CleaningRules(repeated_trial="keep_first"), "6-point", scores, notes)


def _infer_targets(
    raw: pd.DataFrame, pair_type: pd.Series, type_1: pd.Series, models: list[str]
) -> tuple[pd.Series, pd.Series, tuple[str, ...]]:
    """Find the two models that each trial was designed to distinguish.

    - Two synthetic sentences: the columns ``sentence1_model`` and ``sentence2_model`` name the
      models that should prefer sentence 1 and sentence 2.
    - Two natural sentences: the columns name these models in reverse order.
    - A natural and a synthetic sentence: the columns name the two models in any order. One of them
      *accepts* the synthetic sentence, that is, finds it at least as probable as the natural one. A
      trial has no targets if both models accept it, or neither.

    Parameters
    ----------
    raw
        Rows of the file.
    pair_type
        Types of the two sentences of each row, for example ``NS``.
    type_1
        Type of sentence 1: ``N`` for natural, ``S`` for synthetic.
    models
        Names of the models with log-probabilities.

    Returns
    -------
    model_1, model_2 : Series
        Models that should prefer sentence 1 and sentence 2; missing in trials without targets.
    notes : tuple of str
        Note on the trials without targets, if there are any.
    """
    column_1 = raw["sentence1_model"].astype("str")
    column_2 = raw["sentence2_model"].astype("str")
    is_natural = pair_type == "NN"
    model_1, model_2 = column_1.where(~is_natural, column_2), column_2.where(~is_natural, column_1)
    notes: tuple[str, ...] = ()
    is_mixed = pair_type == "NS"
    if is_mixed.any():
        # Find out which of the two named models accepts the synthetic sentence.
        accepts_1, accepts_2 = (pd.Series(False, index=raw.index) for _ in range(2))
        for model in models:
            log_ratio = raw[f"sentence2_{model}_prob"] - raw[f"sentence1_{model}_prob"]
            accepts = (log_ratio >= 0).where(type_1 == "N", log_ratio <= 0)
            accepts_1 |= accepts & (column_1 == model)
            accepts_2 |= accepts & (column_2 == model)
        accepting = column_1.where(accepts_1, column_2)
        rejecting = column_2.where(accepts_1, column_1)
        # The accepting model should prefer the synthetic sentence.
        is_synthetic_1 = type_1 == "S"
        model_1[is_mixed] = accepting.where(is_synthetic_1, rejecting)[is_mixed]
        model_2[is_mixed] = rejecting.where(is_synthetic_1, accepting)[is_mixed]
        is_unclear = is_mixed & (accepts_1 == accepts_2)
        model_1[is_unclear] = model_2[is_unclear] = None
        if is_unclear.any():
            notes = (
                f"{int(is_unclear.sum())} rows pair a natural with a synthetic sentence that not "
                "exactly one of the two models accepts; they target no model.",
            )
    has_no_targets = (column_1 == "all") | ~pair_type.isin(["NN", "NS", "SS"])
    return model_1.where(~has_no_targets), model_2.where(~has_no_targets), notes
