"""Another's package with a model family, as pip would leave it: one module and its metadata."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

MODULE = '''
"""A model of word lengths."""
import numpy as np
from contstim import Event, SentenceModel, SentenceParts


class LengthModel(SentenceModel):
    event = Event(units="words", start="none", end="none", punctuation="keep")

    def __init__(self, spec):
        spec.check_options([])
        super().__init__(spec)
        self.letter = float(spec.location)

    @property
    def fingerprint(self):
        return str(self.letter)

    def knows(self, words):
        return np.ones(len(words), dtype=bool)

    def parts(self, sentences):
        return [self._one(sentence.split()) for sentence in sentences]

    def _one(self, words):
        values = np.array([-self.letter * len(word) for word in words])
        return SentenceParts(tuple(words), values, np.arange(len(words)), len(words))
'''


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, module: str = MODULE) -> None:
    """Let this process and its children find ``word-lengths`` with its family ``length``.

    The files are those that ``pip install`` makes of ``pyproject.toml`` with
    ``[project.entry-points."contstim.models"]``.
    """
    folder.mkdir()
    (folder / "wordlengths.py").write_text(module, "utf-8")
    info = folder / "word_lengths-1.5.dist-info"
    info.mkdir()
    files = {
        "METADATA": "Metadata-Version: 2.1\nName: word-lengths\nVersion: 1.5\n"
        "Summary: word lengths\n",
        "entry_points.txt": "[contstim.models]\nlength = wordlengths:LengthModel\n",
        "RECORD": "wordlengths.py,,\n",
    }
    for name, text in files.items():
        (info / name).write_text(text, "utf-8")
    package = str(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), package]))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "wordlengths", raising=False)
