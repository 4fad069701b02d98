"""The fake engine that tests of this folder share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_engines import Fake

from contstim.models.engines import server


@pytest.fixture(scope="session")
def served(tiny: Callable[[str], Path]) -> Iterator[Fake]:
    fake = Fake(tiny("gpt2"))
    yield fake
    fake.close()


@pytest.fixture
def fake(served: Fake, monkeypatch: pytest.MonkeyPatch) -> Fake:
    monkeypatch.setattr(server.time, "sleep", lambda seconds: None)
    return served.reset()
