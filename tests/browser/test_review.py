"""Two reviewers go through a table of triplets by keys; then selection obeys, and the appendix."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from contstim import load_model
from contstim.cli import main
from contstim.experiment.review import Review, ReviewServer
from contstim.selection import read_triplets
from contstim.selection.review import kappa, read_decisions

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

ONE, TWO = "contstim:bigram", "contstim:trigram"
TRIPLETS = [
    ("The ship left at dawn.", "The ship fell at dawn.", "The ship left at once."),
    ("He saw the old gate.", "He saw the whole gate.", "He saw the old men."),
]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = []
    for texts in TRIPLETS:
        row = {"model_1": ONE, "model_2": TWO}
        row |= dict(zip(("natural", "synthetic_1", "synthetic_2"), texts, strict=True))
        for name in ("natural", "synthetic_1", "synthetic_2"):
            for k, model in enumerate((ONE, TWO), start=1):
                row[f"{name}_lp_{k}"] = str(load_model(model).score([row[name]])[0])
        rows.append(row)
    path = tmp_path / "triplets.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


@contextmanager
def serving(table: Path, reviewer: str) -> Iterator[str]:
    review = Review(read_triplets(table), table.with_suffix(".decisions.csv"), reviewer)
    server = ReviewServer(review)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.address
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def judge(page: Page, address: str, answers: dict[str, tuple[str, str]]) -> list[str]:
    """Approve every sentence but those with another answer, by keys; return what was shown."""
    from playwright.sync_api import expect

    page.goto(address)
    expect(page.locator("#sentence")).not_to_be_empty()
    shown = []
    while True:
        text = page.locator("#sentence").inner_text()
        shown.append(text)
        place = page.locator("#count").inner_text()
        key, typed = answers.get(text, ("a", ""))
        page.keyboard.press(key)
        if key == "e":
            page.locator("#edited").fill(typed)
            page.keyboard.press("Tab")
        if key in "re":
            page.keyboard.type("odd")
            page.keyboard.press("Enter")
        expect(page.locator("#count")).not_to_have_text(place)
        if page.locator("#count").inner_text().startswith(f"{len(shown)} of {len(shown)};"):
            return shown


def test_two_reviewers(page: Page, table: Path, tmp_path: Path) -> None:
    first, second = TRIPLETS
    with serving(table, "AB") as address:
        answers = {first[1]: ("e", "The ship fell at night."), second[2]: ("r", "")}
        shown = judge(page, address, answers)
    assert shown == [text for row in TRIPLETS for text in row]
    with serving(table, "CD") as address:
        again = judge(page, address, {second[2]: ("r", ""), second[0]: ("r", "")})
    # The second reviewer judges the edited form as well, and does not see what was decided.
    assert again == [*shown, "The ship fell at night."]
    decisions = read_decisions(table.with_suffix(".decisions.csv"))
    assert len(decisions) == 6 + 7
    value, n = kappa(decisions)["AB", "CD"]
    # Six sentences: approve, edit against approve, approve, approve against reject, approve, reject
    # by both: observed 4/6, expected (4 * 4 + 1 * 2 + 1 * 0) / 36 = 1/2.
    assert (value, n) == (pytest.approx(1 / 3), 6)

    selected, argv = tmp_path / "selected.csv", ["--reviewers", "2", "--decisions"]
    argv += [str(table.with_suffix(".decisions.csv"))]
    ask = ["select", "triplets", str(table), "--per-pair", "1", "--strata", "1"]
    assert main([*ask, *argv, "--out", str(selected)]) == 0
    (row,) = csv.DictReader(selected.read_text("utf-8").splitlines())
    assert row["natural"] == first[0]
    assert row["synthetic_1"] == "The ship fell at night."
    for k, model in enumerate((ONE, TWO), start=1):
        scored = load_model(model).score([row["synthetic_1"]])[0]
        assert float(row[f"synthetic_1_lp_{k}"]) == pytest.approx(scored, abs=1e-9)

    pages = [tmp_path / "one.html", tmp_path / "two.html"]
    for path in pages:
        assert main(["review", str(table), "--appendix", str(path), "--reviewers", "2"]) == 0
    assert pages[0].read_bytes() == pages[1].read_bytes()
    text = pages[0].read_text("utf-8")
    for wanted in ("0.333 over 6 sentences", "The ship fell at night.", "CD: reject, odd"):
        assert wanted in text
