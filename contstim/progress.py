"""Progress of long tasks: a bar on a terminal, plain lines otherwise. Both are drawn by tqdm."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from tqdm import tqdm

_Item = TypeVar("_Item")

_SECONDS_BETWEEN_LINES = 30.0
# Seconds before the progress of a task is reported.
_SILENT_SECONDS = 2.0
# Labels of the tasks that are being reported. Tasks within these tasks are not reported.
_ACTIVE: list[str] = []


class _LineStream:
    """Stream that writes each state of a progress bar as one line on standard error."""

    def __init__(self) -> None:
        self._last_line = ""

    def write(self, text: str) -> None:
        # A bar repeats its last state when it is closed.
        if (line := text.strip("\r\n ")) and line != self._last_line:
            print(line, file=sys.stderr)
            self._last_line = line

    def flush(self) -> None:
        sys.stderr.flush()


def _create_bar(label: str, terminal_format: str, line_format: str, **options: Any) -> tqdm[Any]:
    """Create a progress bar on standard error.

    On a terminal, the bar disappears when it is closed. Otherwise, for example in a log file, a
    line is printed at most every 30 seconds.

    Parameters
    ----------
    label
        Name of the task.
    terminal_format, line_format
        Formats of the bar on a terminal and of a line elsewhere, in the syntax of `tqdm`.
    **options
        Further arguments of `tqdm`.
    """
    if sys.stderr.isatty():
        options |= {"file": sys.stderr, "bar_format": terminal_format, "leave": False}
    # Without a terminal, for example in a log file, print a line from time to time.
    else:
        options |= {"file": _LineStream(), "bar_format": line_format, "leave": True}
        options["mininterval"] = _SECONDS_BETWEEN_LINES
    # Without smoothing, the remaining time is estimated from all completed items.
    return tqdm(desc=label, smoothing=0, miniters=1, **options)


def track(
    items: Iterable[_Item],
    total: int,
    label: str,
    n_done: int = 0,
    weights: Sequence[float] | None = None,
    may_end_early: bool = False,
) -> Iterator[_Item]:
    """Yield items, and report the progress of the loop on standard error after two seconds.

    Parameters
    ----------
    items
        Remaining items.
    total
        Expected number of all items, including the completed ones.
    label
        Name of the task, a few words.
    n_done
        Number of items completed by an earlier run.
    weights
        Relative durations of the remaining items; equal by default.
    may_end_early
        Whether there may be fewer items than `total`. The remaining time is then reported as a
        maximum.

    Yields
    ------
    object
        The items, in order.
    """
    is_disabled = os.environ.get("CONTSTIM_PROGRESS", "on") == "off"
    # Worker processes show no progress, and of nested loops only the outermost one has a bar.
    if _ACTIVE or is_disabled or multiprocessing.parent_process() is not None:
        yield from items
        return
    # Weights are the relative durations of the items.
    weights = [1.0] * (total - n_done) if weights is None else weights
    bound = "at most" if may_end_early else "about"
    _ACTIVE.append(label)
    try:
        with _create_bar(
            label,
            f"{{desc}} {{percentage:3.0f}}% |{{bar:24}}| {{elapsed}}, {bound} {{remaining}} left",
            f"{{desc}}: {{percentage:.0f}}%, {{elapsed}}, {bound} {{remaining}} left",
            total=n_done + sum(weights),
            initial=n_done,
            delay=_SILENT_SECONDS,
        ) as bar:
            for number, item in enumerate(items):
                yield item
                if number >= len(weights):  # more items than expected
                    bar.total = bar.n + 1
                bar.update(weights[number] if number < len(weights) else 1)
            bar.total = bar.n  # less than expected if the items ended early
    finally:
        _ACTIVE.remove(label)


def print_line(text: str) -> None:
    """Print a text on standard output, above the progress bar if there is one."""
    tqdm.write(text, file=sys.stdout)
