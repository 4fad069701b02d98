"""Test the trial screen: keys, pointer, text and neutral buttons."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hosts import Server
from playing import CHOICES, Player, log_notices, notice_duration, wait_for_drawing
from test_session import rows, wait_for_rows

from contstim.experiment.study import Study

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


def begin(page: Page, study: Study, serve: Callable[[Study], Server]) -> Player:
    player = Player(page)
    page.goto(serve(study).url)
    player.begin()
    player.screen("trial")
    return player


def test_keys_and_buttons_record_their_choice(
    page: Page, make_study: Callable[..., Study], serve: Callable[[Study], Server]
) -> None:
    study = make_study(pairs=10, break_every=0)
    player = begin(page, study, serve)
    for place in range(6):
        player.answer(f"Numpad{place + 1}" if place % 2 else f"Digit{place + 1}")
    for place in range(6):
        player.click(place)
    wait_for_rows(page, study, 12)
    assert [row["choice"] for row in rows(study)] == [*CHOICES, *CHOICES]
    assert [row["input"] for row in rows(study)] == ["key"] * 6 + ["mouse"] * 6


def test_too_fast_held_and_other_keys_are_ignored(
    page: Page, make_study: Callable[..., Study], serve: Callable[[Study], Server]
) -> None:
    study = make_study(minimum_rt_ms=200)
    player = begin(page, study, serve)
    page.keyboard.down("1")
    for _ in range(30):
        page.wait_for_timeout(20)
        page.keyboard.down("1")  # as a keyboard repeats a key that is held
    page.keyboard.up("1")
    # Where the machine is slow the first press was an answer, and none after it.
    page.wait_for_selector("[data-screen=trial]:not(:has(.chosen))")
    first = player.number()
    assert first is not None
    assert first <= 2
    for key in ("0", "7", "Control+1", "Alt+2", "a", "Space"):
        page.keyboard.press(key)
        assert page.locator(".chosen").count() == 0
        assert player.number() == first
    # Faster than anybody reads: a key in the frame in which the trial appears.
    page.evaluate(
        """() => new MutationObserver(() => {
          if (document.querySelector("[data-screen=trial]")) {
            dispatchEvent(new KeyboardEvent("keydown", { key: "6", code: "Digit6" }));
          }
        }).observe(document.getElementById("page"), { childList: true, subtree: true })"""
    )
    player.answer("2")
    assert player.number() == first + 1
    assert page.locator(".chosen").count() == 0
    wait_for_rows(page, study, first)
    assert min(row["rt_ms"] for row in rows(study)) >= 200


def test_buttons_do_not_change_on_hover(
    page: Page, make_study: Callable[..., Study], serve: Callable[[Study], Server]
) -> None:
    study = make_study()
    player = begin(page, study, serve)

    def looks() -> Any:
        return page.eval_on_selector_all(
            "button.answer",
            """(buttons) => buttons.map((one) => {
              const { background, color, borderColor, outline, boxShadow, opacity, transform }
                = getComputedStyle(one);
              return [background, color, borderColor, outline, boxShadow, opacity, transform];
            })""",
        )

    before = looks()
    assert len({str(look) for look in before}) == 1
    page.locator("button.answer").nth(5).hover()
    assert looks() == before
    # Nor where the pointer rests after a click, or the focus after a key.
    wait_for_drawing(page, 30)
    page.mouse.down()
    page.mouse.up()
    player.wait_for_number(2)
    assert looks() == before
    assert page.evaluate("document.activeElement.tagName") == "H1"


def test_html_in_sentences_is_shown_as_text(
    page: Page,
    make_study: Callable[..., Study],
    serve: Callable[[Study], Server],
    tmp_path: Path,
) -> None:
    study = make_study()
    hostile = "<img src=x onerror=alert(1)> & </p><script>alert(2)</script> \u202eabc"
    path = study.folder / "trials.csv"
    path.write_text(path.read_text("utf-8").replace("Number 0 stood here first.", hostile), "utf-8")
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    player = begin(page, study, serve)
    found = False
    for number in range(1, 9):
        if player.screen("trial", "break") == "break":
            player.leave("break")
            player.screen("trial")
        texts = page.locator(".sentence").all_text_contents()
        found |= hostile in texts
        player.play(until=number)
    player.screen("done")
    assert found
    assert not dialogs


def test_focus_losses_are_counted(
    page: Page, make_study: Callable[..., Study], serve: Callable[[Study], Server]
) -> None:
    study = make_study()
    player = begin(page, study, serve)
    away = page.evaluate(
        """() => new Promise((resolve) => {
          const before = performance.now();
          Object.defineProperty(document, "hidden", { value: true, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
          setTimeout(() => {
            delete document.hidden;
            document.dispatchEvent(new Event("visibilitychange"));
            resolve(performance.now() - before);
          }, 500);
        })"""
    )
    player.answer("1")
    player.answer("1")
    wait_for_rows(page, study, 2)
    first, second = rows(study)
    assert first["focus_losses"] == 1
    assert 499 <= first["hidden_ms"] <= away + 1
    assert (second["focus_losses"], second["hidden_ms"]) == (0, 0)


def test_practice_feedback_stays_readable(
    page: Page, make_study: Callable[..., Study], serve: Callable[[Study], Server]
) -> None:
    player = Player(page)
    page.goto(serve(make_study()).url)
    for name in ("consent", "instructions", "practice"):
        player.leave(name)
    player.screen("trial")
    log_notices(page)
    player.answer("Digit1")
    # It stays though the answer is acknowledged meanwhile, which changes the notice.
    assert notice_duration(page, "Your answer has been recorded.") >= 1499
