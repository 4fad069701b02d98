"""PyTorch devices and numbers of threads."""

from __future__ import annotations

import sys
import timeit
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from contstim.errors import InputError, SpecError
from contstim.models import ModelSpec

if TYPE_CHECKING:
    import torch


def resolve_device(name: str, spec: ModelSpec | None = None) -> torch.device:
    """Return a PyTorch device by name after checking that it is available.

    Parameters
    ----------
    name
        Name of the device: ``cpu``, ``cuda``, ``cuda:1``, ``mps``.
    spec
        Specification of the model that names the device, for the error message; None if the name
        comes from elsewhere.

    Raises
    ------
    SpecError, InputError
        If the device is unknown or unavailable: `SpecError` if `spec` is set.
    """
    import torch  # Importing takes seconds.

    try:
        device = torch.device(name)
        # Read a value back. This fails on unavailable devices and on "meta", which stores no data.
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, ValueError) as error:
        advice = "is not available; write cpu, cuda, cuda:1 or mps"
        if spec is None:
            raise InputError(f"the device {name!r} {advice}") from error
        raise SpecError(f"device={name!r} in {str(spec)!r} {advice}") from error
    return device


def faster_precision(device: torch.device) -> Literal["float32", "bfloat16"]:
    """Return the precision at which the device multiplies matrices faster.

    Processors without bfloat16 units take several times as long for bfloat16 as for float32. The
    durations of a few products are measured, which takes some milliseconds.
    """
    import torch  # Importing takes seconds.

    # Multiply matrices in both precisions, and compare the shortest of six durations.
    shortest_durations = []
    for dtype in (torch.float32, torch.bfloat16):
        matrix = torch.ones(512, 512, dtype=dtype, device=device)
        # Reading a value with `item` waits until the device has finished.
        statement = "(matrix @ matrix)[0, 0].item()"
        durations = timeit.repeat(statement, repeat=6, number=1, globals={"matrix": matrix})
        shortest_durations.append(min(durations))
    float32_duration, bfloat16_duration = shortest_durations
    return "bfloat16" if bfloat16_duration < float32_duration else "float32"


@contextmanager
def limit_torch_threads(n_threads: int = 1) -> Iterator[None]:
    """Limit PyTorch, if it is loaded, to `n_threads` threads within a ``with`` block.

    The number of threads can change the last digits of scores. With one thread the results are
    the same on any number of cores, and searches with small networks are about as fast.
    """
    torch = sys.modules.get("torch")
    # If PyTorch has not been imported, do not import it, which takes seconds.
    if torch is None:
        yield
        return
    n_threads_before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads_before)
