"""Progress bar and messages of a training."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm


class TrainingProgress:
    """Progress bar and messages on standard error during training, as a context manager.

    Parameters
    ----------
    n_steps
        Total number of training steps.
    n_done
        Number of steps completed by an earlier run.
    is_visible
        Whether to show the bar and the messages.
    """

    def __init__(self, n_steps: int, n_done: int, is_visible: bool) -> None:
        self._is_visible = is_visible
        has_bar = is_visible and sys.stderr.isatty()
        self._bar: tqdm[Any] = tqdm(
            total=n_steps, initial=n_done, unit="step", desc="training", disable=not has_bar
        )

    def __enter__(self) -> TrainingProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def step(self, loss: float) -> None:
        """Count one training step, and show its loss."""
        self._bar.update()
        self._bar.set_postfix(loss=f"{loss:.3f}", refresh=False)

    def log(self, message: str) -> None:
        """Print a message above the bar."""
        if self._is_visible:
            tqdm.write(message, file=sys.stderr)
