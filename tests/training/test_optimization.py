"""Learning rates, gradient steps and the best checkpoint."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from contstim.training.optimization import BestCheckpoint, gradient_step, linear_schedule


def test_linear_schedule_has_warm_up_and_decay() -> None:
    rates = [linear_schedule(step, 10, 0.2) for step in range(10)]
    assert rates == pytest.approx([1 / 2, 1, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8])
    assert linear_schedule(0, 1, 0.1) == 1.0


def test_gradient_step_clips_the_gradient() -> None:
    weights = [torch.tensor([1.0, 2.0], requires_grad=True), torch.zeros(1, requires_grad=True)]
    optimiser = torch.optim.SGD(weights, lr=7.0)
    slopes = [torch.tensor([3.0, 0.0]), torch.tensor([4.0])]  # together of norm 5
    for clip, share in ((10.0, 1.0), (1.0, 0.2)):
        before = [weight.detach().clone() for weight in weights]
        loss = sum((w * s).sum() for w, s in zip(weights, slopes, strict=True))
        assert gradient_step(optimiser, weights, loss, 0.1, clip) == loss.item()
        for weight, start, slope in zip(weights, before, slopes, strict=True):
            np.testing.assert_allclose(weight.detach(), start - 0.1 * share * slope, rtol=1e-6)
            assert weight.grad is None


def test_best_checkpoint_copies_weights_of_lowest_perplexity() -> None:
    best, weights = BestCheckpoint(), {"w": torch.zeros(2)}
    taken = []
    for value in (5.0, math.nan, 5.0, 4.0, 6.0):
        weights["w"] += 1
        taken.append(best.update(value, weights))
    assert taken == [True, False, False, True, False]
    assert (best.perplexity, best.n_stale, best.weights["w"].tolist()) == (4.0, 1, [4.0, 4.0])
