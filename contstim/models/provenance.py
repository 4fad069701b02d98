"""What results were made with: specs, events, weights, versions and inputs, as JSON values."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from contstim import __version__
from contstim.models.base import SentenceModel
from contstim.models.packages import package_names

__all__ = ["describe_model", "versions"]

_PACKAGES = ("numpy", "scipy")


def describe_model(model: SentenceModel) -> dict[str, Any]:
    """Say which model it is: spec, event, digest of its weights and versions of its packages."""
    return {
        "spec": model.spec,
        "event": asdict(model.event),
        "event_digest": model.event.digest,
        "weights": model.fingerprint,
        "packages": _installed(package_names(model)),
    }


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of what all numbers depend on and, where installed, of `packages`."""
    own = {"python": platform.python_version(), "contstim": __version__}
    return own | _installed((*_PACKAGES, *packages))


def _installed(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of those of `packages` that are installed."""
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
