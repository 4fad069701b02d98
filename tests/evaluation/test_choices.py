"""Test validation, cleaning and alignment of choices.

Tests `contstim.evaluation.rows` and `contstim.evaluation.ratings`.
"""

import numpy as np
import pandas as pd
import pytest

from contstim.errors import InputError, UnknownNameError, ValidationError
from contstim.evaluation import CleaningRules, align_choices, check_choices, rescale
from contstim.evaluation.choices import RawChoices, clean_choices, prepare_choices, require_aligned


def make_choices(**columns):
    base = {
        "participant": ["p1", "p1", "p2"],
        "sentence_1": ["B b.", "C c.", "B b."],
        "sentence_2": ["A a.", "D d.", "A a."],
        "rating": [0.5, -2.5, 1.5],
    }
    return pd.DataFrame({**base, **columns})


def test_minimal_table_gets_all_columns_and_defaults():
    out = check_choices(make_choices(extra=[1, 2, 3]))
    assert list(out.columns) == [
        *("participant", "group", "trial", "condition", "sentence_1", "sentence_2"),
        *("model_1", "model_2", "rating", "rt_ms", "extra", "kind", "item"),
    ]
    assert out["trial"].tolist() == [1, 2, 1]
    assert out["condition"].unique().tolist() == ["all trials"]
    assert out["model_1"].isna().all()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"rating": [0.5, 3.0, 1.5]},
            "rating 3.0 is not between -2.5 and 2.5 (row 2); give the answers for the "
            "strongest preference for sentence 1 and for sentence 2, for example low 1 and high 7",
        ),
        (
            {"rating": [0.5, "high", 1.5]},
            "rating high is not between -2.5 and 2.5 (row 2); give the answers for the "
            "strongest preference for sentence 1 and for sentence 2, for example low 1 and high 7",
        ),
        (
            {"rating": [0.5, 0.3, 1.5]},
            "rating 0.3 is on no known scale (row 2); give the answers for the strongest "
            "preference for sentence 1 and for sentence 2, for example low 1 and high 7",
        ),
        (
            {"rating": [0.5, 0.0, 1.5]},
            "the ratings mix scales: most are 6-point, but not 0 (row 2); analyse them separately "
            "or set scale='slider'",
        ),
        (
            {"sentence_1": ["B b.", None, " "]},
            "a sentence is missing (rows 2 and 3); add it or leave the row out",
        ),
        (
            {"sentence_2": ["A a.", "C  c.", "A a."]},
            "both sentences of a pair are 'C c.' (row 2)",
        ),
        (
            {"participant": ["p1", "p1", "p1"]},
            "participant 'p1' has several answers to the same pair (row 3); keep one of them, or "
            "rename one participant if they are from two participants",
        ),
        (
            {"group": ["g1", "g2", "g1"]},
            "participant 'p1' is in 2 groups; each belongs to one",
        ),
        (
            {"group": ["g1", None, "g1"]},
            "a row has no group (row 2); give every row one, or none",
        ),
        (
            {"rt_ms": [1200.5, "1,300", "fast"]},
            "rt_ms must be a number, not '1,300' (rows 2 and 3); leave it empty if unknown",
        ),
        (
            {"rt_ms": [1200.5, -300, 1e300]},
            "rt_ms is -300.0, which is not a response time (rows 2 and 3); leave the cell "
            "empty if the time is unknown, or remove the column",
        ),
        (
            {"rt_ms": [2.2, 1.4, 900]},
            "the median of rt_ms is 2.2 ms, so the times seem to be seconds; give them in "
            "a column rt_s, or remove the column",
        ),
        (
            {"model_1": ["x", "x", "x"], "model_2": ["y", None, "y"]},
            "a pair names one model but not the other (row 2)",
        ),
        (
            {"model_1": ["x", "x", "x"], "model_2": ["y", "x", "y"]},
            "model_1 and model_2 of a pair are the same (row 2)",
        ),
        (
            {"expected": [1, 0, 2]},
            "expected must be 1 or 2, or one of the two sentences, not 0 (row 2)",
        ),
        (
            {"expected": [None, 2, "left"]},
            "expected must be 1 or 2, or one of the two sentences, not 'left' (row 3)",
        ),
    ],
)
def test_invalid_values_are_reported_with_their_rows(columns, message):
    with pytest.raises(InputError) as caught:
        check_choices(make_choices(**columns))
    assert str(caught.value) == message


def test_expected_sentence_numbers_can_be_strings():
    # JSON data of a browser hold texts, and nothing in trials without one.
    out = align_choices(check_choices(make_choices(expected=["1", None, "1"])))
    assert out["expected"].tolist()[::2] == [2, 2]
    assert np.isnan(out["expected"][1])


