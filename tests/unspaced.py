"""Segmentation of text without spaces between words."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def segment_by(words: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a function that segments a text from the left into the longest of a few words.

    A character that begins no word becomes a word.
    """

    def segment(text: str) -> list[str]:
        segments = []
        while text:
            found = (word for word in sorted(words, key=len)[::-1] if text.startswith(word))
            segments.append(next(found, text[0]))
            text = text[len(segments[-1]) :]
        return segments

    return segment
