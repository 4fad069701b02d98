"""Test presentations other than pairs, consent boxes and sessions ended by the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fake_packages import install
from hosts import FileHost, Server
from playing import Player, count_stored_rows, wait_for_drawing
from studies import add, edit
from test_screens import check_screen

from contstim.cli import main
from contstim.experiment.importing import import_logs
from contstim.experiment.pages import write_static
from contstim.experiment.study import Study, read_study
from contstim.experiment.study_data import read_study_data

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

ITEMS = """sentence,item,condition,question,expected
The key to the cabinets were on the table.,1,attracted,Was the key on the table?,yes
The keys to the cabinet was on the table.,1,other,Was the key on the table?,no
The old man| the boats.,2,filler,,
"""

BOXES = """
[[consent.boxes]]
name = "adult"
text = "I am [18 years](https://example.org/why) old or older."
[[consent.boxes]]
name = "contact"
text = "I may be asked again."
required = false
"""

CHECKS = """
[[attention]]
after = 1
left = "Choose this."
right = "Not this."
expected = "left"
"""


def lay_out(folder: Path, presentation: str, table: str = ITEMS) -> Study:
    (folder / "items.csv").write_text(table, "utf-8")
    new = ["experiment", "new", str(folder / "study"), "--presentation", presentation]
    assert main([*new, "--stimuli", str(folder / "items.csv"), "--participants", "2"]) == 0
    (folder / "study" / "consent.md").write_text("Taking part is voluntary.\n", "utf-8")
    return read_study(folder / "study")


def read(page: Page, words: int) -> None:
    """Press the space bar once more than the number of words."""
    page.wait_for_selector(".word")
    for number in range(words + 1):
        assert page.locator(".word.open").count() == min(number, 1)
        wait_for_drawing(page, 60)
        page.keyboard.press("Space")


def test_self_paced_reading_from_practice_to_data(
    page: Page, serve: Callable[[Study], Server], tmp_path: Path
) -> None:
    study = lay_out(tmp_path, "reading")
    page.goto(serve(study).url)
    player = Player(page)
    player.leave("consent")
    player.screen("instructions")
    check_screen(page, "reading_instructions")
    player.leave("instructions")
    player.leave("practice")
    for attempt in ("1", "2"):  # yes is wrong: the sentence comes again
        read(page, 10)
        page.wait_for_selector(".question")
        player.answer(attempt)
        if attempt == "1":
            again = "That was not right. Please read the sentence again."
            page.wait_for_selector(f"#notice:text-is('{again}')")
    read(page, 11)
    player.leave("practice_done")
    for _ in range(2):
        page.wait_for_selector(".word")
        check_screen(page, "reading_trial")
        words = page.locator(".word")
        count = words.count()
        # Covered words keep their places, and are neither to be seen nor to be marked.
        boxes = [words.nth(place).bounding_box() for place in range(count)]
        assert {
            words.nth(place).locator("span").evaluate("one => getComputedStyle(one).visibility")
            for place in range(count)
        } == {"hidden"}
        page.locator(".next").click()
        assert [words.nth(place).bounding_box() for place in range(count)] == boxes
        for _ in range(count - 1):
            wait_for_drawing(page, 60)
            page.keyboard.press("Space")
        wait_for_drawing(page, 60)
        page.keyboard.down("Space")
        page.keyboard.down("Space")  # held: no press
        page.keyboard.up("Space")
        if count > 2:
            page.wait_for_selector(".question")
            check_screen(page, "reading_question")
            player.answer("1")
    player.screen("done")
    collected = read_study_data(study)
    words = collected.words.groupby("stimulus")["word"].apply(list).to_dict()
    assert words[3] == ["The old man", "the boats."]
    assert words[1] == ["The", "key", "to", "the", "cabinets", "were", "on", "the", "table."]
    assert (collected.words["rt_ms"] > 40).all()
    assert collected.answers.set_index("stimulus")["choice"].to_dict() == {1: 1, 3: 0}
    assert collected.answers.set_index("stimulus").loc[1, "question_rt_ms"] >= 200


def test_ratings_by_key_and_pointer(
    page: Page, serve: Callable[[Study], Server], tmp_path: Path
) -> None:
    study = lay_out(tmp_path, "rating", "sentence\nIt rained.\nThe sun was a stone.\n")
    page.goto(serve(study).url)
    player = Player(page)
    for name in ("consent", "instructions", "practice"):
        player.leave(name)
    player.answer("4")
    player.screen("trial")
    wait_for_drawing(page, 260)
    page.keyboard.press("9")  # no such point
    player.answer("1")
    player.leave("practice_done")
    player.screen("trial")
    check_screen(page, "rating_trial")
    player.answer("7")
    player.click(1)
    player.screen("done")
    answers = read_study_data(study).answers
    assert answers.sort_values("trial")["choice"].tolist() == [7, 2]
    assert answers.sort_values("trial")["input"].tolist() == ["key", "mouse"]


def test_custom_module_is_loaded_under_the_content_policy(
    page: Page, make_study: Callable[..., Study], serve: Callable[[Study], Server]
) -> None:
    study = make_study()
    guide = (Path(__file__).parents[2] / "docs" / "experiment.md").read_text("utf-8")
    (study.folder / "mine.js").write_text(guide.split("```js\n")[1].split("```")[0], "utf-8")
    table = "participant,group,trial,condition,word\n1,1,1,c,tree\n1,1,2,c,sun\n"
    (study.folder / "trials.csv").write_text(table, "utf-8")
    path = study.folder / "study.toml"
    text = path.read_text("utf-8")
    text = text[: text.index("[[practice]]")] + text[text.index("# Questions before") :]
    own = 'presentation = "mine.js"\ncolumns = ["word"]'
    path.write_text(text.replace('presentation = "choice"', own), "utf-8")
    study = read_study(study.folder)
    page.goto(serve(study).url)
    player = Player(page)
    player.leave("consent")
    player.leave("instructions")
    for word in ("tree", "sun"):
        page.locator("#page", has_text=word).wait_for()
        page.keyboard.press("x")
    player.screen("done")
    assert read_study_data(study).answers["word"].tolist() == ["tree", "sun"]


def test_consent_has_boxes_and_links(
    page: Page, make_study: Callable[..., Study], serve: Callable[[Study], Server]
) -> None:
    study = make_study()
    study = edit(study, "[trial]", BOXES + "\n[trial]")
    study = edit(study, 'warning = ""', 'warning = "Some sentences speak of fires."')
    page.goto(serve(study).url)
    player = Player(page)
    player.screen("consent")
    assert page.inner_text(".warning") == "Some sentences speak of fires."
    link = page.locator("a", has_text="18 years")
    assert link.get_attribute("href") == "https://example.org/why"
    assert link.get_attribute("rel") == "noreferrer noopener"
    page.locator("button.main").click()
    assert "Please tick this box" in page.inner_text("[role=alert]")
    assert page.evaluate("document.activeElement.type") == "checkbox"
    check_screen(page, "consent_boxes")
    page.keyboard.press("Space")
    page.locator("button.main").click()
    player.begin_after_consent()
    player.play(until=8)
    player.screen("done")
    responses = read_study_data(study).responses
    assert dict(zip(responses["question"], responses["response"], strict=True)) == {
        "adult": "yes",
        "contact": "no",
    }


@pytest.mark.parametrize("at_once", [True, False])
def test_static_page_ends_a_session_at_failed_checks(
    at_once: bool,
    page: Page,
    make_study: Callable[..., Study],
    host_files: Callable[[Path], FileHost],
    tmp_path: Path,
) -> None:
    study = edit(make_study(), "failed_checks_limit = 2", "failed_checks_limit = 1")
    if at_once:
        study = edit(study, "end_immediately = false", "end_immediately = true")
    study = add(study, CHECKS)
    site = tmp_path / "site"
    site.mkdir()
    host = host_files(site)
    write_static(study, site, f"{host.url}pipe", "exp1")
    shipped = (site / "bundles" / "1.json").read_text("utf-8")
    assert "attention" not in shipped
    page.goto(f"{host.url}?assignment=1")
    player = Player(page)
    player.begin()
    player.play(until=1)
    player.screen("trial")
    player.answer("6")  # the right one, which is wrong
    if not at_once:
        player.play(until=9)
    player.screen("failed_checks")
    folder = tmp_path / "files"
    folder.mkdir()
    for body in host.received:
        (folder / body["filename"]).write_text(body["data"], "utf-8")
    import_logs(study, [folder])
    session = read_study_data(study).sessions.iloc[0]
    assert session["outcome"] == "failed_checks"
    assert session["n_answered"] == (1 if at_once else 8)
    assert json.loads(shipped)["settings"]["checks"]["at_once"] is at_once


def test_presentation_from_an_installed_package(
    page: Page,
    make_study: Callable[..., Study],
    serve: Callable[[Study], Server],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    extensions = Path(__file__).parents[1] / "extensions"
    python, script = ((extensions / f"coins.{kind}").read_text("utf-8") for kind in ("py", "js"))
    entries = {"contstim.presentations": "coins = coins:Coins"}
    install(tmp_path / "site", monkeypatch, "coins", python, entries, {"coins.js": script})
    study = edit(make_study(), 'presentation = "choice"', 'presentation = "coins"')
    page.goto(serve(study).url)
    player = Player(page)
    player.leave("consent")
    player.screen("instructions")
    assert "Give more coins" in page.inner_text("main")
    player.begin_after_consent()
    player.screen("trial")
    assert page.locator("h1").inner_text().endswith("divide ten coins between the sentences?")
    assert page.locator("button.answer").all_inner_texts()[:2] == ["9 : 1", "8 : 2"]
    player.answer("8")
    while count_stored_rows(page)["waiting"]:
        wait_for_drawing(page, 50)
    choices = read_study_data(study).choices
    assert choices["choice"].tolist() == [4]
    assert choices["rating"].abs().tolist() == [2.5]
    assert choices["detail_coins_left"].tolist() == [1]