def test_missing_times_and_groups_are_accepted():
    given = make_choices(rt_ms=["1200", " ", "null"], group=[None, None, None])
    out = check_choices(given)
    assert out["rt_ms"].fillna(-1).tolist() == [1200, -1, -1]
    assert out["group"].tolist() == ["1", "1", "1"]


def test_column_names_can_be_numbers_but_not_repeated():
    assert align_choices(
        check_choices(make_choices(**{"a_1": [1, 2, 3]}).rename(columns={"a_1": 7}))
    )["7"].tolist() == [1, 2, 3]
    with pytest.raises(InputError) as caught:
        check_choices(pd.concat([make_choices(), make_choices()[["rating"]]], axis=1))
    assert str(caught.value) == "the choices table has two columns 'rating'; keep one"


def test_missing_columns_and_empty_tables_are_rejected():
    with pytest.raises(InputError, match="has no column 'rating'"):
        check_choices(make_choices().drop(columns="rating"))
    with pytest.raises(InputError, match="no rows"):
        check_choices(make_choices().iloc[:0])


@pytest.mark.parametrize(
    ("scale", "good", "bad"),
    [
        ("2-point", [-2.5, 2.5, 2.5], [0.5, 2.5, 2.5]),
        ("4-point", [-2.5, -0.833333, 0.833333], [0.5, 2.5, 2.5]),
        ("7-point", [0.0, -0.833333, 1.666667], [0.5, 2.5, 2.5]),
        ("slider", [0.123, -0.4, 2.0], [0.123, -0.4, 2.7]),
    ],
)
def test_ratings_must_be_on_the_scale(scale, good, bad):
    assert check_choices(make_choices(rating=good), scale)["rating"].tolist() == good
    with pytest.raises(InputError, match="rating"):
        check_choices(make_choices(rating=bad), scale)


def test_unknown_scales_and_cleaning_rules_are_rejected():
    with pytest.raises(UnknownNameError, match="unknown rating scale '5-point'"):
        check_choices(make_choices(), "5-point")
    with pytest.raises(UnknownNameError, match="repeated_trial"):
        CleaningRules(repeated_trial="exclude")


def test_rescale_maps_answers_to_ratings():
    assert rescale([1, 2, 3, 4, 5, 6], 1, 6).tolist() == [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]
    assert rescale([0, 1], 0, 1).tolist() == [-2.5, 2.5]
    assert rescale([6, 1], 6, 1).tolist() == [-2.5, 2.5]
    with pytest.raises(InputError, match=r"rating 7 is not on the scale from 1 to 6 \(row 2\)"):
        rescale([1, 7], 1, 6)
    with pytest.raises(InputError, match="two different ends"):
        rescale([1], 1, 1)


def test_alignment_swaps_all_columns_of_the_sides():
    out = align_choices(
        check_choices(
            make_choices(
                model_1=["x", "x", "x"],
                model_2=["y", "y", "y"],
                lp_1=[-1.0, -2.0, -1.0],
                lp_2=[-3.0, -4.0, -3.0],
                expected=[1, 2, 1],
            )
        )
    )
    first = out.iloc[0]
    assert (first["sentence_1"], first["sentence_2"]) == ("A a.", "B b.")
    assert (first["model_1"], first["model_2"]) == ("y", "x")
    assert (first["lp_1"], first["lp_2"], first["rating"], first["expected"]) == (-3, -1, -0.5, 2)
    second = out.iloc[1]
    assert (second["sentence_1"], second["rating"], second["expected"]) == ("C c.", -2.5, 2)
    pd.testing.assert_frame_equal(align_choices(out), out)


def test_alignment_orders_sentences_by_code_point():
    mixed = make_choices(sentence_1=["a a.", "b", "a a."], sentence_2=["Z z.", "B", "Z z."])
    assert align_choices(check_choices(mixed))["sentence_1"].tolist() == ["Z z.", "B", "Z z."]


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ({"condition": ["u", "u", "v"]}, "conflicting conditions (rows 1 and 3)"),
        (
            {"model_1": ["x", "x", "y"], "model_2": ["y", "y", "x"]},
            "conflicting model pairs (rows 1 and 3)",
        ),
    ],
)
def test_conflicting_values_within_a_pair_are_rejected(columns, what):
    with pytest.raises(InputError) as caught:
        align_choices(check_choices(make_choices(**columns)))
    assert what in str(caught.value)


def test_unaligned_tables_are_rejected():
    with pytest.raises(ValidationError, match="not aligned"):
        require_aligned(check_choices(make_choices()))


