import re

import numpy as np
import pandas as pd
import pytest

from contstim.errors import InputError
from contstim.report.triplets_page import percentiles, triplets_page

REFERENCE = {"a:1": [-40.0, -30.0, -20.0, -10.0], "b:<2>": [-40.0, -30.0, -20.0, -10.0]}


def _triplets() -> pd.DataFrame:
    first = ("Natural one.", "First <i>one</i>.", "Second one.", -30, -30, -29, -50, -60, -25)
    second = ("Natural two.", "First two.", "Second two.", -20, -20, -20, -90, -80, -15)
    rows = [("a:1", "b:<2>", *first), ("a:1", "b:<2>", *second)]
    columns = ["model_1", "model_2", "natural", "synthetic_1", "synthetic_2"]
    columns += [f"{k}_lp_{m}" for k in ("natural", "synthetic_1", "synthetic_2") for m in (1, 2)]
    return pd.DataFrame(rows, columns=columns)


def test_percentiles_count_ties_half() -> None:
    found = percentiles([-50, -40, -25, -10, 0], [-40.0, -30.0, -20.0, -10.0])
    np.testing.assert_allclose(found, [0, 12.5, 50, 87.5, 100])


def test_the_page_holds_every_sentence_and_point() -> None:
    page = triplets_page(_triplets(), REFERENCE)
    assert page.count("<svg") == 1
    # One small grey dot a natural sentence scored, three labelled dots and two lines a triplet.
    assert len(re.findall(r'r="1.5"', page)) == 4
    assert len(re.findall(r"<circle[^>]*><title>", page)) == 6
    assert len(re.findall(r"<line ", page)) == 4
    assert "First &lt;i&gt;one&lt;/i&gt;." in page
    assert "b:&lt;2&gt;" in page
    assert "<i>" not in page
    # The more controversial triplet is listed first.
    table = page[page.index("<table>") :]
    assert table.index("Natural two.") < table.index("Natural one.")
    assert "http" not in page


def test_the_page_places_points_by_percentile() -> None:
    page = triplets_page(_triplets(), REFERENCE)
    natural_one = re.search(r'cx="([\d.]+)" cy="([\d.]+)"[^>]*><title>Natural one', page)
    natural_two = re.search(r'cx="([\d.]+)" cy="([\d.]+)"[^>]*><title>Natural two', page)
    assert natural_one is not None
    assert natural_two is not None
    # -20 stands higher among the reference than -30: further right, and further up.
    assert float(natural_two[1]) > float(natural_one[1])
    assert float(natural_two[2]) < float(natural_one[2])


def test_what_cannot_be_shown() -> None:
    with pytest.raises(InputError, match="there is no triplet to show"):
        triplets_page(_triplets().iloc[:0], REFERENCE)
    with pytest.raises(InputError, match="no natural sentences were scored under 'b:<2>'"):
        triplets_page(_triplets(), {"a:1": [-1.0]})
