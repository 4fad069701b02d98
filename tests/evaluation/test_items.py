"""Test that related pairs form one item, and that items are random effects."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from contstim.errors import InputError
from contstim.evaluation import EvaluationOptions, evaluate
from contstim.evaluation.items import (
    assign_items,
    encode_items,
    normalise_trials,
    warn_related_pairs,
)
from contstim.evaluation.methods import methods_paragraphs
from contstim.evaluation.result import Evaluation

N_PEOPLE, N_ITEMS, PER_ITEM = 12, 8, 3
N_PAIRS = N_ITEMS * PER_ITEM


def simulate_study(seed: int = 0, shared: float = 1.0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return choices of participants who follow two models equally, with three pairs per item."""
    rng = np.random.default_rng(seed)
    of = np.arange(N_PAIRS) // PER_ITEM
    parts = rng.normal(size=(N_ITEMS, 3)), rng.normal(size=(N_PAIRS, 3))
    models = np.sqrt(shared) * parts[0][of] + np.sqrt(1 - shared) * parts[1]
    felt = models.sum(axis=1) + rng.normal(size=(N_PEOPLE, N_PAIRS))
    pair = np.tile(np.arange(N_PAIRS), N_PEOPLE)
    words = [f"{chr(97 + k)} frame{k} text{k}" for k in range(N_PAIRS)]
    choices = pd.DataFrame(
        {
            "participant": np.repeat(np.arange(N_PEOPLE), N_PAIRS),
            "sentence_1": [f"{words[k]} one" for k in pair],
            "sentence_2": [f"{words[k]} two{k} more" for k in pair],
            "rating": np.where(felt.ravel() > 0, 2.5, -2.5),
        }
    )
    scores = pd.DataFrame(
        {
            "sentence": [f"{w} one" for w in words]
            + [f"{w} two{k} more" for k, w in enumerate(words)],
            "a": [*np.zeros(N_PAIRS), *models[:, 0]],
            "b": [*np.zeros(N_PAIRS), *models[:, 1]],
        }
    )
    return choices, scores


def add_items(choices: pd.DataFrame) -> pd.DataFrame:
    """Return the choices with the column `item`."""
    number = choices["sentence_1"].str.extract(r"frame(\d+)")[0].astype(int) // PER_ITEM
    return choices.assign(item=[f"frame {n}" for n in number])


def test_one_item_per_pair_equals_no_items() -> None:
    choices, scores = simulate_study()
    options = {"measures": ("accuracy", "signed_rank_cosine")}
    plain = evaluate(choices, scores, **options)
    for item in (choices["sentence_2"], np.nan):
        single = evaluate(choices.assign(item=item), scores, **options)
        pd.testing.assert_frame_equal(single.models, plain.models, check_exact=True)
        pd.testing.assert_frame_equal(single.comparisons, plain.comparisons, check_exact=True)


@pytest.mark.parametrize("measure", ["accuracy", "signed_rank_cosine"])
def test_items_widen_intervals_but_keep_values(measure: str) -> None:
    choices, scores = simulate_study()
    plain, found = (
        evaluate(table, scores, measures=(measure,)) for table in (choices, add_items(choices))
    )
    for name in ("value", "ceiling_lower", "ceiling_upper"):
        assert found.models[name].tolist() == plain.models[name].tolist()
    for ends in (("ci_low", "ci_high"), ("ceiling_lower_ci_low", "ceiling_lower_ci_high")):
        widths = [np.subtract(r.models[ends[1]], r.models[ends[0]]) for r in (plain, found)]
        assert (widths[1] > 1.2 * widths[0]).all()
    assert (found.models["df"] < plain.models["df"]).all()
    one, other = plain.comparisons.iloc[0], found.comparisons.iloc[0]
    assert other["stderr"] > one["stderr"]


