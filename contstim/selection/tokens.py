"""Number of tokens of each stimulus sentence under each model.

Two models may disagree about a sentence only because one of them splits it into more tokens.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from contstim.errors import InputError
from contstim.models.registry import load_models

_SENTENCES = ("natural", "synthetic", "synthetic_1", "synthetic_2", "sentence_1", "sentence_2")
# Columns with names of models, and the suffixes of the columns with the numbers of tokens.
_SUFFIXES = {"model_1": "1", "model_2": "2", "reject": "reject", "accept": "accept"}


def add_token_counts(stimuli: pd.DataFrame) -> pd.DataFrame:
    """Add columns with the number of tokens of each sentence under the models of its row.

    Two models may disagree about a sentence only because one of them splits it into more tokens.
    For a model of whole words, the number of scored words is added. The number is missing if a
    model cannot provide it, e.g. a table of scores.

    Parameters
    ----------
    stimuli
        Triplets, pairs or single sentences, e.g. from `synthesize_triplets`, `select_triplets` or
        `select_natural_pairs`. Names of models must be model specification strings.

    Returns
    -------
    DataFrame
        The table with additional columns, e.g. ``synthetic_1_tokens_2``, the number of tokens of
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
    # Distinct sentences and models of the table; models are named by specification strings.
    texts = stimuli[[*columns, *suffixes]].astype("str")
    sentences = pd.unique(texts[columns].to_numpy().ravel()).tolist()
    specs = pd.unique(texts[list(suffixes)].to_numpy().ravel()).tolist()
    counts_by_model: dict[str, dict[str, int | None]] = {}
    for model in load_models(specs) if specs else []:
        # Models of whole words count scored words instead of tokens.
        counts = model.count_tokens(sentences)
        if counts is None:
            counts = model.score_with_counts(sentences).n_tokens
        # Models report an unknown number as 0.
        n_tokens = [n or None for n in np.asarray(counts).tolist()]
        counts_by_model[model.name] = dict(zip(sentences, n_tokens, strict=True))

    count_columns = {}
    for column in columns:
        for model_column, suffix in suffixes.items():
            rows = zip(texts[model_column], texts[column], strict=True)
            # Look up the number of tokens of each row. `Int64` can contain missing values.
            numbers = pd.array([counts_by_model[m][s] for m, s in rows], dtype="Int64")
            name = f"{column}_tokens_{suffix}"
            count_columns[name] = numbers if numbers.isna().any() else numbers.astype(np.int64)
    return stimuli.assign(**count_columns)
