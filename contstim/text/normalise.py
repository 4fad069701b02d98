"""The canonical form of sentences and labels, and the one way to join sentences between tables.

Readers apply `normalise_sentence` and `normalise_label` to whatever enters. Everything behind them
compares texts as they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING

from contstim.text.language import NO_BREAK_SPACES

if TYPE_CHECKING:
    import pandas as pd  # which a server of the experiment does without

# No-break spaces that French typography puts between a word and its punctuation.
_MARK_SPACE = re.compile(rf"[{NO_BREAK_SPACES}](?=[;:!?»%])|(?<=«)[{NO_BREAK_SPACES}]")
_PLACEHOLDER = "\ue000"


def normalise_sentence(text: str) -> str:
    """Return a sentence in Unicode NFC, with single spaces between words and none around them.

    Final punctuation and the no-break spaces of French punctuation marks are kept.

    Examples
    --------
    >>> normalise_sentence("  Il   dort. ")
    'Il dort.'
    """
    if text.isascii():
        return " ".join(text.split())
    text = unicodedata.normalize("NFC", text)
    if not any(space in text for space in NO_BREAK_SPACES):
        return " ".join(text.split())
    spaces = iter(_MARK_SPACE.findall(text.replace(_PLACEHOLDER, "")))
    marked = _MARK_SPACE.sub(_PLACEHOLDER, text.replace(_PLACEHOLDER, ""))
    single = " ".join(marked.split())
    return "".join(next(spaces) if c == _PLACEHOLDER else c for c in single)


def normalise_label(value: object) -> str:
    """Return a label (participant, item, condition, level) as text in NFC, outer spaces stripped.

    Text stays as it is otherwise: ``007``, ``NA`` and ``null`` are labels. A whole number read as a
    float, which happens to a column with an empty cell, loses its decimal point.

    Examples
    --------
    >>> normalise_label(" p1 "), normalise_label(7.0), normalise_label("007")
    ('p1', '7', '007')
    """
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return unicodedata.normalize("NFC", str(value)).strip()


def normalise_sentences(texts: pd.Series) -> pd.Series:
    """Return a column of sentences in canonical form; missing cells stay missing."""
    given = texts.astype("str")
    forms = {text: normalise_sentence(text) for text in given.dropna().unique()}
    return given.map(forms).astype("str").where(texts.notna())


def normalise_labels(labels: pd.Series) -> pd.Series:
    """Return a column of labels in canonical form; missing cells stay missing.

    Examples
    --------
    >>> import pandas as pd
    >>> normalise_labels(pd.Series(["p1 ", "p1", 7.0])).tolist()
    ['p1', 'p1', '7']
    """
    forms = {value: normalise_label(value) for value in labels.dropna().unique()}
    return labels.map(forms).astype("str").where(labels.notna())


def alphanumeric_key(sentence: str) -> str:
    """Return the letters and digits of a sentence in lower case: the same for every spelling."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFC", sentence).casefold()))


def match_sentences(
    wanted: Iterable[str], available: Iterable[str], *, letters_only: bool = False
) -> dict[str, str]:
    """Return which available sentence each wanted one is; wanted ones without any are left out.

    Sentences match if they are equal in canonical form. A sentence with no equal also matches the
    one that differs in nothing but the final period, unless that one is wanted itself: then the
    period is what tells the two apart.

    Parameters
    ----------
    wanted
        Sentences to look up.
    available
        Sentences of the other table, or its keys.
    letters_only
        Whether to compare letters and digits alone, whatever their case: for lists of sentences
        that must not appear in any spelling.

    Examples
    --------
    >>> match_sentences(["We  left", "He ran."], ["We left.", "She ran."])
    {'We  left': 'We left.'}
    >>> match_sentences(["We left", "We left."], ["We left."])
    {'We left.': 'We left.'}
    """
    canonical = alphanumeric_key if letters_only else normalise_sentence
    by_form: dict[str, str] = {}
    for sentence in available:
        by_form.setdefault(canonical(sentence), sentence)
    form_of = {sentence: canonical(sentence) for sentence in wanted}
    wanted_forms = set(form_of.values())
    matches = {}
    for sentence, form in form_of.items():
        if form not in by_form and not letters_only:
            other = form[:-1] if form.endswith(".") else f"{form}."
            form = form if other in wanted_forms else other
        if form in by_form:
            matches[sentence] = by_form[form]
    return matches
