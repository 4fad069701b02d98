"""The vocabulary that comes with contstim."""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files

from contstim.text.vocabulary import Vocabulary

__all__ = ["bundled_vocabulary"]


@cache
def bundled_vocabulary() -> Vocabulary:
    """Return the bundled English vocabulary: 20,000 words, all known to the bundled models.

    They are the most frequent lower-case words of the books that the bundled models are trained
    on, and the capitalised words that open sentences there.
    """
    with as_file(files("contstim") / "data" / "vocabulary.csv") as path:
        return Vocabulary.read(path)
