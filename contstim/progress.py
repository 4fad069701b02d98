"""Progress of long work: a bar with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

__all__ = ["track"]

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
