"""Test the layout of the evaluation report on narrow and wide screens."""

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


@pytest.fixture(scope="module", params=[2, 20])
def report(request, tmp_path_factory) -> Path:
    """Write a report of several models with long names."""
    rng = np.random.default_rng(0)
    choices = datasets.simulated_choices()
    sentences = pd.unique(choices[["sentence_1", "sentence_2"]].to_numpy().ravel())
    names = [f"hf:organisation/a-long-name-{i}B?metric=pll-word-l2r" for i in range(request.param)]
    truth = rng.normal(-50, 8, len(sentences))
    noisy = {name: truth + rng.normal(0, 2 * i, len(truth)) for i, name in enumerate(names)}
    right = dict(zip(sentences, truth, strict=True))
    gap = choices["sentence_2"].map(right) - choices["sentence_1"].map(right)
    keen = gap + rng.normal(0, 6, len(gap))
    choices["rating"] = np.where(
        choices["condition"] == "catch", choices["rating"], np.sign(keen) * 1.5
    )
    scores = pd.DataFrame(noisy, index=pd.Index(sentences, name="sentence"))
    conditions = ("natural_controversial", "synthetic_vs_synthetic")
    analyses = (Analysis("all"), *(Analysis(name, (name,)) for name in conditions))
    return evaluate(choices, scores, analyses=analyses).report(tmp_path_factory.mktemp("report"))


@pytest.mark.parametrize("width", [390, 1280])
def test_report_has_no_horizontal_overflow(browser: Browser, report: Path, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.goto(report.as_uri())
    too_wide = "document.scrollingElement.scrollWidth - window.innerWidth"
    assert page.evaluate(too_wide) == 0
    page.close()
