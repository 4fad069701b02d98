"""Batches planned for a GPU, and a dry run of the GPU benchmark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import gpu  # noqa: E402 - of the folder above

from contstim.models.hf import network  # noqa: E402


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the processor have the limits of a GPU, at a scale of 1 to 64."""
    monkeypatch.setattr(network, "_CPU_TOKENS", network._GPU_TOKENS // 64)
    monkeypatch.setattr(network, "_CPU_LOGITS", network._GPU_LOGITS // 64)


def _sentences(lengths: list[int]) -> list[str]:
    words = ["dog", "cat", "man", "house", "tree", "road", "night", "river", "bird", "boat"]
    return [
        f"{chr(97 + i % 26)}{i} " + " ".join(words[(i * 7 + k) % 10] for k in range(n - 1))
        for i, n in enumerate(lengths)
    ]


def _check_full(model: Any, counted: gpu.Counted, groups: int, row: int, reads: int) -> None:
    """Check that a pass has room for no other row, but for the last of each group of sentences."""
    places = model.network._batch_logits // model.network.n_logits
    assert max(counted.tokens) <= model.batch_tokens
    assert max(counted.places) <= places
    room = [
        tokens + row <= model.batch_tokens and read + reads <= places
        for tokens, read in zip(counted.tokens, counted.places, strict=True)
    ]
    assert len(counted.tokens) > 2 * groups
    assert sum(room) <= groups


@pytest.mark.parametrize(("metric", "each"), [("pll", 60), ("permutation", 8)])
def test_masked_batches_are_full_without_padding(on_gpu: None, metric: str, each: int) -> None:
    of = gpu.network_on(torch.device("cpu"), gpu.masked_network, gpu.TINY)
    model: Any = gpu.masked_model(of, metric)
    sentences = _sentences([4, 5, 6] * each)
    encoded = model.encode(sentences)
    plans = [model.plan(e) for e in encoded]
    with gpu.counting(of) as counted:
        model.score(sentences)
    # Each copy is computed once, without padding, and logits exist for the places read alone.
    assert sum(counted.tokens) == sum(
        len(plan.masks) * len(e.ids) for plan, e in zip(plans, encoded, strict=True)
    )
    assert sum(counted.places) == sum(len(plan.token_indices) for plan in plans)
    groups = len([*model.iter_groups(encoded, [len(plan.masks) for plan in plans])])
    row = max(len(e.ids) for e in encoded)
    _check_full(model, counted, groups, row, max(np.bincount(p.copy_indices).max() for p in plans))


def test_causal_batches_are_full(on_gpu: None) -> None:
    of = gpu.network_on(torch.device("cpu"), gpu.causal_network, gpu.TINY)
    model: Any = gpu.causal_model(of)
    sentences = _sentences([5, 6] * 100)
    encoded = model.encode(sentences)
    with gpu.counting(of) as counted:
        model.score(sentences)
    # Nothing is predicted from a last token.
    assert sum(counted.tokens) == sum(len(e.ids) - 1 for e in encoded)
    row = max(len(e.ids) for e in encoded)
    _check_full(model, counted, len([*model.iter_groups(encoded, [1] * 200)]), row, row)
    assert counted.operations(of) == 2 * (
        of.n_weights[0] * sum(counted.tokens) + of.n_weights[1] * sum(counted.places)
    )


def test_gpu_benchmark_has_a_dry_run() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu.py"), "--dry-run"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split("|")[1].strip() for line in lines if line.startswith("| ")][2:] == [
        "masked, pll",
        "masked, permutation",
        "causal, log-probability",
    ]
    assert "a guided search, masked network rejects: " in lines[-1]
