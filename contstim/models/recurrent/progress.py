"""Progress of a training: a bar on a terminal, plain lines otherwise."""

from __future__ import annotations

import sys
from types import TracebackType

from tqdm import tqdm

__all__ = ["Progress"]


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
