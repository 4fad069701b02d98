"""Suites of acceptability judgements.

Of `contstim.benchmarks.suites` and `contstim.benchmarks.syntaxgym`.
"""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from six_pairs import PEOPLE, SIX

from contstim.benchmarks.suites import (
    LIAdger,
    acceptability_delta_criterion,
    blimp_criterion,
    read_blimp,
    run_blimp,
    z_scores,
)
from contstim.benchmarks.syntaxgym import evaluate_formula, run_syntaxgym
from contstim.errors import InputError


def test_the_thesis_example():
    # Vazquez Martinez (2021), Table 1.5: deltas of people and of a trigram, delta = 1.
    human, trigram = [2.320552, 0.023432], [0.633896671, -0.158799029]
    assert blimp_criterion(trigram).tolist() == [True, False]
    assert acceptability_delta_criterion(human, trigram, 1).tolist() == [False, False]
    assert acceptability_delta_criterion(human, trigram, 5).tolist() == [True, False]


def test_the_inequality_is_strict_and_zero_is_a_sign_of_its_own():
    assert acceptability_delta_criterion([1.0, 1.0], [1.5, 1.499], 0.5).tolist() == [False, True]
    assert acceptability_delta_criterion([0.0, 0.1], [0.0, 0.0], 1).tolist() == [True, False]
    with pytest.raises(InputError, match="must be positive, not 0"):
        acceptability_delta_criterion([1], [1], 0)


@given(
    st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3)), min_size=1, max_size=20),
    st.floats(0.1, 3),
)
def test_wider_deltas_admit_more_and_infinity_leaves_the_sign(pairs, delta):
    human, model = np.array(pairs).T
    near = acceptability_delta_criterion(human, model, delta)
    wide = acceptability_delta_criterion(human, model, 2 * delta)
    assert (near <= wide).all()
    free = acceptability_delta_criterion(human, model, np.inf)
    assert (free == (np.sign(human) == np.sign(model))).all()


def test_z_scores_are_scipys():
    x = np.array([1.0, 4.0, 2.0, 9.0])
    np.testing.assert_allclose(z_scores(x), stats.zscore(x))
    gap = z_scores([1.0, np.nan, 3.0])
    np.testing.assert_allclose(gap[[0, 2]], [-1, 1])
    with pytest.raises(InputError, match="two different values"):
        z_scores([2, 2, 2])


def test_deltas_of_li_adger() -> None:
    judgement = [1.0, -1.0, 0.5, 0.4]
    ids = ["g1", "u1", "g2", "u2"]
    sentences = pd.DataFrame({"id": ids, "sentence": list("abcd"), "judgement": judgement})
    data = LIAdger(sentences, pd.DataFrame({"gramm_id": ids[::2], "ungramm_id": ids[1::2]}))
    np.testing.assert_allclose(data.human_deltas(), [2.0, 0.1])
    z = stats.zscore([-4.0, -4.0, -6.0, -5.0])
    scores = pd.Series([-4.0, -4.0, -6.0, -5.0], ids)
    np.testing.assert_allclose(data.model_deltas(scores), [z[0] - z[1], z[2] - z[3]])
    there = data.model_deltas(scores[["g1", "u1", "g2"]])
    assert np.isnan(there).tolist() == [False, True]


def test_a_blimp_file_that_swells_in_its_archive_is_refused(tmp_path):
    source = tmp_path / "blimp.zip"
    with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("blimp/one.jsonl", bytes(17 << 20))
    with pytest.raises(InputError, match=r"blimp/one.jsonl in .* has more than 16 MiB"):
        run_blimp(source, len)


@pytest.mark.parametrize("zipped", [True, False])
def test_blimp_runner(tmp_path, zipped):
    pairs = [("aaa", "a"), ("aa", "aaaa"), ("bb", "aa")]
    text = "\n".join(
        json.dumps({"sentence_good": g, "sentence_bad": b, "linguistics_term": "t", "field": "f"})
        for g, b in pairs
    )
    source = tmp_path
    if zipped:
        source = tmp_path / "blimp.zip"
        with zipfile.ZipFile(source, "w") as archive:
            archive.writestr("blimp/one.jsonl", text)
    else:
        (tmp_path / "one.jsonl").write_text(text)

    def length(texts):
        return [len(t) for t in texts]

    row = run_blimp(source, length).iloc[0]
    assert (row["uid"], row["accuracy"], row["n_tied"], row["n_pairs"]) == ("one", 1 / 3, 1, 3)
    assert run_blimp(source, length, most=1)["accuracy"].tolist() == [1]
    row = run_blimp(source, lambda texts: [-np.inf if len(t) > 1 else 0.0 for t in texts]).iloc[0]
    assert (row["accuracy"], row["n_tied"]) == (0, 2)
    with pytest.raises(InputError, match="none of the paradigms"):
        run_blimp(source, length, paradigms=["two"])
    with pytest.raises(InputError, match="no number for 'aaa'"):
        run_blimp(source, lambda texts: [np.nan] * len(texts))
    with pytest.raises(InputError, match=r"gave shape \(1,\)"):
        run_blimp(source, lambda texts: [1.0])


