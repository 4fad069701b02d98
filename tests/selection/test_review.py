"""Decisions of reviewers, and what becomes of a table by them."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contstim.errors import InputError
from contstim.selection.review import (
    VERDICTS,
    Decision,
    agreement,
    kappa,
    read_decisions,
    reviewed,
    sentences_of,
    settled,
    write_decisions,
)
from contstim.selection.tokens import with_token_counts


def approve(sentence: str, reviewer: str = "A") -> Decision:
    return Decision(sentence, reviewer, "approve")


def edit(sentence: str, form: str, reviewer: str = "A") -> Decision:
    return Decision(sentence, reviewer, "edit", form, "reads better")


def reject(sentence: str, reviewer: str = "A") -> Decision:
    return Decision(sentence, reviewer, "reject", "", "odd")


def test_what_is_settled() -> None:
    both = [approve("s"), approve("s", "B")]
    assert settled(both, 2) == {"s": "s"}
    assert settled(both[:1], 2) == {"s": None}
    assert settled([approve("s"), reject("s", "B")]) == {"s": None}
    assert settled([edit("s", "t")]) == {"s": "t"}
    assert settled([edit("s", "t"), edit("s", "t", "B")], 2) == {"s": "t"}
    assert settled([edit("s", "t"), edit("s", "u", "B")]) == {"s": None}
    # The other reviewer has to approve the edited form, not the sentence alone.
    assert settled([edit("s", "t"), approve("s", "B")])["s"] is None
    assert settled([edit("s", "t"), approve("t", "B")], 2)["s"] == "t"
    assert settled([edit("s", "t"), approve("s", "B"), approve("t", "B")], 2)["s"] == "t"
    assert settled([edit("s", "t"), reject("t", "B")])["s"] is None


def kappa_by_table(one: list[str], two: list[str]) -> float:
    """Cohen's kappa by the matrix of counts, as it is defined."""
    counts = np.zeros((3, 3))
    for a, b in zip(one, two, strict=True):
        counts[VERDICTS.index(a), VERDICTS.index(b)] += 1
    shares = counts / counts.sum()
    expected = np.outer(shares.sum(axis=1), shares.sum(axis=0)).trace()
    return float((shares.trace() - expected) / (1 - expected))


@given(st.lists(st.tuples(st.sampled_from(VERDICTS), st.sampled_from(VERDICTS)), min_size=1))
def test_kappa_is_cohens(pairs: list[tuple[str, str]]) -> None:
    one, two = (list(side) for side in zip(*pairs, strict=True))
    decisions = [
        Decision(f"s{i}", who, choice, "t" if choice == "edit" else "", "because")
        for who, side in (("A", one), ("B", two))
        for i, choice in enumerate(side)
    ]
    value, n = kappa(decisions)["A", "B"]
    assert n == len(pairs)
    if len({*one, *two}) == 1:
        assert np.isnan(value)
    else:
        assert value == pytest.approx(kappa_by_table(one, two))


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("abc")), min_size=4))
def test_the_standard_error_of_kappa_is_that_of_statsmodels(pairs: list[tuple[str, str]]) -> None:
    inter_rater = pytest.importorskip("statsmodels.stats.inter_rater")
    pairs += [("a", "a"), ("b", "b"), ("a", "b"), ("b", "c")]
    counts = np.zeros((3, 3))
    for one, two in pairs:
        counts["abc".index(one), "abc".index(two)] += 1
    expected = inter_rater.cohens_kappa(counts)
    assert agreement(pairs) == pytest.approx((expected.kappa, expected.std_kappa))


@pytest.mark.parametrize(
    ("pairs", "value"),
    [
        ([], np.nan),
        ([("a", "a")] * 3, np.nan),
        ([("a", "b")] * 3, 0),
        ([("a", "a")] * 3 + [("a", "b")] * 7, 0),
        ([("a", "a")] * 3 + [("b", "b")] * 7, 1),
    ],
)
def test_where_kappa_has_no_standard_error(pairs: list[tuple[str, str]], value: float) -> None:
    kappa_of_pairs, error = agreement(pairs)
    assert kappa_of_pairs == pytest.approx(value, nan_ok=True)
    assert np.isnan(error)


def test_kappa_of_a_published_table() -> None:
    # 50 cases, 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: observed .7, expected .5, kappa .4.
    counts = {("approve", "approve"): 20, ("approve", "reject"): 5}
    counts |= {("reject", "approve"): 10, ("reject", "reject"): 15}
    pairs = [pair for pair, n in counts.items() for _ in range(n)]
    decisions = [
        Decision(f"s{i}", who, pair[side], "", "because")
        for side, who in enumerate("AB")
        for i, pair in enumerate(pairs)
    ]
    assert kappa(decisions)["A", "B"] == (pytest.approx(0.4), 50)
    assert np.isnan(kappa([approve("s"), approve("t", "B")])["A", "B"][0])


