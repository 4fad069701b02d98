"""Column lists and their check."""

import pandas as pd
import pytest

from contstim.errors import InputError
from contstim.records import CHOICES, require_columns


def test_columns_that_are_there():
    require_columns(pd.DataFrame(columns=[*CHOICES, "more"]), CHOICES, "the choices")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["ratings"], "the choices has no column 'rating'; did you mean 'ratings'?"),
        (["x", "y"], "the choices has no column 'rating'; choose one of 'x', 'y'"),
        ([], "the choices has no column 'rating'; it has no column"),
    ],
)
def test_columns_that_are_missing(columns, message):
    with pytest.raises(InputError) as caught:
        require_columns(pd.DataFrame(columns=columns), ["rating"], "the choices")
    assert str(caught.value) == message
