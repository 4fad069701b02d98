"""Pool of sentence pairs from which an adaptive study chooses trials."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from contstim.adaptive.link import Link
from contstim.arrays import FloatArray
from contstim.display import displayable
from contstim.errors import InputError
from contstim.files import digest
from contstim.response_model import log_prob_std


@displayable
@dataclass(frozen=True, eq=False)
class Pool:
    """Candidate sentence pairs of an adaptive study, with the preferences of M models.

    Attributes
    ----------
    pairs : DataFrame
        The P sentence pairs, with the columns `sentence_1` and `sentence_2`.
    models
        Names of the models.
    log_ratios : (P, M) array
        log p(sentence 2) - log p(sentence 1) in nats.
    preferences : (P, M) array
        Log-ratios divided by the standard deviation of the model's log-probabilities over natural
        sentences, and clipped.

    Examples
    --------
    >>> scores = pd.DataFrame(
    ...     {"a": [-20.0, -22.0, -30.0], "b": [-24.0, -22.0, -26.0]},
    ...     index=["We won.", "He left.", "Go home."],
    ... )
    >>> pairs = pd.DataFrame({"sentence_1": ["We won."], "sentence_2": ["Go home."]})
    >>> Pool.from_scores(pairs, scores, Link()).log_ratios
    array([[-10.,  -2.]])
    """

    pairs: pd.DataFrame
    models: tuple[str, ...]
    log_ratios: FloatArray
    preferences: FloatArray

    @classmethod
    def from_scores(cls, pairs: pd.DataFrame, log_probs: pd.DataFrame, link: Link) -> Pool:
        """Build a pool from sentence pairs and log-probabilities.

        Parameters
        ----------
        pairs
            Table with the columns ``sentence_1`` and ``sentence_2``.
        log_probs : (S, M) DataFrame
            Log-probabilities in nats, one row per sentence and one column per model. The S
            sentences must include all sentences of `pairs`. Preferences are scaled by the standard
            deviation of the log-probabilities over all S sentences.
        link
            Assumed distribution of answers, with the range to which preferences are clipped.

        Raises
        ------
        InputError
            If a column or a finite score is missing, or if there are duplicate pairs, items or
            scored sentences.
        """
        for column in ("sentence_1", "sentence_2"):
            if column not in pairs:
                raise InputError(f"the pool has no column {column!r}; give pairs of sentences")
        if not len(pairs):
            raise InputError("the pool has no pairs; give at least one")
        if "item" in pairs:
            items = pairs["item"].replace("", None).dropna()
            if items.duplicated().any():
                raise InputError(
                    f"the pool has several pairs of item {items[items.duplicated()].iloc[0]!r}, "
                    "but adaptive studies treat pairs as independent; keep one pair of each item"
                )
        labels = pd.Index([str(label) for label in log_probs.index])
        if not labels.is_unique:
            raise InputError(f"scores contain {labels[labels.duplicated()][0]!r} twice; keep one")

        values = log_probs.to_numpy(dtype=np.float64, na_value=np.nan)
        rows = []
        for column in ("sentence_1", "sentence_2"):
            indices = labels.get_indexer(pd.Index(pairs[column].astype(str)))
            is_finite = (indices >= 0) & np.isfinite(values[indices]).all(axis=1)
            if not is_finite.all():
                sentence = str(pairs[column].iloc[int(np.argmin(is_finite))])
                raise InputError(
                    f"sentence {sentence!r} of the pool lacks a finite score under some model; "
                    "score it or leave its pair out"
                )
            rows.append(indices)
        rows_1, rows_2 = rows
        unordered_pairs = np.sort(np.stack([rows_1, rows_2], axis=1), axis=1)
        if len(np.unique(unordered_pairs, axis=0)) < len(unordered_pairs):
            raise InputError("the pool contains a pair twice; keep one")

        models = tuple(str(name) for name in log_probs.columns)
        log_ratios = values[rows_2] - values[rows_1]
        scaled = log_ratios / log_prob_std(values, models)
        preferences = link.response_model.preferences(scaled)
        return cls(pairs.reset_index(drop=True), models, log_ratios, preferences)

    @property
    def digest(self) -> str:
        """SHA-256 of the ordered pairs and their preferences."""
        text = "\n".join(self.pairs["sentence_1"] + "\t" + self.pairs["sentence_2"])
        return digest(text.encode() + self.preferences.tobytes())