def test_cleaning_reports_every_excluded_row():
    dirty = pd.DataFrame(
        {
            "participant": ["p1", "p1", "p1", "p2", "p2"],
            "sentence_1": ["A", "B", None, "A", "D"],
            "sentence_2": ["B", "A", "C", "B", "D"],
            "rating": [0.5, 0.5, 0.5, 0.5, 0.5],
        }
    )
    kept, report = clean_choices(dirty, CleaningRules("exclude", "exclude", "keep_first"))
    assert kept.index.tolist() == [0, 3]
    assert report[["rule", "participant", "n_rows"]].to_numpy().tolist() == [
        ["missing sentence", "p1", 1],
        ["identical sentences", "p2", 1],
        ["repeated trial", "p1", 1],
    ]
    assert report["n_rows"].sum() + len(kept) == len(dirty)
    assert np.isfinite(kept["rating"]).all()


def test_pairs_are_compared_without_extra_spaces():
    given = make_choices(
        participant=["p1", "p1", "p1"],
        sentence_1=["B  b.", "C c.", "B b. "],
        sentence_2=["A a.", "C  c.", "A  a."],
    )
    kept, left_out = clean_choices(given, CleaningRules("error", "exclude", "keep_first"))
    assert left_out["rule"].tolist() == ["identical sentences", "repeated trial"]
    assert check_choices(kept)["sentence_1"].tolist() == ["B b."]


def test_exclusion_tables_have_fixed_types():
    _, none = clean_choices(make_choices(), CleaningRules())
    _, some = clean_choices(
        make_choices(sentence_1=None), CleaningRules(missing_sentence="exclude")
    )
    assert len(none) == 0
    assert len(some) > 0
    assert none.dtypes.to_dict() == some.dtypes.to_dict()
    assert none["n_rows"].dtype == "int64"


def test_row_numbers_are_kept_after_exclusions():
    dirty = pd.DataFrame(
        {
            "participant": ["p1", "p1", "p1"],
            "sentence_1": [None, "C", "E"],
            "sentence_2": ["B", "D", "F"],
            "rating": [0.5, 0.5, 9.0],
        }
    )
    kept, _ = clean_choices(dirty, CleaningRules(missing_sentence="exclude"))
    with pytest.raises(InputError, match=r"\(row 3\)"):
        check_choices(kept)
    clash = dirty.assign(participant=["p1", "p2", "p3"], rating=0.5, condition=["u", "v", "w"])
    clash["sentence_1"], clash["sentence_2"] = [None, "C", "C"], ["B", "D", "D"]
    kept, _ = clean_choices(clash, CleaningRules(missing_sentence="exclude"))
    with pytest.raises(InputError, match=r"conflicting conditions \(rows 2 and 3\)"):
        align_choices(check_choices(kept))


def make_catch_choices(n_right, n=20, condition="catch"):
    """Return choices with n catch trials, `n_right` of them right, and n other trials."""
    return pd.DataFrame(
        {
            "participant": "p1",
            "condition": [condition] * n + ["main"] * n,
            "sentence_1": [f"A {i}" for i in range(2 * n)],
            "sentence_2": [f"B {i}" for i in range(2 * n)],
            "expected": [2.0, 1.0] * (n // 2) + [np.nan] * n,
            "rating": [
                *(2.5 * (1 if i % 2 == 0 else -1) * (1 if i < n_right else -1) for i in range(n)),
                *[2.5] * n,
            ],
        }
    )


def test_reversed_scale_is_rejected():
    message = (
        "^only 2 of 20 answers to catch trials are the expected ones, so the rating scale seems "
        "to be reversed; exchange low and high, or correct the column 'expected'$"
    )
    with pytest.raises(InputError, match=message):
        prepare_choices(RawChoices(make_catch_choices(2)))


@pytest.mark.parametrize(("n_right", "n"), [(18, 20), (6, 20), (0, 8)])
def test_few_or_half_wrong_catch_trials_are_accepted(n_right, n):
    assert len(prepare_choices(RawChoices(make_catch_choices(n_right, n))).choices) == 2 * n


def test_unexpected_answers_to_experimental_trials_are_kept():
    illusions = make_catch_choices(2, condition="illusion").assign(kind="experimental")
    assert len(prepare_choices(RawChoices(illusions)).choices) == 40


def test_seconds_are_converted_to_milliseconds():
    assert check_choices(make_choices(rt_s=[2.2, None, "1.4"]))["rt_ms"].tolist()[::2] == [
        2200,
        1400,
    ]
    with pytest.raises(InputError, match=r"rt_ms must be a number, not 'soon' \(row 2\)"):
        check_choices(make_choices(rt_s=[2.2, "soon", 1]))


def test_participant_names_are_stripped_before_cleaning():
    raw = make_choices(participant=["p1", "p1", "p1 "])
    kept_rows, excluded = clean_choices(raw, CleaningRules(repeated_trial="keep_first"))
    assert kept_rows["participant"].tolist() == ["p1", "p1"]
    assert excluded[["rule", "participant"]].to_numpy().tolist() == [["repeated trial", "p1"]]
    with pytest.raises(InputError, match=r"a row has no participant \(row 3\)"):
        check_choices(make_choices(participant=[1.0, 2.0, None]))
