"""What results were made with: specs, events, weights, versions and inputs, as JSON values."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from contstim import __version__
from contstim.files import digest
from contstim.models.base import SentenceModel
from contstim.text.vocabulary import Vocabulary

__all__ = ["describe_model", "run_settings", "versions"]

_PACKAGES = ("numpy", "scipy", "torch", "kenlm-ex", "kenlm", "transformers")


def describe_model(model: SentenceModel) -> dict[str, Any]:
    """Say which model it is: spec, event and the digest of its weights."""
    return {
        "spec": model.spec,
        "event": asdict(model.event),
        "event_digest": model.event.digest,
        "weights": model.fingerprint,
    }


def versions() -> dict[str, str]:
    """Return the versions of Python, contstim and the packages that numbers depend on."""
    found = {"python": platform.python_version(), "contstim": __version__}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def run_settings(
    models: Sequence[SentenceModel],
    vocabulary: Vocabulary,
    sentences: Sequence[str],
    **parameters: Any,
) -> dict[str, Any]:
    """Collect everything that the results of a run depend on, to save and compare.

    Parameters
    ----------
    models, vocabulary, sentences
        The inputs; of the last two a digest is kept.
    parameters
        The rest, as JSON values.
    """
    text = "\n".join(sentences)
    return {
        "models": [describe_model(model) for model in models],
        "versions": versions(),
        "vocabulary": {"digest": vocabulary.digest, "words": len(vocabulary.elsewhere)},
        "sentences": {
            "digest": digest(text)[:16],
            "number": len(sentences),
        },
        **parameters,
    }
