"""Error classes, and messages with suggestions."""

import pytest

from contstim import errors
from contstim.errors import (
    InputError,
    UnknownNameError,
    require_integer,
    require_known,
    suggest_names,
)

CLASSES = [thing for thing in vars(errors).values() if isinstance(thing, type)]
OWN = [k for k in CLASSES if issubclass(k, Exception) and k.__module__ == errors.__name__]
BUILT_IN = (ValueError, OSError, ImportError, AssertionError)


@pytest.mark.parametrize("kind", OWN, ids=lambda kind: kind.__name__)
def test_errors_inherit_from_contstim_error_and_a_builtin(kind: type[Exception]) -> None:
    assert issubclass(kind, errors.ContstimError)
    assert kind is errors.ContstimError or issubclass(kind, BUILT_IN)


def test_unknown_names_get_suggestions() -> None:
    assert suggest_names("trigam", ["trigram", "bigram"]) == "did you mean 'trigram' or 'bigram'?"
    assert suggest_names("x", ["b", "a", "b"]) == "choose one of 'a', 'b'"
    with pytest.raises(UnknownNameError) as error:
        require_known("metric", "pl", ("pll", "permutation"))
    assert str(error.value) == "unknown metric 'pl'; did you mean 'pll'?"


@pytest.mark.parametrize("value", [0, 1.0, True, "1", None])
def test_require_integer_rejects_invalid_counts(value: object) -> None:
    with pytest.raises(InputError) as error:
        require_integer("per_pair", value, 1)
    assert str(error.value) == f"per_pair is {value!r}; give a whole number of at least 1"
    require_integer("per_pair", 1, 1)
