"""Test layouts, practice, supported devices, time limits and other scales."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from hosts import Server
from playing import Player, log_notices, notice_duration, open_context, wait_until
from studies import ATTENTION, add, edit
from test_screens import check_screen
from test_session import rows, wait_for_rows

from contstim.experiment.schema import DATA_FILE
from contstim.experiment.study import Study
from contstim.experiment.study_data import read_study_data

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

BUTTONS = """(buttons) => buttons.map((one) => {
  const { x, y } = one.getBoundingClientRect();
  return [Number(one.dataset.choice), Number(one.dataset.key), Math.round(x), Math.round(y),
          one.getAttribute("aria-label")];
})"""


def buttons(page: Page) -> list[list[Any]]:
    """Return choice, key, x, y and screen reader label of each button of the trial."""
    found: list[list[Any]] = page.eval_on_selector_all("[data-screen=trial] .answer", BUTTONS)
    return found


def events(study: Study, kind: str) -> list[dict[str, Any]]:
    path = f"file:{study.folder / DATA_FILE}?mode=ro"
    with closing(sqlite3.connect(path, uri=True)) as connection:
        found = connection.execute("SELECT detail FROM events WHERE kind = ?", (kind,)).fetchall()
    return [json.loads(detail) for (detail,) in found]


def resize(page: Page, study: Study, width: int, height: int) -> None:
    """Resize the window, and wait until the study has recorded the new size."""
    page.set_viewport_size({"width": width, "height": height})
    wait_until(page, lambda: events(study, "environment")[-1]["viewport"] == [width, height])


def start_practice(page: Page, server: Server) -> Player:
    player = Player(page)
    page.goto(server.url)
    for name in ("consent", "instructions", "practice"):
        player.leave(name)
    player.screen("trial")
    return player


def test_stacked_layout_keeps_the_scale_order(
    page: Page, make_study: Callable[..., Study], serve: Callable[[Study], Server]
) -> None:
    study = make_study()
    page.set_viewport_size({"width": 390, "height": 844})
    player = Player(page)
    page.goto(serve(study).url)
    player.leave("consent")
    player.screen("instructions")
    # The picture of the scale is as the trials will be, also when the window is turned.
    wait_until(page, lambda: events(study, "environment"))
    for width, height, first in ((390, 800, -1), (1280, 800, -3), (390, 844, -1)):
        resize(page, study, width, height)
        page.wait_for_selector(f".picture [data-key='1'][data-choice='{first}']")
    player.leave("instructions")
    player.leave("practice")
    player.screen("trial")
    found = buttons(page)
    assert [one[0] for one in found] == [-1, -2, -3, 1, 2, 3]
    assert [one[1] for one in found] == [1, 2, 3, 4, 5, 6]
    # Read from left to right, the two rows mean the same.
    assert [one[2] for one in found[:3]] == [one[2] for one in found[3:]]
    assert found[0][3] < found[3][3]
    assert found[0][4] == "Upper sentence, guess"
    assert found[5][4] == "Lower sentence, certain"
    # The layout may change while a trial is shown.
    resize(page, study, 1280, 800)
    page.wait_for_selector("[data-key='1'][data-choice='-3']")
    found = buttons(page)
    assert [one[0] for one in found] == [-3, -2, -1, 1, 2, 3]
    assert sorted(one[2] for one in found) == [one[2] for one in found]
    assert len({one[3] for one in found}) == 1
    assert found[0][4] == "Left sentence, certain"
    resize(page, study, 390, 844)
    page.wait_for_selector("[data-key='1'][data-choice='-1']")
    player.answer("3")
    player.answer("6")
    player.leave("practice_done")
    player.answer("1")
    wait_for_rows(page, study, 1)
    assert [row["choice"] for row in rows(study, "practice") + rows(study)] == [-3, 3, -1]
    layouts = [one["layout"] for one in events(study, "environment")]
    assert layouts == ["stacked", "stacked", *["side by side", "stacked"] * 2]
    told = events(study, "environment")[0]
    assert told["viewport"] == [390, 844]
    assert {"browser", "languages", "time_zone", "screen", "pixel_ratio", "touch"} < told.keys()


def test_practice_repeats_until_correct_with_readable_feedback(
    page: Page, make_study: Callable[..., Study], serve: Callable[[Study], Server]
) -> None:
    study = make_study()
    player = start_practice(page, serve(study))
    assert page.locator(".tag").inner_text() == "Practice"
    sentences = page.locator(".sentence").all_text_contents()
    log_notices(page)
    player.answer("6")
    player.screen("trial")
    assert notice_duration(page, "clearly more likely") >= 2500
    assert page.locator(".sentence").all_text_contents() == sentences
    player.answer("1")
    player.screen("trial")
    assert page.locator(".sentence").all_text_contents() != sentences
    player.answer("6")
    player.leave("practice_done")
    player.answer("1")
    wait_for_rows(page, study, 1)
    practice = rows(study, "practice")
    assert [(row["trial"], row["choice"], row["shown"]) for row in practice] == [
        ("p1", -3, 2),
        ("p2", 3, 1),
    ]


def test_only_the_chosen_button_is_marked(
    page: Page, make_study: Callable[..., Study], serve: Callable[[Study], Server]
) -> None:
    player = start_practice(page, serve(make_study()))
    page.evaluate(
        """() => {
          window.marked = [];
          new MutationObserver((changes) => {
            const found = changes.filter((one) => one.attributeName === "class")
              .map((one) => one.target.dataset.choice);
            window.marked.push(...found);
          }).observe(document.body, { attributes: true, subtree: true });
        }"""
    )
    player.answer("2")
    player.answer("5")
    assert page.evaluate("window.marked") == ["-2", "2"]
    player.screen("practice_done")
    assert page.locator(".chosen").count() == 0


def test_forced_choice_has_two_buttons_at_the_scale_ends(
    page: Page, make_study: Callable[..., Study], serve: Callable[[Study], Server]
) -> None:
    study = edit(make_study(), "levels = 3", "levels = 1")
    player = start_practice(page, serve(study))
    assert [one[4] for one in buttons(page)] == [
        "Left sentence, This one",
        "Right sentence, This one",
    ]
    assert "Keys 1 to 2" in page.inner_text("main")
    player.answer("1")
    player.answer("2")
    player.leave("practice_done")
    for number in range(1, 9):
        if player.screen("trial", "break") == "break":
            player.leave("break")
        page.keyboard.press("3")  # no key of this study
        player.answer(str(number % 2 + 1))
    player.screen("done")
    choices = read_study_data(study).choices
    assert choices["choice"].tolist() == [1, -1] * 4
    assert set(choices["rating"]) == {-2.5, 2.5}
    assert isinstance(choices, pd.DataFrame)


@pytest.mark.parametrize(
    ("setting", "width", "touch", "admitted"),
    [
        ("minimum_width = 600", 390, False, False),
        ("minimum_width = 600", 800, False, True),
        ('touch = "refuse"', 800, True, False),
        ('touch = "refuse"', 800, False, True),
    ],
)
def test_unsupported_devices_are_rejected_before_consent(
    browser: Browser,
    make_study: Callable[..., Study],
    serve: Callable[[Study], Server],
    setting: str,
    width: int,
    touch: bool,
    admitted: bool,
) -> None:
    study = make_study()
    name = setting.split()[0]
    old = {"minimum_width": "minimum_width = 0", "touch": 'touch = "allow"'}[name]
    server = serve(edit(study, old, setting))
    size = {"width": width, "height": 800}
    context = open_context(browser, viewport=size, has_touch=touch, is_mobile=touch)
    page = context.new_page()
    page.goto(server.url)
    Player(page, check_screen).screen("consent" if admitted else "device")
    context.close()


def test_time_limit_is_announced_and_ends_the_trials(
    page: Page, make_study: Callable[..., Study], serve: Callable[[Study], Server]
) -> None:
    study = edit(make_study(break_every=2), "time_limit_minutes = 0", "time_limit_minutes = 60")
    player = Player(page)
    page.clock.install()
    page.goto(serve(study).url)
    player.leave("consent")
    player.screen("instructions")
    assert "You have 60 minutes for the whole study" in page.inner_text("main")
    player.leave("instructions")
    player.leave("practice")
    player.answer("2")
    player.answer("5")
    player.leave("practice_done")
    player.play(until=2)
    player.screen("break")
    # Some minutes may have passed, on a slow machine.
    assert re.search(
        r"The clock is still running: about [56]\d minutes are left\.", page.inner_text("main")
    )
    player.leave("break")
    page.clock.fast_forward("55:01")
    page.wait_for_selector("#notice:text-matches('^About [1-5] minutes are left.$')")
    player.screen("trial")
    # An hour ago, for the server's clock as well.
    with closing(sqlite3.connect(study.folder / DATA_FILE, timeout=60)) as connection, connection:
        connection.execute("UPDATE sessions SET started_at = started_at - 3600")
    page.clock.fast_forward("06:00")
    player.screen("time_limit")
    assert len(rows(study)) == 2
    check_screen(page, "time_limit")


def test_failed_checks_can_end_the_session_immediately(
    page: Page, make_study: Callable[..., Study], serve: Callable[[Study], Server]
) -> None:
    study = edit(add(make_study(), ATTENTION), "end_immediately = false", "end_immediately = true")
    player = Player(page)
    page.goto(serve(study).url)
    player.begin()
    for _ in range(4):  # the first and the fourth are checks, the second of them wants the left
        player.screen("trial")
        player.answer("1" if page.locator(".sentence").first.inner_text() == "Not this." else "6")
    player.screen("failed_checks")
    check_screen(page, "failed_checks")
    assert len(rows(study)) == 2
    assert len(rows(study, "attention")) == 2