def test_blimp_files_that_are_none(tmp_path):
    for text in ("{}", "[1]", "3", '{"sentence_good": 1, "sentence_bad": "a"}'):
        (tmp_path / "x.jsonl").write_text(text)
        with pytest.raises(InputError, match=r"line 1 of x\.jsonl is not a BLiMP pair"):
            run_blimp(tmp_path, len)
    with pytest.raises(InputError, match="neither a folder nor a zip file"):
        run_blimp(tmp_path / "none.zip", len)


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
        ("(*;%a%)>(*;%b%)&(1;%a%)>(1;%b%)", False),
    ],
)
def test_formulas(formula, expected):
    assert evaluate_formula(formula, CONDITIONS) is expected


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("(1;%c%) > 0", "names region 1 of condition 'c', which the item lacks"),
        ("(9;%a%) > 0", "names region 9"),
        ("(1;%a%) + 1", "is a number, not a prediction"),
        ("(1;%a%) > ", "cannot be read at part 3"),
        ("[(1;%a%) > 1", "cannot be read at part 5"),
        ("(1;%a%) > 1 2", "cannot be read at part 4"),
        ("(1;%a%) ? 1", "cannot be read at ' ? 1'"),
    ],
)
def test_formulas_that_cannot_be_read(formula, message):
    with pytest.raises(InputError) as caught:
        evaluate_formula(formula, CONDITIONS)
    assert message in str(caught.value)


def test_syntaxgym_runner(tmp_path):
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

    for path in (tmp_path, tmp_path / "s.json"):
        table = run_syntaxgym(path, scorer)
        assert table.to_numpy().tolist() == [["s", 1, 0, True], ["s", 1, 1, True]]
    with pytest.raises(InputError, match=r"2 values for the 4 words of 'The dog runs \.'"):
        run_syntaxgym(tmp_path, lambda texts: [np.zeros(2) for _ in texts])
    (tmp_path / "t.json").write_text("[")
    with pytest.raises(InputError, match="is not JSON"):
        run_syntaxgym(tmp_path / "t.json", scorer)
    (tmp_path / "t.json").write_bytes(b'"\xff"')
    with pytest.raises(InputError, match="is not JSON"):
        run_syntaxgym(tmp_path / "t.json", scorer)
    for text in ("{}", "3", '[{"items": 1}]'):
        (tmp_path / "t.json").write_text(text)
        with pytest.raises(InputError, match="is not a SyntaxGym suite"):
            run_syntaxgym(tmp_path / "t.json", scorer)
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(InputError, match="not a SyntaxGym suite"):
        run_syntaxgym(tmp_path / "t.json", scorer)
    with pytest.raises(InputError, match="there is no file"):
        run_syntaxgym(tmp_path / "u.json", scorer)


def test_a_region_of_which_a_model_says_nothing_is_no_wrong_answer(tmp_path):
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
        run_syntaxgym(
            tmp_path / "s.json",
            lambda texts: [np.array([np.nan, -1.0])[: t.count(" ") + 1] for t in texts],
        )
    assert str(caught.value) == (
        "suite 's', item 7: the formula '(1;%a%) > (1;%b%)' asks for the surprisal of region 1 of "
        "condition 'a', of which the model says nothing"
    )


def test_parts_of_a_syntaxgym_region_that_is_named_twice_count_together(tmp_path):
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

    assert run_syntaxgym(tmp_path / "s.json", scorer)["correct"].tolist() == [True]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("items",), {}, "{} has no list 'items'"),
        (("items", 0), 3, "item 1 of {} has no list 'conditions'"),
        (("items", 0, "item_number"), "one", "item 1 of {} has no number 'item_number'"),
        (
            ("items", 0, "conditions", 0, "condition_name"),
            None,
            "a condition of item 1 of {} has no text 'condition_name'",
        ),
        (
            ("items", 0, "conditions", 0, "regions"),
            None,
            "condition 'c' of item 1 of {} has no list 'regions'",
        ),
        (
            ("items", 0, "conditions", 0, "regions", 0),
            {"region_number": 1},
            "a region of condition 'c' of item 1 of {} has no text 'content'",
        ),
        (
            ("items", 0, "conditions", 0, "regions", 0),
            {"content": "a"},
            "a region of condition 'c' of item 1 of {} has no number 'region_number'",
        ),
        (("predictions", 0), {"type": "formula"}, "prediction 1 of {} has no text 'formula'"),
    ],
)
def test_a_suite_that_lacks_a_part_is_refused_by_its_name(tmp_path, path, value, message):
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
    with pytest.raises(InputError) as caught:
        run_syntaxgym(tmp_path / "s.json", lambda texts: [-np.ones(1) for _ in texts])
    whole = message.format(repr(str(tmp_path / "s.json")))
    assert str(caught.value) == f"{whole}, as a part of a SyntaxGym suite has"


