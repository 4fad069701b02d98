"""Test running studies: released assignments, extension, backup, deletion and pilots."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hosts import Server
from playing import Player, open_context
from studies import add, edit, make_trials
from test_screens import check_screen
from test_session import rows, wait_for_rows

from contstim.cli import main
from contstim.experiment.scaffold import create_study
from contstim.experiment.schema import PILOT_FILE
from contstim.experiment.study import PAGE_LANGUAGES, Study, read_study
from contstim.experiment.study_data import read_study_data
from contstim.text.languages import get_language

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Route

pytestmark = pytest.mark.browser

RECRUITER = """
[recruiter]
name = "prolific"
participant = "id"
[recruiter.codes]
complete = "C1"
"""


def open_player(browser: Browser, url: str) -> Player:
    player = Player(open_context(browser).new_page())
    player.page.goto(url)
    return player


def remove_refresh(route: Route) -> None:
    reply = route.fetch(max_retries=3)
    body, refreshes = re.subn(r'<meta http-equiv="refresh"[^>]*>', "", reply.text())
    assert refreshes == 1
    route.fulfill(response=reply, body=body)


@pytest.fixture(autouse=True)
def _closed(browser: Browser) -> object:
    yield
    for context in browser.contexts:
        context.close()


def test_released_assignment_is_reused_and_leaver_can_resume(
    browser: Browser, make_study: Callable[..., Study], serve: Callable[[Study], Server]
) -> None:
    study = make_study(participants=1)
    server = serve(study)
    leaver = open_player(browser, server.url)
    leaver.begin()
    leaver.play(until=2)
    wait_for_rows(leaver.page, study, 2)
    early = open_player(browser, server.url)
    early.leave("consent")
    early.screen("full")  # the other was there a moment ago
    server.kill()  # the lab thinks better of it, and nobody need wait ten minutes here
    edit(study, "reassign_after_minutes = 10", "reassign_after_minutes = 0.001")
    server.start()
    newcomer = open_player(browser, server.url)
    newcomer.begin()
    newcomer.play(until=8)
    newcomer.screen("done")
    leaver.play(until=8)
    leaver.screen("done")
    sessions = read_study_data(study).sessions
    assert sessions["outcome"].tolist() == ["complete", "complete"]
    assert sorted(sessions["released"]) == ["", "abandoned"]


def test_study_is_extended_during_a_session(
    browser: Browser,
    make_study: Callable[..., Study],
    serve: Callable[[Study], Server],
    tmp_path: Path,
) -> None:
    study = make_study(participants=1)
    server = serve(study)
    first = open_player(browser, server.url)
    first.begin()
    first.play(until=3)
    second = open_player(browser, server.url)
    second.leave("consent")
    second.screen("full")
    make_trials(groups=1, participants=2, pairs=4).to_csv(tmp_path / "more.csv", index=False)
    more = ["experiment", "extend", str(study.folder), "--trials", str(tmp_path / "more.csv")]
    assert main(more) == 0
    second.page.reload()
    second.begin()
    second.play(until=8)
    second.screen("done")
    first.play(until=8)
    first.screen("done")
    sessions = read_study_data(read_study(study.folder)).sessions
    assert sorted(sessions["assignment"]) == [1, 2]
    assert sessions["outcome"].tolist() == ["complete", "complete"]


def test_session_resumes_on_a_restored_backup(
    browser: Browser,
    make_study: Callable[..., Study],
    serve: Callable[[Study], Server],
    tmp_path: Path,
) -> None:
    study = add(make_study(break_every=0), RECRUITER)
    server = serve(study)
    player = open_player(browser, f"{server.url}?id=P1")
    player.begin()
    player.play(until=4)
    wait_for_rows(player.page, study, 4)
    copy = tmp_path / "copy.sqlite3"
    assert main(["experiment", "backup", str(study.folder), "--out", str(copy)]) == 0
    player.play(until=8)
    player.screen("done")
    (tmp_path / "elsewhere").mkdir()
    other = tmp_path / "elsewhere" / "study"
    shutil.copytree(study.folder, other, ignore=shutil.ignore_patterns("collected*"))
    shutil.copy(copy, other / "collected.sqlite3")
    moved = read_study(other)
    again = open_player(browser, f"{serve(moved).url}?id=P1")
    again.leave("consent")
    again.screen("trial")
    assert again.number() == 5
    again.play(until=8)
    again.screen("done")
    assert len(rows(moved)) == 8


def test_deletion_by_session_code_frees_the_assignment(
    browser: Browser, make_study: Callable[..., Study], serve: Callable[[Study], Server]
) -> None:
    study = make_study(participants=1)
    server = serve(study)
    player = open_player(browser, server.url)
    player.begin()
    player.play(until=8)
    player.screen("done")
    code = player.page.locator("p.soft").inner_text().rsplit(" ", 1)[1]
    forget = ["experiment", "forget", str(study.folder), "--participant", code, "--reason", "asked"]
    assert main(forget) == 0
    assert read_study_data(study).sessions.empty
    other = open_player(browser, server.url)
    other.leave("consent")
    other.screen("instructions")


def test_pilot_data_are_stored_separately(page: Page, make_study: Callable[..., Study]) -> None:
    study = make_study()

    class Pilot(Server):
        def command(self) -> list[str]:
            run = "import sys; from contstim.cli import main; sys.exit(main())"
            where = ["serve", str(self.study), "--port", str(self.port), "--pilot"]
            return [sys.executable, "-c", run, "experiment", *where]

    server = Pilot(study.folder)
    server.start()
    try:
        page.goto(server.url)
        player = Player(page)
        player.begin()
        player.play(until=8)
        player.screen("done")
    finally:
        server.close()
    assert not (study.folder / "collected.sqlite3").exists()
    sessions = read_study_data(study, study.folder / PILOT_FILE).sessions
    assert sessions["outcome"].tolist() == ["complete"]


@pytest.mark.parametrize("language", sorted({*PAGE_LANGUAGES} - {"en"}))
def test_page_is_shown_in_each_bundled_language(
    language: str, context: BrowserContext, serve: Callable[[Study], Server], tmp_path: Path
) -> None:
    make_trials(groups=1, participants=2, pairs=2).to_csv(tmp_path / "t.csv", index=False)
    study = create_study(tmp_path / "study", tmp_path / "t.csv", language=language)
    page = context.new_page()
    page.goto(serve(study).url)
    player = Player(page)
    player.leave("consent")
    player.screen("instructions")
    assert page.get_attribute("html", "lang") == language
    assert page.get_attribute("html", "dir") == get_language(language).direction
    assert page.inner_text("h1") == study.texts["instructions_title"]
    check_screen(page, f"instructions_{language}")
    player.leave("instructions")
    player.leave("practice")
    player.screen("trial")
    assert study.texts["trial_prompt"] in page.inner_text("h1")
    check_screen(page, f"trial_{language}")


def test_dashboard_on_narrow_and_wide_screens(
    browser: Browser,
    context: BrowserContext,
    make_study: Callable[..., Study],
    serve: Callable[[Study], Server],
) -> None:
    study = make_study(participants=1)
    server = serve(study)
    player = Player(context.new_page())
    player.page.goto(server.url)
    player.begin()
    player.play(until=2)
    wait_for_rows(player.page, study, 2)
    (token,) = re.findall(
        r"this password: (\S+)", (study.folder.parent / "server.log").read_text("utf-8")
    )
    owner = open_context(browser, http_credentials={"username": "me", "password": token})
    board = owner.new_page()
    # A live board reloads itself, which axe refuses for any page, and would while it looks.
    board.route("**/dashboard", remove_refresh)
    board.goto(f"{server.url}dashboard")
    board.wait_for_selector("table")
    assert "last answer" in board.inner_text("main").lower()
    check_screen(board, "dashboard")
    owner.close()
    player.play(until=8)
    player.screen("done")
