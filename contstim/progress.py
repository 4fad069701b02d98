"""Progress of long work: a bar with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TypeVar

from tqdm import tqdm

_Item = TypeVar("_Item")

_SECONDS_BETWEEN_LINES = 10.0


def track(items: Iterable[_Item], total: int, label: str, done: int = 0) -> Iterator[_Item]:
    """Yield `items`, reporting progress on standard error.

    Parameters
    ----------
    items
        What is still to do.
    total
        Number of items in all, `done` included.
    label
        What is being done, in a few words.
    done
        How many were done before, by an earlier run.
    """
    if sys.stderr.isatty():
        yield from tqdm(items, total=total, initial=done, desc=label, unit="", leave=False)
        return
    started = last = time.monotonic()
    for number, item in enumerate(items, start=done + 1):
        yield item
        now = time.monotonic()
        if now - last >= _SECONDS_BETWEEN_LINES or number == total:
            last = now
            left = (now - started) / (number - done) * (total - number)
            print(f"{label}: {number} of {total}, about {left:.0f} s left", file=sys.stderr)


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


_MOST_REPEATS = 10_000  # of a text in a pass
_MOST_WEIGHTS = 10**9  # of a network: 16 GB in training
