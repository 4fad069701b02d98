"""Sentences as words with punctuation.

Tests `contstim.text`.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contstim.errors import InputError
from contstim.text import Sentence, WordList, tokenize_word
from contstim.text.language import split_word
from contstim.text.languages import ENGLISH

words = st.text(st.characters(exclude_categories=("Z", "C")), min_size=1, max_size=8).filter(
    lambda w: w.split() == [w]
)


@given(words)
def test_split_word_round_trips(word: str) -> None:
    assert "".join(split_word(word)) == word


@given(words)
def test_split_tokens_join_to_the_word(word: str) -> None:
    assert "".join(tokenize_word(word, "split")) == word
    assert tokenize_word(word, "keep") == [word]


@given(st.lists(words, min_size=1, max_size=8))
def test_sentence_round_trips(parts: list[str]) -> None:
    text = " ".join(parts)
    sentence = Sentence.parse(text)
    assert str(sentence) == text
    assert len(sentence) == len(parts)


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("dog", ("", "dog", "")),
        ("don't", ("", "don't", "")),
        ("dogs'", ("", "dogs'", "")),
        ('"Stop!"', ('"', "Stop", '!"')),
        ("well-known,", ("", "well-known", ",")),
        ("--", ("", "--", "")),
        ("...", ("", "...", "")),
        ("(¿qué?)", ("(¿", "qué", "?)")),
    ],
)
def test_split_word_separates_punctuation(word: str, parts: tuple[str, str, str]) -> None:
    assert split_word(word) == parts


@pytest.mark.parametrize(
    ("word", "policy", "tokens"),
    [
        ('said..."', "split", ["said", "...", '"']),
        ('said..."', "drop", ["said"]),
        ('said..."', "keep", ['said..."']),
        ("--", "split", ["--"]),
        ("--", "drop", []),
    ],
)
def test_tokenize_word_by_punctuation_policy(word: str, policy: str, tokens: list[str]) -> None:
    assert tokenize_word(word, policy) == tokens


def test_replacing_a_word_keeps_its_punctuation() -> None:
    sentence = Sentence.parse('He said, "Stop!"')
    assert str(sentence.replace(2, "Go")) == 'He said, "Go!"'
    assert sentence.surface(1, "cried") == "cried,"
    with pytest.raises(InputError, match="position 3 is outside the 3 words of "):
        sentence.replace(3, "x")


def test_sentence_from_words() -> None:
    assert str(Sentence.from_words(["the", "ship", "left"], final="?")) == "The ship left?"
    assert ENGLISH.capitalise("élan") == "Élan"


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_empty_sentences_are_rejected(text: str) -> None:
    with pytest.raises(InputError, match="a sentence needs at least one word, got"):
        Sentence.parse(text)


def test_word_list_rejects_duplicates() -> None:
    with pytest.raises(InputError, match="^the word list contains 'b' twice; list each word once$"):
        WordList(("a", "b", "b"))
    listed = WordList.from_words(["a", "b", "a"])
    assert listed.words == ("a", "b")
    assert "b" in listed
    assert "c" not in listed
    assert listed.index["b"] == 1