def test_error_rate_is_nominal_with_items() -> None:
    named, unnamed = [], []
    for seed in range(100):
        choices, scores = simulate_study(seed)
        given = {"measures": ("accuracy",), "seed": 0}
        if seed < 30:
            unnamed.append(evaluate(choices, scores, **given).comparisons["p"].iloc[0] < 0.05)
        tested = evaluate(add_items(choices), scores, **given)
        named.append(tested.comparisons["p"].iloc[0] < 0.05)
    low, high = binomtest(sum(named), len(named)).proportion_ci()
    assert low < 0.05 < high
    assert np.mean(unnamed) > 0.2


def methods_text(result: Evaluation) -> str:
    """Return the methods paragraphs of a result."""
    return " ".join(methods_paragraphs(result))


def test_methods_text_states_the_items() -> None:
    choices, scores = simulate_study()
    assert "Each pair is a separate item." in methods_text(evaluate(choices, scores))
    text = methods_text(evaluate(add_items(choices), scores))
    assert f"The {N_PAIRS} pairs form {N_ITEMS} items." in text


def test_pairs_with_two_items_are_rejected() -> None:
    choices, scores = simulate_study()
    places = choices.assign(item=np.random.default_rng(1).permutation(len(choices)) % N_PAIRS)
    with pytest.raises(InputError, match="more than one item, such as .*rename the column"):
        evaluate(places, scores)


def test_related_pairs_without_items_give_a_warning() -> None:
    choices, scores = simulate_study()
    texts = list(scores["sentence"])
    assert not any("share a sentence" in n for n in evaluate(choices, scores).provenance.notes)
    shared = choices.replace({"sentence_2": dict.fromkeys(texts, "the same to all")})
    rows = pd.DataFrame({"sentence": ["the same to all"], "a": [0.5], "b": [0.1]})
    result = evaluate(shared, pd.concat([scores, rows]))
    assert any(
        n.startswith(f"{N_PAIRS} of {N_PAIRS} sentence pairs share a sentence with another pair")
        for n in result.provenance.notes
    )
    these = evaluate(shared, pd.concat([scores, rows]), items="fixed")
    assert not any("share a sentence" in n for n in these.provenance.notes)


def test_pairs_without_an_item_are_separate_items() -> None:
    texts = {"sentence_1": list("abcdeba"), "sentence_2": list("vwxyzwv")}
    pairs = pd.DataFrame({**texts, "item": ["i", None, "j", "i", None, "", "i "]})
    assert encode_items(assign_items(pairs)).tolist() == [0, 1, 2, 0, 3, 1, 0]
    swapped = pairs.rename(columns={"sentence_1": "sentence_2", "sentence_2": "sentence_1"})
    assert assign_items(swapped)["item"].tolist() == assign_items(pairs)["item"].tolist()
    assert encode_items(assign_items(pairs[["sentence_1", "sentence_2"]])).max() == 4


def test_related_pairs_are_recognised_by_their_words() -> None:
    table = pd.DataFrame(
        {
            "sentence_1": ["The boy sees a dog", "The man sees a dog", "He left early today"],
            "sentence_2": ["The boy see a dog", "The man see a dog", "He leave early today"],
        }
    )
    (warning,) = warn_related_pairs(normalise_trials(pd.concat([table, table])))
    assert warning.startswith("2 of 3 sentence pairs share")
    assert warn_related_pairs(normalise_trials(table.assign(item=1))) == []
    table["condition"] = ["Catch ", "b", "b"]
    assert warn_related_pairs(normalise_trials(table)) == []


def test_signed_rank_inference_resamples_items() -> None:
    choices, scores = simulate_study()
    ask = {"inference": "signed-rank", "measures": ("accuracy",)}
    plain, found = (evaluate(t, scores, **ask).models for t in (choices, add_items(choices)))
    widths = [(r["ci_high"] - r["ci_low"]).to_numpy() for r in (plain, found)]
    assert (widths[1] > 1.2 * widths[0]).all()
    assert EvaluationOptions().inference == "crossed"
