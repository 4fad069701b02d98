"""Two reviewers go through a table of triplets by keys, at the server or by mail; what follows."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from playing import PATIENCE_S, open_context

from contstim import load_model
from contstim.cli import main
from contstim.experiment.review import Review, ReviewServer
from contstim.selection import read_triplets
from contstim.selection.review import kappa, read_decisions

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


def buttons_apart(page: Page) -> float:
    """Return how near to each other two buttons that can be seen are, at the nearest, in pixels."""
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
def test_sentences_stand_side_by_side_and_buttons_do_not_touch(
    page: Page, table: Path, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    with serving(table, "AB") as address:
        page.goto(address)
        page.locator("#sentence").wait_for()
        shown = page.locator(".cell .sentence").all_inner_texts()
        assert shown == list(TRIPLETS[0])
        cells = [one.bounding_box() for one in page.locator(".cell").all()]
        assert len({box["y"] for box in cells if box}) == (1 if width > 1000 else 3)
        assert "accepted by contstim:bigram, rejected by contstim:trigram" in page.inner_text(
            "main"
        )
        assert page.locator(".scores").count() == 3
        page.locator(".sentence").nth(2).click()
        assert page.locator("#sentence").inner_text() == TRIPLETS[0][2]
        page.keyboard.press("e")
        assert buttons_apart(page) >= 6
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_review_by_mail_gives_the_csv_of_the_served_one(
    browser: Browser, page: Page, table: Path, tmp_path: Path
) -> None:
    first, second = TRIPLETS
    odd = 'The "ship" left, 🚢 at <b>dawn</b> </script> \uff41.'
    answers = {
        "AB": {first[1]: ("e", odd), second[2]: ("r", "")},
        "CD": {second[2]: ("r", ""), second[0]: ("r", ""), odd: ("e", first[1] + "\u3000\u00a0!")},
    }
    # In code points the ship comes after the wide letter, in JavaScript's own order before it.
    rows = pd.read_csv(table)
    names = ["natural", "synthetic_1", "synthetic_2"]
    more = rows[1:].assign(**dict(zip(names, ("\uff41 b.", "\U0001f6a2 b.", "a, b"), strict=True)))
    pd.concat([rows, more]).to_csv(table, index=False)
    served, mailed = table.with_suffix(".decisions.csv"), []
    for who in ("AB", "CD"):
        with serving(table, who) as address:
            at_the_server = judge(page, address, answers[who])
        given = ["--decisions", *(mailed or [str(tmp_path / "none.csv")])]
        file = tmp_path / f"{who}.html"
        assert main(["review", str(table), "--reviewer", who, "--mail", str(file), *given]) == 0
        context = open_context(browser)
        asked: list[str] = []
        context.on("request", lambda request, asked=asked: asked.append(request.url))
        by_mail = context.new_page()
        assert judge(by_mail, file.as_uri(), answers[who]) == at_the_server
        by_mail.close()  # and opened again later
        by_mail = context.new_page()
        by_mail.goto(file.as_uri())
        assert f"; {len(at_the_server)} decided" in by_mail.locator("#count").inner_text()
        with by_mail.expect_download() as download:
            by_mail.locator("#save").click()
        assert download.value.suggested_filename == f"{who}.decisions.csv"
        mailed.append(str(tmp_path / f"mail-{who}.csv"))
        download.value.save_as(mailed[-1])
        assert {url.split(":")[0] for url in asked} <= {"file", "blob"}
        context.close()
        if len(mailed) == 1:
            assert Path(mailed[0]).read_bytes() == served.read_bytes()
    joined = tmp_path / "joined.csv"
    assert main(["review", str(table), "--decisions", *mailed, "--out", str(joined)]) == 0
    assert joined.read_bytes() == served.read_bytes()
