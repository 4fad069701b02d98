"""Every result object has a short representation.

Tests `contstim.display`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

import contstim
from contstim import adaptive, datasets
from contstim.design.studies import StudySimulator
from contstim.display import displayable, format_brief, format_repr
from contstim.evaluation import Analysis

MOST = 700  # letters


@displayable
@dataclass(frozen=True)
class Made:
    """A result with all sorts of fields."""

    name: str
    table: pd.DataFrame
    values: np.ndarray
    parts: tuple[int, ...]


TABLE = pd.DataFrame({"a": range(30), "b": 0.12345})
FIELDS = ("x" * 100, TABLE, np.zeros((4, 5)), tuple(range(100)))


def test_repr_replaces_long_values_by_their_size() -> None:
    assert repr(Made(*FIELDS)) == (
        f"Made(name='{'x' * 57}…', table=<table of 30 rows, 2 columns>, values=<array of 4 x 5>, "
        "parts=<tuple of 100>)"
    )
    assert format_brief(3.5) == "3.5"
    assert format_brief((1, 2)) == "(1, 2)"
    assert format_brief(Made(*FIELDS)) == "Made(…)"
    many = dataclass(type("Many", (), {"__annotations__": {f"a_{i:04}": int for i in range(99)}}))
    assert len(format_repr(many(*range(99)))) <= 600


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """One of each kind of result that a notebook is likely to hold."""
    choices, scores = datasets.simulated_choices(), datasets.natural_scores().iloc[:, :3]
    asked = [*choices["sentence_1"], *choices["sentence_2"]]
    judged = contstim.score_sentences(list(dict.fromkeys(asked)), ["contstim:bigram"])
    evaluation = contstim.evaluate(choices, judged, analyses=(Analysis("all"),))
    pairs = contstim.select_natural_pairs(scores, per_pair=8)
    plan = adaptive.AdaptivePlan(anchors=4, trials=8)
    pool = adaptive.Pool.from_scores(pairs, scores, plan.link)
    scheduler = adaptive.TrialScheduler(plan, pool)
    block = scheduler.choose_next_block("ann")
    scheduler.record_block(block)
    bigram = contstim.load_model("contstim:bigram")
    return {
        **{name: getattr(evaluation, name) for name in ("summary", "details")},
        **{name: getattr(evaluation, name) for name in ("provenance", "data")},
        **{"evaluation": evaluation, "plan": plan, "pool": pool},
        **{"scheduler": scheduler, "block": block, "posterior": scheduler.posterior},
        "parts": bigram.score_tokens(["Every child in the village knew that song."])[0],
        "design": StudySimulator.from_difference(0.2),
    }


KINDS = (
    *("summary", "details", "provenance", "data", "evaluation"),
    *("plan", "pool", "scheduler", "block", "posterior", "parts", "design"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_repr_of_results_is_one_short_line(results: dict[str, Any], kind: str) -> None:
    line = repr(results[kind])
    assert len(line) <= MOST
    assert "\n" not in line
    assert " object at 0x" not in line
