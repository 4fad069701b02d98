"""Choice of the precision of matrix products by a measurement."""

from __future__ import annotations

import time

import pytest
import torch

from contstim.models.devices import faster_precision


@pytest.mark.parametrize(
    ("slow", "faster"), [(torch.bfloat16, "float32"), (torch.float32, "bfloat16")]
)
def test_faster_precision_is_chosen(
    slow: torch.dtype, faster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    multiply = torch.Tensor.__matmul__

    def multiply_slowly(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        if left.dtype == slow:
            time.sleep(0.1)
        return multiply(left, right)

    monkeypatch.setattr(torch.Tensor, "__matmul__", multiply_slowly)
    assert faster_precision(torch.device("cpu")) == faster
