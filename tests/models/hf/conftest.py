"""The tiny checkpoints, each made once for all tests."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_transformers import save_checkpoint


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function from a name to the folder of that tiny checkpoint."""
    made: dict[str, Path] = {}
    root = tmp_path_factory.mktemp("tiny")

    def folder(name: str) -> Path:
        if name not in made:
            made[name] = save_checkpoint(name, root / name)
        return made[name]

    return folder
