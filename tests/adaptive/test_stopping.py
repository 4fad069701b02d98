"""Test that contradictory settings of the stopping rule are rejected."""

import pytest

from contstim.adaptive.stopping import Stopping
from contstim.errors import InputError


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"analyses": (20, 10, 100)}, "analyses are 20, 10, 100 of 100 participants; give ascend"),
        ({"analyses": (10, 20)}, "ascending numbers that end with stopping.participants"),
        ({"start": 3}, "start is 3"),
        ({"alpha": 1.0}, "alpha is 1.0; give less than 1"),
    ],
)
def test_invalid_stopping_rules_are_rejected(given, message):
    with pytest.raises(InputError, match=message):
        Stopping(**given)
