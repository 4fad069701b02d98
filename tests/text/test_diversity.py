"""The limit on how often a word may come, against a plain count, and the figures of a set."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contstim.errors import InputError
from contstim.text.diversity import Diversity, diversity, diversity_line, overused, words_of

SMALL = st.lists(st.sampled_from("abcdefgh"), min_size=3, max_size=3).map(" ".join)


@given(
    natural=st.lists(SMALL, min_size=1, max_size=30),
    written=st.lists(st.lists(SMALL, min_size=2, max_size=2), min_size=30, max_size=30),
    share=st.sampled_from([0.01, 0.1, 0.3, 1.0]),
)
def test_no_word_comes_too_often(
    natural: list[str], written: list[list[str]], share: float
) -> None:
    made = written[: len(natural)]
    while True:
        again, words = overused(natural, made, share)
        if not again:
            assert not words
            break
        for index in again:
            assert words & {word for text in made[index] for word in words_of(text)}
            # A search that finds nothing leaves the natural sentence.
            made[index] = [natural[index]] * 2
    counts = Counter(word for own in made for text in own for word in {*text.split()})
    usual = Counter(word for sentence in natural for word in {*sentence.split()})
    for word, n in counts.items():
        assert n <= max(2, int(share * 2 * len(natural)), 2 * usual[word])


def test_the_last_to_get_a_word_lose_it() -> None:
    natural, nothing = ["A b c."] * 4, ([], frozenset())
    assert overused(natural, [["X b c."], ["x b d"], ["A b c"], ["a d b"]], 0.1) == nothing
    # "d" came as often as it may; "b" is in as many sentences as it was.
    written = [["X b c."], ["x b d"], ["x b c"], ["a d b"]]
    assert overused(natural, written, 0.1) == ([2], {"x", "d"})
    assert overused(natural, written, 0.1, [(), (), ("x",), ()]) == ([1], {"x", "d"})


def test_all_lose_what_one_is_to_lose() -> None:
    natural = ["a b c"] * 6
    written = [["x b c"], ["x b c"], ["x b c"], ["y b c"], ["y b c"], ["y b c"]]
    assert overused(natural, written, 0.1) == ([2, 5], {"x", "y"})


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, float("nan"), float("inf")])
def test_a_share_that_cannot_be_meant(share: float) -> None:
    with pytest.raises(InputError, match=f"a word may be in the share {share} of the sentences"):
        overused(["a b"], [["a b"]], share)


def test_figures() -> None:
    found = diversity(["The dog -- ran.", "The DOG sat!", "The dog."], ["The cat sat."])
    assert found == Diversity(
        sentences=3,
        words=8,
        distinct=4,
        share=0.5,
        most_frequent=(("dog", 1.0), ("the", 1.0), ("ran", 1 / 3), ("sat", 1 / 3)),
        above=(("dog", 1.0),),
        length=8 / 3,
        zipf=pytest.approx(5.9, abs=0.3),
    )
    assert found.row()["most_frequent"]["ran"] == 0.3333
    line = diversity_line(["The dog -- ran.", "The DOG sat!", "The dog."], ["The cat sat."])
    assert line.startswith("words: 4 different ones of 8 (50%; natural 100%), Zipf frequency ")
    assert line.endswith("than 2% of the sentences and more than naturally: 'dog' in 100.0%")
    with pytest.raises(InputError, match="the diversity of no words was asked for"):
        diversity(["--"])
