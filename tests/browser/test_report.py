"""The report of an evaluation as it is read: on a phone, on a wide screen, from disk, printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from contstim import datasets
from contstim.evaluation import Analysis, evaluate

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

MOST_HIGH = 6000
# What sticks out of the page, cells that are cut, and cells of words with three letters a line.
_SHAPE = """() => {
  const shown = (name) => [...document.querySelectorAll(name)].filter((e) => e.checkVisibility());
  return {
    height: document.scrollingElement.scrollHeight,
    wide: document.scrollingElement.scrollWidth - window.innerWidth,
    cut: shown(".wide").filter((e) => e.scrollWidth > e.clientWidth + 1).length,
    narrow: shown("td.long").filter((e) => e.clientWidth < 80).length,
  };
}"""


@pytest.fixture(scope="module", params=[2, 20])
def report(request, tmp_path_factory) -> Path:
    """Write the report of so many models with long names."""
    rng = np.random.default_rng(0)
    choices = datasets.simulated_choices()
    sentences = pd.unique(choices[["sentence_1", "sentence_2"]].to_numpy().ravel())
    names = [f"hf:organisation/a-long-name-{i}B?metric=pll-word-l2r" for i in range(request.param)]
    truth = rng.normal(-50, 8, len(sentences))
    noisy = {name: truth + rng.normal(0, 2 * i, len(truth)) for i, name in enumerate(names)}
    right = dict(zip(sentences, truth, strict=True))
    gap = choices["sentence_2"].map(right) - choices["sentence_1"].map(right)
    keen = gap + rng.normal(0, 6, len(gap))
    choices["rating"] = np.where(choices["catch"], choices["rating"], np.sign(keen) * 1.5)
    scores = pd.DataFrame(noisy, index=pd.Index(sentences, name="sentence"))
    conditions = ("natural_controversial", "synthetic_vs_synthetic")
    analyses = (Analysis("all"), *(Analysis(name, (name,)) for name in conditions))
    return evaluate(choices, scores, analyses=analyses).report(tmp_path_factory.mktemp("report"))


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_is_short_and_nothing_is_cut(browser: Browser, report: Path, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.goto(report.as_uri())
    shape = page.evaluate(_SHAPE)
    assert shape["height"] <= MOST_HIGH
    assert (shape["wide"], shape["cut"], shape["narrow"]) == (0, 0, 0)
    # One of the two drawings of the first figure is shown, as wide as the text has room.
    (box,) = [
        d.bounding_box() for d in page.locator(".whole svg[role=img]").all() if d.is_visible()
    ]
    main = page.locator("main").bounding_box()
    assert box is not None
    assert main is not None
    assert box["width"] == pytest.approx(main["width"], abs=1)
    page.close()


def test_a_link_of_the_contents_opens_what_is_folded_and_printing_opens_all(
    browser: Browser, report: Path
) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(report.as_uri())
    summary = page.get_by_text("Signed-rank cosine similarity. The highest value").first
    assert not summary.is_visible()
    page.get_by_text("Contents").click()
    page.locator("nav").get_by_role("link", name="all", exact=True).click()
    assert summary.is_visible()
    page.goto("about:blank")
    page.goto(f"{report.as_uri()}#part-3")  # a link from elsewhere
    assert page.locator("#part-3").evaluate("e => e.open")
    page.goto(report.as_uri())
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.close()
