"""Progress of long work by tqdm: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from tqdm import tqdm

_Item = TypeVar("_Item")

_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_TICKS = 1.0
# Work that takes less is not reported, seconds.
_SILENT = 2.0
# Labels of the work that is being reported; work within it is not.
_OPEN: list[str] = []


class _Lines:
    """Standard error as a stream on which every state of a bar is a line of its own."""

    def write(self, text: str) -> None:
        if line := text.strip("\r\n "):
            print(line, file=sys.stderr)

    def flush(self) -> None:
        sys.stderr.flush()


def _bar(label: str, terminal: str, elsewhere: str, **options: Any) -> tqdm[Any]:
    """Return a bar with one of two formats, which disappears from a terminal when it is closed."""
    shown: dict[str, Any]
    if sys.stderr.isatty():
        shown = {"file": sys.stderr, "bar_format": terminal, "leave": False}
    else:
        shown = {"file": _Lines(), "bar_format": elsewhere, "leave": True}
        shown["mininterval"] = _SECONDS_BETWEEN_LINES
    # The time left is estimated from all work that was done, so that it does not jump.
    return tqdm(desc=label, smoothing=0, miniters=1, **shown, **options)


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
        Items that are left.
    total
        Number of all items, `done` included, as far as is known: more may come.
    label
        Name of the work, a few words.
    done
        Number of items that an earlier run has done.
    weights
        Relative durations of the items that are left; by default all are equal.
    """
    if _OPEN or _is_silent():
        yield from items
        return
    rest = [1.0] * (total - done) if weights is None else weights
    _OPEN.append(label)
    try:
        with _bar(
            label,
            "{desc} {percentage:3.0f}% |{bar:24}| {elapsed}, {remaining} left",
            "{desc}: {percentage:.0f}%, {elapsed}, about {remaining} left",
            total=done + sum(rest),
            initial=done,
            delay=_SILENT,
        ) as bar:
            for number, item in enumerate(items):
                yield item
                if number >= len(rest):
                    bar.total = bar.n + 1
                bar.update(rest[number] if number < len(rest) else 1)
    finally:
        _OPEN.remove(label)


@contextmanager
def show_elapsed_time(label: str, most: float | None = None) -> Iterator[None]:
    """Report on standard error how long one step has lasted, from two seconds on.

    Parameters
    ----------
    label
        Name of the step, a few words.
    most
        Time limit of the step, seconds.
    """
    if _OPEN or _is_silent():
        yield
        return
    limit = "" if most is None else f" of at most {most:.0f} s"
    started, is_over, is_terminal = time.time(), threading.Event(), sys.stderr.isatty()

    def report() -> None:
        if is_over.wait(_SILENT if is_terminal else _SECONDS_BETWEEN_LINES):
            return
        with _bar(label, "{desc}: {elapsed}" + limit, "{desc}: {elapsed}" + limit) as bar:
            bar.start_t = started
            while not is_over.wait(
                _SECONDS_BETWEEN_TICKS if is_terminal else _SECONDS_BETWEEN_LINES
            ):
                bar.refresh()

    thread = threading.Thread(target=report, daemon=True)
    _OPEN.append(label)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        _OPEN.remove(label)


def _is_silent() -> bool:
    """Return whether to report nothing: in a worker process, or as the environment says."""
    is_on = os.environ.get("CONTSTIM_PROGRESS", "on") != "off"
    return not is_on or multiprocessing.parent_process() is not None


def print_line(text: str) -> None:
    """Print to standard output, above a bar of `track` if there is one."""
    tqdm.write(text, file=sys.stdout)


class TrainingProgress:
    """Progress bar of a training run, with log lines."""

    def __init__(self, total: int, done: int, shown: bool) -> None:
        self._shown = shown
        is_bar = shown and sys.stderr.isatty()
        self._bar: tqdm[Any] = tqdm(
            total=total, initial=done, unit="step", desc="training", disable=not is_bar
        )

    def __enter__(self) -> TrainingProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def step(self, loss: float) -> None:
        """Count one step."""
        self._bar.update()
        self._bar.set_postfix(loss=f"{loss:.3f}", refresh=False)

    def log(self, line: str) -> None:
        """Report an evaluation or the like."""
        if self._shown:
            tqdm.write(line, file=sys.stderr)
