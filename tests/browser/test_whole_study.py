"""Test a study from pilot data to the report, with participants in a browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hosts import Server
from playing import Player, open_context
from whole_study import (
    choose,
    evaluate_study,
    plan_study,
    play_until_closed,
    read_scores,
    watch_study,
)

from contstim.experiment.study import Study

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


def test_study_runs_from_pilot_to_report(
    browser: Browser, serve: Callable[[Study], Server], tmp_path: Path
) -> None:
    study = plan_study(tmp_path, "information", trials=6)
    scores, server = read_scores(tmp_path), serve(study)

    def visit() -> str:
        """Take part in an open study as the model prefers; return the last screen."""
        player = Player(open_context(browser).new_page())
        player.page.goto(server.url)
        player.leave("consent")
        if player.screen("instructions", "over") == "over":
            return "over"
        player.begin_after_consent()
        while (shown := player.screen("trial", "break", "done")) != "done":
            if shown == "break":
                player.leave("break")
                continue
            left, right = player.page.locator(".sentence").all_text_contents()
            player.answer(str(choose(scores, left, right)))
        player.page.context.close()
        return shown

    verdict = play_until_closed(study, visit)
    _, deviations = evaluate_study(tmp_path)
    assert deviations == ["None."]
    assert f"conclusion: {verdict}" in watch_study(tmp_path)
