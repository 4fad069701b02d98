"""Numbers of tokens of stimuli under each model.

Two models may disagree about a sentence only because one of them splits it into more tokens.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from contstim.errors import InputError
from contstim.models.registry import load_models

_SENTENCES = ("natural", "synthetic", "synthetic_1", "synthetic_2", "sentence_1", "sentence_2")
# Columns that name a model, and the suffix of the columns with its numbers of tokens.
_SUFFIXES = {"model_1": "1", "model_2": "2", "reject": "reject", "accept": "accept"}


def add_token_counts(stimuli: pd.DataFrame) -> pd.DataFrame:
    """Add columns with the number of tokens of each sentence under each model of its row.

    Two models may disagree about a sentence because one of them divides it into more tokens; the
    columns show this. For a model of words, the number of scored words is added. The number is
    missing if a model cannot provide it, e.g. a table of scores.

    Parameters
    ----------
    stimuli
        Triplets, pairs or single sentences, output of `synthesize_triplets`, `select_triplets` or
        `select_natural_pairs`. Models are named by their specs.

    Returns
    -------
    DataFrame
        The table with further columns, e.g. ``synthetic_1_tokens_2``, the number of tokens of
        ``synthetic_1`` under ``model_2``.

    Raises
    ------
    InputError
        If the table has no column of sentences or of models.

    Examples
    --------
    >>> import contstim
    >>> pairs = contstim.datasets.readable_triplets().head(1)
    >>> add_token_counts(pairs).filter(like="tokens_1").iloc[0].tolist()
    [10, 14, 14]
    """
    columns = [column for column in _SENTENCES if column in stimuli]
    suffixes = {column: suffix for column, suffix in _SUFFIXES.items() if column in stimuli}
    if not columns or not suffixes:
        raise InputError(
            "the table has no sentences (columns natural, synthetic_1, sentence_1 ...) or names no "
            "models (columns model_1, model_2); give what `contstim synthesize` or `select` wrote"
        )
    stimuli_text = stimuli[[*columns, *suffixes]].astype("str")
    sentences = pd.unique(stimuli_text[columns].to_numpy().ravel()).tolist()
    specs = pd.unique(stimuli_text[list(suffixes)].to_numpy().ravel()).tolist()
    counts_by_model: dict[str, dict[str, int | None]] = {}
    for model in load_models(specs) if specs else []:
        counts = model.count_tokens(sentences)
        if counts is None:
            counts = model.score_with_counts(sentences).n_tokens
        # A number of 0 is unknown.
        n_tokens = [n or None for n in np.asarray(counts).tolist()]
        counts_by_model[model.name] = dict(zip(sentences, n_tokens, strict=True))

    added = {}
    for column in columns:
        for model_column, suffix in suffixes.items():
            rows = zip(stimuli_text[model_column], stimuli_text[column], strict=True)
            numbers = pd.array([counts_by_model[m][s] for m, s in rows], dtype="Int64")
            name = f"{column}_tokens_{suffix}"
            added[name] = numbers if numbers.isna().any() else numbers.astype(np.int64)
    return stimuli.assign(**added)