def test_a_formula_of_brackets_alone_is_refused():
    with pytest.raises(InputError, match=r"\(\(\('... has too many brackets within others"):
        evaluate_formula("(" * 100_000, {})


# Which pairs each meets, by number: the BLiMP criterion, and the ADC with 0.5, 1 and 5.
MET = {
    "trigram": ({1, 2, 5, 6}, {2, 4}, {2, 4}, {1, 2, 4, 6}),
    "PLL": ({1, 2, 3, 4, 6}, {1, 3, 5, 6}, {1, 2, 3, 5, 6}, {1, 2, 3, 5, 6}),
    "classifier": ({1, 2, 3, 4, 6}, {1, 3}, {1, 3, 6}, {1, 2, 3, 6}),
}


def test_criteria_of_six_pairs_worked_out_on_paper() -> None:
    for model, sets in MET.items():
        by_pair = [
            blimp_criterion(SIX[model]),
            *(acceptability_delta_criterion(PEOPLE, SIX[model], d) for d in (0.5, 1.0, 5.0)),
        ]
        assert [set((np.flatnonzero(met) + 1).tolist()) for met in by_pair] == list(sets)


def rows_of(source, **options):
    return read_blimp(source, **options).to_numpy().tolist()


def test_suites_of_other_languages_in_their_own_columns(tmp_path):
    turkish = tmp_path / "tur" / "binding.csv"
    turkish.parent.mkdir()
    turkish.write_text(
        "good_sentence,bad_sentence,good_cue,phenomenon\nKendimi gördüm.,Beni gördüm.,kendimi,b\n",
        "utf-8",
    )
    assert rows_of(turkish.parent) == [["binding", "", "b", "Kendimi gördüm.", "Beni gördüm."]]
    assert rows_of(turkish) == rows_of(turkish.parent)
    semicolons = turkish.read_text("utf-8").replace(",", ";")
    turkish.write_text(semicolons, "utf-8")
    assert rows_of(turkish)[0][0] == "binding"

    many = tmp_path / "many"
    for language, rows in {"deu": "Er geht.\tEr gehst.\tSV-P\nSie sind.\tSie ist.\tSV-#\n"}.items():
        (many / language).mkdir(parents=True)
        table = f"sen\twrong_sen\tphenomenon\n{rows}"
        (many / language / "data.tsv").write_text(table, "utf-8")
    assert rows_of(many) == [
        ["deu SV-P", "deu", "SV-P", "Er geht.", "Er gehst."],
        ["deu SV-#", "deu", "SV-#", "Sie sind.", "Sie ist."],
    ]
    assert rows_of(many, paradigms=["deu SV-#"])[0][3] == "Sie sind."

    dutch = tmp_path / "nl.csv"
    dutch.write_text(
        "linguistic_phenomenon,paradigm,sentence_good,sentence_bad\n"
        "anaphor,number,Zij wassen zich.,Zij wast zich.\n"
        "anaphor,number,Wij wassen ons.,Wij wassen zich.\n"
        "auxiliaries,order,Hij is gegaan.,Hij gegaan is.\n",
        "utf-8",
    )
    assert [row[:3] for row in rows_of(dutch, most=1)] == [
        ["number", "", "anaphor"],
        ["order", "", "auxiliaries"],
    ]
    chinese = tmp_path / "zh"
    chinese.mkdir()
    pair = {"sentence_good": "他喜欢猫。", "sentence_bad": "他猫喜欢。", "phenomenon": "order"}
    (chinese / "ba_a.jsonl").write_text(json.dumps(pair | {"UID": "ba_a"}), "utf-8")
    assert rows_of(chinese) == [["ba_a", "", "order", "他喜欢猫。", "他猫喜欢。"]]
    table = run_blimp(dutch, lambda texts: [-len(text) for text in texts])
    assert table[["uid", "accuracy", "n_pairs"]].to_numpy().tolist() == [
        ["number", 0.5, 2],
        ["order", 0.0, 1],
    ]


def test_tables_that_hold_no_pairs(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("good,bad\na,b\n", "utf-8")
    with pytest.raises(InputError, match=r"other\.csv has no columns of pairs; it needs sentence"):
        read_blimp(path)
    path.write_text("sen,wrong_sen\na b,\n", "utf-8")
    with pytest.raises(InputError, match=r"row 1 of .*other\.csv lacks a sentence"):
        read_blimp(path)
