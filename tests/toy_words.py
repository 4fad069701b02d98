"""A small vocabulary for tests of searches, and random models of it."""

import itertools

import pytest

from contstim.models import ModelSpec
from contstim.models.registry import FAMILIES, register_family
from contstim.models.toy import RandomBigramModel
from contstim.text import WordList
from contstim.text.vocabulary import Vocabulary

LOWER = ["the", "dog", "saw", "cat", "ran", "home", "red", "big", "man", "of", "ate", "fish"]
UPPER = ["The", "Dog", "Big", "Red"]
VOCABULARY = Vocabulary(
    WordList.from_words(UPPER), WordList.from_words(LOWER), frozenset({"the", "of"})
)
SENTENCES = ["The dog saw the cat.", "Big fish ate the man.", "The red cat ran home.", "Dog ran."]

#: So few that all their sentences can be tried; each may stand anywhere, twice too.
SIX = ["ab", "cd", "ef", "gh", "ij", "kl"]
FREE = Vocabulary(WordList.from_words(SIX), WordList.from_words(SIX), frozenset(SIX))
#: All sentences of three of the six.
ALL = [" ".join(words) for words in itertools.product(SIX, repeat=3)]


def table_model(spec: ModelSpec) -> RandomBigramModel:
    """Return the model of `LOWER` and `UPPER` whose seed is the spec's location."""
    return RandomBigramModel([*LOWER, *UPPER], int(spec.location))


@pytest.fixture
def table_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``table:SEED`` name such a model; what the family is else comes back after the test."""
    monkeypatch.setitem(FAMILIES, "table", FAMILIES["ngram"])
    register_family("table", "for tests", table_model)
