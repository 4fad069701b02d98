"""What a study takes, in minutes and money."""

import pytest

from contstim.errors import InputError
from contstim.evaluation.sample import Sample
from contstim.settings import build


def test_costs():
    assert Sample(pay=6).costs(10, 45) == (
        "A session takes about 6 minutes, 45 trials of 8 seconds, and all 10 together 1 hours. At "
        "6.00 an hour a participant is paid 0.60, and all together 6.00."
    )
    assert Sample(minutes=90).costs(4, 0) == (
        "A session takes about 90 minutes, and all 4 together 6 hours."
    )


@pytest.mark.parametrize("table", [{"seconds": 0}, {"participants": 0}, {"pay": -1}, {"people": 3}])
def test_what_makes_no_sense_is_refused(table):
    with pytest.raises(InputError, match=f"sample.{next(iter(table))}"):
        build(Sample, table, "sample")
