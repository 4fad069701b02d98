"""Test the pool of an adaptive study: log-ratios and invalid pools."""

import numpy as np
import pandas as pd
import pytest

from contstim.adaptive.link import Link
from contstim.adaptive.pool import Pool
from contstim.errors import InputError


def test_invalid_pools_are_rejected():
    link = Link()
    scores = pd.DataFrame({"x": [-1.0, -2.0, -np.inf], "y": [-3.0, -1.0, -2.0]}, index=list("abc"))
    pairs = pd.DataFrame({"sentence_1": ["a"], "sentence_2": ["b"]})
    pool = Pool.from_scores(pairs, scores, link)
    assert pool.log_ratios.tolist() == [[-1.0, 2.0]]
    assert len(pool.digest) == 64
    for table, message in (
        (pairs.drop(columns="sentence_2"), "the pool has no column 'sentence_2'; give pairs"),
        (pairs.iloc[:0], "the pool has no pairs; give at least one"),
        (
            pairs.assign(sentence_2="c"),
            "sentence 'c' of the pool lacks a finite score under some",
        ),
        (
            pairs.assign(sentence_2="z"),
            "sentence 'z' of the pool lacks a finite score under some",
        ),
        (pd.concat([pairs, pairs]), "the pool contains a pair twice; keep one"),
    ):
        with pytest.raises(InputError) as error:
            Pool.from_scores(table, scores, link)
        assert message in str(error.value)
    twice = pd.concat([scores, scores.iloc[:1]])
    with pytest.raises(InputError, match="scores contain 'a' twice; keep one"):
        Pool.from_scores(pairs, twice, link)


def test_pools_with_several_pairs_of_an_item_are_rejected():
    names = [f"sentence {k}" for k in range(8)]
    scores = pd.DataFrame(np.random.default_rng(0).normal(size=(8, 2)), names, ["a", "b"])
    pairs = pd.DataFrame({"sentence_1": names[:4], "sentence_2": names[4:]})
    link = Link()
    for items in ([1, 2, 3, 4], ["", "", "x", None]):
        assert len(Pool.from_scores(pairs.assign(item=items), scores, link).pairs) == 4
    with pytest.raises(InputError, match="several pairs of item 'x', but adaptive studies treat"):
        Pool.from_scores(pairs.assign(item=["x", "y", "x", "z"]), scores, link)
