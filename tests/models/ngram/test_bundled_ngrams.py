"""The bundled bigram and trigram."""

import time

import numpy as np
import pytest

from contstim.models.ngram.model import NgramModel
from contstim.models.registry import load_model
from contstim.text import Sentence, WordList, pool

NAMES = ["contstim:bigram", "contstim:trigram"]


@pytest.fixture(scope="module", params=NAMES)
def model(request: pytest.FixtureRequest) -> NgramModel:
    loaded = load_model(request.param)
    assert isinstance(loaded, NgramModel)
    return loaded


def test_bundled_ngrams_have_canonical_specs(model: NgramModel) -> None:
    assert model.spec in NAMES
    assert model.order == NAMES.index(model.spec) + 2
    assert model.event.punctuation == "split"
    assert model.in_vocabulary(["the", "Every", ",", "qzxq"]).tolist() == [True, True, True, False]


def test_probabilities_of_bundled_ngrams_sum_to_one(model: NgramModel) -> None:
    assert model._scorer is not None
    table = model._scorer.table
    start = table.ids["<s>"]
    probs = np.power(10.0, table.levels[0].log_probs)
    probs[start] = 0
    size = len(table.words)
    mass, shares = np.array([probs.sum()]), table.suffix_ids
    # Mass after a context: its own n-grams, and the weight times what the shorter context leaves.
    for n in range(1, table.order):
        level, lower = table.levels[n], table.levels[n - 1]
        context, count = level.keys // size, len(lower.keys)
        own = np.bincount(context, np.power(10.0, level.log_probs), minlength=count)
        below = np.power(10.0, lower.log_probs[shares[n]])
        left = mass[shares[n - 1]] - np.bincount(context, below, minlength=count)
        mass = own + np.power(10.0, lower.log_backoffs) * left
        np.testing.assert_allclose(mass, 1, atol=1e-4)


def test_natural_sentences_score_higher_than_shuffled_ones(model: NgramModel) -> None:
    rng = np.random.default_rng(0)
    natural = [s for s in pool() if model.in_vocabulary(s.split()).all() and s[-1] in ".!?"][:500]
    shuffled = []
    for sentence in natural:
        words = sentence[:-1].split()
        shuffled.append(" ".join(rng.permutation(words)) + sentence[-1])
    assert len(natural) > 100
    assert np.mean(model.score(natural) > model.score(shuffled)) > 0.95


def test_replacements_are_exact_and_fast(model: NgramModel) -> None:
    words = WordList(tuple(w for w in list(model._tokenizer.ids)[:5000] if w.isalpha()))
    sentence = Sentence.parse("Every child in the village knew that song.")
    model.score_replacements(sentence, 0, words)
    begin = time.process_time()
    for position in range(len(sentence)):
        found = model.score_replacements(sentence, position, words)
        index = np.arange(0, len(words), 97)
        fresh = model.score([str(sentence.replace(position, words.words[i])) for i in index])
        np.testing.assert_allclose(found.score(index), fresh, atol=1e-5)
    # Some hundred times what it takes; one query a candidate would take longer still.
    assert time.process_time() - begin < 2.0
