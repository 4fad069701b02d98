"""Sampled sentences satisfy all constraints on fresh scores.

Tests `contstim.synthesis.sample`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from contstim import load_model, synthesize
from contstim.models.base import SentenceModel
from contstim.synthesis.problem import MinScore, Problem
from contstim.synthesis.sample import GuidedSampling, SampledBatch

NATURAL = "The old man left his house at night."
HOW = GuidedSampling(
    writer="contstim:gpt",
    max_samples=48,
    batch_size=16,
    min_end_probability=0.0,
    min_p=0.001,
    n_prompts=0,
)


@pytest.fixture(scope="module")
def models() -> dict[str, SentenceModel]:
    """The bundled models that are quick."""
    return {name: load_model(f"contstim:{name}") for name in ("bigram", "trigram", "lstm")}


def test_natural_sentences_may_violate_bounds(
    models: dict[str, SentenceModel],
) -> None:
    bigram, trigram = models["bigram"], models["trigram"]
    least = float(trigram.score([NATURAL])[0]) + 1.0
    problem = Problem((bigram,), bounds=(MinScore(trigram.spec, least),), bound_models=(trigram,))
    result = synthesize(NATURAL, problem=problem, strategy=HOW)
    assert not result.is_changed or trigram.score([result.sentence])[0] >= least


def test_sampling_stops_at_the_minimum_improvement(
    models: dict[str, SentenceModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    n_batches, sample_batch = 0, GuidedSampling.sample_batch

    def count(*args: Any) -> SampledBatch:
        nonlocal n_batches
        n_batches += 1
        return sample_batch(*args)

    monkeypatch.setattr(GuidedSampling, "sample_batch", count)
    options = replace(HOW, max_samples=120, batch_size=4)
    results = []
    for strategy in (replace(options, min_improvement=99), replace(options, min_improvement=0)):
        n_batches = 0
        result = synthesize(
            NATURAL, reject=models["bigram"], accept=models["lstm"], strategy=strategy
        )
        results.append((n_batches, result.loss))
    # The improvement is that of the last five batches.
    (n_first, first_loss), (n_second, second_loss) = results
    assert 6 <= n_first < n_second <= 30
    assert second_loss <= first_loss < 0


@pytest.mark.parametrize(("size", "lengths"), [(1, [5, *[1] * 15]), (6, [5, 6, 6, 3])])
def test_rounds_contain_each_batch_once(size: int, lengths: list[int]) -> None:
    strategy = GuidedSampling(max_samples=20 * GuidedSampling().batch_size)
    rounds = [strategy.round_batches(number, size) for number in range(len(lengths))]
    assert [len(batches) for batches in rounds] == lengths
    assert [batch for batches in rounds for batch in batches] == list(range(20))


def test_models_without_prefix_scores_are_recorded(models: dict[str, SentenceModel]) -> None:
    mean = load_model("contstim:trigram?reduction=mean")
    options = replace(HOW, max_samples=16)
    result = synthesize(NATURAL, reject=models["bigram"], accept=mean, strategy=options)
    assert result.non_guiding_models == (mean.name,)
