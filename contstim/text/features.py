"""Features of sentences for filtering, matching and balancing."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pandas as pd

from contstim.text import find_repeats
from contstim.text.frequencies import has_frequencies, mean_zipf_frequency
from contstim.text.language import split_word
from contstim.text.languages import get_language, language_from_script


def sentence_features(sentences: Iterable[str], language: str = "en") -> pd.DataFrame:
    """Compute the length and the mean word frequency of each sentence.

    Parameters
    ----------
    sentences
        S sentences to describe.
    language
        Code of the language of the sentences and of the frequencies. Default ``en``.

    Returns
    -------
    pandas.DataFrame
        Shape (S, 3), indexed by sentence. ``words``: number of words. ``characters``: number of
        characters. ``zipf``: mean Zipf frequency of the words (log10 of occurrences per billion
        words, 0 for words that wordfreq does not list); missing if wordfreq does not cover the
        language.

    Notes
    -----
    Source: Golan et al. (2023), Supplementary Section 7.3, who used SUBTLEX frequencies.

    Examples
    --------
    >>> sentence_features(["The dog slept near the fire.", "A vixen dozed."]).T.round(2)
                The dog slept near the fire.  A vixen dozed.
    words                               6.00            3.00
    characters                         28.00           14.00
    zipf                                5.89            4.28
    """
    labels = list(sentences)
    # Split the sentences into lower-case words without punctuation.
    conventions = get_language(language)
    words = [
        [conventions.lower(split_word(word)[1]) for word in conventions.split(sentence)]
        for sentence in labels
    ]
    # Mean Zipf frequency (log10 of occurrences per billion words); NaN if it is unknown.
    zipf = [float("nan")] * len(words)
    if has_frequencies(language):
        zipf = [mean_zipf_frequency(sentence, language) for sentence in words]
    columns = {
        "words": [len(sentence) for sentence in words],
        "characters": [len(sentence) for sentence in labels],
        "zipf": zipf,
    }
    return pd.DataFrame(columns, index=pd.Index(labels))


def has_distinct_words(sentences: Iterable[str], repeatable: Collection[str] = ()) -> pd.Series:
    """Return, for each sentence, whether all its words are different.

    Parameters
    ----------
    sentences
        S sentences to check. Case and punctuation are ignored.
    repeatable
        Words that may occur more than once in a sentence.

    Returns
    -------
    pandas.Series
        S booleans indexed by sentence, True if all words are different (except `repeatable`), for
        the argument `eligible` of
        :func:`~contstim.selection.select_natural_pairs`.

    Notes
    -----
    Source: Golan et al. (2023), Supplementary Section 6.2, where only prepositions may recur.

    Examples
    --------
    >>> has_distinct_words(["The dog saw the cat.", "The dog saw a cat."]).to_list()
    [False, True]
    """
    folded = {word.casefold() for word in repeatable}
    labels = list(sentences)
    is_distinct = []
    # Compare the words of each sentence, without case and punctuation.
    for sentence in labels:
        words = language_from_script(sentence).split(sentence)
        is_distinct.append(not find_repeats((split_word(word)[1] for word in words), folded))
    return pd.Series(is_distinct, index=pd.Index(labels), dtype=bool)
