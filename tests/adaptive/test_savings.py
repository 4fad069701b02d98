"""Test predicted numbers of answers against closed forms and enumeration."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from contstim.adaptive.savings import (
    answers_needed,
    mutual_information,
    name_best,
    predict_saved_answers,
)
from contstim.errors import InputError
from contstim.response_model import ResponseModel

N_PAIRS, SIZE = 400, 0.6


def two_models(n_opposed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return scores of two models that are opposed on the first pairs and equal on the others."""
    first = np.array([f"a{k}" for k in range(N_PAIRS)])
    second = np.array([f"b{k}" for k in range(N_PAIRS)])
    rng = np.random.default_rng(0)
    level = rng.normal(size=N_PAIRS) * np.sqrt(1 - (SIZE / 2) ** 2)
    half = SIZE / 2 * rng.choice([-1, 1], N_PAIRS)
    other = np.where(np.arange(N_PAIRS) < n_opposed, -half, half)
    columns = {
        name: np.concatenate([level - own, level + own])
        for name, own in (("one", half), ("two", other))
    }
    scores = pd.DataFrame(columns, index=np.concatenate([first, second]))
    return scores, pd.DataFrame({"sentence_1": first, "sentence_2": second})


def answers_by_binomial(share: float, target: float) -> int:
    """Return the number of answers at which the correct model leads with the target probability."""
    p = ResponseModel().probabilities(np.array(SIZE))
    for n in range(1, 2000):
        opposed = np.arange(n + 1)
        named = binom.sf(opposed / 2, opposed, p) + binom.pmf(opposed / 2, opposed, p) / 2
        if (binom.pmf(opposed, n, share) * named).sum() >= target:
            return n
    raise AssertionError


def test_predicted_answers_agree_with_the_binomial_distribution() -> None:
    scores, pairs = two_models(N_PAIRS // 4)
    table = predict_saved_answers(
        scores, pairs, pairs[: N_PAIRS // 4], n_answers=500, n_studies=1000
    ).set_index("policy")
    expected = [answers_by_binomial(share, 0.9) for share in (0.25, 1.0)]
    assert table.loc[["random", "set"], "answers"].to_numpy() == pytest.approx(expected, rel=0.2)
    assert table.loc["set", "k"] == pytest.approx(4, rel=0.25)
    # Only opposed pairs are informative, and all equally so.
    assert table.loc["adaptive", "k"] == pytest.approx(4, rel=0.25)


def test_sentence_order_within_pairs_does_not_matter() -> None:
    scores, pairs = two_models(N_PAIRS // 4)
    exchanged = pairs.rename(columns={"sentence_1": "sentence_2", "sentence_2": "sentence_1"})
    tables = [
        predict_saved_answers(scores, pairs, chosen[:40], n_answers=60, n_studies=20)
        for chosen in (pairs, exchanged)
    ]
    pd.testing.assert_frame_equal(*tables)


def test_repeated_pairs_of_a_set_count_once() -> None:
    scores, pairs = two_models(100)
    chosen = pairs.head(50)
    once = predict_saved_answers(scores, pairs, chosen, n_answers=200, n_studies=20)
    repeated = predict_saved_answers(
        scores, pairs, pd.concat([chosen] * 20), n_answers=200, n_studies=20
    )
    pd.testing.assert_frame_equal(repeated, once)
    with pytest.raises(InputError, match="the set has no pairs"):
        predict_saved_answers(scores, pairs, pairs.head(0))


def test_without_disagreement_the_target_is_not_reached() -> None:
    scores, pairs = two_models(0)
    table = predict_saved_answers(scores, pairs, n_answers=60, n_studies=400)
    assert table["policy"].tolist() == ["random", "adaptive"]
    assert table[["answers", "k"]].isna().to_numpy().all()


def test_single_models_are_rejected() -> None:
    scores, pairs = two_models(0)
    with pytest.raises(InputError, match="two or more"):
        predict_saved_answers(scores[["one"]], pairs)


def test_mutual_information_equals_enumeration() -> None:
    rng = np.random.default_rng(0)
    log_joint, curves = rng.normal(size=(2, 3, 4)), rng.uniform(0.05, 0.95, (3, 5, 4))
    information = mutual_information(log_joint, curves)
    for study, values in enumerate(information):
        joint = np.exp(log_joint[study]) / np.exp(log_joint[study]).sum()
        for pair, value in enumerate(values):
            p = [(joint * (y + (1 - 2 * y) * curves[:, pair])).sum(axis=0) for y in (0, 1)]
            by_answer = np.array(p)  # answers, models
            product = np.outer(by_answer.sum(axis=1), by_answer.sum(axis=0))
            assert value == pytest.approx((by_answer * np.log(by_answer / product)).sum())


def test_answers_needed_uses_the_non_decreasing_fit() -> None:
    # The non-decreasing least-squares fit is .2, .4, .4, .8 by hand.
    curve = np.array([0.2, 0.5, 0.3, 0.8])
    assert [answers_needed(curve, level) for level in (0.1, 0.4, 0.45)] == [1, 2, 4]
    assert np.isnan(answers_needed(curve, 0.9))


def test_ties_for_the_best_model_are_broken_at_random() -> None:
    named = name_best(np.tile([1.0, 0.0, 1.0], (3000, 1)), np.random.default_rng(0))
    assert np.bincount(named, minlength=3) == pytest.approx([1500, 0, 1500], abs=110)
