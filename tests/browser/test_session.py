"""Test whole sessions with network, server and browser failures."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pandas as pd
import pytest
from client_messages import answer, consent
from hosts import ARGUMENTS, Server, chromium
from playing import PATIENCE_S, Player, choice_of, count_stored_rows, open_context, wait_until
from test_screens import check_screen

from contstim.cli import main
from contstim.experiment.schema import DATA_FILE
from contstim.experiment.study import Study

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = pytest.mark.browser


def rows(study: Study, kind: str = "choice") -> list[dict[str, Any]]:
    """Return the answers stored by the server in order of arrival."""
    path = f"file:{study.folder / DATA_FILE}?mode=ro"
    with closing(sqlite3.connect(path, uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        found = connection.execute(
            "SELECT * FROM answers WHERE kind = ? ORDER BY sequence", (kind,)
        ).fetchall()
    return [dict(row) for row in found]


def wait_for_rows(page: Page, study: Study, number: int) -> None:
    """Wait until the server has `number` answers and the page knows it."""
    wait_until(page, lambda: len(rows(study)) >= number)
    assert len(rows(study)) == number
    wait_until(page, lambda: count_stored_rows(page)["waiting"] == 0)


def assert_complete(study: Study, assignment: int = 1) -> None:
    """Assert that each trial was answered once, in order, by the pressed keys."""
    shown = [trial for trial in study.design.trials[assignment] if trial.kind == "choice"]
    stored = rows(study)
    assert [row["trial"] for row in stored] == [trial.id for trial in shown]
    assert [row["choice"] for row in stored] == [choice_of(trial.number) for trial in shown]
    assert len({row["answer"] for row in stored}) == len(shown)
    assert not any(row["conflict"] for row in stored)
    assert {row["input"] for row in stored} == {"key"}


def post(url: str, body: dict[str, Any], token: str = "") -> dict[str, Any]:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    with urlopen(Request(url, json.dumps(body).encode(), headers)) as reply:
        answered: dict[str, Any] = json.load(reply)
        return answered


def answer_all_trials(server: Server, study: Study) -> None:
    """Answer all trials of another participant without a browser, by sentence length."""
    begun = post(f"{server.url}api/sessions", consent(study))
    token, trials = begun["token"], begun["bundle"]["trials"]
    for start in range(0, len(trials), 50):
        answers = [
            answer(
                one["trial"], -3 if len(one["shown"]["left"]) > len(one["shown"]["right"]) else 2
            )
            for one in trials[start : start + 50]
        ]
        post(f"{server.url}api/answers", {"answers": answers}, token)
    assert post(f"{server.url}api/finish", {}, token)["complete"]


def assert_evaluable(study: Study, folder: Path, participants: int) -> None:
    """Assert that the collected data can be evaluated."""
    assert main(["experiment", "export", str(study.folder), "--out", str(folder / "data")]) == 0
    choices = pd.read_csv(folder / "data" / "choices.csv")
    assert choices.groupby("participant").size().tolist() == [165] * participants
    sentences = {*choices["sentence_1"], *choices["sentence_2"]}
    scores = pd.DataFrame(
        [(s, m, -len(s) - k * (i % 5)) for i, s in enumerate(sorted(sentences))
         for k, m in enumerate(("m1", "m2"))],
        columns=["sentence", "model", "log_prob"],
    )  # fmt: skip
    scores.to_csv(folder / "scores.csv", index=False)
    command = ["evaluate", str(folder / "data" / "choices.csv"), "--scores"]
    out = ["--out", str(folder / "results")]
    assert main([*command, str(folder / "scores.csv"), *out]) == 0
    models = pd.read_csv(folder / "results" / "models.csv")
    assert set(models["model"]) == {"m1", "m2"}
    everything = models[models["analysis"] == "all"]
    assert set(everything["n_participants"]) == {participants}
    assert everything["value"].notna().all()


def test_long_session_survives_network_and_server_failures(
    context: BrowserContext,
    make_study: Callable[..., Study],
    serve: Callable[[Study], Server],
    tmp_path: Path,
) -> None:
    study = make_study(pairs=161, break_every=55)
    assert study.design.n_trials == 165
    server = serve(study)
    player = Player(context.new_page())
    player.page.goto(server.url)
    player.begin()
    player.play(until=20)
    wait_for_rows(player.page, study, 20)

    context.set_offline(True)
    player.play(until=45)
    assert len(rows(study)) == 20
    player.page.wait_for_selector("#notice:has-text('no connection')")
    context.set_offline(False)
    wait_for_rows(player.page, study, 45)

    server.kill()
    player.play(until=70)
    server.start()
    wait_for_rows(player.page, study, 70)
    player.page.wait_for_selector("#notice:empty", state="attached")

    server.kill()
    player.play(until=80)
    player.page.close()
    assert len(rows(study)) == 70
    server.start()
    player = Player(context.new_page())
    player.page.goto(server.url)
    # What was kept is sent before anything is answered again.
    wait_for_rows(player.page, study, 80)
    player.screen("resume")
    assert "trial 81 of 165" in player.page.inner_text("main")
    player.leave("resume")
    player.play(until=155)

    context.set_offline(True)
    player.play(until=165)
    player.screen("finishing")
    context.set_offline(False)
    player.screen("done")
    assert_complete(study)
    assert len(rows(study, "practice")) == 2
    assert rows(study)[80]["shown"] in (1, 2)  # trial 81 may have been on the screen before

    # What the browser kept is gone once everything is stored.
    assert count_stored_rows(player.page)["rows"] == 0
    answer_all_trials(server, study)
    server.kill()
    assert_evaluable(study, tmp_path, participants=2)


def test_answers_survive_a_killed_browser(
    browser: Browser,
    tmp_path: Path,
    make_study: Callable[..., Study],
    serve: Callable[[Study], Server],
) -> None:
    study = make_study()
    server = serve(study)
    profile = tmp_path / "profile"

    def launch() -> BrowserContext:
        opened = browser.browser_type.launch_persistent_context(
            profile, executable_path=chromium(), args=ARGUMENTS
        )
        opened.set_default_timeout(1000 * PATIENCE_S)
        return opened

    first = launch()
    player = Player(first.pages[0])
    player.page.goto(server.url)
    player.begin()
    server.kill()
    player.play(until=3)
    # All processes of this browser, which the folder of its profile names, die at once.
    found = subprocess.run(
        ["pgrep", "-f", f"user-data-dir={profile}"], capture_output=True, text=True, check=True
    )
    with first.expect_event("close"):
        for process in found.stdout.split():
            with suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
    server.start()
    again = launch()
    player = Player(again.pages[0])
    player.page.goto(server.url)
    player.screen("resume")
    wait_for_rows(player.page, study, 3)
    player.leave("resume")
    player.play(until=8)
    player.screen("done")
    assert_complete(study)
    again.close()


def test_unsent_session_offers_the_data_for_download(
    page: Page, make_study: Callable[..., Study], serve: Callable[[Study], Server], tmp_path: Path
) -> None:
    study = make_study()
    server = serve(study)
    player = Player(page)
    page.goto(server.url)
    player.begin()
    player.play(until=6)
    wait_for_rows(page, study, 6)
    server.kill()
    player.play(until=8)
    player.screen("unsent")
    assert "that have not been sent: 2." in page.inner_text("main")
    with page.expect_download() as download:
        player.press(1)
    download.value.save_as(tmp_path / "data.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "data.jsonl").read_text("utf-8").splitlines()]
    answers = [answer for line in lines for answer in line.get("answers", [])]
    trials = {trial.page_id for trial in study.design.trials[1]}
    assert len([answer for answer in answers if answer["trial"] in trials]) == 8
    server.start()
    player.screen("done")
    assert_complete(study)


def test_session_runs_in_one_tab_at_a_time(
    context: BrowserContext, make_study: Callable[..., Study], serve: Callable[[Study], Server]
) -> None:
    study = make_study()
    server = serve(study)
    first = Player(context.new_page())
    first.page.goto(server.url)
    first.begin()
    first.play(until=2)
    second = Player(context.new_page())
    second.page.goto(server.url)
    second.screen("other_tab")
    first.page.close()
    second.leave("resume")
    second.play(until=8)
    second.screen("done")
    assert_complete(study)


def test_answers_from_two_browsers_are_both_stored(
    browser: Browser, make_study: Callable[..., Study], serve: Callable[[Study], Server]
) -> None:
    study = make_study()
    path = study.folder / "study.toml"
    path.write_text(path.read_text("utf-8") + '\n[recruiter]\nname = "x"\nparticipant = "id"\n')
    server = serve(study)
    contexts = [open_context(browser), open_context(browser)]
    players = [Player(context.new_page()) for context in contexts]
    for player in players:
        player.page.goto(f"{server.url}?id=p1")
        for name in ("consent", "instructions", "practice"):
            player.leave(name)
    players[0].answer("2")
    wait_until(players[0].page, lambda: rows(study, "practice"))
    players[1].answer("1")
    wait_until(players[1].page, lambda: any(row["conflict"] for row in rows(study, "practice")))
    practice = [row for row in rows(study, "practice") if row["trial"] == "p1"]
    assert [(row["choice"], row["conflict"]) for row in practice] == [(-2, 0), (-3, 1)]
    assert len({row["session"] for row in rows(study) + practice}) == 1
    for context in contexts:
        context.close()


def test_second_participant_on_one_computer_starts_anew(
    page: Page, make_study: Callable[..., Study], serve: Callable[[Study], Server]
) -> None:
    study = make_study()
    server = serve(study)
    player = Player(page)
    page.goto(server.url)
    player.begin()
    player.play(until=3)
    server.kill()
    player.play(until=4)
    server.start()
    page.reload()
    player.leave("resume", button=1)
    player.begin()
    player.play(until=8)
    player.screen("done")
    wait_until(page, lambda: len(rows(study)) == 12)
    stored = rows(study)
    sessions = list(dict.fromkeys(row["session"] for row in stored))
    # The answer that the first one could not send has arrived as well.
    assert sorted(len([r for r in stored if r["session"] == s]) for s in sessions) == [4, 8]
    page.reload()
    player.leave("done")
    player.screen("consent")


def test_page_works_without_browser_storage(
    page: Page, make_study: Callable[..., Study], serve: Callable[[Study], Server]
) -> None:
    page.add_init_script("Object.defineProperty(window, 'indexedDB', { value: undefined })")
    study = make_study()
    server = serve(study)
    player = Player(page)
    page.goto(server.url)
    player.begin()
    player.play(until=1)
    page.wait_for_selector("#notice:has-text('cannot keep your answers')")
    player.play(until=8)
    player.screen("done")
    assert_complete(study)


def test_loading_failure_offers_a_reload(
    browser: Browser, make_study: Callable[..., Study], serve: Callable[[Study], Server]
) -> None:
    server = serve(make_study())
    page = open_context(browser).new_page()  # whose scripts may fail
    for lost in ("common.js", "jspsych.min.js", "main.js"):
        page.route(f"**/{lost}", lambda route: route.abort())
        page.goto(server.url)
        page.wait_for_selector("#late.now")
        assert "has not loaded" in page.inner_text("main")
        if lost == "main.js":
            check_screen(page, "late")
        page.unroute(f"**/{lost}")
        page.click("#late a")
        Player(page).screen("consent")
    # A script that cannot be read, as by a browser that is too old.
    page.route("**/common.js", lambda route: route.fulfill(body="class { #x; oh no"))
    page.goto(server.url)
    page.wait_for_selector("#late.now")
    page.unroute("**/common.js")
    # The presentation, which is loaded when the page knows which it is.
    page.route("**/choice.js", lambda route: route.abort())
    page.goto(server.url)
    player = Player(page)
    player.screen("error")
    page.unroute("**/choice.js")
    page.locator("button.main").click()
    player.screen("consent")
    # A server that hangs: the style sheet says it after a while, which passes faster here.
    page.route("**/api/study", lambda route: None)
    page.goto(server.url)
    waited = page.evaluate(
        """() => {
          const late = document.getElementById("late");
          const [waits] = late.getAnimations();
          const seenAt = (time) => {
            waits.currentTime = time;
            return getComputedStyle(late).visibility;
          };
          return [seenAt(14_900), seenAt(15_100)];
        }"""
    )
    assert waited == ["hidden", "visible"]
    page.wait_for_selector("#late a")
    page.context.close()
