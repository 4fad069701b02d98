"""Pairs that form one item, compared with a search for chains."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from contstim.text.items import group_into_items, infer_items, sentence_frames


def group_by_search(keys: list[list[int]]) -> list[int]:
    """Number pairs by walking from each to all that it shares something with, again and again."""
    numbers = [0] * len(keys)
    for start in range(len(keys)):
        if numbers[start]:
            continue
        number = max(numbers) + 1
        reached = {start}
        while True:
            shared = {key for pair in reached for key in keys[pair]}
            more = {k for k, own in enumerate(keys) if shared & set(own)} | reached
            if more == reached:
                break
            reached = more
        for pair in reached:
            numbers[pair] = number
    return numbers


@given(st.lists(st.lists(st.integers(0, 12), max_size=3), max_size=12))
def test_group_into_items_joins_linked_pairs(keys: list[list[int]]) -> None:
    assert group_into_items(keys) == group_by_search(keys)


def has_common_frame(one: str, other: str) -> bool:
    return bool(set(sentence_frames(one)) & set(sentence_frames(other)))


def test_sentence_frames_omit_one_or_two_words() -> None:
    sentence = "the old man who left saw her"
    assert has_common_frame(sentence, "The young man who left saw her")
    assert has_common_frame(sentence, "the young man who left saw him")
    assert not has_common_frame(sentence, "the young boy who left saw him")
    assert not has_common_frame(sentence, "the old man who left saw her again")
    assert has_common_frame("the dog barks", "the cat barks")
    assert not has_common_frame("the dog barks", "the cat sleeps")
    assert not has_common_frame("it rained", "it snowed")
    assert has_common_frame(" ".join("a" * 60), " ".join("a" * 59 + "b"))
    assert not has_common_frame(" ".join("a" * 60), " ".join("a" * 58 + "bb"))


def test_pairs_of_one_frame_are_one_item() -> None:
    pairs = [
        (f"the {noun} near the {other} {verb[0]} loudly", f"the {noun} near the {other} {verb[1]}")
        for noun, other, verb in (
            ("dog", "men", ("barks", "bark")),
            ("cat", "men", ("meows", "meow")),
            ("cat", "girls", ("sings", "sing")),
        )
    ]
    assert infer_items(pairs) == [1, 1, 1]
    assert infer_items([*pairs, ("she left early", "left early she")]) == [1, 1, 1, 2]
