"""Text that models of words are trained on: one sentence a line, words between spaces."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from os import PathLike

from contstim.errors import InputError
from contstim.tables import numbered_lines
from contstim.text.sentence import PUNCTUATION_POLICIES, tokens_of_word


class _Tokens(dict[str, list[str]]):
    """Remembers the tokens of each word, for a text repeats most of its words."""

    def __init__(self, punctuation: str) -> None:
        super().__init__()
        self.punctuation = punctuation

    def __missing__(self, word: str) -> list[str]:
        self[word] = tokens = tokens_of_word(word, self.punctuation)
        return tokens


def training_sentences(
    path: str | PathLike[str], punctuation: str
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the tokens of each line that has any.

    Parameters
    ----------
    path
        A UTF-8 file, gzip-compressed if its name ends in ``.gz``.
    punctuation
        Passed to :func:`contstim.text.sentence.tokens_of_word`; ``keep`` takes words as given.

    Raises
    ------
    InputError
        For another `punctuation`, and for a file that cannot be read or is not UTF-8.
    """
    if punctuation not in PUNCTUATION_POLICIES:
        choices = ", ".join(PUNCTUATION_POLICIES)
        raise InputError(f"punctuation must be one of {choices}, got {punctuation!r}")
    tokens_of = _Tokens(punctuation)
    for number, line in numbered_lines(path):
        tokens = line.split()
        if punctuation != "keep":
            tokens = list(chain.from_iterable(map(tokens_of.__getitem__, tokens)))
        if tokens:
            yield number, tokens
