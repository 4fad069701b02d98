"""Canonical forms of sentences and labels, and the join of tables by sentence.

Readers of files apply `normalise_sentence` and `normalise_label`. All other code compares texts
for equality.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from contstim.errors import InputError
from contstim.text.language import NO_BREAK_SPACES

if TYPE_CHECKING:
    import pandas as pd  # not installed on servers of the browser experiment

# No-break space between a word and its punctuation in French.
_MARK_SPACE = re.compile(rf"[{NO_BREAK_SPACES}](?=[;:!?»%])|(?<=«)[{NO_BREAK_SPACES}]")
_PLACEHOLDER = "\ue000"  # a private-use character
_SURROGATE = re.compile("[\ud800-\udfff]")


def normalise_sentence(text: str) -> str:
    """Normalise the Unicode characters and the spaces of a sentence.

    The result is in Unicode NFC, with single spaces between words and no spaces at the ends.
    Punctuation, and the no-break spaces before or after French marks, are unchanged.

    Examples
    --------
    >>> normalise_sentence("  Il   dort. ")
    'Il dort.'
    """
    if text.isascii():
        return " ".join(text.split())  # `split` also removes spaces at the ends.
    text = unicodedata.normalize("NFC", text)
    if not any(space in text for space in NO_BREAK_SPACES):
        return " ".join(text.split())
    # Replace no-break spaces beside punctuation marks by a placeholder, so that `split` does not
    # remove them. Then put them back in their order.
    text = text.replace(_PLACEHOLDER, "")
    mark_spaces = iter(_MARK_SPACE.findall(text))
    single_spaced = " ".join(_MARK_SPACE.sub(_PLACEHOLDER, text).split())
    return "".join(next(mark_spaces) if c == _PLACEHOLDER else c for c in single_spaced)


def check_sentences(sentences: Sequence[str]) -> list[str]:
    """Check that each sentence is a nonempty string, and normalise the sentences.

    Parameters
    ----------
    sentences
        List of sentences to check.

    Returns
    -------
    list of str
        Sentences after `normalise_sentence`. ASCII sentences are not changed.

    Raises
    ------
    InputError
        If `sentences` is a single string, or if a sentence is not a string, contains no word or
        contains an unpaired surrogate.
    """
    if isinstance(sentences, str):
        raise InputError(f"give a list of sentences, not the single string {sentences!r}")
    sentences = list(sentences)
    for number, sentence in enumerate(sentences, start=1):
        if not isinstance(sentence, str):
            raise InputError(f"sentence {number} is {sentence!r}; give it as a string")
        if not sentence.split():
            raise InputError(f"sentence {number} is empty; a sentence needs at least one word")
        if not sentence.isascii() and _SURROGATE.search(sentence):
            raise InputError(
                f"sentence {number}, {sentence!r}, contains an unpaired surrogate; replace it by "
                "the whole character"
            )
    return [text if text.isascii() else normalise_sentence(text) for text in sentences]


def normalise_label(value: object) -> str:
    """Convert a label, for example of a participant or condition, to normalised text.

    The text is in Unicode NFC, without spaces at the ends. ``007``, ``NA`` and ``null`` are valid
    labels and stay unchanged. A whole number that was read as a float, because its column contains
    an empty cell, loses its decimal point.

    Examples
    --------
    >>> normalise_label(" p1 "), normalise_label(7.0), normalise_label("007")
    ('p1', '7', '007')
    """
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return unicodedata.normalize("NFC", str(value)).strip()


def normalise_sentences(sentences: pd.Series) -> pd.Series:
    """Return a column of sentences in canonical form; missing cells stay missing."""
    texts = sentences.astype("str")
    canonical = {text: normalise_sentence(text) for text in texts.dropna().unique()}
    if any(text != form for text, form in canonical.items()):
        texts = texts.map(canonical).astype("str")
    return texts.where(sentences.notna())


def normalise_labels(labels: pd.Series) -> pd.Series:
    """Convert a column of labels to normalised text (`normalise_label`).

    Missing cells stay missing.

    Examples
    --------
    >>> import pandas as pd
    >>> normalise_labels(pd.Series(["p1 ", "p1", 7.0])).tolist()
    ['p1', 'p1', '7']
    """
    canonical = {value: normalise_label(value) for value in labels.dropna().unique()}
    if any(value != label for value, label in canonical.items()):
        labels = labels.map(canonical)
    return labels.astype("str").where(labels.notna())


def alphanumeric_key(sentence: str) -> str:
    """Return the case-folded letters and digits of a sentence.

    Sentences that differ only in case, punctuation or white space have the same key.
    """
    return "".join(filter(str.isalnum, unicodedata.normalize("NFC", sentence).casefold()))


def match_sentences(wanted: Iterable[str], available: Iterable[str]) -> dict[str, str]:
    """Look up the sentences of one table in another table.

    Sentences match if they are equal after `normalise_sentence`. If there is no equal sentence, a
    sentence matches that differs only in a final period, unless it is itself one of `wanted`.

    Parameters
    ----------
    wanted
        Sentences to look up.
    available
        Sentences of the other table.

    Returns
    -------
    dict
        Available sentence by wanted sentence. Wanted sentences without a match are omitted.

    Examples
    --------
    >>> match_sentences(["We  left", "He ran."], ["We left.", "She ran."])
    {'We  left': 'We left.'}
    >>> match_sentences(["We left", "We left."], ["We left."])
    {'We left.': 'We left.'}
    """
    available_by_form: dict[str, str] = {}  # A form is a sentence after normalisation.
    for sentence in available:
        available_by_form.setdefault(normalise_sentence(sentence), sentence)
    forms = {sentence: normalise_sentence(sentence) for sentence in wanted}
    wanted_forms = set(forms.values())
    matches = {}
    for sentence, form in forms.items():
        if form not in available_by_form:
            # Try the sentence with or without a final period, unless it is wanted itself.
            variant = form[:-1] if form.endswith(".") else f"{form}."
            form = form if variant in wanted_forms else variant
        if form in available_by_form:
            matches[sentence] = available_by_form[form]
    return matches
