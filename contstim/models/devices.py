"""Where PyTorch may compute."""

from __future__ import annotations

import torch

from contstim.errors import InputError, SpecError
from contstim.models.spec import ModelSpec

__all__ = ["torch_device"]


def torch_device(name: str, spec: ModelSpec | None = None) -> torch.device:
    """Return the device that PyTorch calls `name`, if it can be used here.

    Raises
    ------
    SpecError, InputError
        If it is misspelt or not to be had; `spec` is where it stands.
    """
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
