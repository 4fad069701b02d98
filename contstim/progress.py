"""Progress of long work: a bar with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import TracebackType
from typing import Any, TextIO, TypeVar

from tqdm import tqdm

_Item = TypeVar("_Item")

_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_TICKS = 1.0
# Work that takes less is not reported, seconds.
_SILENT = 2.0
# What is being reported; work within it is not.
_OPEN: list[str] = []
# Steps of unknown length that go on, the outermost first.
_STEPS: list[str] = []


def track(
    items: Iterable[_Item],
    total: int,
    label: str,
    done: int = 0,
    weights: Sequence[float] | None = None,
) -> Iterator[_Item]:
    """Yield `items`, reporting progress on standard error if they take more than two seconds.

    Parameters
    ----------
    items
        What is still to do.
    total
        Number of items in all, `done` included, as far as is known: more may come.
    label
        What is being done, in a few words.
    done
        How many were done before, by an earlier run.
    weights
        How long each item still to do takes, beside the others; by default all take as long.
    """
    if _OPEN or _elsewhere():  # within work that is shown as a whole
        yield from items
        return
    rest = [1.0] * (total - done) if weights is None else weights
    started = last = time.monotonic()
    bar = (
        tqdm(
            total=done + sum(rest),
            initial=done,
            desc=label,
            leave=False,
            delay=_SILENT,
            file=_line(),
            smoothing=0,  # the time left is by all that was done, so that it does not jump
            bar_format="{desc} {percentage:3.0f}% |{bar:24}| {elapsed}, {remaining} left",
        )
        if _live()
        else None
    )
    _OPEN.append(label)
    try:
        for number, item in enumerate(items, start=done + 1):
            yield item
            beyond = number > total  # more came than was known; how many are left no one knows
            if beyond:
                total, rest = number, [*rest, 1.0]
                if bar is not None:
                    bar.total = done + sum(rest)
            if bar is not None:
                bar.update(rest[number - done - 1])
                continue
            now = time.monotonic()
            at_end = number == total and not beyond and now - started >= _SILENT
            if now - last >= _SECONDS_BETWEEN_LINES or at_end:
                last = now
                left = (now - started) * sum(rest[number - done :]) / sum(rest[: number - done])
                with_total = f"{number} of {total}, about {left:.0f} s left"
                print(f"{label}: {f'{number} so far' if beyond else with_total}", file=sys.stderr)
    finally:
        _OPEN.remove(label)
        if bar is not None:
            bar.close()


@contextmanager
def waiting(label: str, most: float | None = None) -> Iterator[None]:
    """Report on standard error how long one step has gone on, from two seconds on.

    What is reported within it, or around it, is so in its place.

    Parameters
    ----------
    label
        What is being done, in a few words.
    most
        Seconds that it may take, if there is a limit.
    """
    if _elsewhere():
        yield
        return
    started, live, over = time.monotonic(), _live(), threading.Event()
    limit = "" if most is None else f" of at most {most:.0f} s"

    line = _line()

    def report() -> None:
        shown, pause = "", _SILENT if live else _SECONDS_BETWEEN_LINES
        while not over.wait(pause):
            if _OPEN or _STEPS[0] != label:
                continue
            shown = f"{label}: {time.monotonic() - started:.0f} s{limit}"
            print(f"\r{shown}" if live else shown, end="" if live else "\n", file=line, flush=True)
            pause = _SECONDS_BETWEEN_TICKS if live else _SECONDS_BETWEEN_LINES
        if shown and live:
            print(f"\r{' ' * len(shown)}\r", end="", file=line, flush=True)

    thread = threading.Thread(target=report, daemon=True)
    _STEPS.append(label)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        _STEPS.remove(label)


def _elsewhere() -> bool:
    """Return whether to be silent: in a worker, whose tasks another process shows, or as asked."""
    wanted = os.environ.get("CONTSTIM_PROGRESS", "on") != "off"
    return not wanted or multiprocessing.parent_process() is not None


def _live() -> bool:
    """Return whether a line can be written again: a terminal's or a notebook's."""
    return sys.stderr.isatty() or _in_notebook()


def _in_notebook() -> bool:
    return "ipykernel" in sys.modules


def _line() -> TextIO:
    """Return where progress is written."""
    return _NotebookLine() if _in_notebook() else sys.stderr


class _NotebookLine(io.StringIO):
    """A line of a notebook's output, for what writes a terminal's line again and takes it away.

    Notebooks set standard error on pink and keep the block when it is empty.
    """

    def __init__(self) -> None:
        super().__init__()
        self._place: Any = None

    def write(self, text: str) -> int:
        line = text.rpartition("\r")[2].strip()
        if self._place is None and line:
            display = import_module("IPython.display").display  # notebooks have it
            self._place = display({"text/plain": line}, raw=True, display_id=True)
        elif self._place is not None and text:
            # Of plain text even an empty line would stay.
            self._place.update({"text/plain": line} if line else {"text/html": ""}, raw=True)
        return len(text)


def note(text: str, *, within: bool = False) -> None:
    """Print a line on standard error; `within` work that is shown as a whole, only if asked to."""
    if not _elsewhere() and (within or not (_OPEN or _STEPS)):
        tqdm.write(text, file=sys.stderr)


def say(text: str) -> None:
    """Print to standard output, above a bar of `track` if there is one."""
    tqdm.write(text, file=sys.stdout)


class Progress:
    """Reports steps and evaluations on standard error, or nothing at all if not `shown`."""

    def __init__(self, total: int, done: int, shown: bool) -> None:
        self._shown = shown
        self._bar = (
            tqdm(total=total, initial=done, unit="step", desc="training")
            if shown and sys.stderr.isatty()
            else None
        )

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def step(self, loss: float) -> None:
        """Count one step."""
        if self._bar is not None:
            self._bar.update()
            self._bar.set_postfix(loss=f"{loss:.3f}", refresh=False)

    def say(self, line: str) -> None:
        """Report an evaluation or the like."""
        if self._bar is not None:
            self._bar.write(line, file=sys.stderr)
        elif self._shown:
            print(line, file=sys.stderr, flush=True)
