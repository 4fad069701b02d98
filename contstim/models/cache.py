"""Scores kept on disk, so that no sentence is scored twice by the same model.

A folder for each model (named by a digest of its spec, event, weights and of the versions of the
packages its numbers depend on) holds one small JSON file for each batch that was scored together.
Files are written whole and never changed, so several processes and machines may share a cache.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from contstim import __version__
from contstim.arrays import FloatArray
from contstim.errors import InputError
from contstim.files import digest_of, json_value, write_whole
from contstim.models.base import SentenceModel, SentenceScores, dependency_names

_PACKAGES = ("numpy", "scipy")
#: The keys of a file, for the fields of `SentenceScores` and `CachedScore` in their order.
_KEYS = ("log_prob", "n_tokens", "n_words", "stderr")
# Scores of words are kept apart from those of sentences, as another model's would be.
_BY_WORD, _WORD_KEYS = {"by": "word"}, ("words",)


class CachedScore(NamedTuple):
    """One sentence's part of `SentenceScores`, in the order of the `scores` table."""

    score: float
    n_tokens: int
    n_words: int
    stderr: float


def describe_model(model: SentenceModel) -> dict[str, Any]:
    """Return which model it is, as JSON values.

    Its spec, event, what its scores are, the digest of its weights and its packages' versions.
    """
    highest = model.kind.highest
    return {
        "spec": model.spec,
        "event": asdict(model.event),
        "event_digest": model.event.digest,
        "score": asdict(model.kind) | {"highest": highest if isfinite(highest) else None},
        "weights": model.fingerprint,
        "packages": _installed(dependency_names(model)),
    }


def package_versions(*packages: str) -> dict[str, str]:
    """Return the versions of what all numbers depend on and, where installed, of `packages`."""
    own = {"python": platform.python_version(), "contstim": __version__}
    return own | _installed((*_PACKAGES, *packages))


def _installed(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of those of `packages` that are installed."""
    version_of = {}
    for name in packages:
        try:
            version_of[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return version_of


def model_identity(model: SentenceModel) -> dict[str, Any]:
    """Return everything that a model's scores depend on, besides the sentence, as JSON values."""
    return {"model": describe_model(model), "versions": package_versions()}


class ScoreCache:
    """Scores of sentences, kept in a folder.

    A network's score of a sentence may differ in the last digits with the batch it stood in (see
    :attr:`~contstim.models.base.SentenceModel.batch_tolerance`); the cache gives back what was
    computed first.

    Parameters
    ----------
    folder
        Where the scores are kept; made when the first are added.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self._scores: dict[str, dict[str, CachedScore]] = {}
        self._words: dict[str, dict[str, FloatArray]] = {}
        self._seen: set[Path] = set()

    def read(self, identity: Mapping[str, Any]) -> Mapping[str, CachedScore]:
        """Return every kept score of the model that `identity` describes, by sentence.

        Raises
        ------
        InputError
            If a file of the cache is damaged.
        """
        key = digest_of(identity)
        scores = self._scores.setdefault(key, {})
        for sentence, row in self._new_rows(key, _KEYS):
            scores.setdefault(sentence, CachedScore(*row))
        return scores

    def read_words(self, identity: Mapping[str, Any]) -> Mapping[str, FloatArray]:
        """Return the kept log-probabilities of words, (W,) by sentence; raises as `read`."""
        key = digest_of({**identity, **_BY_WORD})
        words = self._words.setdefault(key, {})
        for sentence, (values,) in self._new_rows(key, _WORD_KEYS):
            words.setdefault(sentence, np.array(values, dtype=np.float64))
        return words

    def _new_rows(self, key: str, columns: Sequence[str]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield sentence and row of each file that was not read yet."""
        for path in sorted((self.folder / key).glob("*.json")):
            if path in self._seen:
                continue
            try:
                record = json_value(path.read_text("utf-8"))
                rows = list(zip(*(record[name] for name in columns), strict=True))
                yield from zip(record["sentences"], rows, strict=True)
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise InputError(f"{path} is not a file of scores ({error}); remove it") from None
            self._seen.add(path)

    def add(
        self, identity: Mapping[str, Any], sentences: Sequence[str], totals: SentenceScores
    ) -> None:
        """Keep the scores of S sentences; they are on the disk when this returns.

        Raises
        ------
        OutputError
            If the folder cannot be written to.
        """
        columns = (totals.score, totals.n_tokens, totals.n_words, totals.stderr)
        lists = {key: column.tolist() for key, column in zip(_KEYS, columns, strict=True)}
        self._write(identity, sentences, lists)

    def add_words(
        self, identity: Mapping[str, Any], sentences: Sequence[str], words: Sequence[FloatArray]
    ) -> None:
        """Keep the log-probabilities of the words of S sentences, each (W,); raises as `add`."""
        lists = {_WORD_KEYS[0]: [values.tolist() for values in words]}
        self._write({**identity, **_BY_WORD}, sentences, lists)

    def _write(
        self, identity: Mapping[str, Any], sentences: Sequence[str], lists: Mapping[str, object]
    ) -> None:
        if sentences:
            name = digest_of(list(sentences)) + ".json"
            record = {**identity, "sentences": list(sentences), **lists}
            text = json.dumps(record, ensure_ascii=False, indent=0) + "\n"
            write_whole(self.folder / digest_of(identity) / name, text)

    def score_with_counts(self, model: SentenceModel, sentences: Sequence[str]) -> SentenceScores:
        """Score S sentences, those that are not kept yet in one batch, and keep them.

        Raises
        ------
        InputError, UnknownWordError
            As the model does; then nothing is kept.
        OutputError
            If the folder cannot be written to.
        """
        identity = model_identity(model)
        row_of = self.read(identity)
        missing = list(dict.fromkeys(s for s in sentences if s not in row_of))
        if missing:
            self.add(identity, missing, model.score_with_counts(missing))
            row_of = self.read(identity)
        return SentenceScores.from_rows(row_of[sentence] for sentence in sentences)
