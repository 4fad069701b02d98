"""Features of sentences, for filtering, matching and balancing a selection."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pandas as pd

from contstim.text.sentence import split_word

__all__ = ["repeats_no_word", "sentence_features"]


def sentence_features(sentences: Iterable[str], language: str = "en") -> pd.DataFrame:
    """Return length and frequency of sentences.

    Parameters
    ----------
    sentences
        S sentences.
    language
        Language of the frequencies, as `wordfreq` names it.

    Returns
    -------
    pandas.DataFrame
        Shape (S, 3), indexed by sentence: ``words`` (white-space-separated), ``characters`` and
        ``zipf`` (mean Zipf frequency of the words without punctuation: log10 of occurrences per
        thousand million words; 0 for a word that is not listed).
    """
    from wordfreq import zipf_frequency

    labels = list(sentences)
    rows = []
    for sentence in labels:
        cores = [split_word(word)[1] for word in sentence.split()]
        mean = sum(zipf_frequency(core, language) for core in cores) / max(1, len(cores))
        rows.append((len(cores), len(sentence), mean))
    return pd.DataFrame(rows, index=pd.Index(labels), columns=["words", "characters", "zipf"])


def repeats_no_word(sentences: Iterable[str], repeatable: Collection[str] = ()) -> pd.Series:
    """Say of each sentence whether no word occurs twice in it, `repeatable` words aside.

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
    """
    free = {word.lower() for word in repeatable}
    labels = list(sentences)
    answers = []
    for sentence in labels:
        cores = [split_word(word)[1].lower() for word in sentence.split()]
        counted = [core for core in cores if core not in free]
        answers.append(len(set(counted)) == len(counted))
    return pd.Series(answers, index=pd.Index(labels), dtype=bool)