TABLE = pd.DataFrame(
    {
        "model_1": ["m"] * 3,
        "model_2": ["n"] * 3,
        "natural": ["a b.", "c d.", "e f."],
        "synthetic_1": ["a x.", "c x.", "e x."],
        "synthetic_2": ["a y.", "c y.", "e y."],
        **{
            f"{name}_lp_{k}": [-1.0, -2.0, -3.0]
            for name, k in product(("natural", "synthetic_1", "synthetic_2"), (1, 2))
        },
    }
)


def test_rows_of_approved_sentences_and_edited_ones_scored_again() -> None:
    asked: list[tuple[str, list[str]]] = []

    def score(spec: str, sentences: list[str]) -> np.ndarray:
        asked.append((spec, list(sentences)))
        return np.full(len(sentences), -9.0)

    decisions = [approve(text) for text in sentences_of(TABLE) if text not in ("c x.", "e y.")]
    decisions += [edit("c x.", "c z."), reject("e y.")]
    left = reviewed(TABLE, decisions, score)
    assert left["natural"].tolist() == ["a b.", "c d."]
    assert left["synthetic_1"].tolist() == ["a x.", "c z."]
    assert left["synthetic_1_lp_1"].tolist() == left["synthetic_1_lp_2"].tolist() == [-1.0, -9.0]
    assert left["natural_lp_1"].tolist() == [-1.0, -2.0]
    assert asked == [("m", ["c z."]), ("n", ["c z."])]
    assert left.attrs["review"] == {"rows": 3, "approved": 2, "edited": 1}
    # What was edited before is approved now.
    assert reviewed(left, decisions, score)["synthetic_1"].tolist() == ["a x.", "c z."]
    with pytest.raises(InputError, match="of 3 rows none has approved sentences alone; review"):
        reviewed(TABLE, decisions, score, 2)
    with pytest.raises(InputError, match="score the edited sentences with `contstim score`"):
        reviewed(TABLE.assign(**{"natural_lp contstim:gpt": 0.0}), decisions, score)


def test_tokens_of_edited_sentences_are_counted_again() -> None:
    texts = {
        "natural": ["The dog slept.", "The cat slept."],
        "synthetic_1": ["The dog ran.", "The cat ran."],
        "synthetic_2": ["A dog slept.", "A cat slept."],
    }
    plain = TABLE[:2].assign(model_1="contstim:bigram", model_2="contstim:trigram", **texts)
    table = with_token_counts(plain).set_axis([7, 7])  # rows of two tables put together
    decisions = [approve(text) for text in sentences_of(plain) if text != "The cat ran."]
    decisions.append(edit("The cat ran.", "The cat ran away."))
    left = reviewed(table, decisions, lambda spec, sentences: np.zeros(len(sentences)))
    difference = left["synthetic_1_tokens_2"] - table["synthetic_1_tokens_2"]
    assert difference.tolist() == [0, 1]
    pd.testing.assert_frame_equal(left, with_token_counts(left[plain.columns]))


def test_files(tmp_path: Path) -> None:
    decisions = [reject("b, c"), approve("a", "B"), edit("a", "d e")]
    write_decisions(tmp_path / "d.csv", decisions)
    assert sorted(map(str, read_decisions(tmp_path / "d.csv"))) == sorted(map(str, decisions))
    write_decisions(tmp_path / "twice.csv", [*decisions, approve("a", "B")])
    with pytest.raises(InputError, match="B decided 2 times about 'a'; keep one row"):
        read_decisions(tmp_path / "twice.csv")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("s", "A", "aprove"), "the decision about 's' is 'aprove'; give one of approve, reject"),
        (("s", "A", "reject"), "A gives no reason to reject 's'; give one"),
        (("s", "A", "edit", "", "odd"), "the edited form of 's' is ''; give another sentence"),
        (("s", "A", "edit", "s", "odd"), "the edited form of 's' is 's'; give another sentence"),
        (("s", "A", "approve", "t"), "the edited form of 's' is 't'; give another sentence"),
        (("", "A", "approve"), "a decision needs a sentence and a reviewer"),
    ],
)
def test_decisions_that_cannot_be(row: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Decision(*row)


def test_a_table_without_sentences() -> None:
    with pytest.raises(InputError, match="the table has none of the columns natural, synthetic_1"):
        sentences_of(pd.DataFrame({"text": ["a"]}))
