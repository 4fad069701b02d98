"""A cache of scores on disk, so that each model scores each sentence only once.

The cache has one folder per model. Its name is a digest of everything that determines the scores:
specification, event (see `Event`), weights and package versions. The folder contains one small JSON
file per batch of sentences. Files are written atomically and never changed, so several processes
and machines can share a cache.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from contstim import __version__
from contstim.arrays import FloatArray
from contstim.errors import InputError
from contstim.files import decode_json, json_digest, write_atomically
from contstim.models.base import SentenceModel, SentenceScores

#: JSON object that identifies a model and the versions of its packages, see `model_identity`.
Identity = Mapping[str, Any]

_CORE_PACKAGES = ("numpy", "scipy")
# Keys of the JSON files, in the order of the fields of `SentenceScores` and `CachedScore`.
_SENTENCE_KEYS = ("log_prob", "n_tokens", "n_words", "stderr")
# Word scores are stored in a separate folder, under an identity with an additional key.
_BY_WORD, _WORD_KEYS = {"by": "word"}, ("words",)


_packages_by_module = cache(importlib.metadata.packages_distributions)


def dependency_names(model: SentenceModel) -> tuple[str, ...]:
    """Return the sorted names of the installed packages on which a model's scores depend.

    These are the packages that define its class, and the packages in its attribute `packages`.
    Python, contstim, NumPy and SciPy are not included, because they are always recorded.
    """
    modules = {cls.__module__.partition(".")[0] for cls in type(model).__mro__}
    modules -= sys.stdlib_module_names | {"contstim", "__main__"}
    packages = [name for module in modules for name in _packages_by_module().get(module, [])]
    return tuple(sorted({*packages, *getattr(model, "packages", ())}))


class CachedScore(NamedTuple):
    """The score of one sentence with its token count, word count and standard error."""

    score: float
    n_tokens: int
    n_words: int
    stderr: float


def describe_model(model: SentenceModel) -> dict[str, Any]:
    """Describe a model as a JSON object for provenance records.

    The object contains the specification of the model, the definition of its score (`Event`), the
    quantity and unit of the score, a digest of the weights, and the versions of the packages that
    the model depends on.

    Parameters
    ----------
    model
        The model.
    """
    highest = model.kind.highest
    # JSON has no infinity, so None (null) states that scores have no upper bound.
    return {
        "spec": model.spec,
        "event": asdict(model.event),
        "event_digest": model.event.digest,
        "score": asdict(model.kind) | {"highest": highest if isfinite(highest) else None},
        "weights": model.fingerprint,
        "packages": _installed_versions(dependency_names(model)),
    }


def package_versions(*packages: str) -> dict[str, str]:
    """Return the versions of Python, contstim, NumPy, SciPy and the installed `packages`."""
    core = {"python": platform.python_version(), "contstim": __version__}
    return core | _installed_versions((*_CORE_PACKAGES, *packages))


def _installed_versions(packages: Sequence[str]) -> dict[str, str]:
    """Return a mapping from package name to version, without packages that are not installed."""
    versions = {}
    for name in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def model_identity(model: SentenceModel) -> dict[str, Any]:
    """Return everything that determines a model's scores of a sentence, as a JSON object."""
    return {"model": describe_model(model), "versions": package_versions()}


