"""Test SyntaxGym suites: formulas, regions and invalid files."""

from __future__ import annotations

import json

import numpy as np
import pytest

from contstim.benchmarks.syntaxgym import evaluate_formula, read_suite
from contstim.errors import InputError

CONDITIONS = {"a": {1: 3.0, 2: 5.0}, "b": {1: 4.0, 2: 2.0}}


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("(1;%a%) < (1;%b%)", True),
        ("[(1;%a%) < (1;%b%)] & [(2;%a%) < (2;%b%)]", False),
        ("[(1;%a%) > (1;%b%)] | [(2;%a%) > (2;%b%)]", True),
        ("[(2;%a%) - (1;%a%)] > [(2;%b%) - (1;%b%)]", True),
        ("(2;%a%) - (1;%a%) + [(1;%b%) + (2;%b%)] > 7.9", True),
        ("(2;%a%) - (1;%a%) - (2;%b%) = 0", True),
        ("(*;%a%) = 8", True),
        ("(1;%a%) < 3 | (1;%a%) > 3", False),
        ("(*;%a%)>(*;%b%)&(1;%a%)>(1;%b%)", False),
    ],
)
def test_formulas_are_evaluated(formula, expected):
    assert evaluate_formula(formula, CONDITIONS) is expected


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("(1;%c%) > 0", "names region 1 of condition 'c', which the item lacks"),
        ("(9;%a%) > 0", "names region 9"),
        ("(1;%a%) + 1", "is a number, not a prediction"),
        ("(1;%a%) > ", "cannot be read"),
        ("[(1;%a%) > 1", "cannot be read"),
        ("(1;%a%) > 1 2", "cannot be read"),
        ("(1;%a%) ? 1", "cannot be read"),
    ],
)
def test_invalid_formulas_are_rejected(formula, message):
    with pytest.raises(InputError) as caught:
        evaluate_formula(formula, CONDITIONS)
    assert message in str(caught.value)


def test_suite_predictions_by_hand(tmp_path):
    def condition(name, verb):
        contents = ["The dog", "", f" {verb}", "."]
        regions = [{"region_number": i + 1, "content": c} for i, c in enumerate(contents)]
        return {"condition_name": name, "regions": regions}

    suite = {
        "meta": {"name": "s"},
        "predictions": [
            {"type": "formula", "formula": "(3;%match%) < (3;%mismatch%)"},
            {"type": "formula", "formula": "[(2;%match%) = 0] & [(4;%match%) = 2]"},
        ],
        "items": [
            {
                "item_number": 1,
                "conditions": [condition("match", "runs"), condition("mismatch", "run")],
            }
        ],
    }
    (tmp_path / "s.json").write_text(json.dumps(suite))
    bits = {"The": -1, "dog": -1, "runs": -1, "run": -3, ".": -2}

    def scorer(texts):
        return [np.array([bits[w] for w in t.split()]) * np.log(2) for t in texts]

    suite = read_suite(tmp_path / "s.json")
    table = suite.evaluate(scorer)
    assert table.to_numpy().tolist() == [["s", 1, 0, True], ["s", 1, 1, True]]
    with pytest.raises(InputError, match=r"2 values for the 4 words of 'The dog runs \.'"):
        suite.evaluate(lambda texts: [np.zeros(2) for _ in texts])
    (tmp_path / "t.json").write_text("[")
    with pytest.raises(InputError, match="is not a SyntaxGym suite"):
        read_suite(tmp_path / "t.json")
    (tmp_path / "t.json").write_bytes(b'"\xff"')
    with pytest.raises(InputError, match="is not a SyntaxGym suite"):
        read_suite(tmp_path / "t.json")
    for text in ("{}", "3", '[{"items": 1}]'):
        (tmp_path / "t.json").write_text(text)
        with pytest.raises(InputError, match="is not a SyntaxGym suite"):
            read_suite(tmp_path / "t.json")
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(InputError, match="not a SyntaxGym suite"):
        read_suite(tmp_path / "t.json")
    with pytest.raises(InputError, match="there is no file"):
        read_suite(tmp_path / "u.json")


def test_regions_without_a_surprisal_are_rejected(tmp_path):
    words = {"a": "The dog", "b": "Dogs"}
    conditions = [
        {"condition_name": name, "regions": [{"region_number": 1, "content": content}]}
        for name, content in words.items()
    ]
    suite = {
        "items": [{"item_number": 7, "conditions": conditions}],
        "predictions": [{"formula": "(1;%a%) > (1;%b%)"}],
    }
    (tmp_path / "s.json").write_text(json.dumps(suite))
    with pytest.raises(InputError) as caught:
        read_suite(tmp_path / "s.json").evaluate(
            lambda texts: [np.array([np.nan, -1.0])[: t.count(" ") + 1] for t in texts]
        )
    assert str(caught.value) == (
        "suite 's', item 7: the formula '(1;%a%) > (1;%b%)' needs the surprisal of region 1 of "
        "condition 'a', which the model does not give"
    )


def test_regions_with_the_same_number_are_summed(tmp_path):
    contents = [(1, "The"), (2, "dog"), (1, "that barks"), (3, "runs")]
    regions = [{"region_number": number, "content": content} for number, content in contents]
    condition = {"condition_name": "c", "regions": regions}
    suite = {
        "meta": {"name": "s"},
        "predictions": [{"formula": "[(1;%c%) = 13] & [(2;%c%) = 2] & [(3;%c%) = 16]"}],
        "items": [{"item_number": 1, "conditions": [condition]}],
    }
    (tmp_path / "s.json").write_text(json.dumps(suite))

    def scorer(texts):
        assert texts == ["The dog that barks runs"]
        return [np.array([-1, -2, -4, -8, -16]) * np.log(2)]

    assert read_suite(tmp_path / "s.json").evaluate(scorer)["correct"].tolist() == [True]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("items",), {}, None),
        (("items", 0), 3, "not subscriptable"),
        (("items", 0, "item_number"), "one", "invalid literal"),
        (("items", 0, "conditions", 0, "condition_name"), None, None),
        (("items", 0, "conditions", 0, "regions"), None, "not iterable"),
        (("items", 0, "conditions", 0, "regions", 0), {"region_number": 1}, "lacks 'content'"),
        (("predictions", 0), {"type": "formula"}, "a part lacks 'formula'"),
    ],
)
def test_incomplete_suites_are_rejected(tmp_path, path, value, message):
    condition = {"condition_name": "c", "regions": [{"region_number": "1", "content": "Dogs"}]}
    suite = {
        "items": [{"item_number": "1", "conditions": [condition]}],
        "predictions": [{"formula": "(1;%c%) > 0"}],
    }
    part = suite
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    (tmp_path / "s.json").write_text(json.dumps(suite))
    if message is None:
        read_suite(tmp_path / "s.json")
        return
    with pytest.raises(InputError, match=message):
        read_suite(tmp_path / "s.json")


@pytest.mark.parametrize("formula", ["(" * 100_000, "9 ** 9 ** 9 > 0", "x.y > 0", "f(1) > 0"])
def test_unsafe_formulas_are_rejected(formula):
    with pytest.raises(InputError, match="cannot be read"):
        evaluate_formula(formula, {})
