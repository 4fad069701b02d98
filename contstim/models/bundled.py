"""The small models that come with contstim, ``contstim:NAME``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from contstim.errors import ModelFileError, UnknownNameError
from contstim.models.base import SentenceModel
from contstim.models.spec import ModelSpec

__all__ = ["Bundled", "bundled_folder", "bundled_models", "load"]


@dataclass(frozen=True)
class Bundled:
    """One bundled model: its file, the family that reads it and the options that fit it."""

    name: str
    family: str
    file: str
    summary: str
    options: tuple[tuple[str, str], ...]


def bundled_folder() -> Path:
    """Return the folder of the bundled models: in the installed package, or in the checkout."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "bundled", package.parent / "models" / "bundled"):
        if (folder / "bundled.toml").is_file():
            return folder
    raise ModelFileError("the bundled models are missing from this installation; install it anew")


@cache
def bundled_models() -> dict[str, Bundled]:
    """Return the bundled models by name, as ``bundled.toml`` lists them."""
    with (bundled_folder() / "bundled.toml").open("rb") as file:
        table = tomllib.load(file)
    return {
        name: Bundled(
            name,
            entry["family"],
            entry["file"],
            entry["summary"],
            tuple(sorted(entry.get("options", {}).items())),
        )
        for name, entry in table.items()
    }


def load(spec: ModelSpec) -> SentenceModel:
    """Load the bundled model that ``contstim:NAME`` names; options override the bundled ones."""
    from contstim.models.registry import FAMILIES

    models = bundled_models()
    if spec.location not in models:
        raise UnknownNameError.among("bundled model", spec.location, models)
    entry = models[spec.location]
    alias = ModelSpec(spec.family, spec.location, entry.options)
    options = {**dict(entry.options), **dict(spec.options)}
    path = str(bundled_folder() / entry.file)
    inner = ModelSpec(entry.family, path, tuple(sorted(options.items())), alias)
    return FAMILIES[entry.family].load(inner)
