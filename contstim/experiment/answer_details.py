"""Additional data of answers: JSON objects that presentations send besides the choice."""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any, TypeGuard

from contstim.errors import InputError
from contstim.files import decode_json

_MAX_MILLISECONDS = 1e10  # about four months
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # as an escape sequence in JSON


def parse_detail(detail: str) -> dict[str, Any]:
    """Parse the additional data that a trial page sends with an answer, such as reading times.

    Parameters
    ----------
    detail
        Text of a JSON object with the data.

    Returns
    -------
    dict
        Fields of the object; empty if the text is not a JSON object. Surrogate code points, which
        cannot be stored, are replaced by question marks.
    """
    try:
        value = decode_json(detail)
        if _SURROGATE.search(detail):
            # Surrogate code points cannot be stored as UTF-8. Replace them by question marks.
            text = json.dumps(value, ensure_ascii=False)
            value = decode_json(text.encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def read_word_times(detail: str) -> list[tuple[str, float]]:
    """Extract the words and their reading times from an answer to a self-paced reading trial.

    Parameters
    ----------
    detail
        Additional data of the answer: a JSON object as text, with the lists ``words`` and
        ``rt_ms``.

    Returns
    -------
    list of (str, float)
        Words in the order of reading, with their times in milliseconds.

    Raises
    ------
    InputError
        If a list is missing or invalid, or the lists differ in length.
    """
    fields = parse_detail(detail)  # additional data of the answer, a JSON object
    words, times = fields.get("words"), fields.get("rt_ms")
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise InputError("detail has no list of words")
    if not isinstance(times, list) or len(times) != len(words) or not all(map(is_time, times)):
        raise InputError(f"detail needs a time for each of its {len(words)} words")
    return list(zip(words, times, strict=True))


def is_time(value: object) -> TypeGuard[float]:
    """Return whether a value is a number of milliseconds in the accepted range."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isfinite(value) and 0 <= value <= _MAX_MILLISECONDS
