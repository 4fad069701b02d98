"""Features of sentences."""

import pytest
from wordfreq import zipf_frequency

from contstim.text.features import has_distinct_words, sentence_features


def test_sentence_features_length_and_frequency():
    table = sentence_features(['"Stop!" she said.', "Qqqzzx"])
    assert table.index.tolist() == ['"Stop!" she said.', "Qqqzzx"]
    assert table["words"].tolist() == [3, 1]
    assert table["characters"].tolist() == [17, 6]
    mean = sum(zipf_frequency(word, "en") for word in ("Stop", "she", "said")) / 3
    assert table["zipf"].tolist() == [pytest.approx(mean), 0.0]


@pytest.mark.parametrize("code", ["eu", "et"])
def test_zipf_is_missing_for_languages_without_frequencies(code):
    table = sentence_features(["Txakurra lo dago."], language=code)
    assert table["zipf"].isna().all()
    assert table["words"].tolist() == [3]


def test_has_distinct_words():
    sentences = ["The cat saw the dog.", "A cat in a hat in May", "One two three"]
    assert has_distinct_words(sentences).tolist() == [False, False, True]
    assert has_distinct_words(sentences, ["The", "in"]).tolist() == [True, False, True]
    assert has_distinct_words(sentences, ["a", "in", "the"]).all()
