"""How many tokens each sentence of a table of stimuli has under each model.

Models that cut words into tokens may disagree about a sentence for no other reason than that one
of them cuts it into more.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray

from contstim.arrays import IntArray
from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.models.registry import Models, load_models

_SENTENCES = ("natural", "synthetic", "synthetic_1", "synthetic_2", "sentence_1", "sentence_2")
#: Columns with the models of a row, and what the columns of their tokens end in.
_ENDS = {"model_1": "1", "model_2": "2", "reject": "reject", "accept": "accept"}


def add_token_counts(
    stimuli: pd.DataFrame, models: Models | SentenceModel | str = ()
) -> pd.DataFrame:
    """Return a table of stimuli with the number of tokens of each sentence beside it.

    Parameters
    ----------
    stimuli
        Triplets, pairs or other rows of sentences, as `synthesize_triplets`, `select_triplets` and
        `select_natural_pairs` return them.
    models
        Models, or their specs. Without any, those that each row names, which are then specs.

    Returns
    -------
    DataFrame
        The table with further columns: ``synthetic_1_tokens_2`` has the tokens of ``synthetic_1``
        under ``model_2``. Where models are given, ``synthetic_1_tokens NAME`` and so on. Models of
        words have as many as they score units; missing where a model cannot tell, as a table of
        scores cannot.

    Raises
    ------
    InputError
        If the table has no column of sentences, or names no model and none is given.

    Examples
    --------
    >>> import contstim
    >>> pairs = contstim.datasets.written_triplets().head(1)
    >>> add_token_counts(pairs, "contstim:gpt").filter(like="tokens").iloc[0].tolist()
    [10, 13, 16]
    """
    columns = [column for column in _SENTENCES if column in stimuli]
    ends = {column: end for column, end in _ENDS.items() if column in stimuli}
    if isinstance(models, SentenceModel | str):
        models = [models]
    if not columns or not (models or ends):
        raise InputError(
            "the table has no sentences (columns natural, synthetic_1, sentence_1 ...) or names no "
            "models (columns model_1, model_2); give what `contstim synthesize` or `select` wrote"
        )
    texts = pd.unique(stimuli[columns].astype("str").to_numpy().ravel()).tolist()
    named = models or pd.unique(stimuli[list(ends)].astype("str").to_numpy().ravel()).tolist()
    loaded = load_models(named) if named else []
    count_of = {model.name: _counts(model, texts) for model in loaded}
    added = {}
    for column in columns:
        sentences = stimuli[column].astype("str")
        if models:
            for name, counts in count_of.items():
                added[f"{column}_tokens {name}"] = _whole(counts[text] for text in sentences)
            continue
        for by, end in ends.items():
            both = zip(stimuli[by].astype("str"), sentences, strict=True)
            added[f"{column}_tokens_{end}"] = _whole(count_of[m][text] for m, text in both)
    return stimuli.assign(**added)


def _counts(model: SentenceModel, texts: list[str]) -> dict[str, int | None]:
    """Return the tokens of each text; of models that tell only by scoring, the scored units."""
    counts = model.count_tokens(texts)
    counts = model.score_with_counts(texts).n_tokens if counts is None else counts
    # None is of no token; of totals 0 is what is not known.
    return {text: n or None for text, n in zip(texts, np.asarray(counts).tolist(), strict=True)}


def _whole(counts: Iterable[int | None]) -> ExtensionArray | IntArray:
    """Return a column of whole numbers, some of which may be missing."""
    column = pd.array(list(counts), dtype="Int64")
    return column if column.isna().any() else column.astype(np.int64)
