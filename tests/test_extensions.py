"""Objectives and strategies that a script adds without a package."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest

import contstim
from contstim.selection.triplet_objectives import TRIPLET_OBJECTIVES, TripletObjective

EXTENSIONS = Path(__file__).parent / "extensions"


def test_custom_objective_and_strategy_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXTENSIONS)
    best_of_some = import_module("best_of_some").BestOfSome
    monkeypatch.setitem(TRIPLET_OBJECTIVES, "first", None)  # forgotten again afterwards
    TRIPLET_OBJECTIVES["first"] = TripletObjective(lambda rows: rows["natural_lp_1"], sign=-1.0)
    values = {"model_1": "a", "model_2": "b", "natural": ["n", "m"]}
    values |= {f"synthetic_{side}": ["s", "t"] for side in (1, 2)}
    kinds = ("natural", "synthetic_1", "synthetic_2")
    values |= {f"{kind}_lp_{model}": [-2.0, -3.0] for kind in kinds for model in (1, 2)}
    options = {"objective": "first", "per_pair": 1, "strata": 1}
    chosen = contstim.select_triplets(pd.DataFrame(values), **options)
    assert list(chosen["natural"]) == ["m"]
    reject, accept = (contstim.load_model(f"contstim:{name}") for name in ("bigram", "trigram"))
    strategy = best_of_some(5)
    text = "The dog slept near the fire."
    found = contstim.synthesize(text, reject=reject, accept=accept, strategy=strategy)
    assert found.loss < 0
