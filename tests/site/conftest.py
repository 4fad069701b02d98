"""Fixtures of the tests of the documentation site."""

from collections.abc import Callable
from functools import cache

import pytest

import contstim
from contstim.models.base import SentenceModel
from contstim.models.registry import load_model


@pytest.fixture(scope="session")
def load_once() -> Callable[[str], SentenceModel]:
    return cache(load_model)


@pytest.fixture(autouse=True)
def models_are_loaded_once(
    monkeypatch: pytest.MonkeyPatch, load_once: Callable[[str], SentenceModel]
) -> None:
    """Pages and examples each load their models; reading the bundled files takes a second."""
    monkeypatch.setattr(contstim, "load_model", load_once)
