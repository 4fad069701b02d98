"""How many threads PyTorch computes on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["torch_threads"]


@contextmanager
def torch_threads(number: int = 1) -> Iterator[None]:
    """Let PyTorch, if it is in use, compute on `number` threads.

    The number of threads may change the last digits of a network's scores; with one everywhere,
    the same work gives the same bytes on any number of cores, and small networks are searched with
    as fast as with more, or faster.
    """
    torch = sys.modules.get("torch")
    before = None if torch is None else torch.get_num_threads()
    if torch is not None:
        torch.set_num_threads(number)
    try:
        yield
    finally:
        if torch is not None:
            torch.set_num_threads(before)
