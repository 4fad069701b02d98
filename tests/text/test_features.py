"""Features of sentences."""

import numpy as np
import pytest
from wordfreq import zipf_frequency

from contstim.text.features import repeats_no_word, sentence_features


def test_length_and_frequency():
    table = sentence_features(['"Stop!" she said.', "Qqqzzx"])
    assert table.index.tolist() == ['"Stop!" she said.', "Qqqzzx"]
    assert table["words"].tolist() == [3, 1]
    assert table["characters"].tolist() == [17, 6]
    mean = sum(zipf_frequency(word, "en") for word in ("Stop", "she", "said")) / 3
    assert table["zipf"].tolist() == [pytest.approx(mean), 0.0]


def test_how_alike_the_words_of_a_sentence_are():
    vectors = {"the": [1, 0, 2], "cat": [2, 0, 4], "sat": [-1, 0, -2]}
    table = sentence_features(["The cat sat.", "The zzyzzqx."], vectors=vectors)
    assert table.loc["The cat sat.", "similarity"] == pytest.approx((1 - 1 - 1) / 3)
    assert np.isnan(table.loc["The zzyzzqx.", "similarity"])


def test_words_that_recur():
    sentences = ["The cat saw the dog.", "A cat in a hat in May", "One two three"]
    assert repeats_no_word(sentences).tolist() == [False, False, True]
    assert repeats_no_word(sentences, ["The", "in"]).tolist() == [True, False, True]
    assert repeats_no_word(sentences, ["a", "in", "the"]).all()