class ScoreCache:
    """A folder of sentence scores and word scores.

    Scores of a network may depend on the batch in the last digits (see
    :attr:`~contstim.models.base.SentenceModel.batch_tolerance`). The cache returns the score that
    was computed first.

    Parameters
    ----------
    folder
        Folder of the cache, created when the first scores are added.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self._scores: dict[str, dict[str, CachedScore]] = {}
        self._word_scores: dict[str, dict[str, FloatArray]] = {}
        self._read_files: set[Path] = set()

    def read(self, identity: Identity) -> Mapping[str, CachedScore]:
        """Return a mapping from sentence to score, for all cached scores of a model.

        Parameters
        ----------
        identity
            JSON object that identifies the model and the installed versions (`model_identity`).

        Raises
        ------
        InputError
            If a file of the cache is damaged.
        """
        key = json_digest(identity)
        scores = self._scores.setdefault(key, {})
        for sentence, row in self._new_rows(key, _SENTENCE_KEYS):
            scores.setdefault(sentence, CachedScore(*row))
        return scores

    def read_words(self, identity: Identity) -> Mapping[str, FloatArray]:
        """Return a mapping from sentence to cached word scores, (W,). Raises as `read`."""
        key = json_digest({**identity, **_BY_WORD})
        scores = self._word_scores.setdefault(key, {})
        for sentence, (values,) in self._new_rows(key, _WORD_KEYS):
            scores.setdefault(sentence, np.array(values, dtype=np.float64))
        return scores

    def _new_rows(self, key: str, columns: Sequence[str]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield the scores in files that were added to the folder of a model since the last call.

        Parameters
        ----------
        key
            Name of the folder.
        columns
            Names of the lists to read from each JSON file, for example ``log_prob``. A list has one
            element per sentence.

        Yields
        ------
        sentence : str
            Scored sentence.
        values : tuple
            Element of each of the lists for this sentence.
        """
        for path in sorted((self.folder / key).glob("*.json")):
            if path in self._read_files:  # by an earlier call
                continue
            # A file has a list of sentences, and one list of equal length for each column.
            try:
                record = decode_json(path.read_text("utf-8"))
                rows = list(zip(*(record[name] for name in columns), strict=True))
                yield from zip(record["sentences"], rows, strict=True)
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise InputError(f"{path} is not a file of scores ({error}); remove it") from None
            self._read_files.add(path)

    def add(self, identity: Identity, sentences: Sequence[str], scores: SentenceScores) -> None:
        """Write the scores of S sentences to disk.

        Parameters
        ----------
        identity
            JSON object that identifies the model and the installed versions (`model_identity`).
        sentences
            The S sentences.
        scores
            Their scores, in the same order.

        Raises
        ------
        OutputError
            If the folder is not writable.
        """
        columns = (scores.score, scores.n_tokens, scores.n_words, scores.stderr)
        lists = {key: column.tolist() for key, column in zip(_SENTENCE_KEYS, columns, strict=True)}
        self._write(identity, sentences, lists)

    def add_words(
        self, identity: Identity, sentences: Sequence[str], scores: Sequence[FloatArray]
    ) -> None:
        """Write the word scores of S sentences, arrays (W,), to disk. Raises as `add`."""
        lists = {_WORD_KEYS[0]: [values.tolist() for values in scores]}
        self._write({**identity, **_BY_WORD}, sentences, lists)

    def _write(self, identity: Identity, sentences: Sequence[str], lists: dict[str, Any]) -> None:
        """Write a JSON file with S sentences and their scores.

        The file name is a digest of the sentences, so that scoring the same batch twice creates
        only one file.

        Parameters
        ----------
        identity
            JSON object that identifies the model (`model_identity`).
        sentences
            The S sentences.
        lists
            Mapping from key in the file to a list of S values.
        """
        if sentences:
            name = json_digest(list(sentences)) + ".json"
            record = {**identity, "sentences": list(sentences), **lists}
            text = json.dumps(record, ensure_ascii=False, indent=0) + "\n"
            write_atomically(self.folder / json_digest(identity) / name, text)

    def score_with_counts(self, model: SentenceModel, sentences: Sequence[str]) -> SentenceScores:
        """Score S sentences, and add the scores of new sentences to the cache.

        The new sentences are scored in one batch.

        Parameters
        ----------
        model
            Model that scores the sentences.
        sentences
            The S sentences; repeated ones are scored once.

        Raises
        ------
        InputError, UnknownWordError
            If the model cannot score a sentence. Nothing is added to the cache.
        OutputError
            If the folder is not writable.
        """
        identity = model_identity(model)  # specification, weights, versions of packages
        scores = self.read(identity)
        # Score only sentences that are not in the cache, each once, and add them to the cache.
        missing = list(dict.fromkeys(s for s in sentences if s not in scores))
        if missing:
            self.add(identity, missing, model.score_with_counts(missing))
            scores = self.read(identity)
        return SentenceScores.from_rows(scores[sentence] for sentence in sentences)
