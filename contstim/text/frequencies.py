"""Word frequencies of the `wordfreq` package (Speer 2022)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from contstim.errors import require_known


@cache
def _load_wordfreq() -> Any:
    import wordfreq  # takes 0.2 s, and most commands need no frequencies

    return wordfreq


def has_frequencies(language: str) -> bool:
    """Return whether wordfreq covers a language, given by its code."""
    return language in _load_wordfreq().available_languages("best")


def check_wordfreq_language(language: str) -> None:
    """Raise `UnknownNameError` if wordfreq does not cover a language, given by its code."""
    languages = _load_wordfreq().available_languages("best")
    require_known("wordfreq language", language, languages)


def relative_frequencies(language: str) -> Mapping[str, float]:
    """Return the relative frequency (0 to 1) of every word that wordfreq lists, in lower case."""
    frequencies: dict[str, float] = _load_wordfreq().get_frequency_dict(language)
    return frequencies


def zipf_frequency(word: str, language: str) -> float:
    """Return the Zipf frequency of a word: log10 of its occurrences per billion words.

    A word that wordfreq does not list has frequency 0.
    """
    return float(_load_wordfreq().zipf_frequency(word, language))


def mean_zipf_frequency(words: Sequence[str], language: str) -> float:
    """Return the mean Zipf frequency (log10 per billion words) of words; 0 for no words."""
    return sum(zipf_frequency(word, language) for word in words) / max(1, len(words))
