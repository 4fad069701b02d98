"""The order of the tests, and fixtures of all tests."""

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest

from contstim.errors import MissingExtraError
from contstim.experiment.vendor import fetch_vendor, list_vendor_files
from contstim.models.ngram import model as ngram
from contstim.models.registry import bundled_folder

_Read = TypeVar("_Read")

#: Files that take longest, which are begun first: none is left to one process at the end.
LONGEST = ("tests/test_docs.py", "tests/pipeline/", "tests/test_extensions", "tests/cli/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


@pytest.fixture(scope="session", autouse=True)
def _bundled_ngrams_are_read_once() -> Iterator[None]:
    """Keep what is read from the bundled n-gram files, of which hundreds of tests load a model."""

    def kept(read: Callable[[Path], _Read]) -> Callable[[Path], _Read]:
        again = cache(read)
        return lambda path: again(path) if path.is_relative_to(bundled_folder()) else read(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngram, "_load_kenlm", kept(ngram._load_kenlm))
        patch.setattr(ngram, "read_arpa", kept(ngram.read_arpa))
        yield


@pytest.fixture(scope="session")
def vendored() -> None:
    """Fetch the npm files of the experiment's page, once for a checkout."""
    try:
        list_vendor_files()
    except MissingExtraError:
        if shutil.which("npm") is None:
            pytest.skip("the page's npm files cannot be fetched without npm")  # npm is optional
        fetch_vendor()
