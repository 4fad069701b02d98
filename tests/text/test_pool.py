"""The bundled pool of natural sentences."""

from collections import Counter
from itertools import combinations

import pytest

from contstim.text import Sentence, pool
from contstim.text.languages import ENGLISH


@pytest.fixture(scope="module")
def sentences():
    return [Sentence.parse(text) for text in pool()]


@pytest.fixture(scope="module")
def eights(sentences):
    return [sentence for sentence in sentences if len(sentence) == 8]


def folded(sentence):
    return [word.casefold() for word in sentence.words]


def test_pool_size(sentences, eights):
    assert len(sentences) >= 620
    assert len(eights) >= 520
    assert all(5 <= len(sentence) <= 14 for sentence in sentences)


def test_readme_states_the_counts(sentences, eights):
    from importlib.resources import files

    readme = " ".join((files("contstim") / "data" / "README.md").read_text("utf-8").split())
    assert f"`pool.txt` contains {len(sentences)} English sentences" in readme
    assert f"{len(eights)} sentences have exactly eight words" in readme
    assert f"The other {len(sentences) - len(eights)} sentences have" in readme
    assert f"In {n_distinct(eights)} of them, no word occurs twice" in readme
    assert "CC0" in readme


def n_distinct(sentences):
    counts = [Counter(folded(sentence)) for sentence in sentences]
    return sum(all(n == 1 or w in ENGLISH.repeatable for w, n in c.items()) for c in counts)


def test_most_sentences_have_eight_distinct_words(eights):
    assert n_distinct(eights) >= 480


def test_form_of_pool_sentences(sentences, eights):
    for text in pool():
        assert text.isascii()
        assert text == " ".join(text.split())
        assert text[0].isupper()
    assert all(sentence.after[-1] in {".", "?", "!"} for sentence in sentences)
    inner = [mark for s in eights for mark in (*s.before, *s.after[:-1]) if mark]
    assert not inner
    # The others may hold commas.
    assert {mark for s in sentences for mark in (*s.before, *s.after[:-1])} <= {"", ","}


def test_final_marks(sentences):
    marks = Counter(sentence.after[-1] for sentence in sentences)
    assert marks["."] > marks["?"] > marks["!"] > 0


def test_no_duplicates(sentences):
    assert len({tuple(folded(sentence)) for sentence in sentences}) == len(sentences)


def test_no_near_duplicates(eights):
    for first, second in combinations([folded(sentence) for sentence in eights], 2):
        assert sum(map(str.__eq__, first, second)) <= 5, (first, second)


def test_first_words_of_pool_sentences_vary(sentences):
    openings = Counter(tuple(folded(sentence)[:3]) for sentence in sentences)
    assert max(openings.values()) <= 4
    assert Counter(folded(s)[0] for s in sentences).most_common(1)[0][1] < len(sentences) / 4
