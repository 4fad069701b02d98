"""Features of sentences, for filtering, matching and balancing them, and for controls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from contstim.text.sentence import split_word


def sentence_features(
    sentences: Iterable[str],
    language: str = "en",
    vectors: Mapping[str, ArrayLike] | None = None,
) -> pd.DataFrame:
    """Return length and frequency of sentences, and how alike their words are.

    Parameters
    ----------
    sentences
        S sentences.
    language
        Language of the frequencies, as `wordfreq` names it.
    vectors
        From lower-case word to its vector, for the column `similarity`.

    Returns
    -------
    pandas.DataFrame
        Shape (S, 3 or 4), indexed by sentence: ``words`` (white-space-separated), ``characters``,
        ``zipf`` (mean Zipf frequency of the words without punctuation: log10 of occurrences per
        thousand million words; 0 for a word that is not listed) and, only with `vectors`,
        ``similarity`` (mean Pearson correlation of the vectors of all two words; words without
        a vector are passed over, and a sentence with fewer than two is missing).

    Notes
    -----
    Source: Golan et al. (2023), Supplementary Section 7.3, there with SUBTLEX and GloVe.
    """
    from wordfreq import zipf_frequency

    labels = list(sentences)
    words = [[split_word(word)[1].lower() for word in sentence.split()] for sentence in labels]
    columns: dict[str, list[float]] = {
        "words": [len(own) for own in words],
        "characters": [len(sentence) for sentence in labels],
        "zipf": [
            sum(zipf_frequency(word, language) for word in own) / max(1, len(own)) for own in words
        ],
    }
    if vectors is not None:
        columns["similarity"] = [_mean_correlation(own, vectors) for own in words]
    return pd.DataFrame(columns, index=pd.Index(labels))


def _mean_correlation(words: Sequence[str], vectors: Mapping[str, ArrayLike]) -> float:
    listed = [np.asarray(vectors[w], dtype=np.float64) for w in words if w in vectors]
    if len(listed) < 2:
        return float("nan")
    matrix = np.asarray(np.corrcoef(np.stack(listed)))
    return float(matrix[np.triu_indices(len(listed), 1)].mean())


def repeats_no_word(sentences: Iterable[str], repeatable: Collection[str] = ()) -> pd.Series:
    """Return for each sentence whether no word occurs twice in it, `repeatable` words aside.

    Parameters
    ----------
    sentences
        S sentences.
    repeatable
        Words that may recur. Case and punctuation do not count.

    Returns
    -------
    pandas.Series
        S truth values indexed by sentence, for the `eligible` of
        :func:`~contstim.selection.select_natural_pairs`.

    Notes
    -----
    Source: Golan et al. (2023), Supplementary Section 6.2, where only prepositions may recur.

    Examples
    --------
    >>> repeats_no_word(["The dog saw the cat.", "The dog saw a cat."]).to_list()
    [False, True]
    """
    free = {word.lower() for word in repeatable}
    labels = list(sentences)
    answers = []
    for sentence in labels:
        cores = [split_word(word)[1].lower() for word in sentence.split()]
        counted = [core for core in cores if core not in free]
        answers.append(len(set(counted)) == len(counted))
    return pd.Series(answers, index=pd.Index(labels), dtype=bool)
