"""Pairs that models disagree about, by a loop over every two of them; and in AutoRA itself."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import pytest

from contstim import load_model, pool
from contstim.benchmarks.adapters.autora import controversial_sample
from contstim.errors import InputError

SPECS = ["contstim:bigram", "contstim:trigram", "contstim:unigram?unknown=unk"]


def _conditions(n: int) -> pd.DataFrame:
    models = [load_model(spec) for spec in SPECS[:2]]
    texts = [t for t in pool()[:400] if all(m.knows(t.split()).all() for m in models)]
    pairs = {"sentence_1": texts[:n], "sentence_2": texts[n : 2 * n], "topic": range(n)}
    return pd.DataFrame(pairs, index=[f"c{i}" for i in range(n)])


def test_what_is_asked_next_is_what_every_two_models_say() -> None:
    conditions = _conditions(40)
    ratios = {}
    for spec in SPECS:
        model = load_model(spec)
        first, second = (model.score(conditions[c].tolist()) for c in ("sentence_1", "sentence_2"))
        ratios[spec] = (second - first) / np.std(second - first)
    worth = {
        label: max(min(ratios[one][i], -ratios[other][i]) for one, other in permutations(SPECS, 2))
        for i, label in enumerate(conditions.index)
    }
    chosen = controversial_sample(conditions, SPECS, 5)
    assert chosen.index.tolist() == sorted(worth, key=worth.__getitem__, reverse=True)[:5]
    assert worth[chosen.index[0]] > 0
    pd.testing.assert_frame_equal(chosen, conditions.loc[chosen.index])


def test_what_cannot_be_chosen_from() -> None:
    conditions = _conditions(3)
    with pytest.raises(InputError, match="4 pairs are wanted of 3; give more, or ask for fewer"):
        controversial_sample(conditions, SPECS, 4)
    with pytest.raises(InputError, match="only contstim:bigram is compared"):
        controversial_sample(conditions, "contstim:bigram")
    with pytest.raises(InputError, match="sentence_2"):
        controversial_sample(conditions.drop(columns="sentence_2"), SPECS)


def test_a_cycle_of_autora() -> None:
    state = pytest.importorskip("autora.state", reason="AutoRA has an environment of its own")
    conditions = _conditions(20)
    asked = state.on_state(controversial_sample, output=["conditions"])(
        state.StandardState(conditions=conditions), compared=SPECS, num_samples=4
    )
    expected = controversial_sample(conditions, SPECS, 4)
    pd.testing.assert_frame_equal(asked.conditions, expected)
