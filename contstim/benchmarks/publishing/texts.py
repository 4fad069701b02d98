"""Of which source each sentence is, and what is published of it: itself, or its digest."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import pandas as pd

from contstim.benchmarks.publishing.about import About, TextSource
from contstim.errors import InputError
from contstim.files import digest
from contstim.tables import read_table
from contstim.text import read_sentences

_DIGEST = "sha256:"


def sentence_digest(sentence: str) -> str:
    """Return what stands in place of a sentence that must not be published.

    Examples
    --------
    >>> sentence_digest("He slept  well.") == sentence_digest("He slept well.")
    True
    >>> sentence_digest("He slept well.")[:15]
    'sha256:112a7e0d'
    """
    return _DIGEST + digest(_tidy(sentence))


def is_digest(text: str) -> bool:
    """Return whether a text is what `sentence_digest` gives."""
    return text.startswith(_DIGEST) and len(text) == len(_DIGEST) + 64


def _tidy(text: str) -> str:
    return " ".join(text.split())


def _bare(text: str) -> str:
    """Return a text without quotes, which files write in several ways, and in small letters."""
    return _tidy(re.sub(r"[\"\\]", "", text)).casefold()


@dataclass(frozen=True)
class SourcedTexts:
    """The sources that are stated, with their sentences.

    Attributes
    ----------
    sources
        As stated; the one without a file last.
    listed
        The source of each sentence that a file lists.

    Examples
    --------
    >>> from contstim.benchmarks.publishing import read_about
    >>> about = read_about(Path("about.toml"))  # doctest: +SKIP
    >>> SourcedTexts.read(about, Path()).withheld("He slept well.")  # doctest: +SKIP
    False
    """

    sources: tuple[TextSource, ...]
    listed: dict[str, TextSource]

    @classmethod
    def read(cls, about: About, folder: Path) -> SourcedTexts:
        """Read the files that sources name, from the folder of the file that states them.

        Raises
        ------
        InputError
            If a file cannot be read. A sentence that two sources list is of the one that must not
            be published, if there is one.
        """
        sources = sorted(about.texts, key=lambda text: (not text.file, text.redistribute))
        listed: dict[str, TextSource] = {}
        for source in sources:
            for sentence in read_sentences(folder / source.file) if source.file else ():
                listed.setdefault(_tidy(sentence), source)
        return cls(tuple(sources), listed)

    def source_of(self, sentence: str) -> TextSource:
        """Return the source of a sentence, a final period being overlooked.

        Raises
        ------
        InputError
            If none lists it and none is for all others.
        """
        text = _tidy(sentence)
        other = text[:-1] if text.endswith(".") else f"{text}."
        source = self.listed.get(text) or self.listed.get(other)
        if source is None and not self.sources[-1].file:
            source = self.sources[-1]
        if source is None:
            raise InputError(
                f"no source of [[texts]] lists {sentence!r}; add it to a file, or state a source "
                "without a file for all others"
            )
        return source

    def withheld(self, sentence: str) -> bool:
        """Return whether a sentence must not be published."""
        return not self.source_of(sentence).redistribute

    def published(self, sentence: str) -> str:
        """Return a sentence, or its digest where it must not be published."""
        return sentence_digest(sentence) if self.withheld(sentence) else sentence

    def within(self, text: str) -> str:
        """Return another text, such as a prompt: its digest if it is a sentence to be withheld."""
        tidy = _tidy(text)
        forms = (tidy, tidy[:-1] if tidy.endswith(".") else f"{tidy}.")
        sources = [self.listed[form] for form in forms if form in self.listed]
        return text if all(source.redistribute for source in sources) else sentence_digest(text)

    def check(self, sentences: Iterable[str], contents: dict[str, bytes]) -> None:
        """Refuse files that hold one of the sentences that must not be published.

        Raises
        ------
        InputError
            Naming the file and the source.
        """
        secret = {_bare(s).removesuffix("."): s for s in sentences if self.withheld(s)}
        for name, content in contents.items():
            text = _bare(unescape(content.decode("utf-8", "replace")))
            for bare, sentence in secret.items():
                if bare in text:
                    raise InputError(
                        f"{name} would hold a sentence of the source "
                        f"{self.source_of(sentence).name!r}, which must not be published; take it "
                        "out of what is published"
                    )


def read_withheld(path: Path) -> dict[str, str]:
    """Return sentences by their digests, of a file that has those that a folder withholds.

    Parameters
    ----------
    path
        One a line, or a table with a column ``sentence``, or pairs ``sentence_1, sentence_2``.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    if path.suffix == ".csv":
        table = read_table(path, cells="text")
        if {"sentence_1", "sentence_2"} <= set(table.columns):
            sentences = pd.concat([table["sentence_1"], table["sentence_2"]]).dropna().tolist()
            return {sentence_digest(text): _tidy(text) for text in sentences}
    return {sentence_digest(text): _tidy(text) for text in read_sentences(path)}
