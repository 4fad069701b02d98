"""Tests `contstim.synthesis.results`."""

import pandas as pd
import pytest
from toy_words import LOWER, SENTENCES, UPPER, VOCABULARY

from contstim.errors import InputError
from contstim.models.toy import RandomBigramModel
from contstim.synthesis import synthesize
from contstim.synthesis.problem import MinScore, Problem
from contstim.synthesis.results import Triplet
from contstim.synthesis.triplets import synthesize_triplets
from contstim.text import pool
from contstim.text.vocabulary import Vocabulary

Pair = tuple[RandomBigramModel, RandomBigramModel]


@pytest.fixture(scope="module")
def pair() -> Pair:
    words = [*LOWER, *UPPER]
    return RandomBigramModel(words, 11), RandomBigramModel(words, 12)


def _table(pair: Pair, **options: object) -> pd.DataFrame:
    return synthesize_triplets(
        SENTENCES[:1], [pair], vocabulary=VOCABULARY, max_word_share=1, **options
    )


@pytest.mark.parametrize("order", [(0, 2), (1, 2), (2, 0), (1, 0, 2)])
def test_order_of_bounds_does_not_change_the_model_pair(pair: Pair, order: tuple[int, ...]) -> None:
    third = RandomBigramModel([*LOWER, *UPPER], 13)
    models = (*pair, third)
    bounds = tuple(MinScore(models[k].name, -1000.0) for k in order)
    ways = [
        synthesize(
            SENTENCES[0],
            problem=Problem((reject,), (accept,), bounds=bounds, bound_models=(third,)),
            vocabulary=VOCABULARY,
        )
        for reject, accept in (pair[::-1], pair)
    ]
    for way, (reject, accept) in zip(ways, (pair[::-1], pair), strict=True):
        assert (way.reject, way.accepting) == (reject.name, (accept.name,))
        index = way.models.index(accept.name)
        assert way.scores[index] == accept.score([way.sentence])[0]
        assert way.natural_scores[index] == accept.score([way.natural])[0]
    row = Triplet.from_results(*ways, repeat=1).to_record()
    assert (row["model_1"], row["model_2"]) == (pair[0].name, pair[1].name)
    for kind in ("natural", "synthetic_1", "synthetic_2"):
        for k, model in enumerate(pair, start=1):
            assert row[f"{kind}_lp_{k}"] == model.score([row[kind]])[0]
        assert row[f"{kind}_lp {third.name}"] == third.score([row[kind]])[0]


def test_several_triplets_from_one_sentence_differ(pair: Pair) -> None:
    table = _table(pair, per_sentence=3)
    assert len(table[["synthetic_1", "synthetic_2"]].drop_duplicates()) == len(table) > 1
    assert table["repeat"].tolist() == list(range(1, len(table) + 1))


def test_minimum_drop_excludes_smaller_drops(pair: Pair) -> None:
    table = _table(pair)
    drops = (
        table["natural_lp_2"] - table["synthetic_1_lp_2"],
        table["natural_lp_1"] - table["synthetic_2_lp_1"],
    )
    least = min(drop[0] for drop in drops)
    pd.testing.assert_frame_equal(_table(pair, minimum_drop=least), table)
    assert _table(pair, minimum_drop=least + 1e-6).empty


def test_pairs_of_equal_models_are_rejected(pair: Pair) -> None:
    with pytest.raises(InputError, match="a pair needs two different models, got .table:11"):
        _table((pair[0], pair[0]))


@pytest.mark.parametrize("drop", [-1.0, float("nan"), float("inf")])
def test_invalid_minimum_drops_are_rejected(pair: Pair, drop: float) -> None:
    with pytest.raises(InputError, match="minimum_drop is .* as a number of nats from 0 up"):
        _table(pair, minimum_drop=drop)


def test_synthesize_triplets_accepts_specs_and_strategy_options() -> None:
    sentence, *others = pool()[:40]
    words = Vocabulary.from_words(sorted({w.strip(".,") for s in others for w in s.split()}))
    pair = ("contstim:bigram", "contstim:trigram")
    asked = {"vocabulary": words, "max_word_share": 1.0, "strategy": "edit", "candidates": 3}
    table = synthesize_triplets([sentence], [pair], **asked)
    of_search = {"vocabulary": words, "strategy": "edit", "candidates": 3}
    ways = [
        synthesize(sentence, reject=reject, accept=accept, **of_search)
        for reject, accept in (pair[::-1], pair)
    ]
    assert table.to_dict("records") == [Triplet.from_results(*ways, repeat=1).to_record()]
    with pytest.raises(InputError, match="of the strategy 'beam', not of 'edit'"):
        synthesize_triplets([sentence], [pair], **(asked | {"width": 3}))
    with pytest.raises(InputError, match="per_sentence is 0; give a whole number of at least 1"):
        synthesize_triplets([sentence], [pair], per_sentence=0)
