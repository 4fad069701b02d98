"""Test the page of the demonstration and `contstim.selection.figure`."""

import html
import re

import numpy as np
import pandas as pd

from contstim.cli.demo_page import render_demonstration
from contstim.selection.figure import percentiles, triplet_figure

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


def test_page_contains_every_sentence_and_point() -> None:
    page = render_demonstration([], _triplets(), REFERENCE, [], None, {})
    assert page.count("<svg") == 1
    titles = re.findall(r'<g id="f1-(\w+)-(\d)"><title>([^<]+)</title>', page)
    rows = _triplets()
    shown = {(kind, int(number)): html.unescape(text) for kind, number, text in titles}
    assert shown == {
        (kind, number): rows[kind].iloc[number]
        for kind in ("natural", "synthetic_1", "synthetic_2")
        for number in range(2)
    }
    assert "First &lt;i&gt;one&lt;/i&gt;." in page
    assert "b:&lt;2&gt;" in page
    assert "<i>" not in page
    # The more controversial triplet is listed first.
    table = page[page.index("<table>") :]
    assert table.index("Natural two.") < table.index("Natural one.")
    assert not re.search(r'(src|href)="https?:', page)
    # On phones tables move within their own box, and figures are no wider than the screen.
    assert page.count("<table>") == page.count('<div class="wide"><table>') == 1


def test_figure_places_points_by_percentile() -> None:
    ax = triplet_figure(_triplets(), *REFERENCE.values())
    dots = {str(line.get_gid()): line.get_xydata()[0].tolist() for line in ax.lines[1:]}
    # Of the four natural scores one lies below -30, and -30 itself counts half.
    assert dots["natural-0"] == [37.5, 37.5]
    assert dots["natural-1"] == [62.5, 62.5]
    assert dots["synthetic_1-0"] == [50.0, 0.0]
    assert dots["synthetic_2-1"] == [0.0, 75.0]
    cloud, *others = ax.lines
    assert len(cloud.get_xdata()) == 4
    joins = [line.get_xydata().tolist() for line in others if len(line.get_xdata()) == 2]
    assert [dots["natural-0"], dots["synthetic_1-0"]] in joins
    assert len(joins) == 4
