"""Test the review page: decisions by keyboard and the saved table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from playing import PATIENCE_S, open_context

from contstim import load_model
from contstim.cli import main
from contstim.experiment.review import compute_kappa, read_decisions

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

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


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Yield a page that can be opened from a file."""
    context = open_context(browser)
    yield context.new_page()
    context.close()


def write_review_page(table: Path, reviewer: str, *options: str) -> str:
    file = table.with_name(f"{reviewer}.html")
    assert (
        main(["review", *(options or (str(table),)), "--reviewer", reviewer, "--page", str(file)])
        == 0
    )
    return file.as_uri()


def save(page: Page, folder: Path) -> Path:
    with page.expect_download() as download:
        page.locator("#save").click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def judge(page: Page, address: str, answers: dict[str, tuple[str, str]]) -> list[str]:
    """Approve all sentences without an entry in `answers`, by keys; return the sentences shown."""
    from playwright.sync_api import expect

    expect.set_options(timeout=1000 * PATIENCE_S)
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


def test_two_reviewers_save_their_decisions(browser: Browser, table: Path, tmp_path: Path) -> None:
    first, second = TRIPLETS
    odd = 'The "ship" left, \N{SHIP} at <b>dawn</b> </script> \uff41.'
    answers = {
        "AB": {first[1]: ("e", odd), second[2]: ("r", "")},
        "CD": {second[2]: ("r", ""), second[0]: ("r", "")},
    }
    files = []
    for who in ("AB", "CD"):
        address, context = write_review_page(table, who), open_context(browser)
        asked: list[str] = []
        context.on("request", lambda request, asked=asked: asked.append(request.url))
        page = context.new_page()
        assert judge(page, address, answers[who]) == [text for row in TRIPLETS for text in row]
        page.close()  # and opened again later
        page = context.new_page()
        page.goto(address)
        assert "; 6 decided" in page.locator("#count").inner_text()
        files.append(save(page, tmp_path))
        assert files[-1].name == f"{who}.decisions.csv"
        assert {url.split(":")[0] for url in asked} <= {"file", "blob"}
        context.close()
    decisions = read_decisions(*files)
    assert [d.edited for d in decisions if d.edited] == [odd]
    value, n = compute_kappa(decisions)["AB", "CD"]
    # Six sentences: approve, edit against approve, approve, approve against reject, approve, reject
    # by both: observed 4/6, expected (4 * 4 + 1 * 2 + 1 * 0) / 36 = 1/2.
    assert (value, n) == (pytest.approx(1 / 3), 6)


def test_blind_page_asks_for_yes_or_no(page: Page, table: Path, tmp_path: Path) -> None:
    address = write_review_page(table, "AB", "--blind", f"written={table}")
    page.goto(address)
    text = page.locator("#sentence").inner_text()
    assert "accepted by" not in page.inner_text("main")
    assert page.locator("#edit").count() == 0
    page.keyboard.press("n")
    for _ in range(3):
        page.keyboard.press("y")
    decisions = {d.sentence: d.decision for d in read_decisions(save(page, tmp_path))}
    assert len(decisions) == 4
    assert [one for one, decision in decisions.items() if decision == "reject"] == [text]


def minimum_button_gap(page: Page) -> float:
    """Return the smallest distance between two visible buttons, in pixels."""
    boxes = [box for one in page.locator("button").all() if (box := one.bounding_box())]
    assert len(boxes) >= 6

    def gap(one: dict[str, float], other: dict[str, float]) -> float:
        across, down = (
            max(one[at], other[at]) - min(one[at] + one[size], other[at] + other[size])
            for at, size in (("x", "width"), ("y", "height"))
        )
        return max(across, down)

    return min(gap(one, other) for one, other in combinations(boxes, 2))


@pytest.mark.parametrize("width", [390, 1280])
def test_review_layout_on_narrow_and_wide_screens(page: Page, table: Path, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(write_review_page(table, "AB"))
    page.locator("#sentence").wait_for()
    shown = page.locator(".cell .sentence").all_inner_texts()
    assert shown == list(TRIPLETS[0])
    cells = [one.bounding_box() for one in page.locator(".cell").all()]
    assert len({box["y"] for box in cells if box}) == (1 if width > 1000 else 3)
    assert "accepted by contstim:bigram, rejected by contstim:trigram" in page.inner_text("main")
    assert page.locator(".scores").count() == 3
    page.locator(".sentence").nth(2).click()
    assert page.locator("#sentence").inner_text() == TRIPLETS[0][2]
    page.keyboard.press("e")
    assert minimum_button_gap(page) >= 6
    assert page.evaluate("document.documentElement.scrollWidth") <= width
