"""Test the flags of sentences in a review."""

import pytest

from contstim import pool
from contstim.experiment.sentence_flags import find_offensive, sentence_flags


@pytest.mark.parametrize(
    ("sentence", "flags"),
    [
        ("The dog saw two cats near the gate.", []),
        ("The fire was hot.", ["offensive word: fire"]),
        ("The dog saw the dog.", ["word twice: dog"]),
        ("She lives in the the house.", ["word twice: the the"]),
        ("The tall man met Anna here.", ["name: Anna"]),
        ("He met McZyzzyva there.", ["name: McZyzzyva"]),
        ("It cost 40 pounds.", ["number: 40"]),
        ("Those was a apple.", ["agreement: a apple ('an' before a vowel)"]),
    ],
)
def test_sentences_are_flagged(sentence: str, flags: list[str]) -> None:
    assert sentence_flags(sentence) == flags


def test_rare_words_are_flagged() -> None:
    (flag,) = sentence_flags("The old vicar saw a zyzzyva.")
    assert flag == "rare word: zyzzyva (Zipf 0.0)"


def test_few_pool_sentences_have_agreement_flags() -> None:
    flagged = [s for s in pool() if any(f.startswith("agreement") for f in sentence_flags(s))]
    assert len(flagged) <= 5, flagged


def test_offensive_words_match_whole_ignoring_case() -> None:
    assert find_offensive("What an IDIOT, he said.", 2) == ["idiot"]
    assert find_offensive("an alligator-bait seller", 2) == ["alligator bait"]
    assert find_offensive("The fire was hot.", 1) == []
    assert find_offensive("An assassin in Scunthorpe drank a cocktail.", 1) == []
    assert find_offensive("The fire was hot.", 0) == ["fire"]


def test_pool_has_no_offensive_words() -> None:
    assert [sentence for sentence in pool() if find_offensive(sentence, 2)] == []
