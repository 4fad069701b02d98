"""Test the jsPsych script of the guide on exported trials."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from hosts import FileHost
from studies import make_trials

from contstim.cli import main
from contstim.evaluation import read_choices

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "jspsych.md"
MODULES = Path(__file__).parent / "node_modules"
FILES = {
    "jspsych.css": "jspsych/css/jspsych.css",
    "jspsych.js": "jspsych/dist/index.browser.min.js",
    "plugin-html-button-response.js": (
        "@jspsych/plugin-html-button-response/dist/index.browser.min.js"
    ),
}


def test_guide_script_collects_data_of_the_design(
    page: Page, tmp_path: Path, host_files: Callable[[Path], FileHost]
) -> None:
    site, trials = tmp_path / "site", tmp_path / "trials.csv"
    (site / "jspsych").mkdir(parents=True)
    for name, source in FILES.items():
        shutil.copy(MODULES / source, site / "jspsych" / name)
    make_trials().to_csv(trials, index=False)
    assert main(["experiment", "timeline", str(trials), "--out", str(site / "trials.js")]) == 0
    found = re.search(r"```html\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    assert found
    (site / "index.html").write_text(found[1], "utf-8")
    page.goto(f"{host_files(site).url}index.html?assignment=3")
    design = pd.read_csv(trials).query("participant == 3").reset_index(drop=True)
    with page.expect_download() as download:
        for row in design.itertuples():  # sentence 1 always
            page.wait_for_timeout(100)  # a median below 50 ms is taken for seconds
            page.get_by_role("button", name=str(row.sentence_1), exact=True).click()
    data = tmp_path / "data.json"
    download.value.save_as(data)
    choices = read_choices(data, "jspsych", n_choices=2).choices.sort_values(
        "trial", key=pd.to_numeric
    )
    assert choices["assignment"].astype(int).eq(3).all()
    assert choices["trial"].astype(int).tolist() == design["trial"].tolist()
    turned = choices["sentence_1"].to_numpy() != design["sentence_1"].to_numpy()
    assert (choices["rating"].to_numpy() == -2.5 * (1 - 2 * turned)).all()
    assert (choices["sentence_1"].to_numpy() == design["sentence_2"].to_numpy())[turned].all()
    assert choices["condition"].tolist() == design["condition"].tolist()
    assert choices["rt_ms"].gt(0).all()
    assert len(set(choices["participant"])) == 1
