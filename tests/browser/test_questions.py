"""Test questions before and after the trials with the jsPsych plugins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hosts import FileHost, Server
from playing import Player, open_context
from studies import add
from test_exports import assert_importable
from test_screens import check_screen
from test_session import rows

from contstim.experiment.pages import write_static
from contstim.experiment.study import Study
from contstim.experiment.study_data import read_study_data

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

QUESTIONS = """
[[questions]]
name = "native"
prompt = "Is <b>English</b> your first language?"
kind = "choice"
options = ["yes", "no & \\"never\\""]
admit = ["yes"]

[[questions]]
name = "age"
prompt = "How old are you?"

[[questions]]
name = "task"
when = "instructions"
prompt = "What will you do?"
kind = "choice"
options = ["say how true sentences are", "say which sentence is likelier"]
correct = "say which sentence is likelier"

[[questions]]
name = "languages"
when = "after"
prompt = "What else do you speak?"
kind = "choices"
options = ["German", "Hebrew", "Chinese"]

[[questions]]
name = "comment"
when = "after"
prompt = "Anything else?"
required = false
rows = 3

[recruiter]
name = "prolific"
[recruiter.codes]
complete = "C1"
screened_out = "OUT1"
"""


def choose(page: Page, *texts: str) -> None:
    Player(page).screen("form")
    for text in texts:
        page.locator("label", has_text=text).click()
    send(page)


def write(page: Page, text: str) -> None:
    Player(page).screen("form")
    page.locator("form input[type=text], form textarea").fill(text)
    send(page)


def send(page: Page) -> None:
    """Submit the form, and wait until the browser stores the answers."""
    form = page.query_selector("form")
    assert form is not None
    page.locator(".jspsych-btn").click()
    form.wait_for_element_state("hidden")
    Player(page).screen()


def play_with_questions(page: Page, player: Player, until: int) -> None:
    player.leave("consent")
    player.screen("form")
    check_screen(page, "form")
    assert "<b>English</b>" in page.inner_text("form")  # text, not HTML
    page.locator(".jspsych-btn").click()  # nothing chosen: the page stays
    choose(page, "yes")
    player.screen("form")
    check_screen(page, "form_text")
    write(page, "42")
    player.leave("instructions")
    choose(page, "how true")
    page.wait_for_selector("#notice:has-text('That is not quite right')")
    choose(page, "likelier")
    player.leave("practice")
    player.answer("2")
    player.answer("5")
    player.leave("practice_done")
    player.play(until=until)


def test_questions_before_during_and_after_the_trials(
    page: Page, make_study: Callable[..., Study], serve: Callable[[Study], Server]
) -> None:
    study = add(make_study(), QUESTIONS)
    player = Player(page)
    page.goto(serve(study).url)
    play_with_questions(page, player, until=8)
    player.screen("form")
    check_screen(page, "form_choices")
    choose(page, "German", "Chinese")
    page.reload()  # what was answered is not asked again
    write(page, "none\nat all")
    player.screen("done")
    responses = read_study_data(study).responses
    assert dict(zip(responses["question"], responses["response"], strict=True)) == {
        "native": "yes",
        "age": "42",
        "task": "say which sentence is likelier",
        "languages": '["German", "Chinese"]',
        "comment": "none\nat all",
    }
    assert (responses["rt_ms"] > 0).all()
    assert len(rows(study)) == 8


def test_screened_out_participants_free_their_assignment(
    browser: Browser, make_study: Callable[..., Study], serve: Callable[[Study], Server]
) -> None:
    study = add(make_study(participants=1), QUESTIONS)
    server = serve(study)
    for _ in range(2):  # the one assignment is free again
        page = open_context(browser).new_page()
        page.goto(server.url)
        Player(page).leave("consent")
        choose(page, "never")
        Player(page).screen("screened_out")
        assert page.inner_text("output") == "OUT1"
        check_screen(page, "screened_out")
        page.context.close()
    assert read_study_data(study).sessions["outcome"].tolist() == ["screened_out"] * 2


def test_responses_of_a_static_page_are_imported(
    page: Page,
    make_study: Callable[..., Study],
    host_files: Callable[[Path], FileHost],
    tmp_path: Path,
) -> None:
    study = add(make_study(), QUESTIONS)
    site = tmp_path / "site"
    site.mkdir()
    host = host_files(site)
    write_static(study, site, f"{host.url}pipe", "exp1")
    player = Player(page)
    page.goto(host.url)
    play_with_questions(page, player, until=8)
    choose(page, "Hebrew")
    write(page, "")
    player.screen("done")
    folder = tmp_path / "files"
    folder.mkdir()
    for body in host.received:
        (folder / body["filename"]).write_text(body["data"], "utf-8")
    assert_importable(study, folder)
    responses = read_study_data(study).responses
    assert responses["question"].tolist() == ["native", "age", "task", "languages", "comment"]
    assert responses["response"].tolist()[3:] == ['["Hebrew"]', ""]
