"""Playing a study in Chromium as a participant does, by keyboard."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

#: What the keys 1 to 6 mean.
CHOICES = (-3, -2, -1, 1, 2, 3)

_TRIAL = re.compile(r"Trial (\d+) of (\d+)")


def choice_of(number: int) -> int:
    """What this participant answers to the trial of a number."""
    return CHOICES[number % 6]


def lose_patience(page: Page) -> None:
    """Have a page say after two seconds, not after twenty, that answers do not arrive."""

    def change(route: Route) -> None:
        script = route.fetch()
        text = script.text()
        assert "PATIENCE_MS = 20_000;" in text
        route.fulfill(
            response=script, body=text.replace("PATIENCE_MS = 20_000;", "PATIENCE_MS = 2_000;")
        )

    page.route("**/session.js", change)


class Player:
    """A participant before a page, using nothing but the keyboard."""

    def __init__(self, page: Page, watch: Callable[[Page, str], None] | None = None) -> None:
        self.page = page
        self.watch = watch
        self.seen: list[str] = []

    def screen(self, *wanted: str, timeout: float = 60) -> str:
        """Wait until one of the screens is shown (any, if none is named) and return its name."""
        names = wanted or ("",)
        query = ", ".join(f"[data-screen{f'={name}' if name else ''}]" for name in names)
        found = self.page.wait_for_selector(query, timeout=timeout * 1000, state="attached")
        assert found is not None
        name = found.get_attribute("data-screen")
        assert name is not None
        if name not in self.seen:
            self.seen.append(name)
            if self.watch is not None:
                self.watch(self.page, name)
        return name

    def press(self, button: int = 0) -> None:
        """Go to a button of the screen with the Tab key and press Enter."""
        for _ in range(button + 1):
            self.page.keyboard.press("Tab")
        self.page.keyboard.press("Enter")

    def gone(self, name: str) -> None:
        self.page.wait_for_selector(f"[data-screen={name}]", state="detached", timeout=60_000)

    def leave(self, name: str, button: int = 0) -> None:
        """Wait for a screen, press one of its buttons and wait until it is gone."""
        self.screen(name)
        self.press(button)
        self.gone(name)

    def begin(self, practice: int = 2) -> None:
        """Consent, read the instructions and do the practice."""
        self.leave("consent")
        self.begin_after_consent(practice)

    def begin_after_consent(self, practice: int = 2) -> None:
        self.leave("instructions")
        if practice:
            self.leave("practice")
            for number in range(practice):
                self.answer(("2", "5")[number % 2])  # as expected, else it is shown again
            self.leave("practice_done")

    def label(self) -> str | None:
        """What screen readers say of the trial that is shown; None between trials."""
        label = self.page.evaluate("document.querySelector('.prompt .unseen')?.textContent ?? ''")
        return label or None

    def number(self) -> int | None:
        found = _TRIAL.match(self.label() or "")
        return int(found.group(1)) if found else None

    def answer(self, key: str) -> None:
        """Press a key until the trial, shown long enough, is gone."""
        self.screen("trial")
        handle = self.page.query_selector("[data-screen=trial]")
        assert handle is not None
        self.page.wait_for_timeout(50)
        end = time.monotonic() + 60
        waits = "node => node.isConnected && !node.querySelector('.chosen')"
        while True:
            self.page.keyboard.press(key)
            self.page.wait_for_timeout(20)
            if not handle.evaluate(waits):
                handle.wait_for_element_state("hidden")
                return
            # It was too soon, or the first frame came late on a slow machine.
            assert time.monotonic() < end, "the page takes no answer"

    def play(self, until: int) -> None:
        """Answer trials, with breaks, up to that of a number."""
        while True:
            if self.screen("trial", "break") == "break":
                self.leave("break")
                continue
            number = self.number()
            if number is None or number > until:
                return
            self.answer(str(number % 6 + 1))
            if number == until:
                return
