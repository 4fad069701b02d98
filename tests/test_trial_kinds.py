"""Tests `contstim.trial_kinds`: which trials compare models is decided once."""

from __future__ import annotations

import pandas as pd
import pytest

from contstim.errors import InputError
from contstim.trial_kinds import add_trial_kinds, format_kinds


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        *(("catch", "catch"), ("Catch ", "catch"), ("CATCH_trials", "catch")),
        *(("attention check", "catch"), ("Attention-Checks", "catch")),
        *(("natural_vs_shuffled", "catch"), ("fillers", "filler"), (" Filler", "filler")),
        *(("Practice trials", "practice"), ("catchy", "experimental"), ("natural", "experimental")),
    ],
)
def test_reserved_condition_names_determine_the_kind(condition: str, kind: str) -> None:
    table = add_trial_kinds(pd.DataFrame({"condition": [condition, "a"]}))
    assert table["kind"].tolist() == [kind, "experimental"]
    name = condition.strip()
    assert table["condition"][0] == (name if kind == "experimental" else name.casefold())


def test_kind_column_overrides_the_condition() -> None:
    table = pd.DataFrame({"kind": ["Catch ", "EXPERIMENTAL"], "condition": ["a", "catch"]})
    assert add_trial_kinds(table)["kind"].tolist() == ["catch", "experimental"]
    with pytest.raises(InputError, match="contains 'syntax'; it must be experimental, catch"):
        add_trial_kinds(table.assign(kind=["catch", "syntax"]))
    with pytest.raises(InputError, match="contains ''"):
        add_trial_kinds(table.assign(kind=["catch", None]))


def test_trials_with_an_expected_sentence_are_catch_trials() -> None:
    table = pd.DataFrame({"condition": ["a", "b", "filler"], "expected": [1, None, 2]})
    assert add_trial_kinds(table)["kind"].tolist() == ["catch", "experimental", "filler"]
    # If all have one, as in suites of minimal pairs, it states what is right.
    table["expected"] = [1, 2, None]
    kinds = add_trial_kinds(table)
    assert kinds["kind"].tolist() == ["experimental", "experimental", "filler"]
    assert format_kinds(kinds) == "2 experimental, 1 filler"
    assert add_trial_kinds(kinds).equals(kinds)
