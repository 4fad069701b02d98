"""Tests `contstim.search.results`."""

import pytest
from toy_words import LOWER, SENTENCES, UPPER, VOCABULARY

from contstim.errors import InputError
from contstim.models.registry import load_model
from contstim.models.toy import TableModel
from contstim.search.triplets import ModelPair, synthesize_triplets, triplets
from contstim.text import pool
from contstim.text.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def pair() -> ModelPair:
    words = [*LOWER, *UPPER]
    return ModelPair.of(TableModel(words, 11), TableModel(words, 12), VOCABULARY)


def test_sentence_1_is_what_model_1_prefers(pair: ModelPair) -> None:
    (found,) = triplets(pair, SENTENCES[0])
    for k, model in ((1, pair.model_1), (2, pair.model_2)):
        for kind in ("natural", "synthetic_1", "synthetic_2"):
            assert getattr(found, f"{kind}_lp_{k}") == model.score([getattr(found, kind)])[0]
    assert found.synthetic_1_lp_1 >= found.natural_lp_1
    assert found.synthetic_1_lp_2 < found.natural_lp_2
    assert found.synthetic_2_lp_2 >= found.natural_lp_2
    assert found.synthetic_2_lp_1 < found.natural_lp_1
    assert found.opposed
    # Eq. 4, written out.
    fall = found.natural_lp_2 - found.synthetic_1_lp_2 + found.natural_lp_1 - found.synthetic_2_lp_1
    assert found.controversiality == pytest.approx(fall)


def test_several_triplets_from_one_sentence_differ(pair: ModelPair) -> None:
    found = triplets(pair, SENTENCES[0], per_sentence=3)
    texts = {(t.synthetic_1, t.synthetic_2) for t in found}
    assert len(texts) == len(found) > 1
    assert [t.repeat for t in found] == list(range(1, len(found) + 1))


def test_a_minimum_drop_leaves_out_what_falls_less(pair: ModelPair) -> None:
    (found,) = triplets(pair, SENTENCES[0])
    drops = (
        found.natural_lp_2 - found.synthetic_1_lp_2,
        found.natural_lp_1 - found.synthetic_2_lp_1,
    )
    assert triplets(pair, SENTENCES[0], minimum_drop=min(drops)) == [found]
    assert triplets(pair, SENTENCES[0], minimum_drop=min(drops) + 1e-6) == []


def test_a_model_is_no_pair_with_itself(pair: ModelPair) -> None:
    with pytest.raises(InputError, match="a pair needs two different models, got .table:11"):
        ModelPair.of(pair.model_1, pair.model_1, VOCABULARY)


@pytest.mark.parametrize("drop", [-1.0, float("nan"), float("inf")])
def test_a_drop_that_cannot_be_meant(pair: ModelPair, drop: float) -> None:
    with pytest.raises(InputError, match="the minimum drop must be a number of nats from 0 up"):
        triplets(pair, SENTENCES[0], minimum_drop=drop)


def test_triplets_take_specs_and_the_options_of_strategies() -> None:
    sentence, *others = pool()[:40]
    words = Vocabulary.from_words(sorted({w.strip(".,") for s in others for w in s.split()}))
    pair = ("contstim:bigram", "contstim:trigram")
    asked = {"vocabulary": words, "most_use": 1.0, "strategy": "bounded", "budget": 3}
    table = synthesize_triplets([sentence], [pair], **asked)
    both = ModelPair.of(*map(load_model, pair), words)
    (alone,) = triplets(both, sentence, strategy="bounded", budget=3)
    assert table.to_dict("records") == [alone.row()]
    with pytest.raises(InputError, match="'beam' or 'leftward', not 'bounded'"):
        synthesize_triplets([sentence], [pair], **(asked | {"width": 3}))
