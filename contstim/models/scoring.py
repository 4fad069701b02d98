"""Sentences under models, as a table."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from contstim.errors import InputError
from contstim.models.base import SentenceModel, as_sentences
from contstim.models.registry import load_model


def score_sentences(
    sentences: Sequence[str], models: SentenceModel | str | Sequence[SentenceModel | str]
) -> pd.DataFrame:
    """Score sentences under models: what ``contstim score`` does.

    Parameters
    ----------
    sentences
        The sentences, shape (S,); each is scored once.
    models
        Models, or specs of them, shape (M,).

    Returns
    -------
    DataFrame
        Shape (S, M), nats where a model scores log-probabilities: the index is the sentence, a
        column a model, as `select_natural_pairs` and `evaluate` take it.

    Raises
    ------
    InputError
        If no model is given, or a sentence cannot be scored under one.
    """
    given = [models] if isinstance(models, SentenceModel | str) else list(models)
    if not given:
        raise InputError("no model is given; name at least one")
    texts = list(dict.fromkeys(as_sentences(sentences)))
    loaded = [load_model(model) if isinstance(model, str) else model for model in given]
    scores = {model.spec: model.score(texts) for model in loaded}
    return pd.DataFrame(scores, index=pd.Index(texts, name="sentence"))
