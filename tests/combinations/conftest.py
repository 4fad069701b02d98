"""Read entry points of installed packages once per file, because reading is slow."""

import importlib.metadata
from collections.abc import Iterator
from functools import cache

import pytest


@pytest.fixture(scope="module", autouse=True)
def _entry_points_are_read_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("contstim.plugins.entry_points", cache(importlib.metadata.entry_points))
        yield
