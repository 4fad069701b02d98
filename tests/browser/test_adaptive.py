"""Test adaptive studies in a browser that loses its connection."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from adaptive_studies import PLAN, make_adaptive
from hosts import Server
from playing import Player, choice_of, count_stored_rows, open_context, wait_until
from studies import add

from contstim.adaptive.policies import PolicyOptions
from contstim.experiment.maintenance import close_study
from contstim.experiment.schema import DATA_FILE
from contstim.experiment.study import Study, read_study
from contstim.experiment.study_data import read_study_data

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = pytest.mark.browser


def stored(study: Study, table: str, where: str = "") -> list[dict[str, Any]]:
    path = f"file:{study.folder / DATA_FILE}?mode=ro"
    with closing(sqlite3.connect(path, uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        rows = connection.execute(f"SELECT * FROM {table} {where}").fetchall()
    return [dict(row) for row in rows]


def wait_for(page: Page, study: Study, table: str, number: int) -> None:
    where = "WHERE kind = 'choice'" if table == "answers" else ""
    wait_until(page, lambda: len(stored(study, table, where)) >= number)
    assert len(stored(study, table, where)) == number


def test_two_blocks_are_answered_offline_without_loss(
    context: BrowserContext, serve: Callable[[Study], Server], tmp_path: Path
) -> None:
    plan = replace(PLAN, trial_selection=PolicyOptions(block_size=4), trials=20, anchors=2)
    made = make_adaptive(tmp_path, plan, catch=2)
    (made.folder / "consent.md").write_text("# About\n\nTaking part is voluntary.\n", "utf-8")
    study = read_study(made.folder)
    server = serve(study)
    player = Player(context.new_page())
    page = player.page
    page.goto(server.url)
    player.begin()
    wait_for(page, study, "blocks", 2)  # the page has the next block before it needs it
    player.play(until=2)
    wait_for(page, study, "answers", 2)
    n = first_placeholder_after(study, 2)
    wait_until(page, lambda: count_stored_rows(page)["trials"] >= n)

    context.set_offline(True)
    player.play(until=n)
    player.screen("loading")
    page.wait_for_selector("#notice:has-text('no connection')")
    assert len(stored(study, "blocks")) == 2
    assert len(stored(study, "answers", "WHERE kind = 'choice'")) == 2
    context.set_offline(False)
    player.play(until=n + 1)
    wait_for(page, study, "answers", n + 1)
    wait_for(page, study, "blocks", 4)
    wait_until(page, lambda: count_stored_rows(page)["trials"] >= first_placeholder_after(study, 4))

    # The server dies with two blocks in the page's hands, and so does the tab.
    server.kill()
    player.play(until=n + 3)
    page.close()
    server.start()
    player = Player(context.new_page())
    player.page.goto(server.url)
    wait_for(player.page, study, "answers", n + 3)
    player.screen("resume")
    assert f"trial {n + 4} of 24" in player.page.inner_text("main")
    player.leave("resume")
    player.play(until=24)
    player.screen("done")

    blocks = stored(study, "blocks", "ORDER BY number")
    pairs = [one[0] for block in blocks for one in json.loads(block["trials"])]
    assert len(blocks) == 5
    assert len(set(pairs)) == len(pairs) == 20
    answers = stored(study, "answers", "WHERE kind = 'choice' ORDER BY sequence")
    assert [row["choice"] for row in answers] == [choice_of(k) for k in range(1, 25)]
    assert not any(row["conflict"] for row in answers)
    choices = read_study_data(study).choices
    own = choices[choices["condition"] == "adaptive"]
    assert (own["item"] - 1).tolist() == pairs
    assert own["block"].tolist() == [k for k in range(5) for _ in range(4)]


def test_closed_study_rejects_newcomers_but_finishes_sessions(
    browser: Browser, serve: Callable[[Study], Server], tmp_path: Path
) -> None:
    stopping = replace(PLAN.stopping, margin=10.0)  # models are equivalent after one participant
    plan = replace(
        PLAN, trial_selection=PolicyOptions(block_size=4), trials=4, anchors=1, stopping=stopping
    )
    plan = replace(plan, auto_close=True)
    made = make_adaptive(tmp_path, plan, catch=1)
    (made.folder / "consent.md").write_text("# About\n\nTaking part is voluntary.\n", "utf-8")
    recruiter = """
[recruiter]
name = "prolific"
participant = "PROLIFIC_PID"
redirect = "https://recruiter.example/back?cc={code}"
[recruiter.codes]
complete = "DONE"
full = "OVER"
"""
    study = add(made, recruiter)
    server = serve(study)

    def visit(name: str) -> Player:
        player = Player(open_context(browser).new_page())
        player.page.goto(f"{server.url}?PROLIFIC_PID={name}")
        return player

    sitting, first = visit("sits"), visit("first")
    sitting.begin()
    first.begin()
    first.play(until=6)
    first.screen("done")
    wait_until(first.page, lambda: stored(study, "allocations", "WHERE action = 'closed'"))
    server.kill()
    server.start()  # it is written down
    late = visit("late")
    late.leave("consent")
    late.screen("over")
    assert "The study is over" in late.page.inner_text("main")
    assert late.page.inner_text("output") == "OVER"
    assert late.page.get_attribute("a.button", "href") == "https://recruiter.example/back?cc=OVER"
    sitting.play(until=6)
    sitting.screen("done")
    assert sitting.page.inner_text("output") == "DONE"
    assert [row["outcome"] for row in stored(study, "sessions")] == ["complete"] * 2

    close_study(study, "a new wave", closed=False)
    again = visit("late")
    again.leave("consent")
    again.screen("instructions")


def first_placeholder_after(study: Study, blocks: int) -> int:
    """Return the number of the last trial before the placeholder that follows `blocks` blocks."""
    left = 4 * blocks
    for trial in study.design.trials[1]:
        if trial.is_placeholder:
            left -= 1
            if left < 0:
                return trial.number - 1
    raise AssertionError("there are not so many blocks")
