"""The order of the tests."""

import pytest

#: Files that take longest, which are begun first: none is left to one process at the end.
LONGEST = ("tests/test_docs.py", "tests/pipeline/", "tests/test_own", "tests/cli/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
