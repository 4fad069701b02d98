"""Chromium, and studies to run in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hosts import ARGUMENTS, FileHost, Server, chromium
from playing import open_context
from studies import edit, make_trials

from contstim.experiment.scaffold import create_study
from contstim.experiment.study import Study

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Yield a new browser profile; its pages may request only the local host."""
    opened = open_context(browser)
    asked: list[str] = []
    faults: list[str] = []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("weberror", lambda error: faults.append(str(error.error)))
    yield opened
    opened.close()
    assert not faults
    assert {url for url in asked if not url.startswith("http://127.0.0.1:")} <= {"about:blank"}


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


@pytest.fixture
def make_study(tmp_path: Path) -> Callable[..., Study]:
    """Make a study of one group with two practice trials and breaks, without placeholders.

    It takes answers sooner than people can give them.
    """

    def make(
        pairs: int = 4, break_every: int = 5, participants: int = 4, minimum_rt_ms: int = 20
    ) -> Study:
        trials = tmp_path / "trials.csv"
        make_trials(groups=1, participants=participants, pairs=pairs).to_csv(trials, index=False)
        study = create_study(tmp_path / "study", trials)
        (study.folder / "consent.md").write_text("# About\n\nTaking part is voluntary.\n", "utf-8")
        study = edit(study, "minimum_rt_ms = 200", f"minimum_rt_ms = {minimum_rt_ms}")
        return edit(study, "break_every = 55", f"break_every = {break_every}")

    return make


@pytest.fixture
def serve() -> Iterator[Callable[[Study], Server]]:
    started: list[Server] = []

    def start(study: Study) -> Server:
        server = Server(study.folder)
        started.append(server)
        server.start()
        return server

    yield start
    for server in started:
        server.close()


@pytest.fixture
def host_files() -> Iterator[Callable[[Path], FileHost]]:
    started: list[FileHost] = []

    def start(folder: Path) -> FileHost:
        started.append(FileHost(folder))
        return started[-1]

    yield start
    for host in started:
        host.close()
