"""Test that every screen is accessible and fits narrow and wide windows in both directions."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hosts import FileHost, Server
from playing import Player, open_context, shorten_send_timeout, wait_for_drawing, wait_until

from contstim.experiment.pages import write_static
from contstim.experiment.study import Study, read_study

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Route

pytestmark = pytest.mark.browser

AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
#: Sizes of the pictures: a phone, a laptop, a desk.
PICTURES = ((390, 844), (1280, 800), (1920, 1080))

#: Our pages have no frames, and no style sheets or media of other hosts to load first.
AXE_RUN = "axe.run({ preload: false, iframes: false, resultTypes: ['violations'] })"

HEBREW = """
trial_prompt = "איזה משפט סביר יותר?"
trial_label = "Trial {number} of {total}"
confidence_1 = "ניחוש"
confidence_2 = "די בטוח"
confidence_3 = "בטוח"
instructions_title = "מה עליך לעשות"
instructions_text = "בכל שלב יוצגו שני משפטים זה לצד זה. יש לבחור במשפט הסביר יותר."
instructions_keys = "אפשר להשתמש גם במקשים 1 עד 6."
continue_button = "המשך"
"""
RECRUITER = """
[recruiter]
name = "prolific"
participant = "id"
required = true
redirect = "https://recruiter.example/back?cc={code}"
[recruiter.codes]
complete = "C0MPLETE"
declined = "N0"
full = "FULL"
unsent = "LATER"
"""


def check_screen(page: Page, name: str) -> None:
    """Check the current screen at both widths; save pictures if SCREENSHOTS names a folder."""
    if kept := os.environ.get("SCREENSHOTS"):
        direction = page.evaluate("document.documentElement.dir")
        for width, height in PICTURES:
            page.set_viewport_size({"width": width, "height": height})
            page.wait_for_timeout(400)  # sentences appear after a moment
            page.screenshot(path=Path(kept) / f"{name}-{width}-{direction}.png")
    for width, height in ((320, 640), (1280, 800)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function("width => matchMedia(`(width: ${width}px)`).matches", arg=width)
        wait_for_drawing(page, 0)  # what depends on the layout is drawn anew
        assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
        sides = page.locator(".sentence")
        if sides.count() == 2:
            for side in sides.all():
                side.wait_for()  # the screen is there before its sentences are seen
            left, right = (sides.nth(place).bounding_box() for place in (0, 1))
            assert left is not None
            assert right is not None
            # Left is left in both directions of writing; on narrow screens it is above.
            assert left["x"] < right["x"] if width > 640 else left["y"] < right["y"]
        if not page.evaluate("'axe' in window"):  # it is long, and the page keeps it
            page.evaluate(f"(() => {{ {AXE.read_text('utf-8')} }})()")
        found: dict[str, Any] = page.evaluate(AXE_RUN)
        serious = [
            (fault["id"], fault["nodes"][0]["html"], fault["help"])
            for fault in found["violations"]
            if fault["impact"] in ("serious", "critical")
        ]
        assert not serious, (name, width, serious)


def add(study: Study, text: str) -> Study:
    path = study.folder / "study.toml"
    path.write_text(path.read_text("utf-8") + text, "utf-8")
    return read_study(study.folder)


@pytest.mark.parametrize("direction", ["ltr", "rtl"])
def test_session_screens_are_accessible(
    direction: str,
    context: BrowserContext,
    make_study: Callable[..., Study],
    serve: Callable[[Study], Server],
) -> None:
    study = add(make_study(break_every=3), RECRUITER.replace("required = true", ""))
    if direction == "rtl":
        path = study.folder / "study.toml"
        text = path.read_text("utf-8").replace('direction = "ltr"', 'direction = "rtl"')
        path.write_text(text.replace('language = "en"', 'language = "he"'), "utf-8")
        (study.folder / "texts.toml").write_text(HEBREW, "utf-8")
        trials = study.folder / "trials.csv"
        table = trials.read_text("utf-8").replace("stood here first.", "עמד כאן לפני כולם.")
        trials.write_text(table.replace("came there last.", "הגיע לשם אחרי כולם."), "utf-8")
        study = read_study(study.folder)
    server = serve(study)
    player = Player(context.new_page(), check_screen)
    shorten_send_timeout(player.page)
    player.page.goto(server.url)
    assert player.page.get_attribute("html", "dir") == direction
    player.begin()
    player.play(until=1)
    player.screen("trial")
    check_screen(player.page, "trial_with_progress")
    other = Player(context.new_page(), check_screen)
    other.page.goto(server.url)
    other.screen("other_tab")
    other.page.close()
    player.page.reload()
    player.leave("resume")
    player.play(until=7)
    server.kill()
    player.play(until=8)
    player.screen("unsent")
    assert player.page.inner_text("output") == "LATER"
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    player.page.route("**/api/finish", hold)
    server.start()
    wait_until(player.page, lambda: held)
    player.screen("finishing")  # as long as the server does not say that all is well
    player.page.unroute("**/api/finish")
    for route in held:
        route.abort()
    player.screen("done")
    wanted = {"consent", "instructions", "practice", "trial", "practice_done", "resume"}
    assert {*player.seen} == wanted | {"break", "finishing", "unsent", "done"}


def test_final_screens_are_accessible(
    browser: Browser,
    make_study: Callable[..., Study],
    serve: Callable[[Study], Server],
    host_files: Callable[[Path], FileHost],
    tmp_path: Path,
) -> None:
    study = add(make_study(participants=1), RECRUITER)
    server = serve(study)

    def visit(query: str) -> Player:
        player = Player(open_context(browser).new_page(), check_screen)
        player.page.goto(f"{server.url}{query}")
        return player

    visit("").screen("participant_missing")
    visit("?id={{%25PROLIFIC_PID%25}}").screen("participant_missing")
    player = visit("?id=p1")
    player.leave("consent", button=1)
    player.screen("declined")
    first = visit("?id=p1")
    first.begin()
    second = visit("?id=p2")
    second.leave("consent")
    second.screen("full")
    first.play(until=8)
    first.screen("done")
    again = visit("?id=p1")
    again.leave("consent")
    again.screen("already_complete")

    # The consent form changed while it was read: the answer would be to another text.
    late = visit("?id=p3")
    late.screen("consent")
    server.kill()
    (study.folder / "consent.md").write_text("Another text.", "utf-8")
    server.start()
    late.leave("consent")
    late.screen("error")

    host = host_files(write_static(study, tmp_path / "site"))
    saving = Player(open_context(browser).new_page(), check_screen)
    saving.page.goto(f"{host.url}?id=p1")
    saving.begin()
    saving.play(until=8)
    saving.screen("save")
    with saving.page.expect_download():
        saving.press()
    saving.screen("done")
    for context in browser.contexts:
        context.close()
