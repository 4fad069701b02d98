"""Packages of one module with metadata, as pip would install them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest


def install(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    text: str,
    entries: Mapping[str, str],
    files: Mapping[str, str] | None = None,
) -> None:
    """Let this process and its children find a package and what its entry points name.

    Parameters
    ----------
    folder
        A folder to be made, which Python will search first.
    module, text
        The package's one module and its code; the package is called as the module, 1.5.
    entries
        Groups of entry points, each with ``name = module:thing``.
    files
        Further files beside the module, by name.
    """
    folder.mkdir()
    (folder / f"{module}.py").write_text(text, "utf-8")
    info = folder / f"{module}-1.5.dist-info"
    info.mkdir()
    points = "\n".join(f"[{group}]\n{entry}\n" for group, entry in entries.items())
    (info / "entry_points.txt").write_text(points, "utf-8")
    name = module.replace("_", "-")
    metadata = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\nSummary: {module.replace('_', ' ')}\n"
    )
    (info / "METADATA").write_text(metadata, "utf-8")
    (info / "RECORD").write_text(f"{module}.py,,\n", "utf-8")
    for file, content in (files or {}).items():
        (folder / file).write_text(content, "utf-8")
    package = str(Path(__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), package]))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, module, raising=False)
