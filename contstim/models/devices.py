"""Where, and on how many threads, PyTorch computes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from contstim.errors import InputError, SpecError
from contstim.models import ModelSpec

if TYPE_CHECKING:
    import torch


def resolve_device(name: str, spec: ModelSpec | None = None) -> torch.device:
    """Return the device that PyTorch calls `name`, if it can be used here.

    Raises
    ------
    SpecError, InputError
        If it is misspelt or not to be had; `spec` is where it stands.
    """
    import torch  # takes seconds

    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # the device "meta" holds no numbers
    # PyTorch says with any of these that it knows no such device or has none.
    except (RuntimeError, AssertionError, ValueError) as error:
        what = "cannot be used here; write cpu, cuda, cuda:1 or mps"
        if spec is None:
            raise InputError(f"the device {name!r} {what}") from error
        raise SpecError(f"device={name!r} in {str(spec)!r} {what}") from error
    return device


@contextmanager
def limit_torch_threads(number: int = 1) -> Iterator[None]:
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
