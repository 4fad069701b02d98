"""Play a study in Chromium as a participant does, by keyboard."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Route

Found = TypeVar("Found")

#: When a wait is given up; no test passes or fails by how fast the machine is.
PATIENCE_S = 240

#: What the keys 1 to 6 mean.
CHOICES = (-3, -2, -1, 1, 2, 3)

_TRIAL = re.compile(r"Trial (\d+) of (\d+)")


def choice_of(number: int) -> int:
    """Return the choice of this participant in trial `number`."""
    return CHOICES[number % 6]


def shorten_send_timeout(page: Page) -> None:
    """Make a page report unsent answers after two seconds instead of twenty."""

    def change(route: Route) -> None:
        script = route.fetch(max_retries=3)  # a server may close a connection that idles
        text = script.text()
        assert "PATIENCE_MS = 20_000;" in text
        route.fulfill(
            response=script, body=text.replace("PATIENCE_MS = 20_000;", "PATIENCE_MS = 2_000;")
        )

    page.route("**/session.js", change)


def open_context(browser: Browser, **options: Any) -> BrowserContext:
    """Open a new browser profile with long timeouts."""
    opened = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    opened.set_default_timeout(1000 * PATIENCE_S)
    return opened


def wait_until(page: Page, found: Callable[[], Found]) -> Found:
    """Wait until a condition outside the page holds, and return its value."""
    end = time.monotonic() + PATIENCE_S
    while not (value := found()):
        assert time.monotonic() < end, "what the test waits for does not come"
        page.wait_for_timeout(50)
    return value


def wait_for_drawing(page: Page, milliseconds: int) -> None:
    """Wait until the drawn page has been visible for some milliseconds."""
    page.evaluate(
        "ms => new Promise((done) => requestAnimationFrame(() => setTimeout(done, ms)))",
        milliseconds,
    )


_KEPT = """() => new Promise((resolve) => {
  const open = indexedDB.open("contstim");
  open.onsuccess = () => {
    const reads = open.result.transaction(["rows", "sessions"]);
    const [rows, sessions] = ["rows", "sessions"].map((name) => reads.objectStore(name).getAll());
    reads.oncomplete = () => {
      open.result.close();
      resolve({
        rows: rows.result.length,
        waiting: rows.result.filter((r) => r.kind === "answer" && r.state === "waiting").length,
        trials: sessions.result.flatMap((one) => one.bundle?.trials ?? []).length,
      });
    };
  };
})"""


def count_stored_rows(page: Page) -> dict[str, int]:
    """Return the numbers of rows, waiting answers and trials stored in the browser."""
    found: dict[str, int] = page.evaluate(_KEPT)
    return found


def log_notices(page: Page) -> None:
    """Record when each notice appears on the page; see `notice_duration`."""
    page.evaluate(
        """() => {
          const notice = document.getElementById("notice");
          const { get, set } = Object.getOwnPropertyDescriptor(Node.prototype, "textContent");
          window.notices = [[performance.now(), notice.textContent]];
          Object.defineProperty(notice, "textContent", {
            get,
            set(text) {
              window.notices.push([performance.now(), text]);
              set.call(this, text);
            },
          });
        }"""
    )


def notice_duration(page: Page, text: str) -> float:
    """Return for how many milliseconds a notice was shown, once it is gone."""
    page.wait_for_function(
        """text => {
          const place = window.notices.findIndex(([, one]) => one.includes(text));
          return place >= 0 && place < window.notices.length - 1;
        }""",
        arg=text,
    )
    found: float = page.evaluate(
        """text => {
          const place = window.notices.findIndex(([, one]) => one.includes(text));
          return window.notices[place + 1][0] - window.notices[place][0];
        }""",
        text,
    )
    return found


class Player:
    """A participant who uses only the keyboard."""

    def __init__(self, page: Page, watch: Callable[[Page, str], None] | None = None) -> None:
        self.page = page
        self.watch = watch
        self.seen: list[str] = []

    def screen(self, *wanted: str) -> str:
        """Wait until one of the screens is shown (any by default), and return its name."""
        names = wanted or ("",)
        query = ", ".join(f"[data-screen{f'={name}' if name else ''}]" for name in names)
        found = self.page.wait_for_selector(query, state="attached")
        assert found is not None
        name = found.get_attribute("data-screen")
        assert name is not None
        if name not in self.seen:
            self.seen.append(name)
            if self.watch is not None:
                self.watch(self.page, name)
        return name

    def press(self, button: int = 0) -> None:
        """Move to a button of the screen with the Tab key and press Enter."""
        for _ in range(button + 1):
            self.page.keyboard.press("Tab")
        self.page.keyboard.press("Enter")

    def gone(self, name: str) -> None:
        self.page.wait_for_selector(f"[data-screen={name}]", state="detached")

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
        """Return the screen reader label of the current trial; None between trials."""
        label = self.page.evaluate("document.querySelector('.prompt .unseen')?.textContent ?? ''")
        return label or None

    def number(self) -> int | None:
        found = _TRIAL.match(self.label() or "")
        return int(found.group(1)) if found else None

    def wait_for_number(self, number: int) -> None:
        """Wait until the trial of a number is shown."""
        self.page.wait_for_selector(f".prompt .unseen:text('Trial {number} of ')", state="attached")

    def answer(self, key: str) -> None:
        """Press a key until it is accepted, and wait until the browser stores the answer."""
        self.give(lambda: self.page.keyboard.press(key))

    def click(self, place: int) -> None:
        """Answer as `answer` does, with the pointer."""
        self.give(lambda: self.page.locator("button.answer").nth(place).click())

    def give(self, act: Callable[[], object]) -> None:
        self.screen("trial")
        handle = self.page.query_selector("[data-screen=trial]")
        assert handle is not None
        end = time.monotonic() + PATIENCE_S
        waits = "node => node.isConnected && !node.querySelector('.chosen')"
        wait_for_drawing(self.page, 30)
        act()
        while handle.evaluate(waits):  # it was sooner than the study takes answers
            assert time.monotonic() < end, "the page takes no answer"
            wait_for_drawing(self.page, 30)
            act()
        handle.wait_for_element_state("hidden")
        # The next screen, whichever it is, comes when the answer is on the disk.
        self.page.wait_for_selector("[data-screen]", state="attached")

    def play(self, until: int) -> None:
        """Answer trials and leave breaks, up to the trial `until`."""
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
