"""The limit on the share of a word, compared with counts, and measures of diversity."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contstim.errors import InputError
from contstim.text import WordList
from contstim.text.diversity import (
    Diversity,
    WordShareLimit,
    folded_words,
    format_diversity,
    measure_diversity,
)
from contstim.text.languages import ENGLISH
from contstim.text.vocabulary import Vocabulary

SMALL = st.lists(st.sampled_from("abcdefgh"), min_size=3, max_size=3).map(" ".join)


# Enough words that some are always left, and a search that finds each one anew.
WORDS = [a + b + c for a in "bdfgklmnprstvz" for b in "aeiou" for c in "bdfgklmnprstvz"]
VOCABULARY = Vocabulary(
    WordList.from_words(map(ENGLISH.capitalise, WORDS)), WordList.from_words(WORDS), frozenset()
)


def set_of(
    natural: list[str], share: float, rows: int = 2, seed: int = 0, words: list[str] = WORDS
) -> tuple[list[list[str]], int]:
    """Write a set under a limit with searches that like some words better than others.

    Of each natural sentence `rows` sentences, or none of every seventh; the first word stays.
    """
    limit = WordShareLimit(natural, rows, share, VOCABULARY)
    found, searches = dict[int, list[str]](), 0
    while (step := limit.next_batch())[0]:
        numbers, without = step
        for number in numbers:
            rng = np.random.default_rng([seed, number, searches])
            left = [word for word in words if word not in without]
            first = natural[number].split()[0]
            found[number] = [
                f"{first} {left[int(9 * rng.random())]} {left[9 + int(99 * rng.random() ** 3)]}."
                for _ in range(rows if number % 7 else 0)
            ]
        searches += len(numbers)
        assert searches < 100 * len(natural)
        limit.accept([found[number] for number in numbers])
    assert limit.n_accepted == len(natural)
    return [found[number] for number in range(len(natural))], searches


@settings(max_examples=20, deadline=None)
@given(
    n=st.integers(1, 120),
    share=st.sampled_from([0.01, 0.05, 0.3]),
    rows=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_word_shares_stay_within_the_limit(n: int, share: float, rows: int, seed: int) -> None:
    # Common first words of natural sentences, which stay, and rare others, which do not.
    natural = [f"{WORDS[i % 3]} {WORDS[i % 11]} {WORDS[-1 - i]}." for i in range(n)]
    written, _ = set_of(natural, share, rows, seed)
    texts = [text for own in written for text in own]
    counts = Counter(word for text in texts for word in {*folded_words(text)})
    usual = Counter(
        word
        for old, own in zip(natural, written, strict=True)
        for word in folded_words(old) * len(own)
    )
    for word, times in counts.items():
        assert times <= max(2, int(share * len(texts) + 1e-9), usual[word])
    # Nor does a sentence come of two natural ones.
    assert sum(len({*own}) for own in written) == len({*texts})


def test_overused_words_are_excluded_from_the_next_batch() -> None:
    """The case of a model of single words, whose best words are the same in all sentences."""
    natural = [f"Old {word}." for word in WORDS[:400]]
    limit = WordShareLimit(natural, 1, 0.02, VOCABULARY)
    searches = 0
    while (step := limit.next_batch())[0]:
        left = [word for word in WORDS if word not in step[1]]
        searches += len(step[0])
        limit.accept([[f"{left[0]} {left[1]}. {number}"] for number in step[0]])
    assert searches < 1.1 * len(natural)


def test_natural_words_are_exempt_from_the_limit() -> None:
    natural = [f"A {word}" for word in WORDS[-10:]]
    limit = WordShareLimit(natural, 1, 0.1, VOCABULARY)
    assert limit.next_batch() == ([*range(8)], frozenset())
    bring = ["A pot", "The pot", "One pot.", "No pot!"]
    limit.accept([[text] for text in (*bring, *natural[4:8])])
    # "pot" has come twice; the third sentence to bring it, and the fourth, are to do without.
    assert limit.next_batch() == ([2, 3, 8, 9], {"pot"})
    limit.accept([["Some cat"], ["My cat"], ["His cat"], [natural[9]]])
    assert limit.next_batch() == ([8], {"pot", "cat"})
    limit.accept([["A dog"]])
    assert limit.next_batch()[0] == []


def test_duplicate_sentences_are_replaced_with_other_words() -> None:
    limit = WordShareLimit(["a b", "c d", "e f"], 1, 0.9, VOCABULARY)
    limit.next_batch()
    limit.accept([["x y"], ["x y"], ["x e"]])
    assert limit.next_batch() == ([1], {"x", "y"})


def test_first_and_last_three_words_are_distinct() -> None:
    limit = WordShareLimit([f"{n} was a very long day" for n in "abcde"], 1, 0.9, VOCABULARY)
    limit.next_batch()
    texts = ["A pot of red ink was", "A pot of cat is good", "The man had red, ink was!"]
    limit.accept([[text] for text in (*texts, "d was a very long day", "E was a very old day")])
    # Of what begins, or ends, as another sentence does the words are barred that did not stay.
    assert limit.next_batch() == ([1, 2], {"a", "pot", "of", "red", "ink"} - {"a"})
    limit.accept([["My cup of cat is good"], ["The man had blue ink was"]])
    assert limit.next_batch()[0] == []


def test_few_words_double_the_limit() -> None:
    few = Vocabulary(WordList.from_words(WORDS[:25]), WordList.from_words(WORDS[:201]), frozenset())
    limit = WordShareLimit([f"a{i}" for i in range(20)], 1, 0.1, few)
    numbers, _ = limit.next_batch()
    limit.accept([[f"{WORDS[0]} {WORDS[1]} {number}"] for number in numbers])
    # Without both fewer than 200 would be left, so that four sentences may have either.
    assert limit.next_batch() == ([*range(2, 10)], frozenset())
    limit.accept([[f"{WORDS[0]} {WORDS[1]} {number}"] for number in range(2, 10)])
    assert limit.next_batch()[0] == [*range(4, 12)]


def test_excluded_words_that_are_used_end_the_search() -> None:
    """Required words, for example, are used although they are excluded."""
    rng, few = np.random.default_rng(0), WORDS[:30]
    natural = [" ".join(rng.choice(few[:15], 5)) for _ in range(12)]
    limit, n_batches = WordShareLimit(natural, 2, 0.02, VOCABULARY), 0
    while (step := limit.next_batch())[0]:
        numbers, excluded = step
        n_batches += 1
        assert n_batches < 150
        written = []
        for number in numbers:
            rng = np.random.default_rng([number, len(excluded)])
            used = [word for word in few if word not in excluded or rng.random() < 0.1]
            written.append([" ".join(rng.choice(used or few, 5)) for _ in range(2)])
        limit.accept(written)
    assert limit.n_accepted == len(natural)


def test_repeated_sentences_end_the_search() -> None:
    few = Vocabulary(WordList.from_words(WORDS[:5]), WordList.from_words(WORDS[:9]), frozenset())
    limit = WordShareLimit(["a b", "c d", "e f"], 2, 0.02, few)
    for _ in range(9):
        numbers, _ = limit.next_batch()
        limit.accept([["x y", "x y"] for _ in numbers])
    assert limit.next_batch()[0] == []


def test_share_of_one_accepts_all() -> None:
    limit = WordShareLimit(["a b", "c d", "e f"], 2, 1.0, VOCABULARY)
    assert limit.next_batch() == ([0, 1, 2], frozenset())
    limit.accept([["x y", "x y"]] * 3)
    assert limit.next_batch()[0] == []


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, float("nan"), float("inf")])
def test_invalid_shares_are_refused(share: float) -> None:
    with pytest.raises(
        InputError, match=f"the maximum share of sentences with one word is {share}"
    ):
        WordShareLimit(["a b"], 1, share, VOCABULARY)


def test_measure_diversity() -> None:
    found = measure_diversity(["The dog -- ran.", "The DOG sat!", "The dog."], ["The cat sat."])
    assert found == Diversity(
        n_sentences=3,
        n_words=8,
        n_distinct=4,
        type_token_ratio=0.5,
        most_frequent=(("dog", 1.0), ("the", 1.0), ("ran", 1 / 3), ("sat", 1 / 3)),
        overused=(("dog", 1.0),),
        mean_length=8 / 3,
        mean_zipf=pytest.approx(5.9, abs=0.3),
    )
    assert found.to_record()["most_frequent"]["ran"] == 0.3333
    line = format_diversity(["The dog -- ran.", "The DOG sat!", "The dog."], ["The cat sat."])
    assert line.startswith("words: 4 distinct of 8 (50%; natural 100%), English Zipf freq")
    assert line.endswith(
        "than 2% of the sentences and more often than in natural sentences: 'dog' in 100.0%"
    )
    with pytest.raises(InputError, match="cannot measure the diversity of no words"):
        measure_diversity(["--"])


@pytest.mark.parametrize("code", ["eu", "et"])
def test_no_zipf_frequency_for_uncovered_languages(code: str) -> None:
    row = measure_diversity(["Txakurra lo dago."], ["Katua lo dago."], code).to_record()
    assert "mean_zipf" not in row
    assert row["n_words"] == 3
    english = measure_diversity(["Txakurra lo dago."], ["Katua lo dago."]).to_record()
    assert {**row, "mean_zipf": english["mean_zipf"]} == english
