"""The small models that come with contstim, ``contstim:NAME``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import cast

from contstim.errors import ModelFileError

__all__ = ["Bundled", "bundled_folder", "bundled_models", "model_card"]


@dataclass(frozen=True)
class Bundled:
    """One bundled model: its file, the family that reads it and the options that fit it.

    A model that another package brings has a `converter`, ``module:function``, in place of a file:
    the function gives the path of the file made from that package.
    """

    name: str
    family: str
    file: str
    summary: str
    options: tuple[tuple[str, str], ...]
    converter: str = ""

    def path(self) -> Path:
        """Return where the model's file lies. Raises what the converter raises."""
        if self.converter:
            module, _, function = self.converter.partition(":")
            return cast(Path, getattr(import_module(module), function)())
        return bundled_folder() / self.file


def bundled_folder() -> Path:
    """Return the folder of the bundled models: in the installed package, or in the checkout."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "bundled", package.parent / "models" / "bundled"):
        if (folder / "bundled.toml").is_file():
            return folder
    raise ModelFileError("the bundled models are missing from this installation; install it again")


def model_card(name: str) -> str | None:
    """Return the model card of a bundled model, as Markdown, or None where there is none."""
    folder = bundled_folder()
    for cards in (folder / "cards", folder.parent / "cards"):
        path = cards / f"{name}.md"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    return None


@cache
def bundled_models() -> dict[str, Bundled]:
    """Return the bundled models by name, as ``bundled.toml`` lists them."""
    with (bundled_folder() / "bundled.toml").open("rb") as file:
        table = tomllib.load(file)
    return {
        name: Bundled(
            name,
            entry["family"],
            entry.get("file", ""),
            entry["summary"],
            tuple(sorted(entry.get("options", {}).items())),
            entry.get("converter", ""),
        )
        for name, entry in table.items()
    }
